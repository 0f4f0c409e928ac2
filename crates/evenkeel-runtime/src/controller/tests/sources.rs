//! Which events mean which keys.

use super::predicate::{generation_changed, resource_version_changed};
use super::*;

/// Which parents were reconciled, in their order.
fn logging<K: Kind + Send>(controller: Controller<K>) -> (Log, Running) {
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
async fn co_012_what_happens_to_a_child_is_about_the_parent_that_controls_it() {
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
    let mut merely_owned = child("d", &a);
    merely_owned.metadata.owner_references.as_mut().unwrap()[0].controller = None;
    secrets.create(&merely_owned).await.unwrap();
    settle().await;
    assert_eq!(log.len(), 0);
    running.end().await.unwrap();

    let (log, running) = logging(controller(&client, "co-012-any").source(Source::<Secret>::owned().by_any_owner()));
    pass(secs(1)).await;
    log.take();
    secrets.delete("d").await.unwrap();
    settle().await;
    assert_eq!(log.take(), ["a"]);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_012_what_happens_to_what_is_watched_is_about_what_the_function_says() {
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
async fn co_013_what_changes_is_reconciled_before_the_backlog() {
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
async fn co_014_predicates_choose_among_events_and_all_of_them_must_accept() {
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
async fn only_what_selectors_choose_is_reconciled() {
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
async fn a_kind_that_is_not_looked_at_is_an_error_that_says_so() {
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
    assert_eq!(log.take(), ["controller unknown does not look at Secret: say so with `owns`, `watches` or `reads`"]);
    running.end().await.unwrap();
}
