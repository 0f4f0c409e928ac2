//! How the informers of a factory start and stop.

use k8s_openapi::api::core::v1::{Node, Secret};

use super::*;
use crate::{HandlerFuncs, HandlerOptions};

/// Lets other tasks run without virtual time, which does not advance while a handler blocks a thread.
async fn let_others_run() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn fac_008_start_starts_what_was_requested_and_again_does_nothing() {
    let (server, client) = server().await;
    let informers = factory(&client);
    let (maps, nodes) = (informers.of::<ConfigMap>(), informers.of::<Node>());
    settle().await;
    assert!(asked(&server, "/configmaps").is_empty() && !maps.is_started(), "not started");
    let _running = informers.start();
    assert!(maps.is_started() && nodes.is_started() && !maps.has_synced(), "start does not wait");
    informers.wait_for_sync().await.unwrap();
    let before = asked(&server, "/configmaps").len();
    informers.start().stop().await;
    settle().await;
    assert_eq!(asked(&server, "/configmaps").len(), before);
    assert!(!maps.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn fac_008_an_informer_that_runs_already_keeps_its_own_handle() {
    let (_server, client) = server().await;
    let informers = factory(&client);
    let maps = informers.of::<ConfigMap>();
    let _own = maps.start();
    maps.synced().await.unwrap();
    let running = informers.start();
    informers.wait_for_sync().await.unwrap();
    running.stop().await;
    assert!(!maps.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn fac_009_a_second_start_starts_what_was_requested_since() {
    let (_server, client) = server().await;
    let informers = factory(&client);
    let maps = informers.lister::<ConfigMap>();
    let first = informers.start();
    informers.wait_for_sync().await.unwrap();
    let nodes = informers.of::<Node>();
    settle().await;
    assert!(!nodes.is_started());
    informers.wait_for_sync().await.unwrap();
    let second = informers.start();
    nodes.synced().await.unwrap();
    assert!(keys(&maps).contains("default/a"));
    first.stop().await;
    assert!(informers.of::<Node>().has_synced() && !nodes.is_stopped(), "each handle has its own informers");
    second.stop().await;
    assert!(nodes.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn fac_010_only_started_informers_are_awaited_and_the_error_names_stopped_ones() {
    let (server, client) = server().await;
    let informers = InformerFactory::builder(&client).name("f").build();
    let maps = informers.of::<ConfigMap>();
    informers.wait_for_sync().await.unwrap();
    assert!(!maps.has_synced(), "not started");
    server.faults().fail_next(1_000, 403, None);
    let running = informers.start();
    let _nodes = informers.of::<Node>();
    let _others = informers.start();
    let waiting = tokio::spawn({
        let informers = informers.clone();
        async move { informers.wait_for_sync().await }
    });
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!waiting.is_finished());
    drop(running);
    let error = waiting.await.unwrap().unwrap_err();
    let names: Vec<_> = error.informers.iter().map(|status| (status.name.as_str(), status.is_stopped)).collect();
    assert_eq!(names, [("f/configmaps", true), ("f/nodes", false)]);
    assert!(error.to_string().contains("f/nodes is not done yet (failed to "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn fac_011_after_a_drain_no_task_is_left_and_stores_keep_their_contents() {
    let (server, client) = server().await;
    let informers = factory(&client);
    informers.start().drain().await;
    let (maps, secrets) = (informers.of::<ConfigMap>(), informers.of::<Secret>());
    let running = informers.start();
    informers.wait_for_sync().await.unwrap();
    running.drain().await;
    assert!(maps.is_stopped() && secrets.is_stopped());
    assert!(keys(&maps.lister()).contains("default/a"));
    let before = asked(&server, "/configmaps").len();
    informers.start().drain().await;
    settle().await;
    assert_eq!(asked(&server, "/configmaps").len(), before, "what has stopped does not start again");
}

#[tokio::test(start_paused = true)]
async fn fac_011_a_drain_waits_for_handlers_that_are_busy() {
    let (_server, client) = server().await;
    let informers = InformerFactory::builder(&client).namespace("default").labels("app").build();
    let ((release, gate), recorder) = (std::sync::mpsc::channel(), Recorder::default());
    let seen = Arc::clone(&recorder.0);
    let handler = HandlerFuncs::new().on_add(move |map: crate::Obj<ConfigMap>, _| {
        gate.recv().unwrap();
        seen.lock().unwrap().push(map.key().to_string());
    });
    let registration =
        informers.of::<ConfigMap>().add_handler(handler.with(HandlerOptions::new().may_block())).unwrap();
    let running = informers.start();
    informers.wait_for_sync().await.unwrap();
    let draining = tokio::spawn(running.drain());
    let_others_run().await;
    assert!(!draining.is_finished(), "a call is in progress");
    (0..2).for_each(|_| release.send(()).unwrap());
    draining.await.unwrap();
    assert_eq!(recorder.take(), ["default/a", "default/b"], "queued notifications were delivered");
    assert_eq!(registration.lag().delivered, 2);
}

#[tokio::test(start_paused = true)]
async fn fac_012_a_drain_stops_the_informers_itself() {
    let (_server, client) = server().await;
    let informers = factory(&client);
    let (maps, nodes) = (informers.of::<ConfigMap>(), informers.lister::<Node>());
    informers.start().drain().await;
    assert!(maps.is_stopped());
    assert!(nodes.list_all().is_empty());
    assert_eq!(informers.statuses().iter().filter(|status| status.is_stopped).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn only_the_handle_of_a_start_stops_informers() {
    let (_server, client) = server().await;
    let informers = factory(&client);
    let recorder = Recorder::default();
    let registration = informers.of::<ConfigMap>().add_handler(recorder.clone()).unwrap();
    let nodes = informers.lister::<Node>();
    let running = informers.start();
    informers.wait_for_sync().await.unwrap();
    let maps = informers.of::<ConfigMap>();
    drop((nodes, informers));
    registration.remove();
    drop(registration);
    settle().await;
    assert!(!maps.is_stopped());
    create(&client, "other", "d", "web").await;
    settle().await;
    assert!(keys(&maps.lister()).contains("other/d"));
    drop(running);
    maps.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_has_stopped_is_replaced_at_the_next_request() {
    let (_server, client) = server().await;
    let informers = factory(&client);
    let first = informers.of::<ConfigMap>();
    let running = informers.start();
    first.synced().await.unwrap();
    running.stop().await;
    let second = informers.of::<ConfigMap>();
    assert!(!second.is_started() && !second.has_synced());
    let running = informers.start();
    second.synced().await.unwrap();
    assert!(!second.is_stopped() && first.is_stopped());
    running.drain().await;
    assert!(second.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn handles_of_several_starts_drain_together_once_merged() {
    let (_server, client) = server().await;
    let informers = InformerFactory::builder(&client).namespace("other").labels("app").build();
    let (release, gate) = std::sync::mpsc::channel();
    let called = tokio::sync::watch::Sender::new(false);
    let mut calls = called.subscribe();
    let handler = HandlerFuncs::new().on_add(move |_: crate::Obj<ConfigMap>, _| {
        called.send_replace(true);
        gate.recv().unwrap();
    });
    let first = informers.of::<ConfigMap>();
    first.add_handler(handler.with(HandlerOptions::new().may_block())).unwrap();
    let mut running = informers.start();
    calls.wait_for(|called| *called).await.unwrap();
    let second = informers.of::<Secret>();
    running.merge(informers.start());
    let draining = tokio::spawn(running.drain());
    let_others_run().await;
    assert!(second.is_stopped() && !draining.is_finished(), "the handler of the first is busy");
    release.send(()).unwrap();
    draining.await.unwrap();
}
