//! Sources that are added to a running controller, and removed.

use evenkeel_apiserver::Action;
use k8s_openapi::api::core::v1::Service;
use tokio::sync::Semaphore;

use super::*;

/// A source of secrets that enqueues the parent of the label `parent`, and records its calls.
fn mapped(log: &Log) -> Source<Secret> {
    let log = log.clone();
    Source::<Secret>::of().mapped(move |secret| {
        log.note(format!("map {}", secret.key().name()));
        secret.label("parent").map(key)
    })
}

async fn create_secret(client: &Client, name: &str, parent: &str) {
    let secret: Secret = value(json!({"metadata": {"name": name, "labels": {"parent": parent}}}));
    client.api::<Secret>().namespace("default").create(&secret).await.unwrap();
}

fn foos() -> Arc<ResourceInfo> {
    Arc::new(ResourceInfo::new("example.com", "v1", "Foo", "foos", true))
}

#[tokio::test(start_paused = true)]
async fn dwc_001_a_source_begins_with_the_controller_or_at_once() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    create_secret(&client, "s", "a").await;
    let built = controller(&client, "dwc-001");
    let handle = built.handle();
    let early = handle.watch(mapped(&log)).unwrap();
    assert!(!early.has_synced());
    assert_eq!(handle.not_ready(), ["the controller has not started"]);
    let running = start(built, {
        let log = log.clone();
        move |_, ctx| {
            log.note(format!("{} secrets", ctx.lister::<Secret>().unwrap().list_all().len()));
            async { Ok(Next::done()) }
        }
    });
    early.synced().await.unwrap();
    settle().await;
    assert_eq!(log.take(), ["map s", "1 secrets"], "no worker starts before it has synced");

    let late = handle.watch(mapped(&log)).unwrap();
    late.synced().await.unwrap();
    assert!(late.has_synced() && handle.not_ready().is_empty());
    settle().await;
    assert_eq!(log.take(), ["map s", "1 secrets"], "it receives what is stored");
    create_secret(&client, "t", "a").await;
    settle().await;
    assert_eq!(log.take(), ["map t", "map t", "2 secrets"], "both map it");
    running.end().await.unwrap();
    assert_eq!(handle.not_ready(), ["the controller has ended"]);
    assert!(matches!(handle.watch(mapped(&log)), Err(ControllerError::Ended { .. })));
    assert!(matches!(late.synced().await, Err(ControllerError::SourceRemoved { .. })));
}

#[tokio::test(start_paused = true)]
async fn dwc_002_a_kind_that_is_not_served_fails_with_the_cause() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    let remedy = "install the CustomResourceDefinition foos.example.com with version v1";
    let built = controller(&client, "dwc-002").source(Source::dynamic(&foos()));
    let error = start(built, |_, _| async { Ok(Next::done()) }).ended.await.unwrap().unwrap_err();
    assert!(matches!(error, ControllerError::SyncTimeout { .. }) && error.to_string().ends_with(remedy), "{error}");

    let built = controller(&client, "dwc-002-late");
    let handle = built.handle();
    let running = recording(built, &log);
    settle().await;
    let watch = handle.watch(Source::dynamic(&foos())).unwrap();
    let error = watch.synced().await.unwrap_err();
    assert!(matches!(error, ControllerError::SyncTimeout { .. }) && error.to_string().ends_with(remedy), "{error}");
    assert_eq!(handle.not_ready().len(), 1);
    create(&client, "a").await;
    settle().await;
    assert_eq!(log.take(), ["default/a"], "the controller continues");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dwc_005_a_removed_source_is_not_called_and_its_informer_ends_with_its_last_user() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    let informers = InformerFactory::builder(&client).namespace("default").build();
    let shared = |name: &str| Controller::<ConfigMap>::new(&client).informers(&informers).named(name);
    let (first, second) = (shared("dwc-005-1"), shared("dwc-005-2"));
    let (one, two) = (first.handle(), second.handle());
    let (first, second) = (recording(first, &Log::new()), recording(second, &Log::new()));
    let other = Log::new();
    let (watch, kept) = (one.watch(mapped(&log)).unwrap(), two.watch(mapped(&other)).unwrap());
    watch.synced().await.unwrap();
    kept.synced().await.unwrap();
    let secrets = informers.of::<Secret>();
    create_secret(&client, "s", "a").await;
    settle().await;
    assert_eq!((log.take().len(), other.take().len()), (1, 1));
    create_secret(&client, "t", "a").await;
    watch.remove();
    watch.remove();
    settle().await;
    assert_eq!((log.len(), other.take().len()), (0, 1), "no call starts after the removal");
    assert!(!secrets.is_stopped(), "another controller uses it");
    assert!(matches!(watch.synced().await, Err(ControllerError::SourceRemoved { .. })));

    drop(kept);
    settle().await;
    assert!(secrets.is_stopped(), "dropping the handle removes the source");
    create_secret(&client, "u", "a").await;
    settle().await;
    assert_eq!((log.len(), other.len()), (0, 0));
    let names: Vec<_> = informers.statuses().into_iter().map(|status| status.name).collect();
    assert_eq!(names, ["configmaps"]);

    one.watch(mapped(&log)).unwrap().detach();
    settle().await;
    assert_eq!(log.take().len(), 3, "a detached source stays, with an informer of its own");
    first.end().await.unwrap();
    second.end().await.unwrap();
    assert!(informers.statuses().is_empty());
}

#[tokio::test(start_paused = true)]
async fn dwc_005_a_controller_that_ends_stops_no_informer_of_another_one() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    let informers = InformerFactory::builder(&client).namespace("default").build();
    let shared = |name: &str| Controller::<ConfigMap>::new(&client).informers(&informers).named(name);
    let (first, second) = (recording(shared("dwc-005-a"), &Log::new()), recording(shared("dwc-005-b"), &log));
    settle().await;
    first.end().await.unwrap();
    create(&client, "a").await;
    settle().await;
    assert_eq!(log.take(), ["default/a"], "though the first one had started the informer");
    second.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dwc_006_keys_of_a_removed_source_are_reconciled_and_the_lister_errs() {
    let server = server().await;
    let (client, log, gate) = (server.client(), Log::new(), Arc::new(Semaphore::new(0)));
    for name in ["a", "b", "c"] {
        create(&client, name).await;
    }
    let built = controller(&client, "dwc-006");
    let handle = built.handle();
    let running = start(built, {
        let (log, gate) = (log.clone(), Arc::clone(&gate));
        move |object, ctx| {
            let (log, gate) = (log.clone(), Arc::clone(&gate));
            async move {
                gate.acquire().await.unwrap().forget();
                let found = match ctx.lister::<Secret>() {
                    Ok(secrets) => format!("{} secrets", secrets.list_all().len()),
                    Err(error) => error.to_string(),
                };
                log.note(format!("{}: {found}", object.key().name()));
                Ok(Next::done())
            }
        }
    });
    gate.add_permits(3);
    pass(secs(1)).await;
    log.take();
    let watch = handle.watch(mapped(&Log::new())).unwrap();
    watch.synced().await.unwrap();
    create_secret(&client, "s", "a").await;
    create_secret(&client, "t", "b").await;
    settle().await;
    // The only worker has `a` and waits, `b` is queued.
    watch.remove();
    create_secret(&client, "u", "c").await;
    gate.add_permits(10);
    settle().await;
    let unknown = "controller dwc-006 does not watch Secret: add it with `owns`, `watches` or `reads`";
    assert_eq!(log.take(), [format!("a: {unknown}"), format!("b: {unknown}")]);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dwc_006_a_key_does_not_wait_for_the_writes_of_a_kind_that_is_not_watched_any_more() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    create_secret(&client, "s", "a").await;
    let built = controller(&client, "dwc-006-writes");
    let handle = built.handle();
    let watch = handle.watch(Source::<Secret>::of()).unwrap();
    let running = start(built, {
        let log = log.clone();
        move |_, ctx| {
            let before = log.note("run");
            async move {
                if before == 1 {
                    ctx.api::<Secret>().namespace("default").delete("s").await?;
                }
                Ok(Next::done())
            }
        }
    });
    pass(secs(1)).await;
    server.faults().add(Rule::watch(WatchAction::StallFor { event: 0, duration: secs(60) }).resource("secrets"));
    touch(&client, "a", 1).await;
    settle().await;
    touch(&client, "a", 2).await;
    pass(secs(1)).await;
    assert_eq!(log.len(), 2, "the key is parked until the cache shows the deletion");
    watch.remove();
    settle().await;
    assert_eq!(log.len(), 3);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dwc_010_a_trigger_holds_each_key_once_never_blocks_and_never_closes() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    let trigger = Trigger::new();
    let busy = start(controller(&client, "dwc-010-busy").triggered_by(&trigger), |_, _| std::future::pending());
    let running = recording(controller(&client, "dwc-010").triggered_by(&trigger), &log);
    settle().await;
    log.take();
    for _ in 0..2000 {
        trigger.reconcile(key("a"));
    }
    settle().await;
    assert_eq!(log.take(), ["default/a"], "one reconcile, and the busy controller delays nothing");
    drop(busy);
    settle().await;
    trigger.reconcile(key("a"));
    settle().await;
    assert_eq!(log.take(), ["default/a"]);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dwc_011_a_source_has_synced_when_its_initial_list_is_handled() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    create_secret(&client, "s", "a").await;
    let built = controller(&client, "dwc-011");
    let handle = built.handle();
    let running = recording(built, &log);
    settle().await;
    server.faults().add(Rule::new(Action::Delay(secs(20))).resource("secrets").times(1));
    let watch = handle.watch(mapped(&log)).unwrap();
    log.take();
    pass(secs(10)).await;
    assert!(!watch.has_synced() && log.len() == 0);
    watch.synced().await.unwrap();
    assert_eq!(log.take()[0], "map s");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dwc_012_sources_start_in_parallel_under_one_limit() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    for resource in ["configmaps", "secrets", "services"] {
        server.faults().add(Rule::new(Action::Delay(secs(25))).resource(resource).times(1));
    }
    let built = controller(&client, "dwc-012").owns::<Secret>().owns::<Service>().sync_timeout(secs(40));
    let running = recording(built, &log);
    pass(secs(24)).await;
    assert_eq!(log.len(), 0, "workers begin when all have synced");
    pass(secs(2)).await;
    assert_eq!(log.take(), ["default/a"], "the delays do not add up");
    running.end().await.unwrap();

    server.faults().add(Rule::new(Action::Hang).resource("services"));
    let built = controller(&client, "dwc-012-late").owns::<Secret>().owns::<Service>();
    let started = Instant::now();
    let error = recording(built, &log).ended.await.unwrap().unwrap_err().to_string();
    assert_eq!(started.elapsed(), secs(120));
    assert!(error.contains("services") && !error.contains("secrets") && log.len() == 0, "{error}");
}
