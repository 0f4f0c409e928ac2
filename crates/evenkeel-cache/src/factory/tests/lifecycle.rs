//! How the informers of a factory begin and end.

use k8s_openapi::api::core::v1::{Node, Secret};

use super::*;
use crate::{HandlerFuncs, HandlerOptions};

/// Virtual time stands still while a handler blocks a thread.
async fn let_others_run() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn fac_008_a_start_begins_what_there_is_and_another_does_nothing() {
    let (server, client) = server().await;
    let informers = factory(&client);
    let (maps, nodes) = (informers.of::<ConfigMap>(), informers.of::<Node>());
    settle().await;
    assert!(asked(&server, "/configmaps").is_empty() && !maps.is_started(), "nothing runs before");
    informers.start();
    assert!(maps.is_started() && nodes.is_started() && !maps.has_synced(), "it does not wait");
    informers.wait_for_sync().await.unwrap();
    let before = asked(&server, "/configmaps").len();
    informers.start();
    settle().await;
    assert_eq!(asked(&server, "/configmaps").len(), before);
    assert!(!maps.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn fac_008_an_informer_that_runs_already_is_left_alone() {
    let (_server, client) = server().await;
    let informers = factory(&client);
    let maps = informers.of::<ConfigMap>();
    maps.start();
    maps.synced().await.unwrap();
    informers.start();
    informers.wait_for_sync().await.unwrap();
    assert!(!maps.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn fac_009_who_comes_late_begins_at_once() {
    let (_server, client) = server().await;
    let informers = factory(&client);
    informers.start();
    let maps = informers.lister::<ConfigMap>();
    informers.wait_for_sync().await.unwrap();
    assert!(keys(&maps).contains("default/a"));
    let elsewhere = informers.clone();
    let nodes = std::thread::spawn(move || elsewhere.of::<Node>()).join().unwrap();
    nodes.synced().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn fac_010_only_what_has_begun_is_waited_for_and_what_ends_is_named() {
    let (server, client) = server().await;
    let informers = InformerFactory::builder(&client).name("f").build();
    let (maps, _nodes) = (informers.of::<ConfigMap>(), informers.of::<Node>());
    informers.wait_for_sync().await.unwrap();
    assert!(!maps.has_synced(), "nothing has begun");
    server.faults().fail_next(1_000, 403, None);
    informers.start();
    let waiting = tokio::spawn({
        let informers = informers.clone();
        async move { informers.wait_for_sync().await }
    });
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!waiting.is_finished());
    maps.stop();
    let error = waiting.await.unwrap().unwrap_err();
    let names: Vec<_> = error.informers.iter().map(|status| (status.name.as_str(), status.is_stopped)).collect();
    assert_eq!(names, [("f/configmaps", true), ("f/nodes", false)]);
    assert!(error.to_string().contains("f/nodes is not done yet (failed to "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn fac_011_after_a_shutdown_nothing_is_left_and_nothing_begins() {
    let (server, client) = server().await;
    let informers = factory(&client);
    informers.shutdown().await;
    informers.shutdown().await;
    let informers = factory(&client);
    let maps = informers.of::<ConfigMap>();
    let kept = informers.of::<Secret>();
    kept.start();
    informers.start();
    informers.wait_for_sync().await.unwrap();
    tokio::join!(informers.shutdown(), informers.shutdown());
    assert!(maps.is_stopped() && kept.is_stopped());
    informers.shutdown().await;
    assert!(keys(&maps.lister()).contains("default/a"), "what was known is still known");

    informers.start();
    let late = informers.of::<Node>();
    assert!(late.is_stopped());
    late.synced().await.unwrap_err();
    assert_eq!(informers.wait_for_sync().await.unwrap_err().informers[0].name, "nodes");
    assert!(informers.of::<ConfigMap>().is_stopped());
    settle().await;
    assert!(asked(&server, "/nodes").is_empty());
}

#[tokio::test(start_paused = true)]
async fn fac_011_a_shutdown_waits_for_handlers_that_are_busy() {
    let (_server, client) = server().await;
    let informers = InformerFactory::builder(&client).namespace("default").labels("app").build();
    let ((release, gate), recorder) = (std::sync::mpsc::channel(), Recorder::default());
    let seen = Arc::clone(&recorder.0);
    let handler = HandlerFuncs::new().on_add(move |map: crate::Obj<ConfigMap>, _| {
        gate.recv().unwrap();
        seen.lock().unwrap().push(map.key().to_string());
    });
    let maps = informers.of::<ConfigMap>();
    let registration = maps.add_handler(handler.with(HandlerOptions::new().may_block())).unwrap();
    drop(maps);
    informers.start();
    informers.wait_for_sync().await.unwrap();
    let (first, second) = (informers.clone(), informers.clone());
    let ending =
        [tokio::spawn(async move { first.shutdown().await }), tokio::spawn(async move { second.shutdown().await })];
    let_others_run().await;
    assert!(ending.iter().all(|ending| !ending.is_finished()), "a call is being made");
    (0..2).for_each(|_| release.send(()).unwrap());
    for ending in ending {
        ending.await.unwrap();
    }
    assert_eq!(recorder.take(), ["default/a", "default/b"], "what waited was told");
    assert_eq!(registration.delivered(), 2);
}

#[tokio::test(start_paused = true)]
async fn fac_012_a_shutdown_needs_nobody_to_stop_the_informers_first() {
    let (_server, client) = server().await;
    let informers = factory(&client);
    let (maps, nodes) = (informers.of::<ConfigMap>(), informers.lister::<Node>());
    informers.start();
    informers.shutdown().await;
    assert!(maps.is_stopped());
    assert!(nodes.list_all().is_empty());
    assert_eq!(informers.statuses().iter().filter(|status| status.is_stopped).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_informer_runs_for_as_long_as_it_is_used() {
    let (server, client) = server().await;
    let informers = factory(&client);
    let recorder = Recorder::default();
    let registration = informers.of::<ConfigMap>().add_handler(recorder.clone()).unwrap();
    let nodes = informers.lister::<Node>();
    informers.start();
    informers.wait_for_sync().await.unwrap();
    assert_eq!(informers.statuses().len(), 2, "a handler is a user, and so is a lister");
    drop(nodes);
    settle().await;
    assert_eq!(informers.statuses().len(), 1);
    registration.remove();
    settle().await;
    assert!(informers.statuses().is_empty());
    recorder.take();

    let before = asked(&server, "/configmaps").len();
    let again = informers.lister::<ConfigMap>();
    informers.wait_for_sync().await.unwrap();
    assert!(keys(&again).contains("other/c"), "there is another one when it is asked for again");
    assert!(asked(&server, "/configmaps").len() > before);
    assert!(recorder.take().is_empty(), "it does not know those who listened to the one before");
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_was_stopped_is_replaced_when_it_is_asked_for() {
    let (_server, client) = server().await;
    let informers = factory(&client);
    informers.start();
    let first = informers.of::<ConfigMap>();
    first.synced().await.unwrap();
    first.stop();
    first.ended().await;
    let second = informers.of::<ConfigMap>();
    second.synced().await.unwrap();
    assert!(!second.is_stopped() && first.is_stopped());
    informers.shutdown().await;
    assert!(second.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_those_that_nobody_uses_any_more() {
    let (_server, client) = server().await;
    let informers = InformerFactory::builder(&client).namespace("other").labels("app").build();
    let (release, gate) = std::sync::mpsc::channel();
    let called = tokio::sync::watch::Sender::new(false);
    let mut calls = called.subscribe();
    let handler = HandlerFuncs::new().on_add(move |_: crate::Obj<ConfigMap>, _| {
        called.send_replace(true);
        gate.recv().unwrap();
    });
    informers.start();
    let first = informers.of::<ConfigMap>();
    first.add_handler(handler.with(HandlerOptions::new().may_block())).unwrap();
    calls.wait_for(|called| *called).await.unwrap();
    first.stop();
    drop(first);
    let second = informers.of::<ConfigMap>();
    second.synced().await.unwrap();
    let ending = tokio::spawn({
        let informers = informers.clone();
        async move { informers.shutdown().await }
    });
    let_others_run().await;
    assert!(second.is_stopped() && !ending.is_finished(), "the first one's handler is busy");
    release.send(()).unwrap();
    ending.await.unwrap();
}
