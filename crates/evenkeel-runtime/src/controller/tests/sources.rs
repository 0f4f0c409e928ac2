//! Which events enqueue which keys.

use super::predicate::{generation_changed, resource_version_changed};
use super::*;

/// Starts a controller that records the reconciled parents in order.
fn logging<K: 'static>(controller: Controller<K>) -> (Log, Running) {
    let log = Log::new();
    let running = start(controller, {
        let log = log.clone();
        move |object: Obj<K>, _| {
            log.note(object.key().name());
            async { Ok(Next::done()) }
        }
    });
    (log, running)
}

#[tokio::test(start_paused = true)]
async fn co_012_an_event_of_a_child_enqueues_the_parent_that_controls_it() {
    let server = server().await;
    let client = server.client();
    let (a, _) = (create(&client, "a").await, create(&client, "b").await);
    let (log, running) = logging(controller(&client, "co-012").owns::<Secret>());
    pass(secs(1)).await;
    log.take();
    let secrets = client.api::<Secret>().namespace("default");
    secrets.create(&child("c", &a)).await.unwrap();
    settle().await;
    assert_eq!(log.take(), ["a"]);
    let mut not_controlled = child("d", &a);
    not_controlled.metadata.owner_references.as_mut().unwrap()[0].controller = None;
    secrets.create(&not_controlled).await.unwrap();
    settle().await;
    assert_eq!(log.len(), 0);
    running.end().await.unwrap();

    let (log, running) = logging(controller(&client, "co-012-any").source(Source::<Secret>::of().owned_by_any()));
    pass(secs(1)).await;
    log.take();
    secrets.delete("d").await.unwrap();
    settle().await;
    assert_eq!(log.take(), ["a"]);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_012_an_event_of_a_watched_object_enqueues_the_mapped_keys() {
    let server = server().await;
    let client = server.client();
    create(&client, "a").await;
    let keys = |secret: &Obj<Secret>| secret.label("for").map(key);
    let (log, running) = logging(controller(&client, "co-012-map").watches(keys).reads::<Secret>());
    pass(secs(1)).await;
    log.take();
    let secrets = client.api::<Secret>().namespace("default");
    for labels in [json!({"for": "a"}), json!({})] {
        let secret: Secret = value(json!({"metadata": {"generateName": "s-", "labels": labels}}));
        secrets.create(&secret).await.unwrap();
    }
    settle().await;
    assert_eq!(log.take(), ["a"]);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_013_changes_are_reconciled_before_the_backlog() {
    let server = server().await;
    let client = server.client();
    for number in 0..20 {
        create(&client, &format!("p{number:02}")).await;
    }
    let log = Log::new();
    let running = start(controller(&client, "co-013"), {
        let log = log.clone();
        move |object, _| {
            log.note(object.key().name());
            async {
                pass(secs(1)).await;
                Ok(Next::done())
            }
        }
    });
    pass(ms(500)).await;
    touch(&client, "p19", 1).await;
    pass(secs(30)).await;
    assert_eq!(log.take()[..2], ["p00", "p19"]);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_014_all_predicates_must_accept_an_event() {
    let server = server().await;
    let client = server.client();
    let named = |event: &evenkeel_cache::Event<ConfigMap>| event.key().name() != "ignored";
    let built = controller(&client, "co-014").when(resource_version_changed()).when(named).resync(secs(60));
    let (log, running) = logging(built);
    create(&client, "a").await;
    create(&client, "ignored").await;
    pass(secs(600)).await;
    assert_eq!(log.take(), ["a"], "resyncs change nothing");
    touch(&client, "a", 1).await;
    settle().await;
    assert_eq!(log.take(), ["a"]);
    running.end().await.unwrap();

    let (log, running) = logging(controller(&client, "co-014-generation").when(generation_changed()));
    pass(secs(1)).await;
    log.take();
    touch(&client, "a", 2).await;
    settle().await;
    assert_eq!(log.len(), 0, "this kind has no generation");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_selected_objects_are_reconciled() {
    let server = server().await;
    let client = server.client();
    for (name, labels) in [("a", json!({"app": "web"})), ("b", json!({}))] {
        let parent: ConfigMap = value(json!({"metadata": {"name": name, "labels": labels}}));
        client.api::<ConfigMap>().namespace("default").create(&parent).await.unwrap();
    }
    let (log, running) = logging(controller(&client, "selected").labels("app=web"));
    pass(secs(1)).await;
    assert_eq!(log.take(), ["a"]);
    running.end().await.unwrap();
    let (log, running) = logging(controller(&client, "selected").fields("metadata.name=b"));
    pass(secs(1)).await;
    assert_eq!(log.take(), ["b"]);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_016_a_source_can_watch_metadata_only() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    let a = create(&client, "a").await;
    let (secrets, configs) = (client.resource::<Secret>(), client.resource::<ConfigMap>());
    let built = Controller::metadata(&client, &configs).namespace("default").named("co-016");
    let running = start(built.labels("!other").source(Source::metadata::<Secret>().owned()), {
        let log = log.clone();
        move |parent, ctx| {
            let (log, secrets) = (log.clone(), secrets.clone());
            async move {
                let seen = ctx.lister_of::<PartialObjectMetadata>(&secrets)?.list_all();
                log.note(format!(
                    "{} with {:?}",
                    parent.key().name(),
                    seen.first().map(|secret| secret.path("data").unwrap().is_some())
                ));
                assert!(ctx.lister::<Secret>().is_err() && ctx.lister_of::<Unstructured>(&secrets).is_err());
                if seen.is_empty() {
                    let child: Secret = value(json!({
                        "metadata": {"generateName": "c-", "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap",
                            "name": parent.key().name(), "uid": parent.uid(), "controller": true}]},
                        "data": {"a": "YQ=="}
                    }));
                    ctx.api::<Secret>().namespace("default").create(&child).await?;
                }
                Ok(Next::done())
            }
        }
    });
    pass(secs(1)).await;
    touch(&client, a.key().name(), 1).await;
    pass(secs(1)).await;
    let lines = log.take();
    assert_eq!(lines[0], "a with None");
    assert!(lines.len() > 1 && lines[1..].iter().all(|line| line == "a with Some(false)"), "{lines:?}");
    assert_eq!(children(&client).await["a"], 1);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dynamic_kinds_work_like_static_ones() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    let a = create(&client, "a").await;
    let info = |kind, plural| Arc::new(ResourceInfo::new("", "v1", kind, plural, true));
    let (configs, secrets) = (info("ConfigMap", "configmaps"), info("Secret", "secrets"));
    let built = Controller::dynamic(&client, &configs).named("dynamic").fields("metadata.name=a");
    let running = start(built.source(Source::dynamic(&secrets).owned()), {
        let (log, configs, secrets) = (log.clone(), configs.clone(), secrets.clone());
        move |parent, ctx| {
            log.note(parent.key().name());
            let (configs, secrets) = (configs.clone(), secrets.clone());
            async move {
                assert_eq!(ctx.lister_of::<Unstructured>(&configs)?.list_all().len(), 1);
                if ctx.lister_of::<Unstructured>(&secrets)?.get(key("c")).is_some() {
                    ctx.dynamic(&secrets).namespace("default").delete("c").await?;
                }
                Ok(Next::done())
            }
        }
    });
    settle().await;
    assert_eq!(log.take(), ["a"]);
    client.api::<Secret>().namespace("default").create(&child("c", &a)).await.unwrap();
    pass(secs(1)).await;
    assert_eq!(log.take(), ["a", "a"], "added and deleted");
    assert!(children(&client).await.is_empty());
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_011_a_trigger_enqueues_keys() {
    let server = server().await;
    let client = server.client();
    create(&client, "a").await;
    create(&client, "b").await;
    let trigger = Trigger::new();
    trigger.reconcile(key("b"));
    trigger.reconcile(key("b"));
    let (log, running) = logging(controller(&client, "co-011").triggered_by(&trigger));
    pass(secs(1)).await;
    assert_eq!(log.take(), ["b", "a"], "a triggered key precedes the backlog, and is reconciled once");
    trigger.reconcile(key("a"));
    trigger.reconcile_all([key("b"), key("missing")], evenkeel_queue::AddOptions::new().after(secs(5)));
    settle().await;
    assert_eq!(log.take(), ["a"]);
    pass(secs(6)).await;
    assert_eq!(log.take(), ["b"]);
    running.end().await.unwrap();
    trigger.reconcile(key("b"));
    let (log, running) = logging(controller(&client, "co-011").triggered_by(&trigger));
    pass(secs(1)).await;
    assert_eq!(log.take()[0], "b", "no key is lost between two runs");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_lister_of_an_unwatched_kind_is_an_error_that_names_it() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    let running = start(controller(&client, "unknown"), {
        let log = log.clone();
        move |_, ctx| {
            log.note(ctx.lister::<Secret>().unwrap_err());
            async { Ok(Next::done()) }
        }
    });
    pass(secs(1)).await;
    assert_eq!(log.take(), ["controller unknown does not watch Secret: add it with `owns`, `watches` or `reads`"]);
    running.end().await.unwrap();
}
