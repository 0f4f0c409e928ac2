//! Disengaging clusters.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[tokio::test(start_paused = true)]
async fn mcl_003_keys_leave_with_their_cluster_and_running_reconciles_are_cancelled() {
    let (eu, us, log) = (server_with(50).await, server_with(1).await, Log::new());
    let clusters = Clusters::new();
    clusters.engage("eu", &eu.client());
    let running = start(controller(&clusters, "mcl-003").concurrency(3), {
        let log = log.clone();
        move |_, ctx| {
            log.note(format!("begins in {}", ctx.cluster()));
            let log = log.clone();
            async move {
                if ctx.cluster() == "eu" {
                    assert!(!ctx.is_cancelled());
                    ctx.cancelled().await;
                    sleep(secs(2)).await;
                    log.note("ends in eu");
                }
                Ok(Next::requeue())
            }
        }
    });
    settle().await;
    assert_eq!(log.take(), ["begins in eu"; 2], "all workers but one");
    let disengaged = clusters.disengage("eu");
    assert!(clusters.get("eu").is_none() && clusters.list().is_empty(), "the entry goes at the call");
    assert!(disengaged.await);
    assert_eq!(log.started.elapsed().as_secs(), 2, "the call waits for the running reconciles");
    assert_eq!(log.take(), ["ends in eu"; 2]);
    sleep(secs(3600)).await;
    assert_eq!(log.take(), Vec::<String>::new(), "neither queued nor delayed keys of it are reconciled");
    assert!(!clusters.disengage("eu").await, "it is gone");

    clusters.engage("us", &us.client());
    settle().await;
    assert_eq!(log.take()[0], "begins in us", "the workers are free for others");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn mcl_003_a_reconcile_that_does_not_return_is_dropped_at_the_end_of_the_grace_period() {
    let (eu, log) = (server_with(1).await, Log::new());
    let clusters = Clusters::new();
    clusters.engage("eu", &eu.client());
    let running = start(controller(&clusters, "mcl-003-grace").grace(secs(7)), |_, _| std::future::pending());
    settle().await;
    assert!(clusters.disengage("eu").await);
    assert_eq!(log.started.elapsed().as_secs(), 7);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn mcl_010_the_objects_of_a_cluster_that_goes_are_not_deleted() {
    let (eu, us) = (server_with(3).await, server_with(1).await);
    let (deleted, log) = (Arc::new(AtomicUsize::new(0)), Log::new());
    let clusters = Clusters::new();
    clusters.engage("eu", &eu.client());
    clusters.engage("us", &us.client());
    let built = controller(&clusters, "mcl-010").configure({
        let deleted = Arc::clone(&deleted);
        move |controller, _| {
            let deleted = Arc::clone(&deleted);
            controller.on_deleted(move |_, _| {
                deleted.fetch_add(1, Ordering::SeqCst);
                async { Ok(Next::done()) }
            })
        }
    });
    let running = start_recording(built, &log);
    settle().await;
    assert_eq!(log.take().len(), 4);
    assert!(clusters.disengage("eu").await);
    sleep(secs(60)).await;
    assert_eq!(deleted.load(Ordering::SeqCst), 0, "nothing was deleted");
    delete(&us, "map-0").await;
    settle().await;
    assert_eq!(deleted.load(Ordering::SeqCst), 1, "a deletion in the other cluster is one");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn mcl_010_own_writes_and_events_are_those_of_the_cluster() {
    use k8s_openapi::api::events::v1::Event;
    let (eu, us, log) = (server_with(1).await, server_with(1).await, Log::new());
    let clusters = Clusters::new();
    clusters.engage("eu", &eu.client());
    clusters.engage("us", &us.client());
    let running = start(controller(&clusters, "mcl-010-events"), {
        let log = log.clone();
        move |map, ctx| {
            let log = log.clone();
            async move {
                let seen = map.typed()?.data.clone().unwrap_or_default().len();
                log.note(format!("{} sees {seen}", ctx.cluster()));
                if seen == 0 {
                    let patch = evenkeel_client::Patch::merge(&json!({"data": {"written": "yes"}}));
                    ctx.api::<ConfigMap>().namespace("default").patch(map.key().name(), &patch).await?;
                    ctx.recorder().event(&map, crate::EventType::Normal, "Written", format!("in {}", ctx.cluster()));
                    return Ok(Next::requeue());
                }
                Ok(Next::done())
            }
        }
    });
    sleep(secs(5)).await;
    let lines = log.take_sorted();
    assert_eq!(lines.iter().filter(|line| line.ends_with("sees 0")).collect::<Vec<_>>(), ["eu sees 0", "us sees 0"]);
    running.end().await.unwrap();
    for (server, cluster) in [(&eu, "eu"), (&us, "us")] {
        let events = server.client().api::<Event>().namespace("default").list(&Default::default()).await.unwrap();
        let notes: Vec<_> = events.into_iter().filter_map(|event| event.typed().unwrap().note.clone()).collect();
        assert_eq!(notes, [format!("in {cluster}")]);
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_controller_or_the_set_leaves_no_task() {
    let eu = server_with(5).await;
    let before = alive_tasks();
    let clusters = Clusters::new();
    clusters.engage("eu", &eu.client());
    let running = start(controller(&clusters, "mcl-dropped"), |_, _| std::future::pending());
    settle().await;
    running.ended.abort();
    // The queue's metrics of keys in flight are sampled by a task that ends within half a second.
    sleep(secs(1)).await;
    assert_eq!(alive_tasks(), before + 1, "the probe belongs to the set");
    assert!(clusters.get("eu").unwrap().status().controllers.is_empty());
    drop(clusters);
    settle().await;
    assert_eq!(alive_tasks(), before);
}
