use evenkeel_client::Unstructured;
use evenkeel_client::reference::typed_reference;
use k8s_openapi::api::core::v1::{Node, ObjectReference};

use super::*;

fn owner(name: &str, uid: &str, namespace: Option<&str>) -> ObjectReference {
    ObjectReference {
        api_version: Some("apps/v1".into()),
        kind: Some("ReplicaSet".into()),
        name: Some(name.into()),
        uid: Some(uid.into()),
        namespace: namespace.map(str::to_owned),
        ..ObjectReference::default()
    }
}

fn owned(namespace: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": "a", "namespace": namespace}})).unwrap()
}

#[test]
fn co_022_a_controller_is_set_once_and_another_is_an_error_that_names_it() {
    let (mine, other) = (owner("web", "1", Some("ns")), owner("web", "2", Some("ns")));
    let mut map = owned("ns");
    set_controller_reference(&mut map, &mine).unwrap();
    set_controller_reference(&mut map, &mine).unwrap();
    let references = map.metadata.owner_references.clone().unwrap();
    assert_eq!(
        serde_json::to_value(&references).unwrap(),
        json!([{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1",
            "controller": true, "blockOwnerDeletion": true,
        }])
    );
    assert!(is_controlled_by(&map, &mine) && !is_controlled_by(&map, &other));
    let error = set_controller_reference(&mut map, &other).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the object is already controlled by ReplicaSet web (uid 1): `set_owner_reference` adds another owner"
    );
    assert_eq!(map.metadata.owner_references.unwrap(), references, "unchanged after an error");
}

#[test]
fn co_022_the_reference_for_apply_is_the_one_that_is_set() {
    let mine = owner("web", "1", Some("ns"));
    let mut map = owned("ns");
    set_controller_reference(&mut map, &mine).unwrap();
    assert_eq!(map.metadata.owner_references.unwrap(), [controller_reference(&mine).unwrap()]);
    let error = controller_reference(&ObjectReference { uid: None, ..mine }).unwrap_err();
    assert!(matches!(error, OwnerError::Incomplete { missing: "uid", .. }), "{error}");
}

#[test]
fn co_022_an_owner_becomes_the_controller_and_stays_it() {
    let (first, second) = (owner("first", "1", Some("ns")), owner("second", "2", Some("ns")));
    let mut map = owned("ns");
    set_owner_reference(&mut map, &first).unwrap();
    set_owner_reference(&mut map, &second).unwrap();
    assert_eq!(controller_of(&map).unwrap(), None);
    set_controller_reference(&mut map, &first).unwrap();
    set_owner_reference(&mut map, &first).unwrap();
    let names: Vec<_> = map.metadata.owner_references.iter().flatten().map(|owner| owner.name.clone()).collect();
    assert_eq!(names, ["first", "second"]);
    assert_eq!(controller_of(&map).unwrap().unwrap().name, "first");
    assert!(remove_owner_reference(&mut map, &first).unwrap());
    assert!(!remove_owner_reference(&mut map, &first).unwrap());
    assert!(!is_controlled_by(&map, &first));
    assert!(remove_owner_reference(&mut map, &second).unwrap());
    assert_eq!(map.metadata.owner_references, None);
}

#[test]
fn co_022_a_namespaced_owner_owns_objects_of_its_namespace() {
    let local = owner("web", "1", Some("here"));
    let error = set_controller_reference(&mut owned("there"), &local).unwrap_err();
    let expected = "ReplicaSet web is in namespace \"here\" and cannot own an object in namespace \"there\": set the object's \
        metadata.namespace to \"here\"";
    assert_eq!(error.to_string(), expected);
    let mut node = Node::default();
    let error = set_owner_reference(&mut node, &local).unwrap_err();
    assert!(error.to_string().ends_with("in no namespace: set the object's metadata.namespace to \"here\""), "{error}");
    let cluster = owner("all", "2", None);
    set_owner_reference(&mut node, &cluster).unwrap();
    set_owner_reference(&mut owned("there"), &cluster).unwrap();
}

#[test]
fn co_022_an_owner_without_a_uid_is_rejected() {
    let error = set_owner_reference(&mut owned("ns"), &typed_reference(&owned("ns"))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ConfigMap a cannot be an owner: its uid is unknown; use the object that the server or a lister returned"
    );
    let incomplete = ObjectReference::default();
    assert!(matches!(
        set_owner_reference(&mut owned("ns"), &incomplete).unwrap_err(),
        OwnerError::Incomplete { missing: "API version", .. }
    ));
    assert!(!is_controlled_by(&owned("ns"), &incomplete));
}

#[test]
fn co_022_json_takes_owner_references() {
    let mine = owner("web", "1", Some("ns"));
    let mut foo = Unstructured(json!({"metadata": {"namespace": "ns"}}));
    set_controller_reference(&mut foo, &mine).unwrap();
    assert_eq!(foo.0["metadata"]["ownerReferences"][0]["uid"], "1");
    assert!(is_controlled_by(&foo, &mine) && is_controlled_by(&foo.0, &mine));
    assert!(remove_owner_reference(&mut foo, &mine).unwrap());
    assert_eq!(foo.0, json!({"metadata": {"namespace": "ns"}}));

    let cluster = owner("all", "2", None);
    let mut bare = json!({});
    set_owner_reference(&mut bare, &cluster).unwrap();
    assert_eq!(bare["metadata"]["ownerReferences"][0]["name"], "all");
    for mut wrong in [json!([]), json!({"metadata": 1}), json!({"metadata": {"ownerReferences": {"a": 1}}})] {
        let error = set_owner_reference(&mut wrong, &cluster).unwrap_err();
        assert!(matches!(error, OwnerError::Malformed { .. }), "{error}");
        assert!(!is_controlled_by(&wrong, &cluster));
    }
}

#[tokio::test]
async fn co_022_the_server_keeps_the_controller_reference() {
    let server = server().await;
    let client = server.client();
    let owner = config_map(&client, "owner", json!({})).await;
    let mut map = owned("default");
    set_controller_reference(&mut map, &owner).unwrap();
    let made = client.api::<ConfigMap>().namespace("default").create(&map).await.unwrap();
    assert!(is_controlled_by(&made, &owner) && !is_controlled_by(&owner, &made));
    assert_eq!(controller_of(&made).unwrap().unwrap().uid, owner.uid());
}
