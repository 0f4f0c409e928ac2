use std::sync::Arc;

use bytes::Bytes;
use evenkeel_core::ResourceInfo;
use evenkeel_core::codec::{Codec, ListDecoder};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::*;

const METADATA: &str = r#""metadata":{"namespace":"ns","name":"a","uid":"u","resourceVersion":"7"}"#;

fn reference(api_version: &str, kind: &str) -> ObjectReference {
    let text = |text: &str| Some(text.to_owned());
    ObjectReference {
        api_version: text(api_version),
        kind: text(kind),
        namespace: text("ns"),
        name: text("a"),
        uid: text("u"),
        resource_version: text("7"),
        field_path: None,
    }
}

#[test]
fn rf_001_a_reference_to_a_reference_is_the_same() {
    // Better: there is no nil.
    let same = reference("v1", "Pod");
    assert_eq!(same.to_reference(), same);
}

#[test]
fn rf_002_the_kind_is_the_objects_or_else_the_resources() {
    let pods = Arc::new(ResourceInfo::of::<Pod>());
    let bare = Obj::<Pod>::from_json(&pods, format!("{{{METADATA}}}")).unwrap();
    assert_eq!(bare.to_reference(), reference("v1", "Pod"), "the core group has no name");
    let foos = Arc::new(ResourceInfo::new("foo.group", "v3", "Foo", "foos", true));
    let bare = Obj::<Pod>::from_json(&foos, format!("{{{METADATA}}}")).unwrap();
    assert_eq!(bare.to_reference(), reference("foo.group/v3", "Foo"));
    let stated = format!(r#"{{"apiVersion":"own/v9","kind":"Own",{METADATA}}}"#);
    assert_eq!(Obj::<Pod>::from_json(&foos, stated).unwrap().to_reference(), reference("own/v9", "Own"));
}

#[test]
fn rf_003_objects_and_typed_values_are_named_in_full() {
    let metadata = ObjectMeta {
        namespace: Some("ns".into()),
        name: Some("a".into()),
        uid: Some("u".into()),
        resource_version: Some("7".into()),
        ..ObjectMeta::default()
    };
    let deployment = Deployment { metadata, ..Deployment::default() };
    assert_eq!(typed_reference(&deployment), reference("apps/v1", "Deployment"));
    let unborn = typed_reference(&Deployment::default());
    assert_eq!((unborn.name, unborn.uid, unborn.kind.as_deref()), (None, None, Some("Deployment")));
}

#[test]
fn rf_003_lists_are_named_by_kind_and_version_alone() {
    let mut decoder = ListDecoder::<Pod>::new(Codec::Json, Arc::new(ResourceInfo::of::<Pod>()));
    let json = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[]}"#;
    decoder.push(Bytes::from_static(json.as_bytes()));
    assert!(decoder.next_item().unwrap().is_none());
    let list = List { items: Vec::<Obj<Pod>>::new(), meta: decoder.finish().unwrap() };
    let expected = ObjectReference {
        kind: Some("PodList".into()),
        api_version: Some("v1".into()),
        resource_version: Some("9".into()),
        ..ObjectReference::default()
    };
    assert_eq!(list.to_reference(), expected);
}

#[test]
fn rf_003_a_part_is_named_by_a_reference_of_its_own() {
    // Better: the reference to the whole is unchanged.
    let whole = reference("v1", "Pod");
    let part = part_reference(&whole, "spec.containers{web}");
    assert_eq!(part.field_path.as_deref(), Some("spec.containers{web}"));
    assert_eq!(whole, reference("v1", "Pod"));
    assert_eq!(ObjectReference { field_path: None, ..part }, whole);
}
