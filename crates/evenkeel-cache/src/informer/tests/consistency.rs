//! The consistency check.

use evenkeel_core::Status;

use super::*;
use crate::informer::{ConsistencyOutcome, ConsistencyReport};
use crate::reflector::testing as scripted;
use crate::testing::Request;

fn lists(source: &FakeSource) -> usize {
    source.requests().iter().filter(|request| matches!(request, Request::List(_))).count()
}

fn reason(report: &ConsistencyReport) -> &str {
    match &report.outcome {
        ConsistencyOutcome::Inconclusive { reason } => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn cst_001_a_store_is_compared_with_a_list_of_exactly_its_version() {
    let source = source();
    source.add(pod("a")).unwrap();
    let (informer, _running, _) = started(&source, HandlerOptions::new()).await;
    source.add(pod("b")).unwrap();
    settle().await;
    let report = informer.check_consistency().await;
    assert_eq!(report.outcome, ConsistencyOutcome::Consistent);
    assert_eq!((report.resource_version.as_str(), report.objects), ("2", 2));
    assert_eq!(report.to_string(), "consistent: 2 objects at version 2");
    let Some(Request::List(list)) = source.requests().pop() else { panic!("{:?}", source.requests()) };
    assert_eq!((list.resource_version.as_str(), list.is_exact, list.limit), ("2", true, 500));
    assert_eq!(informer.status().consistency, Some(report));
}

#[tokio::test(start_paused = true)]
async fn cst_002_a_difference_is_reported_and_repaired_by_a_relist() {
    let source = source();
    let kept = source.add(pod("kept")).unwrap();
    let deleted = source.add(pod("deleted")).unwrap();
    let modified = source.add(pod("modified")).unwrap();
    let (informer, _running, recorder) = started(&source, HandlerOptions::new()).await;
    recorder.take();
    source.add_without_event(pod("added")).unwrap();
    source.delete_without_event(&deleted).unwrap();
    source.modify_without_event(&modified).unwrap();
    source.bookmark();
    settle().await;
    assert_eq!(informer.indexer().len(), 3, "the events were lost");
    let report = informer.check_consistency().await;
    let ConsistencyOutcome::Inconsistent { missing, extra, different, mut examples } = report.outcome.clone() else {
        panic!("{report}");
    };
    assert_eq!((missing, extra, different), (1, 1, 1));
    examples.sort();
    assert_eq!(examples.iter().map(|key| key.name()).collect::<Vec<_>>(), ["added", "deleted", "modified"]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(informer.indexer().len(), 3);
    assert!(informer.indexer().get(kept.key().as_str()).is_some());
    assert!(informer.indexer().get(deleted.key().as_str()).is_none());
    assert_eq!(recorder.take().len(), 4, "handlers receive the difference, and the unchanged object of the relist");
    let failure = informer.status().reflector.last_error.unwrap();
    assert!(failure.message.contains("1 missing, 1 extra, 1 in another state"), "{}", failure.message);
    let Some(Request::List(list)) =
        source.requests().into_iter().rev().find(|request| matches!(request, Request::List(_)))
    else {
        panic!("no list");
    };
    assert_eq!((list.resource_version.as_str(), list.is_exact), ("", false), "a consistent read");
    assert_eq!(informer.check_consistency().await.outcome, ConsistencyOutcome::Consistent);
}

#[tokio::test(start_paused = true)]
async fn cst_003_a_version_that_the_server_does_not_list_is_inconclusive() {
    let source = source();
    source.add(pod("a")).unwrap();
    let (informer, _running, _) = started(&source, HandlerOptions::new()).await;
    let before = lists(&source);
    source.fail_next_list(Status::expired("too old resource version"));
    assert!(reason(&informer.check_consistency().await).starts_with("the version has expired"));
    source.fail_next_list(Status::failure(400, evenkeel_core::Reason::BAD_REQUEST, "unknown parameter"));
    assert!(reason(&informer.check_consistency().await).contains("unknown parameter"));
    source.add_without_event(pod("b")).unwrap();
    let report = informer.check_consistency().await;
    assert_eq!(reason(&report), "the server listed version 2 instead of 1", "the store is behind, not wrong");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(lists(&source), before + 3, "no relist");
    assert_eq!(informer.status().reflector.failures, 0);
}

#[tokio::test(start_paused = true)]
async fn cst_004_checks_run_at_intervals() {
    let source = source();
    let informer = informer_of(&source, options().check_consistency(Duration::from_secs(60)));
    let _running = informer.start();
    informer.synced().await.unwrap();
    source.add_without_event(pod("a")).unwrap();
    source.bookmark();
    settle().await;
    assert!(informer.indexer().is_empty());
    tokio::time::sleep(Duration::from_secs(68)).await;
    assert_eq!(informer.indexer().len(), 1);
    tokio::time::sleep(Duration::from_secs(66)).await;
    assert_eq!(informer.status().consistency.unwrap().outcome, ConsistencyOutcome::Consistent);
    let without = informer_of(&source, options());
    let _running = without.start();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(without.status().consistency, None);
}

#[tokio::test(start_paused = true)]
async fn cst_005_what_a_transform_rejects_or_strips_is_no_difference() {
    let source = source();
    source.add(pod("left-out")).unwrap();
    source.add(labelled("stripped", "v", "u")).unwrap();
    source.add(pod("kept")).unwrap();
    let transform = |object: Object| -> Result<Object, String> {
        match object.key().name() {
            "left-out" => Err("unwanted".into()),
            "stripped" => Obj::from_json(&pods(), r#"{"metadata":{"name":"stripped"}}"#.to_owned())
                .map_err(|error| error.to_string()),
            _ => Ok(object),
        }
    };
    let informer = informer_of(&source, options().transform(transform).on_error(|_| ()));
    let _running = informer.start();
    informer.synced().await.unwrap();
    let report = informer.check_consistency().await;
    assert_eq!((report.outcome, report.objects), (ConsistencyOutcome::Consistent, 2));
}

#[tokio::test(start_paused = true)]
async fn cst_006_an_informer_that_does_not_run_is_inconclusive() {
    let source = source();
    let informer = informer_of(&source, options());
    assert_eq!(reason(&informer.check_consistency().await), "the informer does not run");
    source.set_list_error(Some(Status::failure(503, evenkeel_core::Reason::SERVICE_UNAVAILABLE, "no")));
    let running = informer.start();
    assert_eq!(reason(&informer.check_consistency().await), "the informer has not synced");
    running.stop().await;
    assert_eq!(reason(&informer.check_consistency().await), "the informer does not run");
}

fn scripted_informer(script: &scripted::Script) -> Informer {
    Informer::new(script.clone().no_watch_list(), &scripted::pods(), options().max_list_objects(3).on_error(|_| ()))
}

#[tokio::test(start_paused = true)]
async fn cst_007_the_list_is_read_in_pages_and_bounded() {
    let script = scripted::Script::default()
        .list(scripted::list(&[("a", "1"), ("b", "2")], "10"))
        .watch(scripted::open(vec![]))
        .list(scripted::page(&[("b", "2")], "10", "x"))
        .list(scripted::page(&[("a", "1")], "10", ""));
    let informer = scripted_informer(&script);
    let _running = informer.start();
    informer.synced().await.unwrap();
    assert_eq!(informer.check_consistency().await.outcome, ConsistencyOutcome::Consistent);
    let script = script
        .list(scripted::page(&[("b", "2")], "10", "x"))
        .list(scripted::page(&[("c", "2")], "10", "x"))
        .list(scripted::list(&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")], "10"))
        .list(scripted::ListAnswer::Hang);
    assert_eq!(reason(&informer.check_consistency().await), "endless list: a continue token repeats");
    assert_eq!(reason(&informer.check_consistency().await), "the list has more than 3 objects");
    assert_eq!(reason(&informer.check_consistency().await), "the list took longer than 300s");
    drop(script);
}

#[tokio::test(start_paused = true)]
async fn cst_008_calls_share_a_check_and_a_stop_ends_it() {
    let script = scripted::Script::default()
        .list(scripted::list(&[("a", "1")], "10"))
        .watch(scripted::open(vec![]))
        .list(scripted::ListAnswer::Hang);
    let informer = scripted_informer(&script);
    let running = informer.start();
    informer.synced().await.unwrap();
    let checks: Vec<_> = (0..3)
        .map(|_| {
            let informer = informer.clone();
            tokio::spawn(async move { informer.check_consistency().await })
        })
        .collect();
    settle().await;
    running.stop().await;
    for check in checks {
        assert_eq!(reason(&check.await.unwrap()), "the informer stopped");
    }
    assert_eq!(*script.exact.lock().unwrap(), [false, true], "one list for all of them");
}

#[test]
fn cst_008_a_check_ends_with_the_runtime_of_the_informer() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (of_informer, of_caller) = (runtime(), runtime());
    let informer = informer_of(&source(), options());
    let running = of_informer.block_on(async { informer.start() });
    of_caller.block_on(async {
        let check = tokio::spawn(async move { informer.check_consistency().await });
        tokio::task::yield_now().await;
        of_informer.shutdown_background();
        assert_eq!(reason(&check.await.unwrap()), "the informer stopped");
    });
    drop(running);
}
