//! The workers that clusters share.

use evenkeel_apiserver::{Action, Rule};

use super::*;

#[tokio::test(start_paused = true)]
async fn mcl_007_clusters_with_keys_take_turns() {
    let (large, small, log) = (server_with(60).await, server_with(10).await, Log::new());
    let clusters = Clusters::new();
    clusters.engage("large", &large.client());
    clusters.engage("small", &small.client());
    let running = start(controller(&clusters, "mcl-007-turns").concurrency(1), {
        let log = log.clone();
        move |_, ctx| {
            log.note(ctx.cluster());
            async {
                sleep(secs(1)).await;
                Ok(Next::done())
            }
        }
    });
    sleep(secs(100)).await;
    let turns = log.take();
    assert_eq!(turns.len(), 70);
    let first = turns.iter().position(|cluster| cluster == "small").unwrap();
    assert!(first <= 2, "{turns:?}");
    for pair in turns[first..first + 19].windows(2) {
        assert_ne!(pair[0], pair[1], "{turns:?}");
    }
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn mcl_007_a_cluster_whose_requests_hang_leaves_a_worker_for_the_others() {
    let (hanging, us, log) = (server_with(10).await, server_with(10).await, Log::new());
    let clusters = Clusters::new();
    clusters.engage("hanging", &hanging.client());
    let running = start(controller(&clusters, "mcl-007-hang").concurrency(2), {
        let log = log.clone();
        move |map, ctx| {
            log.note(ctx.cluster());
            async move {
                ctx.api::<ConfigMap>().namespace("default").get(map.key().name()).await?;
                Ok(Next::done())
            }
        }
    });
    hanging.faults().add(Rule::new(Action::Hang).verb("get"));
    settle().await;
    assert_eq!(log.take(), ["hanging"]);
    clusters.engage("us", &us.client());
    settle().await;
    assert_eq!(log.take(), ["us"; 10]);
    running.ended.abort();
}

#[tokio::test(start_paused = true)]
async fn workers_per_cluster_are_limited() {
    let (eu, us, log) = (server_with(10).await, server_with(10).await, Log::new());
    let clusters = Clusters::new();
    clusters.engage("eu", &eu.client());
    clusters.engage("us", &us.client());
    let running = start(controller(&clusters, "mcl-limit").concurrency(5).concurrency_per_cluster(2), {
        let log = log.clone();
        move |_, ctx| {
            log.note(ctx.cluster());
            async move {
                ctx.cancelled().await;
                Ok(Next::done())
            }
        }
    });
    settle().await;
    assert_eq!(log.take_sorted(), ["eu", "eu", "us", "us"]);
    running.end().await.unwrap();
}
