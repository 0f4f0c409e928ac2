//! Objects that others refer to by name.

use super::*;

/// A parent that refers to secrets.
fn referring(name: &str, secrets: &[&str]) -> ConfigMap {
    value(json!({"metadata": {"namespace": "default", "name": name}, "data": {"secrets": secrets.join(",")}}))
}

fn secret_names(map: &Obj<ConfigMap>) -> Vec<String> {
    let names = map.path("data.secrets").ok().flatten();
    names.map(|names| names.text().split(',').map(str::to_owned).collect()).unwrap_or_default()
}

fn logging(controller: Controller<ConfigMap>) -> (Log, Running) {
    let log = Log::new();
    let running = start(controller, {
        let log = log.clone();
        move |map: Obj<ConfigMap>, _| {
            log.note(map.key().name());
            async { Ok(Next::done()) }
        }
    });
    (log, running)
}

async fn write_secret(client: &Client, name: &str, text: &str) {
    let secrets = client.api::<Secret>().namespace("default");
    let secret: Secret = value(json!({"metadata": {"name": name}, "stringData": {"text": text}}));
    if secrets.create(&secret).await.is_err() {
        let patch = evenkeel_client::Patch::merge(&json!({"stringData": {"text": text}}));
        secrets.patch(name, &patch).await.unwrap();
    }
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn co_038_a_changed_object_enqueues_exactly_those_that_refer_to_it() {
    let server = server().await;
    let client = server.client();
    let maps = client.api::<ConfigMap>().namespace("default");
    for map in [referring("a", &["s1", "s2"]), referring("b", &["s2"]), parent("c")] {
        maps.create(&map).await.unwrap();
    }
    let (log, running) = logging(controller(&client, "co-038").references(Source::<Secret>::of(), secret_names));
    pass(secs(1)).await;
    log.take();
    write_secret(&client, "s1", "created after the reference").await;
    assert_eq!(log.take(), ["a"]);
    write_secret(&client, "s2", "1").await;
    write_secret(&client, "unrelated", "1").await;
    assert_eq!(log.take(), ["a", "b"]);
    write_secret(&client, "s2", "2").await;
    assert_eq!(log.take(), ["a", "b"]);
    client.api::<Secret>().namespace("default").delete("s1").await.unwrap();
    settle().await;
    assert_eq!(log.take(), ["a"]);

    maps.update(&referring("a", &["unrelated"])).await.unwrap();
    settle().await;
    assert_eq!(log.take(), ["a"], "its own change");
    write_secret(&client, "s2", "3").await;
    write_secret(&client, "unrelated", "2").await;
    assert_eq!(log.take(), ["b", "a"], "by the reference that it has now");
    maps.delete("a").await.unwrap();
    settle().await;
    write_secret(&client, "unrelated", "3").await;
    assert_eq!(log.len(), 0);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_038_references_may_be_keys_and_the_source_metadata_only() {
    let server = server().await;
    let client = server.client();
    let other: k8s_openapi::api::core::v1::Namespace = value(json!({"metadata": {"name": "other"}}));
    client.api::<k8s_openapi::api::core::v1::Namespace>().create(&other).await.unwrap();
    create(&client, "a").await;
    let keys = |_: &Obj<ConfigMap>| [ObjectKey::namespaced("other", "s")];
    let built =
        Controller::<ConfigMap>::new(&client).named("co-038-keys").references(Source::metadata::<Secret>(), keys);
    let (log, running) =
        logging(built.when(|event: &evenkeel_cache::Event<ConfigMap>| event.key().name() != "ignored"));
    pass(secs(1)).await;
    create(&client, "ignored").await;
    log.take();
    write_secret(&client, "s", "in default").await;
    assert_eq!(log.len(), 0);
    let secret: Secret = value(json!({"metadata": {"name": "s"}}));
    client.api::<Secret>().namespace("other").create(&secret).await.unwrap();
    settle().await;
    assert_eq!(log.take(), ["a", "ignored"], "predicates of the own kind do not hide references");
    running.end().await.unwrap();
}
