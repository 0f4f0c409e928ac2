//! Hard cases of the contract.

use evenkeel_apiserver::{Action, Rule};

use super::*;

/// Returns when each object of the two healthy clusters was first reconciled, with a third cluster or without.
async fn reconciled_at(name: &str, third: Option<&ApiServer>) -> Vec<(Duration, String)> {
    let (eu, us, log) = (server_with(20).await, server_with(20).await, Log::new());
    for server in [&eu, &us] {
        server.faults().delay(Duration::from_millis(50));
    }
    let clusters = Clusters::new();
    if let Some(third) = third {
        clusters.engage("a third", &third.client());
    }
    clusters.engage("eu", &eu.client());
    clusters.engage("us", &us.client());
    let running = start_recording(controller(&clusters, name), &log);
    sleep(secs(20)).await;
    running.end().await.unwrap();
    let mut lines = log.take_timed();
    lines.sort();
    lines
}

#[tokio::test(start_paused = true)]
async fn ohc_025_one_of_three_clusters_swallows_packets() {
    let silent = server_with(20).await;
    silent.faults().add(Rule::new(Action::Hang));
    let alone = reconciled_at("ohc-025-alone", None).await;
    let beside = reconciled_at("ohc-025-beside", Some(&silent)).await;
    assert_eq!(alone.len(), 40);
    assert_eq!(alone, beside, "the others sync as fast as alone");

    let (eu, us, log) = (server_with(1001).await, server_with(1).await, Log::new());
    let clusters = Clusters::new();
    clusters.engage("us", &us.client());
    clusters.engage("silent", &silent.client());
    let running = start(controller(&clusters, "ohc-025").concurrency(2), {
        let log = log.clone();
        move |_, ctx| {
            log.note(ctx.cluster());
            async move {
                if ctx.cluster() == "eu" {
                    ctx.cancelled().await;
                }
                Ok(Next::done())
            }
        }
    });
    // The silent cluster is tried until 30, 61, 93, 127, 165 and 211 seconds, and again at 243.
    sleep(secs(213)).await;
    let status = clusters.get("silent").unwrap().status();
    assert_eq!(status.controllers["ohc-025"].failures, 6, "it is tried with backoff");
    assert!(matches!(status.controllers["ohc-025"].phase, EngagementPhase::Waiting { .. }), "{status:?}");
    assert_eq!(log.take(), ["us"]);

    let before = alive_tasks();
    clusters.engage("eu", &eu.client());
    sleep(secs(5)).await;
    assert_eq!(log.take(), ["eu"]);
    let queue = clusters.get("eu").unwrap().status().controllers["ohc-025"].queue.unwrap();
    assert_eq!((queue.ready, queue.in_flight), (1000, 1));
    assert!(clusters.disengage("eu").await);
    // The queue's metrics of keys in flight are sampled by a task that ends within half a second.
    sleep(secs(1)).await;
    assert_eq!(alive_tasks(), before, "no task of it is left");
    sleep(secs(5)).await;
    assert_eq!(log.take(), Vec::<String>::new(), "none of its keys is reconciled");
    create(&us, "later").await;
    settle().await;
    assert_eq!(log.take(), ["us"], "the others are not affected");
    running.end().await.unwrap();
}
