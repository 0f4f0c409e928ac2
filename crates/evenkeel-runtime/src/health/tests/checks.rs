//! Checks, and the built-in ones.

use std::collections::BTreeSet;
use std::time::Duration;

use evenkeel_apiserver::ApiServer;
use evenkeel_cache::InformerFactory;
use evenkeel_queue::WorkQueue;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::{Instant, advance};

use super::super::ready_made::heard;
use super::*;

async fn failures(checks: &Checks) -> Vec<(String, Option<String>)> {
    checks.run_all(&BTreeSet::new()).await.into_iter().map(|verdict| (verdict.name, verdict.failure)).collect()
}

async fn a_second() -> Result<(), Reason> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn checks_that_hang_or_panic_fail_by_themselves() {
    let checks = Checks::default();
    checks.add(Check::new("hangs", std::future::pending)).unwrap();
    checks.add(Check::new("slow", a_second)).unwrap();
    checks.add(Check::new("patient", a_second).timeout(Duration::from_secs(2))).unwrap();
    checks.add(Check::new("panics", || -> Result<(), Reason> { panic!("oh no") })).unwrap();
    checks.add(Check::new("passes", || Ok(()))).unwrap();
    let begun = Instant::now();
    let said = failures(&checks).await;
    assert_eq!(begun.elapsed().as_secs(), 1, "all are asked at the same time");
    let late = Some("no answer within 750ms".to_owned());
    let expected = [
        ("hangs", late.clone()),
        ("panics", Some("the check panicked".to_owned())),
        ("passes", None),
        ("patient", None),
        ("slow", late),
    ];
    assert_eq!(said, expected.map(|(name, failure)| (name.to_owned(), failure)));
}

#[tokio::test]
async fn le_029_a_check_is_attached_under_its_name() {
    let checks = Checks::default();
    let check = crate::election::ElectionHealth::new(Duration::ZERO);
    checks.add(Check::election(&check)).unwrap();
    let twice = checks.add(Check::new("leaderElection", || Ok(()))).unwrap_err();
    assert_eq!(twice, AddCheckError::Taken { name: "leaderElection".into() });
    for name in ["", "a/b", "a b", "a?b", "ä"] {
        let refused = checks.add(Check::new(name, || Ok(()))).unwrap_err();
        assert_eq!(refused, AddCheckError::Name { name: name.into() });
    }
    assert_eq!(checks.run_one("leaderElection").await.unwrap().failure, None);
    assert_eq!(format!("{checks:?}"), r#"{"leaderElection"}"#);
}

#[tokio::test]
async fn reasons_are_short_and_of_one_line() {
    let checks = Checks::default();
    checks.add(Check::new("long", || Err(format!("a\r\nb\u{1b}{}", "ö".repeat(2000)).into()))).unwrap();
    let failure = checks.run_one("long").await.unwrap().failure.unwrap();
    assert!(failure.starts_with("a  b ö") && failure.ends_with("ö…") && failure.len() < 1030, "{failure}");
}

#[tokio::test]
async fn an_informer_is_ready_from_sync_to_end() {
    let server = ApiServer::builder().in_process_only().start().await.unwrap();
    let informers = InformerFactory::builder(&server.client()).build();
    let maps = informers.of::<ConfigMap>();
    let checks = Checks::default();
    checks.add(Check::synced(&maps)).unwrap();
    let said = async || failures(&checks).await.pop().unwrap().1;
    assert_eq!(said().await.as_deref(), Some("the informer has not synced yet"));
    let running = informers.start();
    informers.wait_for_sync().await.unwrap();
    assert_eq!(said().await, None);
    running.drain().await;
    assert_eq!(said().await.as_deref(), Some("the informer has ended"));
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_receives_nothing_is_stale() {
    let (now, limit) = (Instant::now(), Duration::from_secs(300));
    heard(None, now, limit).unwrap();
    heard(Some(now), now + limit, limit).unwrap();
    let reason = heard(Some(now), now + limit + Duration::from_secs(2), limit).unwrap_err();
    assert_eq!(reason.to_string(), "nothing was heard from the server for 302 s; the limit is 300 s");

    let server = ApiServer::builder().in_process_only().start().await.unwrap();
    let informers = InformerFactory::builder(&server.client()).build();
    let check = Check::heard_within(&informers.of::<ConfigMap>(), limit);
    assert!(check.name().starts_with("informer-") && check.name().ends_with("-heard"), "{}", check.name());
    check.run().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_queue_check_detects_keys_that_wait_and_workers_that_hang() {
    let queue = WorkQueue::rate_limited("foos/of bars");
    let limits = QueueLimits { oldest_ready: Duration::from_secs(10), longest_running: Duration::from_secs(20) };
    let check = Check::queue(&queue, limits);
    assert_eq!(check.name(), "queue-foos-of-bars");
    check.run().await.unwrap();
    queue.add("a");
    let item = queue.try_next().unwrap();
    queue.add("b");
    advance(Duration::from_secs(10)).await;
    check.run().await.unwrap();
    advance(Duration::from_secs(11)).await;
    let reason = check.run().await.unwrap_err().to_string();
    let expected = "a key of 1 has been ready for 21 s; the limit is 10 s, \
                    and a worker has had its key for 21 s; the limit is 20 s";
    assert_eq!(reason, expected);
    item.forget();
    queue.try_next().unwrap().forget();
    check.run().await.unwrap();
}

#[tokio::test]
async fn a_queue_without_a_name_cannot_be_checked() {
    let check = Check::queue(&WorkQueue::<u8>::new(), QueueLimits::default());
    assert_eq!(check.run().await.unwrap_err().to_string(), "the queue has no name and so keeps no ages");
}

#[tokio::test(start_paused = true)]
async fn a_task_without_heartbeats_is_unhealthy() {
    let (check, heart) = Check::heartbeat("task", Duration::from_secs(10));
    advance(Duration::from_secs(10)).await;
    check.run().await.unwrap();
    heart.beat();
    advance(Duration::from_secs(10)).await;
    check.run().await.unwrap();
    advance(Duration::from_secs(1)).await;
    assert_eq!(check.run().await.unwrap_err().to_string(), "no beat for 11 s; the limit is 10 s");
    heart.clone().beat();
    check.run().await.unwrap();
}
