//! How controllers begin.

use evenkeel_apiserver::{Action, Rule};
use evenkeel_cache::InformerFactory;

use super::*;

#[tokio::test(start_paused = true)]
async fn program_3_is_as_short_as_it_was_meant_to_be() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    let (shutdown, seen) = (pass(secs(1)), log.clone());
    Controller::<ConfigMap>::new(&client)
        .owns::<Secret>()
        .concurrency(4)
        .run(shutdown, move |parent, ctx| {
            seen.note(parent.key());
            async move {
                ctx.api::<Secret>().namespace("default").create(&child("c", &parent)).await?;
                Ok(Next::done())
            }
        })
        .await
        .unwrap();
    assert!(log.len() > 1);
    assert_eq!(children(&client).await, BTreeMap::from([("a".to_owned(), 1)]));
}

#[tokio::test(start_paused = true)]
async fn co_008_no_worker_begins_before_every_source_has_told_of_everything() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    let a = create(&client, "a").await;
    client.api::<Secret>().namespace("default").create(&child("c", &a)).await.unwrap();
    server.faults().add(Rule::new(Action::Delay(secs(20))).resource("secrets").times(2));
    let running = start(controller(&client, "co-008").owns::<Secret>(), {
        let log = log.clone();
        move |_, ctx| {
            log.note("run");
            async move {
                assert_eq!(ctx.lister::<Secret>()?.list_all().len(), 1);
                Ok(Next::done())
            }
        }
    });
    pass(secs(15)).await;
    assert_eq!(log.len(), 0);
    pass(secs(60)).await;
    assert_eq!(log.len(), 1, "for itself and for its child");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_008_what_does_not_come_in_time_is_an_error_that_says_what_and_why() {
    let server = server().await;
    let client = server.client();
    server.faults().add(Faulty::secrets());
    let started = Instant::now();
    let running = start(controller(&client, "co-008-late").owns::<Secret>(), |_, _| async { Ok(Next::done()) });
    let error = running.ended.await.unwrap().unwrap_err();
    assert_eq!(started.elapsed(), secs(120));
    let text = error.to_string();
    assert!(text.contains("co-008-late") && text.contains("secrets") && !text.contains("configmaps"), "{text}");
    assert!(text.contains("out of order"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn co_008_to_be_told_to_end_before_that_is_no_error() {
    let server = server().await;
    let client = server.client();
    server.faults().add(Faulty::secrets());
    let running = start(controller(&client, "co-008-end").owns::<Secret>(), |_, _| async { Ok(Next::done()) });
    pass(secs(10)).await;
    running.end().await.unwrap();
}

/// Secrets cannot be had.
struct Faulty;

impl Faulty {
    fn secrets() -> Rule {
        let status = serde_json::from_value(json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500, "message": "out of order",
            "reason": "InternalError"
        }));
        Rule::new(Action::Status(Box::new(status.unwrap()))).resource("secrets")
    }
}

#[tokio::test(start_paused = true)]
async fn co_009_names_are_told_apart_and_given_back() {
    let server = server().await;
    let client = server.client();
    let first = controller(&client, "co-009").standby().unwrap();
    let second = controller(&client, "co-009").standby().unwrap();
    assert_eq!((first.name(), second.name()), ("co-009", "co-009-2"));
    drop(first);
    settle().await;
    assert_eq!(controller(&client, "co-009").standby().unwrap().name(), "co-009");
    let secrets = Controller::<Secret>::new(&client).standby().unwrap();
    assert!(secrets.name().starts_with("secret"), "the kind, if nothing else is said");
}

#[tokio::test(start_paused = true)]
async fn co_010_a_standby_has_its_caches_and_its_queue_full_and_begins_at_once() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    for number in 0..5 {
        create(&client, &format!("p{number}")).await;
    }
    let standby = controller(&client, "co-010").standby().unwrap();
    standby.ready().await.unwrap();
    assert_eq!(standby.backlog(), 5);
    create(&client, "later").await;
    pass(secs(600)).await;
    assert_eq!(standby.backlog(), 6);
    server.faults().add(Rule::new(Action::Hang));
    let (shutdown, told) = oneshot::channel::<()>();
    let leading = tokio::spawn(standby.lead(told, {
        let log = log.clone();
        move |object, _| {
            log.note(object.key().name());
            async { Ok(Next::done()) }
        }
    }));
    settle().await;
    assert_eq!(log.take(), ["later", "p0", "p1", "p2", "p3", "p4"], "and what changed meanwhile is first");
    let _ = shutdown.send(());
    leading.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_010_who_leads_before_all_is_there_waits_for_it() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    server.faults().add(Rule::new(Action::Delay(secs(20))).resource("configmaps").times(2));
    let standby = controller(&client, "co-010-early").standby().unwrap();
    let ended = standby.lead(pass(secs(60)), {
        let log = log.clone();
        move |_, _| {
            log.note("run");
            async { Ok(Next::done()) }
        }
    });
    ended.await.unwrap();
    assert_eq!(log.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn controllers_can_share_informers_and_one_does_not_end_them_for_the_other() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    let informers = InformerFactory::builder(&client).namespace("default").build();
    let run = |name: &str| {
        let (log, name) = (log.clone(), name.to_owned());
        start(Controller::<ConfigMap>::new(&client).informers(&informers).named(&name), move |object, _| {
            log.note(format!("{name} {}", object.key().name()));
            async { Ok(Next::done()) }
        })
    };
    let (first, second) = (run("share-1"), run("share-2"));
    create(&client, "a").await;
    settle().await;
    first.end().await.unwrap();
    create(&client, "b").await;
    settle().await;
    let mut lines = log.take();
    lines.sort();
    assert_eq!(lines, ["share-1 a", "share-2 a", "share-2 b"]);
    assert_eq!(informers.statuses().len(), 1);
    let contradiction = Controller::<ConfigMap>::new(&client).informers(&informers).labels("a=b").standby();
    assert!(matches!(contradiction, Err(ControllerError::InvalidConfig { .. })));
    informers.shutdown().await;
    let error = second.ended.await.unwrap().unwrap_err();
    assert!(matches!(error, ControllerError::InformerLost { .. }), "a controller that hears nothing says so");
    let ended = Controller::<ConfigMap>::new(&client).informers(&informers).standby();
    assert!(matches!(ended, Err(ControllerError::InformerStopped { .. })));
}

#[tokio::test(start_paused = true)]
async fn selectors_that_cannot_be_read_are_errors() {
    let server = server().await;
    let client = server.client();
    let built = controller(&client, "selectors").labels("!!").standby();
    assert!(matches!(built, Err(ControllerError::InvalidConfig { .. })));
}
