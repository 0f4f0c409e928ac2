use std::sync::{Arc, Mutex};

use evenkeel_client::Patch;

use super::*;
use crate::Context;

const OURS: &str = "example.com/ours";
const THEIRS: &str = "example.org/theirs";

fn names<K>(object: &Obj<K>) -> Vec<&str> {
    object.finalizers().collect()
}

fn ctx(client: &Client) -> Context {
    Context::detached(client, evenkeel_core::ObjectKey::namespaced("default", "a"))
}

async fn fresh(client: &Client, name: &str) -> Option<Obj<ConfigMap>> {
    client.api::<ConfigMap>().namespace("default").get(name).await.ok()
}

/// Adds the finalizer of another client.
async fn add_theirs(client: &Client, name: &str) {
    let object = fresh(client, name).await.unwrap();
    add_finalizer(client, &object, THEIRS).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_022_finalizers_of_others_are_never_lost() {
    let server = server().await;
    let client = server.client();
    let old = config_map(&client, "a", json!({})).await;
    add_theirs(&client, "a").await;
    let added = add_finalizer(&client, &old, OURS).await.unwrap().unwrap();
    assert_eq!(names(&added), [THEIRS, OURS]);
    assert!(contains_finalizer(&added, OURS));
    let again = add_finalizer(&client, &added, OURS).await.unwrap().unwrap();
    assert_eq!(again.resource_version(), added.resource_version(), "nothing was written");

    let removed = remove_finalizer(&client, &again, THEIRS).await.unwrap().unwrap();
    add_theirs(&client, "a").await;
    let removed = remove_finalizer(&client, &removed, OURS).await.unwrap().unwrap();
    assert_eq!(names(&removed), [THEIRS]);
    let again = remove_finalizer(&client, &removed, OURS).await.unwrap().unwrap();
    assert_eq!(again.resource_version(), removed.resource_version(), "nothing was written");
}

#[tokio::test(start_paused = true)]
async fn co_022_a_deleted_or_recreated_object_is_not_changed() {
    let server = server().await;
    let client = server.client();
    let maps = client.api::<ConfigMap>().namespace("default");
    let old = config_map(&client, "a", json!({"finalizers": [OURS]})).await;
    let bare = remove_finalizer(&client, &old, OURS).await.unwrap().unwrap();
    maps.delete("a").await.unwrap();
    assert!(add_finalizer(&client, &bare, OURS).await.unwrap().is_none());
    assert!(remove_finalizer(&client, &old, OURS).await.unwrap().is_none());
    config_map(&client, "a", json!({"finalizers": [OURS]})).await;
    assert!(add_finalizer(&client, &bare, THEIRS).await.unwrap().is_none());
    assert!(remove_finalizer(&client, &old, OURS).await.unwrap().is_none());
    assert_eq!(names(&fresh(&client, "a").await.unwrap()), [OURS]);
}

/// Finalizers that record their runs, some of which fail.
fn recording(fail: &'static [&'static str]) -> (Finalizers<ConfigMap>, Arc<Mutex<Vec<&'static str>>>) {
    let ran = Arc::new(Mutex::new(Vec::new()));
    let mut finalizers = Finalizers::new();
    for name in ["example.com/b", "example.com/a", "example.com/c"] {
        let ran = Arc::clone(&ran);
        let cleanup = move |object: Obj<ConfigMap>, _: Context| {
            let ran = Arc::clone(&ran);
            async move {
                assert_eq!(object.key().name(), "a");
                ran.lock().unwrap().push(name);
                if fail.contains(&name) { Err(format!("{name} is stuck").into()) } else { Ok(()) }
            }
        };
        finalizers.register(name, cleanup).unwrap();
    }
    (finalizers, ran)
}

#[tokio::test(start_paused = true)]
async fn co_021_finalizers_are_added_to_a_live_object() {
    let server = server().await;
    let client = server.client();
    let (finalizers, ran) = recording(&[]);
    let map = config_map(&client, "a", json!({"finalizers": [THEIRS, "example.com/a"]})).await;
    let Finalized::Live { object, updated: true } = finalizers.finalize(&ctx(&client), &map).await.unwrap() else {
        panic!()
    };
    assert_eq!(names(&object), [THEIRS, "example.com/a", "example.com/b", "example.com/c"]);
    let Finalized::Live { updated: false, .. } = finalizers.finalize(&ctx(&client), &object).await.unwrap() else {
        panic!()
    };
    assert!(ran.lock().unwrap().is_empty());
    assert_eq!(format!("{finalizers:?}"), r#"{"example.com/b", "example.com/a", "example.com/c"}"#);
}

#[tokio::test(start_paused = true)]
async fn co_021_cleanups_of_an_object_that_is_being_deleted_run_in_order() {
    let server = server().await;
    let client = server.client();
    let maps = client.api::<ConfigMap>().namespace("default");
    let (finalizers, ran) = recording(&[]);
    config_map(&client, "a", json!({"finalizers": [THEIRS, "example.com/a", "example.com/b"]})).await;
    maps.delete("a").await.unwrap();
    let map = fresh(&client, "a").await.unwrap();
    let Finalized::Deleting { object, updated: true } = finalizers.finalize(&ctx(&client), &map).await.unwrap() else {
        panic!()
    };
    assert_eq!(names(&object), [THEIRS]);
    assert_eq!(*ran.lock().unwrap(), ["example.com/b", "example.com/a"], "the object does not have finalizer c");
    let Finalized::Deleting { updated: false, .. } = finalizers.finalize(&ctx(&client), &object).await.unwrap() else {
        panic!()
    };
    remove_finalizer(&client, &object, THEIRS).await.unwrap();
    assert!(fresh(&client, "a").await.is_none());
    // A stale copy runs the cleanups again, and has nothing to write.
    assert!(matches!(finalizers.finalize(&ctx(&client), &map).await.unwrap(), Finalized::Deleted));
}

#[tokio::test(start_paused = true)]
async fn co_021_a_deletion_that_a_stale_copy_does_not_show_is_detected() {
    let server = server().await;
    let client = server.client();
    let (finalizers, ran) = recording(&[]);
    let old = config_map(&client, "a", json!({"finalizers": [THEIRS, "example.com/a"]})).await;
    client.api::<ConfigMap>().namespace("default").delete("a").await.unwrap();
    let done = finalizers.finalize(&ctx(&client), &old).await.unwrap();
    let Finalized::Deleting { object, updated: true } = done else { panic!("{done:?}") };
    assert_eq!(names(&object), [THEIRS]);
    assert_eq!(*ran.lock().unwrap(), ["example.com/a"]);
    let refused = add_finalizer(&client, &object, OURS).await.unwrap_err();
    assert!(refused.is_invalid(), "{refused}");
}

#[test]
fn finalizers_can_be_awaited_in_any_task() {
    fn assert_send<A: 'static, T: Send>(_: &impl Fn(&'static A, &'static Obj<ConfigMap>) -> T) {}
    let finalizers: &'static Finalizers<ConfigMap> = Box::leak(Box::default());
    assert_send(&|ctx: &Context, object| finalizers.finalize(ctx, object));
    assert_send(&|client: &Client, object| add_finalizer(client, object, OURS));
    assert_send(&|client: &Client, object| remove_finalizer(client, object, OURS));
}

#[tokio::test(start_paused = true)]
async fn co_021_all_failures_are_reported_and_block_no_other_cleanup() {
    let server = server().await;
    let client = server.client();
    let maps = client.api::<ConfigMap>().namespace("default");
    let (finalizers, ran) = recording(&["example.com/b", "example.com/c"]);
    let map = config_map(&client, "a", json!({})).await;
    finalizers.finalize(&ctx(&client), &map).await.unwrap();
    maps.delete("a").await.unwrap();
    let map = fresh(&client, "a").await.unwrap();
    let error = finalizers.finalize(&ctx(&client), &map).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cleanup of finalizer example.com/b failed: example.com/b is stuck; \
         cleanup of finalizer example.com/c failed: example.com/c is stuck"
    );
    assert_eq!(ran.lock().unwrap().len(), 3);
    assert_eq!(names(&fresh(&client, "a").await.unwrap()), ["example.com/b", "example.com/c"]);
}

#[test]
fn co_021_a_finalizer_is_registered_once_and_has_a_domain() {
    let (mut finalizers, _) = recording(&[]);
    let taken = finalizers.register("example.com/a", |_, _| async { Ok(()) }).unwrap_err();
    assert_eq!(taken, RegisterError::Taken { name: "example.com/a".into() });
    for name in ["", "plain", "/a", "example.com/"] {
        let refused = finalizers.register(name, |_, _| async { Ok(()) }).unwrap_err();
        assert_eq!(refused, RegisterError::Name { name: name.into() });
    }
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_patch_gives_up_after_five_conflicts() {
    let server = server().await;
    let client = server.client();
    let map = config_map(&client, "a", json!({})).await;
    server.faults().add(conflict());
    let error = add_finalizer(&client, &map, OURS).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    server.faults().clear();
    let maps = client.api::<ConfigMap>().namespace("default");
    maps.patch("a", &Patch::merge(&json!({"data": {"a": "b"}}))).await.unwrap();
    add_finalizer(&client, &map, OURS).await.unwrap().unwrap();
}
