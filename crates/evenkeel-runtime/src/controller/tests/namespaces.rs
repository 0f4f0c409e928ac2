//! Controllers of several namespaces.

use evenkeel_apiserver::Action;
use evenkeel_cache::informer::OnForbidden;
use evenkeel_core::Status;
use evenkeel_core::status::Reason;
use k8s_openapi::api::core::v1::Namespace;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio::sync::Semaphore;

use super::*;
use crate::controller::metrics::OUT_OF_SCOPE;
use crate::health::{Check, Health};

async fn create_in(client: &Client, namespace: &str, name: &str) {
    let map: ConfigMap = value(json!({"metadata": {"name": name}}));
    client.api::<ConfigMap>().namespace(namespace).create(&map).await.unwrap();
}

async fn create_namespace(client: &Client, name: &str) {
    client.api::<Namespace>().create(&value(json!({"metadata": {"name": name}}))).await.unwrap();
}

fn over(client: &Client, names: &[&str], on_forbidden: OnForbidden) -> InformerFactory {
    InformerFactory::builder(client).namespaces(names).on_forbidden(on_forbidden).build()
}

fn dropped(recorder: &DebuggingRecorder) -> u64 {
    let snapshot = recorder.snapshotter().snapshot().into_vec();
    let found = snapshot.into_iter().find(|(key, ..)| key.key().name() == OUT_OF_SCOPE);
    match found {
        Some((.., DebugValue::Counter(count))) => count,
        _ => panic!("the counter is exported"),
    }
}

#[tokio::test(start_paused = true)]
async fn ohc_017_queued_keys_of_a_removed_namespace_are_dropped_and_counted() {
    const KEYS: usize = 500;
    let recorder = DebuggingRecorder::new();
    let server = server().await;
    let client = server.client();
    create_namespace(&client, "other").await;
    create(&client, "first").await;
    let informers = over(&client, &["default"], OnForbidden::Fail);
    let (log, gate) = (Log::new(), Arc::new(Semaphore::new(0)));
    let built = Controller::<ConfigMap>::new(&client).named("ohc-017").informers(&informers).on_deleted({
        let log = log.clone();
        move |key, _| {
            log.note(format!("deleted {key}"));
            async { Ok(Next::done()) }
        }
    });
    let standby = ::metrics::with_local_recorder(&recorder, || built.standby().unwrap());
    let (shutdown, requested) = oneshot::channel::<()>();
    let ended = tokio::spawn(standby.lead(requested, {
        let (log, gate) = (log.clone(), Arc::clone(&gate));
        move |parent, _| {
            log.note(parent.key());
            let gate = Arc::clone(&gate);
            async move {
                gate.acquire().await.unwrap().forget();
                Ok(Next::done())
            }
        }
    }));
    settle().await;
    assert_eq!(log.take(), ["default/first"]);
    // The only worker is busy.
    for number in 0..KEYS {
        create_in(&client, "other", &format!("m{number:03}")).await;
    }
    let namespaces = informers.namespaces().unwrap();
    namespaces.add("other").await.unwrap();
    create(&client, "second").await;
    settle().await;
    namespaces.remove("other").await.unwrap();
    gate.add_permits(2);
    settle().await;
    assert_eq!(log.take(), ["default/second"], "no other key is reconciled, and none is deleted");
    assert_eq!(dropped(&recorder), KEYS as u64);

    // They are reconciled when the namespace returns.
    gate.add_permits(KEYS);
    namespaces.add("other").await.unwrap();
    settle().await;
    assert_eq!(log.take().len(), KEYS);
    let _ = shutdown.send(());
    ended.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn mns_008_a_controller_that_does_not_sync_names_the_namespace_and_the_reason() {
    let server = server().await;
    let client = server.client();
    let status = Status::failure(403, Reason::FORBIDDEN, "configmaps is forbidden: no role");
    server.faults().add(Rule::new(Action::Status(Box::new(status))).namespace("team-b"));
    let informers = over(&client, &["default", "team-b"], OnForbidden::Fail);
    let controller = Controller::<ConfigMap>::new(&client).named("mns-008").informers(&informers);
    let error = start(controller, |_, _| async { Ok(Next::done()) }).ended.await.unwrap().unwrap_err();
    assert!(matches!(error, ControllerError::SyncTimeout { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("configmaps") && text.contains("in team-b: forbidden: configmaps is forbidden"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn ohc_016_readiness_names_a_forbidden_namespace_until_it_can_be_read() {
    let server = server().await;
    let client = server.client();
    create_namespace(&client, "b").await;
    create(&client, "a").await;
    create_in(&client, "b", "late").await;
    let status = Status::failure(403, Reason::FORBIDDEN, "no role");
    let rule = server.faults().add(Rule::new(Action::Status(Box::new(status))).namespace("b"));
    let informers = over(&client, &["default", "b"], OnForbidden::Degrade);
    let maps = informers.of::<ConfigMap>();
    let health = Health::new();
    health.ready().add(Check::synced(&maps)).unwrap();
    health.ready().add(Check::namespaces(&maps)).unwrap();
    let log = Log::new();
    let running = start(Controller::<ConfigMap>::new(&client).named("ohc-016").informers(&informers), {
        let log = log.clone();
        move |parent, _| {
            log.note(parent.key());
            async { Ok(Next::done()) }
        }
    });
    settle().await;
    assert_eq!(log.take(), ["default/a"]);
    let failed = || async {
        let results = health.ready().run_all(&Default::default()).await;
        results.into_iter().filter_map(|result| result.failure).collect::<Vec<_>>()
    };
    assert_eq!(failed().await, ["namespace b is forbidden: no role"]);
    assert!(server.faults().remove(rule));
    pass(secs(60)).await;
    assert_eq!(log.take(), ["b/late"]);
    assert!(failed().await.is_empty());
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn ask_1_own_writes_are_awaited_in_their_namespace() {
    let server = server().await;
    let client = server.client();
    create_namespace(&client, "quiet").await;
    let informers = over(&client, &["default", "quiet"], OnForbidden::Fail);
    let log = Log::new();
    let running = start(Controller::<ConfigMap>::new(&client).named("ask-1-scoped").informers(&informers), {
        let log = log.clone();
        move |parent, ctx| {
            let number = log.len();
            log.note(parent.resource_version());
            async move {
                if number < 3 {
                    let patch = evenkeel_client::Patch::merge(&json!({"data": {"number": number.to_string()}}));
                    ctx.api::<ConfigMap>().namespace("default").patch(ctx.key().name(), &patch).await?;
                }
                Ok(Next::done())
            }
        }
    });
    settle().await;
    create(&client, "a").await;
    // The other namespace has no events, and its bookmarks are a minute away.
    pass(secs(1)).await;
    assert_eq!(log.take().len(), 4, "no key waits for the other namespace");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn byo_006_a_kind_that_is_not_declared_is_not_cached() {
    let server = server().await;
    let client = server.client();
    create(&client, "a").await;
    let log = Log::new();
    let running = start(controller(&client, "byo-006"), {
        let log = log.clone();
        move |_, ctx| {
            log.note(ctx.lister::<Secret>().is_err());
            async { Ok(Next::done()) }
        }
    });
    settle().await;
    assert_eq!(log.take(), ["true"]);
    assert!(!server.requests().iter().any(|request| request.path.contains("secrets")));
    running.end().await.unwrap();
}
