//! Which objects are collected: owners that are absent, of other kinds, in other namespaces, or not served.

use serde_json::{Value, json};

use super::*;
use crate::api::{Api, version};

#[tokio::test]
async fn gcx_001_an_owner_is_removed_before_its_dependents() {
    let api = Api::start().await;
    let top = api.made(MAPS, &map("top", &[])).await;
    let middle = api.made(MAPS, &map("middle", &[owner(&top)])).await;
    api.made(MAPS, &map("bottom", &[owner(&middle)])).await;
    let mut watch = api.watch(MAPS).await;
    api.delete_by(&format!("{MAPS}/top"), "Background").await;
    let events = watch.events();
    let seen: Vec<(&str, &str)> = events
        .iter()
        .map(|event| (event["type"].as_str().unwrap(), event["object"]["metadata"]["name"].as_str().unwrap()))
        .collect();
    assert_eq!(seen, [("DELETED", "top"), ("DELETED", "middle"), ("DELETED", "bottom")]);
    let revisions: Vec<u64> = events.iter().map(|event| version(&event["object"])).collect();
    assert!(revisions.is_sorted(), "{revisions:?}");
}

#[tokio::test]
async fn gcx_006_an_owner_that_a_user_holds_keeps_its_dependents() {
    let api = Api::start().await;
    let top = api.made(MAPS, &hold(map("top", &[]))).await;
    api.made(MAPS, &map("child", &[blocking(&top)])).await;
    api.delete_by(&format!("{MAPS}/top"), "Background").await;
    assert!(api.exists(&format!("{MAPS}/child")).await, "the owner exists");
    api.made(MAPS, &map("late", &[owner(&top)])).await;
    assert!(api.exists(&format!("{MAPS}/late")).await);
    api.release(&format!("{MAPS}/top")).await;
    for name in ["top", "child", "late"] {
        assert!(!api.exists(&format!("{MAPS}/{name}")).await, "{name}");
    }
}

#[tokio::test]
async fn gcx_007_an_object_without_living_owners_is_accepted_and_collected() {
    let api = Api::start().await;
    let mut watch = api.watch(MAPS).await;
    api.made(MAPS, &map("lost", &[absent("x"), absent("y")])).await;
    api.get(&format!("{MAPS}/lost")).await.refusal(404, "NotFound");
    assert_eq!(watch.types(), "ADDED DELETED");
    let dry = api.post(&format!("{MAPS}?dryRun=All"), &map("lost", &[absent("x")])).await;
    dry.expect(201);
    assert_eq!(watch.types(), "");

    // The same by update, by patch and by apply.
    let top = api.made(MAPS, &map("top", &[])).await;
    for (name, way) in [("put", 0), ("patch", 1), ("apply", 2)] {
        let mut child = api.made(MAPS, &map(name, &[owner(&top)])).await;
        let path = format!("{MAPS}/{name}");
        let response = match way {
            0 => {
                child["metadata"]["ownerReferences"] = json!([absent("z")]);
                api.put(&path, &child).await
            }
            1 => api.patch(&path, &json!({"metadata": {"ownerReferences": [absent("z")]}})).await,
            _ => {
                api.patch(&path, &json!({"metadata": {"ownerReferences": null}})).await.expect(200);
                api.apply(&format!("{path}?fieldManager=me"), &map(name, &[absent("z")])).await
            }
        };
        response.expect(200);
        assert!(!api.exists(&path).await, "{name}");
    }
}

#[tokio::test]
async fn gc_1_an_owner_with_another_uid_is_absent() {
    let api = Api::start().await;
    let first = api.made(MAPS, &map("top", &[])).await;
    api.made(MAPS, &map("child", &[owner(&first)])).await;
    let mut impostor = owner(&first);
    impostor["uid"] = json!("00000000-0000-4000-8000-000000000000");
    api.made(MAPS, &map("mistaken", &[impostor])).await;
    assert!(!api.exists(&format!("{MAPS}/mistaken")).await);
    let mut renamed = owner(&first);
    renamed["name"] = json!("other");
    api.made(MAPS, &map("renamed", &[renamed])).await;
    assert!(!api.exists(&format!("{MAPS}/renamed")).await);
    let mut of_other_kind = owner(&first);
    of_other_kind["kind"] = json!("Secret");
    api.made(MAPS, &map("other-kind", &[of_other_kind])).await;
    assert!(!api.exists(&format!("{MAPS}/other-kind")).await);
    assert!(api.exists(&format!("{MAPS}/child")).await);
}

#[tokio::test]
async fn gc_2_a_dependent_with_another_owner_loses_the_dangling_reference() {
    let api = Api::start().await;
    let first = api.made(MAPS, &map("first", &[])).await;
    let second =
        api.made(SECRETS, &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "second"}})).await;
    api.made(MAPS, &map("child", &[owner(&first), owner(&second), absent("third")])).await;
    let child = api.get(&format!("{MAPS}/child")).await.expect(200);
    assert_eq!(owner_names(&child), ["first", "second"]);
    api.delete(&format!("{MAPS}/first")).await.expect(200);
    let child = api.get(&format!("{MAPS}/child")).await.expect(200);
    assert_eq!(owner_names(&child), ["second"]);
    api.delete(&format!("{SECRETS}/second")).await.expect(200);
    assert!(!api.exists(&format!("{MAPS}/child")).await);
}

#[tokio::test]
async fn gc_2_a_collected_object_passes_its_own_policy_on() {
    let api = Api::start().await;
    for (finalizer, survives) in [("orphan", true), ("foregroundDeletion", false)] {
        let top = api.made(MAPS, &map("top", &[])).await;
        let mut middle = map("middle", &[owner(&top)]);
        middle["metadata"]["finalizers"] = json!([finalizer]);
        let middle = api.made(MAPS, &middle).await;
        api.made(MAPS, &map("bottom", &[owner(&middle)])).await;
        api.delete_by(&format!("{MAPS}/top"), "Background").await;
        assert!(!api.exists(&format!("{MAPS}/middle")).await);
        assert_eq!(api.exists(&format!("{MAPS}/bottom")).await, survives, "{finalizer}");
        if survives {
            let bottom = api.get(&format!("{MAPS}/bottom")).await.expect(200);
            assert_eq!(owner_names(&bottom), Vec::<&str>::new());
            api.delete(&format!("{MAPS}/bottom")).await.expect(200);
        }
    }
}

#[tokio::test]
async fn gc_5_a_cluster_scoped_object_of_a_namespaced_owner_is_kept() {
    let api = Api::start().await;
    let top = api.made(MAPS, &map("top", &[])).await;
    let namespace = |name: &str, reference: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "ownerReferences": [reference]}});
    api.made(NAMESPACES, &namespace("child", owner(&top))).await;
    let events = api.get("/api/v1/namespaces/default/events").await.expect(200);
    assert_eq!(events["items"][0]["reason"], "OwnerRefInvalidNamespace");
    assert_eq!(events["items"][0]["involvedObject"]["kind"], "Namespace");
    assert_eq!(
        events["items"][0]["message"],
        format!(
            "ownerRef [v1/ConfigMap, namespace: , name: top, uid: {}] does not exist in namespace \"\"",
            top["metadata"]["uid"].as_str().unwrap()
        )
    );
    api.made(NAMESPACES, &namespace("lost", absent("x"))).await;
    for name in ["child", "lost"] {
        let kept = api.get(&format!("{NAMESPACES}/{name}")).await.expect(200);
        assert_eq!(kept["status"]["phase"], "Active");
    }
    let events = api.get("/api/v1/namespaces/default/events").await.expect(200);
    assert_eq!(events["items"].as_array().unwrap().len(), 1, "nothing is known of the owner of the second");
}

#[tokio::test]
async fn gcx_011_an_owner_in_another_namespace_is_absent_and_reported() {
    let api = Api::start().await;
    api.made(NAMESPACES, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})).await;
    let top = api.made(MAPS, &map("top", &[])).await;
    let solid = api.made("/api/v1/namespaces/other/configmaps", &map("solid", &[])).await;
    let others = "/api/v1/namespaces/other/configmaps";
    let stray = api.made(others, &map("stray", &[owner(&top)])).await;
    assert!(!api.exists(&format!("{others}/stray")).await);
    let events = api.get("/api/v1/namespaces/other/events").await.expect(200);
    let event = &events["items"][0];
    assert_eq!((&event["type"], &event["reason"]), (&json!("Warning"), &json!("OwnerRefInvalidNamespace")));
    assert_eq!(event["source"]["component"], "garbage-collector-controller");
    assert_eq!(event["involvedObject"]["uid"], stray["metadata"]["uid"]);
    let uid = top["metadata"]["uid"].as_str().unwrap();
    assert_eq!(
        event["message"],
        format!(
            "ownerRef [v1/ConfigMap, namespace: other, name: top, uid: {uid}] does not exist in namespace \"other\""
        )
    );
    api.made(others, &map("kept", &[owner(&top), owner(&solid)])).await;
    let kept = api.get(&format!("{others}/kept")).await.expect(200);
    assert_eq!(owner_names(&kept), ["solid"]);
}

#[tokio::test]
async fn gcx_012_a_cluster_scoped_owner_owns_objects_of_every_namespace() {
    let api = Api::start().await;
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
                       "provisioner": "example.com/disk"});
    let class = api.made("/apis/storage.k8s.io/v1/storageclasses", &class).await;
    let paths: Vec<String> = ["default", "kube-system"]
        .iter()
        .map(|namespace| format!("/api/v1/namespaces/{namespace}/configmaps"))
        .collect();
    for path in &paths {
        api.made(path, &map("child", &[owner(&class)])).await;
        assert!(api.exists(&format!("{path}/child")).await);
    }
    let child = json!({"apiVersion": "v1", "kind": "Namespace",
                       "metadata": {"name": "child", "ownerReferences": [owner(&class)]}});
    api.made(NAMESPACES, &child).await;
    api.made("/api/v1/namespaces/child/configmaps", &map("inside", &[])).await;
    api.delete("/apis/storage.k8s.io/v1/storageclasses/fast").await.expect(200);
    for path in &paths {
        assert!(!api.exists(&format!("{path}/child")).await, "{path}");
    }
    assert!(!api.exists("/api/v1/namespaces/child").await, "a namespace is emptied and removed as well");
}

#[tokio::test]
async fn gcx_013_an_owner_of_an_unknown_kind_keeps_its_dependents() {
    let api = Api::start().await;
    let unknown = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "no-w"});
    api.made(MAPS, &map("child", &[unknown.clone(), absent("x")])).await;
    let mut other_version = unknown.clone();
    other_version["apiVersion"] = json!("example.com/v9");
    api.made(MAPS, &map("other-version", &[other_version])).await;
    api.made(MAPS, &map("freed", &[unknown])).await;
    api.patch(&format!("{MAPS}/freed"), &json!({"metadata": {"ownerReferences": null}})).await.expect(200);
    assert!(api.exists(&format!("{MAPS}/child")).await);
    api.made(DEFINITIONS, &widgets()).await;
    assert!(!api.exists(&format!("{MAPS}/child")).await, "the kind is served, and there is no such object");
    assert!(api.exists(&format!("{MAPS}/other-version")).await);
    assert!(api.exists(&format!("{MAPS}/freed")).await);
}

#[tokio::test]
async fn gcx_014_custom_resources_are_owners_and_dependents() {
    let api = Api::start().await;
    api.made(DEFINITIONS, &widgets()).await;
    let top = api.made(WIDGETS, &widget("top", &[])).await;
    let map_below = api.made(MAPS, &map("map", &[owner(&top)])).await;
    api.made(WIDGETS, &widget("bottom", &[owner(&map_below)])).await;
    api.delete(&format!("{WIDGETS}/top")).await.expect(200);
    assert!(!api.exists(&format!("{MAPS}/map")).await);
    assert!(!api.exists(&format!("{WIDGETS}/bottom")).await);
}

#[tokio::test]
async fn gcx_015_dependents_of_custom_resources_go_with_their_definition() {
    let api = Api::start().await;
    api.made(DEFINITIONS, &widgets()).await;
    let top = api.made(WIDGETS, &widget("top", &[])).await;
    let held = api.made(WIDGETS, &hold(widget("held", &[]))).await;
    api.made(MAPS, &map("child", &[owner(&top)])).await;
    api.made(MAPS, &map("waits", &[owner(&held)])).await;
    api.delete(&format!("{DEFINITIONS}/widgets.example.com")).await.expect(200);
    assert!(!api.exists(&format!("{MAPS}/child")).await);
    assert!(api.exists(&format!("{MAPS}/waits")).await, "its owner is held");
    api.release(&format!("{WIDGETS}/held")).await;
    assert!(!api.exists(&format!("{DEFINITIONS}/widgets.example.com")).await);
    assert!(!api.exists(&format!("{MAPS}/waits")).await, "its owner and the kind of its owner are removed");
}

#[tokio::test]
async fn gcx_015_a_definition_may_be_a_dependent() {
    let api = Api::start().await;
    let top =
        api.made(NAMESPACES, &json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "top"}})).await;
    let mut definition = widgets();
    definition["metadata"]["ownerReferences"] = json!([owner(&top)]);
    api.made(DEFINITIONS, &definition).await;
    api.made(WIDGETS, &widget("w", &[])).await;
    api.delete(&format!("{NAMESPACES}/top")).await.expect(200);
    assert!(!api.exists(&format!("{DEFINITIONS}/widgets.example.com")).await);
    assert_eq!(api.get(WIDGETS).await.status, 404);
}

#[tokio::test]
async fn gcx_016_events_are_outside_the_graph() {
    let api = Api::start().await;
    let events = "/api/v1/namespaces/default/events";
    let top = api.made(MAPS, &map("top", &[])).await;
    let event = json!({"apiVersion": "v1", "kind": "Event", "involvedObject": {"namespace": "default"},
                       "metadata": {"name": "e", "ownerReferences": [owner(&top), absent("x")]}});
    api.made(events, &event).await;
    api.delete_by(&format!("{MAPS}/top"), "Foreground").await;
    assert!(!api.exists(&format!("{MAPS}/top")).await);
    let kept = api.get(&format!("{events}/e")).await.expect(200);
    assert_eq!(owner_names(&kept), ["top", "x"]);
    api.delete_by(&format!("{events}/e"), "Foreground").await;
    assert!(!api.exists(&format!("{events}/e")).await, "no finalizer holds it");
}

#[tokio::test]
async fn gcx_009_a_patch_with_another_uid_is_invalid() {
    let api = Api::start().await;
    api.made(MAPS, &map("a", &[])).await;
    let patch = json!({"metadata": {"uid": "other", "ownerReferences": [{"$patch": "delete", "uid": "u"}]}});
    let refused = api.strategic(&format!("{MAPS}/a"), &patch).await;
    refused.refusal(422, "Invalid");
    let cause = &refused.body["details"]["causes"][0];
    assert_eq!((&cause["field"], &cause["reason"]), (&json!("metadata.uid"), &json!("FieldValueInvalid")));
    assert!(cause["message"].as_str().unwrap().ends_with("field is immutable"), "{cause}");
}

#[tokio::test]
async fn gcx_018_an_object_has_one_of_the_two_finalizers() {
    let api = Api::start().await;
    let mut both = map("a", &[]);
    both["metadata"]["finalizers"] = json!(["orphan", "foregroundDeletion"]);
    let refused = api.post(MAPS, &both).await;
    assert_eq!(
        refused.refusal(422, "Invalid"),
        "ConfigMap \"a\" is invalid: metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer \
         orphan and foregroundDeletion cannot be both set"
    );
}

#[tokio::test]
async fn gcx_010_an_object_that_changes_meanwhile_is_decided_about_again() {
    let api = Api::start().await;
    let solid = api.made(MAPS, &map("solid", &[])).await;
    for round in 0..20 {
        let top = api.made(MAPS, &map("top", &[])).await;
        for number in 0..40 {
            api.made(MAPS, &map(&format!("c{number}"), &[owner(&top)])).await;
        }
        let writer = |adopts: bool| {
            let (handle, solid) = (api.handle(), owner(&solid));
            tokio::spawn(async move {
                for number in 0..40 {
                    if (number % 2 == 0) != adopts {
                        continue;
                    }
                    let mut change = json!({"metadata": {"labels": {"round": round.to_string()}}});
                    if adopts {
                        change["metadata"]["ownerReferences"] = json!([solid]);
                    }
                    let path = format!("{MAPS}/c{number}");
                    let merge = [("content-type", crate::api::MERGE)];
                    let response = handle.send("PATCH", &path, &merge, change.to_string()).await;
                    assert!(matches!(response.status, 200 | 404), "{}", response.text);
                    tokio::task::yield_now().await;
                }
            })
        };
        let writers = [writer(true), writer(false)];
        tokio::task::yield_now().await;
        api.delete(&format!("{MAPS}/top")).await.expect(200);
        for writer in writers {
            writer.await.unwrap();
        }
        let left = api.get(MAPS).await.expect(200);
        for child in left["items"].as_array().unwrap() {
            let name = child["metadata"]["name"].as_str().unwrap();
            if name != "solid" && name != "kube-root-ca.crt" {
                assert_eq!(owner_names(child), ["solid"], "{name} has no other owner");
                api.delete(&format!("{MAPS}/{name}")).await.expect(200);
            }
        }
    }
}
