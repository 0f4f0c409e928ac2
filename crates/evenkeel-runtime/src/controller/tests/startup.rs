//! The start of controllers.

use evenkeel_apiserver::{Action, Rule};
use evenkeel_cache::InformerFactory;

use super::*;

#[tokio::test(start_paused = true)]
async fn program_3_a_controller_in_a_few_lines() {
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
async fn co_008_no_worker_starts_before_every_handler_has_synced() {
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
    assert_eq!(log.len(), 1, "one reconcile for the object and its child");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_008_a_sync_timeout_names_the_informer_and_its_last_error() {
    let server = server().await;
    let client = server.client();
    server.faults().add(Faulty::secrets());
    let started = Instant::now();
    let running = start(controller(&client, "co-008-late").owns::<Secret>(), |_, _| async { Ok(Next::done()) });
    let error = running.ended.await.unwrap().unwrap_err();
    assert_eq!(started.elapsed(), secs(120));
    let text = error.to_string();
    assert!(text.contains("co-008-late") && text.contains("secrets") && !text.contains("configmaps"), "{text}");
    assert!(text.contains("out of service"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn co_008_a_shutdown_before_the_sync_is_no_error() {
    let server = server().await;
    let client = server.client();
    server.faults().add(Faulty::secrets());
    let running = start(controller(&client, "co-008-end").owns::<Secret>(), |_, _| async { Ok(Next::done()) });
    pass(secs(10)).await;
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_040_a_kind_that_is_not_served_is_named_with_the_remedy() {
    let server = server().await;
    let client = server.client();
    let foos = Arc::new(ResourceInfo::new("example.com", "v1", "Foo", "foos", true));
    let built = Controller::dynamic(&client, &foos).named("co-040").sync_timeout(secs(10));
    let error = built.run(pass(secs(60)), |_, _| async { Ok(Next::done()) }).await.unwrap_err().to_string();
    let start = "controller co-040: caches not synced within 10s: co-040/foos.example.com: ";
    let remedy =
        "foos.example.com is not served: install the CustomResourceDefinition foos.example.com with version v1";
    assert!(error.starts_with(start) && error.ends_with(remedy), "{error}");

    let error = client.dynamic(&foos).namespace("default").get("a").await.unwrap_err().to_string();
    assert!(error.ends_with(remedy), "{error}");
    let error = client.dynamic(&foos).get("a").await.unwrap_err().to_string();
    assert!(error.ends_with("add `.namespace(…)`"), "{error}");
    let error = client.api::<Secret>().namespace("default").get("a").await.unwrap_err().to_string();
    assert!(error.ends_with("secrets \"a\" not found"), "{error}");
}

/// Fails all requests for secrets.
struct Faulty;

impl Faulty {
    fn secrets() -> Rule {
        let status = serde_json::from_value(json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500, "message": "out of service",
            "reason": "InternalError"
        }));
        Rule::new(Action::Status(Box::new(status.unwrap()))).resource("secrets")
    }
}

#[tokio::test(start_paused = true)]
async fn co_009_names_are_unique_and_released() {
    let server = server().await;
    let client = server.client();
    let first = controller(&client, "co-009").standby().unwrap();
    let second = controller(&client, "co-009").standby().unwrap();
    assert_eq!((first.name(), second.name()), ("co-009", "co-009-2"));
    drop(first);
    settle().await;
    assert_eq!(controller(&client, "co-009").standby().unwrap().name(), "co-009");
    let secrets = Controller::<Secret>::new(&client).standby().unwrap();
    assert!(secrets.name().starts_with("secret"), "the kind is the default name");
}

#[tokio::test(start_paused = true)]
async fn co_010_a_standby_has_filled_caches_and_queue_and_starts_at_once() {
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
    let (shutdown, requested) = oneshot::channel::<()>();
    let leading = tokio::spawn(standby.lead(requested, {
        let log = log.clone();
        move |object, _| {
            log.note(object.key().name());
            async { Ok(Next::done()) }
        }
    }));
    settle().await;
    assert_eq!(log.take(), ["later", "p0", "p1", "p2", "p3", "p4"], "changes precede the initial list");
    let _ = shutdown.send(());
    leading.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_010_lead_waits_for_the_sync() {
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
async fn a_controller_does_not_stop_shared_informers() {
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
    let _maps = informers.of::<ConfigMap>();
    let running = informers.start();
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
    running.drain().await;
    let error = second.ended.await.unwrap().unwrap_err();
    assert!(matches!(error, ControllerError::InformerLost { .. }), "a controller without events returns an error");
    let another = Controller::<ConfigMap>::new(&client).informers(&informers).standby().unwrap();
    another.ready().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_invalid_selector_is_an_error() {
    let server = server().await;
    let client = server.client();
    let built = controller(&client, "selectors").labels("!!").standby();
    assert!(matches!(built, Err(ControllerError::InvalidConfig { .. })));
    let built = controller(&client, "selectors").fields("spec.nodeName").standby();
    assert!(matches!(built, Err(ControllerError::InvalidConfig { .. })));
}
