//! Engaging clusters: which, when, and again.

use evenkeel_apiserver::{Action, Rule};
use k8s_openapi::api::core::v1::Secret;

use super::*;

#[tokio::test(start_paused = true)]
async fn mcl_001_a_reconcile_knows_its_cluster() {
    let (eu, us, log) = (server_with(1).await, server_with(1).await, Log::new());
    let clusters = Clusters::new();
    clusters.engage("eu 1/ö", &eu.client());
    clusters.engage("us", &us.client());
    let running = start(controller(&clusters, "mcl-001"), {
        let log = log.clone();
        move |map, ctx| {
            log.note(ctx.cluster_key());
            async move {
                let child = json!({"metadata": {"name": map.key().name()}, "stringData": {"cluster": ctx.cluster()}});
                let child: Secret = serde_json::from_value(child)?;
                ctx.api::<Secret>().namespace("default").create(&child).await?;
                Ok(Next::done())
            }
        }
    });
    settle().await;
    assert_eq!(log.take_sorted(), ["cluster://eu 1/ö/default/map-0", "cluster://us/default/map-0"]);
    for (server, cluster) in [(&eu, "eu 1/ö"), (&us, "us")] {
        let child = server.client().api::<Secret>().namespace("default").get("map-0").await.unwrap();
        let data = child.typed().unwrap().data.clone().unwrap();
        assert_eq!(data["cluster"].0, cluster.as_bytes(), "the client is that of the cluster");
    }
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn mcl_002_engaging_the_same_instance_again_does_nothing() {
    let (eu, log) = (server_with(1).await, Log::new());
    let (clusters, client) = (Clusters::new(), eu.client());
    let running = start_recording(controller(&clusters, "mcl-002"), &log);
    assert!(clusters.engage("eu", &client));
    settle().await;
    let engaged = clusters.get("eu").unwrap();
    assert!(!clusters.engage("eu", &client) && !clusters.engage("eu", engaged.client()));
    assert!(!clusters.engage("eu", &client.with_field_manager("other")), "it shares the connections");
    settle().await;
    assert!(clusters.get("eu").unwrap().is(&engaged));
    assert_eq!(log.take(), ["cluster://eu/default/map-0"], "nothing was listed again");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn mcl_002_another_instance_ends_the_old_one_first() {
    let (old, new, log) = (server_with(1).await, server().await, Log::new());
    create(&new, "new").await;
    let clusters = Clusters::new();
    clusters.engage("eu", &old.client());
    let running = start(controller(&clusters, "mcl-002-replaced"), {
        let log = log.clone();
        move |map, ctx| {
            let (log, name) = (log.clone(), map.key().name().to_owned());
            async move {
                log.note(format!("{name} begins"));
                if name == "map-0" {
                    ctx.cancelled().await;
                    sleep(secs(3)).await;
                }
                log.note(format!("{name} ends"));
                Ok(Next::done())
            }
        }
    });
    settle().await;
    assert!(clusters.engage("eu", &new.client()));
    sleep(secs(10)).await;
    assert_eq!(log.take(), ["map-0 begins", "map-0 ends", "new begins", "new ends"]);
    create(&old, "later").await;
    settle().await;
    assert_eq!(log.take(), Vec::<String>::new(), "the old cluster is not watched any more");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn mcl_004_the_home_cluster_is_one_of_the_set_and_filters_choose() {
    let (home, eu, log) = (server_with(1).await, server_with(1).await, Log::new());
    let clusters = Clusters::home(&home.client());
    let all = start_recording(controller(&clusters, "mcl-004"), &log);
    settle().await;
    assert_eq!(log.take(), ["cluster:///default/map-0"]);
    clusters.engage("eu", &eu.client());
    settle().await;
    assert_eq!(log.take(), ["cluster://eu/default/map-0"]);
    all.end().await.unwrap();

    let others = start_recording(controller(&clusters, "mcl-004").only(|cluster| !cluster.is_home()), &log);
    settle().await;
    assert_eq!(log.take(), ["cluster://eu/default/map-0"]);
    others.end().await.unwrap();

    // Of a source alone: a change of a Secret enqueues the ConfigMap of its name in the home cluster only.
    let per_source = controller(&clusters, "mcl-004").configure(|controller, cluster| match cluster.is_home() {
        true => controller.watches(|secret: &Obj<Secret>| [secret.key().clone()]),
        false => controller,
    });
    let per_source = start_recording(per_source, &log);
    settle().await;
    log.take();
    for server in [&home, &eu] {
        let secret = serde_json::from_value(json!({"metadata": {"name": "map-0"}})).unwrap();
        server.client().api::<Secret>().namespace("default").create(&secret).await.unwrap();
    }
    settle().await;
    assert_eq!(log.take(), ["cluster:///default/map-0"]);
    per_source.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn mcl_005_a_cluster_that_does_not_sync_is_tried_again_and_its_status_says_why() {
    let (eu, log) = (server_with(1).await, Log::new());
    let clusters = Clusters::new();
    eu.faults().fail_next(u64::MAX, 500, None);
    clusters.engage("eu", &eu.client());
    let running = start_recording(controller(&clusters, "mcl-005"), &log);
    let status = || clusters.get("eu").unwrap().status().controllers["mcl-005"].clone();
    settle().await;
    assert_eq!((status().phase, status().failures), (EngagementPhase::Starting, 0));

    sleep(secs(30)).await;
    let EngagementPhase::Waiting { until } = status().phase else { panic!("{:?}", status()) };
    assert_eq!(until - log.started, secs(31), "30 s to sync, and 1 s of backoff");
    let message = clusters.get("eu").unwrap().status().last_failure.unwrap().message;
    let start = "controller mcl-005@eu: caches not synced within 30s: mcl-005@eu/configmaps: ";
    assert!(message.starts_with(start) && message.contains("injected by a fault"), "{message}");

    // From 31 to 61, 63 to 93, and 97 to 127 seconds.
    for (end, wait) in [(61, 2), (93, 4), (127, 8)] {
        tokio::time::sleep_until(log.started + secs(end) + Duration::from_millis(5)).await;
        let EngagementPhase::Waiting { until } = status().phase else { panic!("{:?}", status()) };
        assert_eq!((until - log.started).as_secs(), end + wait);
    }
    assert_eq!(status().failures, 4);
    eu.faults().clear();
    sleep(secs(8)).await;
    assert_eq!(status().phase, EngagementPhase::Synced);
    assert_eq!(log.take(), ["cluster://eu/default/map-0"]);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn mcl_005_a_configuration_that_panics_fails_its_cluster_alone() {
    let (eu, us, log) = (server_with(1).await, server_with(1).await, Log::new());
    let clusters = Clusters::new();
    clusters.engage("eu", &eu.client());
    clusters.engage("us", &us.client());
    let built = controller(&clusters, "mcl-005-panic").configure(|controller, cluster| {
        assert_ne!(cluster.name(), "eu", "not this one");
        controller
    });
    let running = start_recording(built, &log);
    settle().await;
    assert_eq!(log.take(), ["cluster://us/default/map-0"]);
    let message = clusters.get("eu").unwrap().status().last_failure.unwrap().message;
    assert!(message.contains("not this one"), "{message}");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn mcl_006_engaging_never_waits_and_a_cluster_that_hangs_delays_no_other() {
    let (hanging, us, log) = (server_with(1).await, server_with(1).await, Log::new());
    hanging.faults().add(Rule::new(Action::Hang));
    let clusters = Clusters::new();
    let running = start_recording(controller(&clusters, "mcl-006"), &log);
    for number in 0..20 {
        clusters.engage(format!("hanging-{number}"), &hanging.client());
    }
    clusters.engage("us", &us.client());
    assert_eq!(log.started.elapsed(), Duration::ZERO);
    settle().await;
    let lines = log.take_timed();
    assert_eq!(lines, [(Duration::ZERO, "cluster://us/default/map-0".to_owned())]);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn mcl_009_options_of_informers_hold_for_clusters_that_come_later() {
    let (eu, us, log) = (server_with(1).await, server_with(2).await, Log::new());
    let clusters = Clusters::new();
    clusters.engage("eu", &eu.client());
    let built = controller(&clusters, "mcl-009")
        .informers(|informers| informers.configure::<ConfigMap>(|maps| maps.fields("metadata.name=map-1")));
    let running = start_recording(built, &log);
    settle().await;
    clusters.engage("us", &us.client());
    settle().await;
    assert_eq!(log.take(), ["cluster://us/default/map-1"]);
    running.end().await.unwrap();
}
