use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube_core::DynamicObject;

use super::*;

fn info<K>() -> Arc<ResourceInfo>
where
    K: kube_core::Resource<DynamicType = ()>,
    K::Scope: crate::resource::StaticScope,
{
    Arc::new(ResourceInfo::of::<K>())
}

#[test]
fn typed_is_decoded_once_and_shared() {
    let obj =
        Obj::<ConfigMap>::from_json(&info::<ConfigMap>(), r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#).unwrap();
    let first = obj.typed().unwrap();
    assert_eq!(first.data.as_ref().unwrap()["k"], "v");
    assert!(Arc::ptr_eq(&first, &obj.clone().typed().unwrap()));
}

#[test]
fn decoded_values_are_dropped_with_their_object() {
    let info = info::<ConfigMap>();
    let objects: Vec<Obj<ConfigMap>> =
        (0..1000).map(|i| Obj::from_json(&info, format!(r#"{{"metadata":{{"name":"a{i}"}}}}"#)).unwrap()).collect();
    let values: Vec<Arc<ConfigMap>> = objects.iter().map(|obj| obj.typed().unwrap()).collect();
    let held = |values: &[Arc<ConfigMap>]| values.iter().filter(|value| Arc::strong_count(value) > 1).count();
    assert_eq!(held(&values), 1000, "small objects fit the budget");
    drop(objects);
    assert_eq!(held(&values), 0);
}

#[test]
fn an_object_decodes_as_a_part_of_its_kind() {
    #[derive(serde::Deserialize)]
    struct Named {
        metadata: Metadata,
    }
    #[derive(serde::Deserialize)]
    struct Metadata {
        name: String,
    }
    let obj = Obj::<ConfigMap>::from_json(&info::<ConfigMap>(), r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#);
    assert_eq!(obj.unwrap().decode_as::<Named>().unwrap().metadata.name, "a");
}

#[test]
fn a_type_mismatch_names_kind_key_and_path() {
    let json = r#"{"metadata":{"namespace":"ns","name":"web"},
        "spec":{"replicas":"three","selector":{},"template":{}}}"#;
    let obj = Obj::<Deployment>::from_json(&info::<Deployment>(), json).unwrap();
    assert_eq!(obj.path("spec.replicas").unwrap().unwrap().text(), "three", "the object itself is fine");
    let error = obj.typed().unwrap_err();
    let DecodeError::Typed { kind, key, path, .. } = &error else { panic!("{error:?}") };
    assert_eq!((&**kind, key.as_str(), &**path), ("Deployment", "ns/web", "spec.replicas"));
    assert_eq!(
        error.to_string(),
        "Deployment ns/web does not fit its type at spec.replicas: invalid type: string, expected i32"
    );
}

#[test]
fn a_type_mismatch_in_nested_arrays_has_its_path() {
    let json =
        r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"a"},{"name":"b","ports":[{"containerPort":[]}]}]}}"#;
    let error = Obj::<Pod>::from_json(&info::<Pod>(), json).unwrap().typed().unwrap_err();
    assert_eq!(error.path(), "spec.containers[1].ports[0].containerPort");
}

#[test]
fn a_missing_field_is_reported_at_its_object() {
    #[derive(Debug, serde::Deserialize)]
    struct Strict {
        #[expect(dead_code)]
        spec: Spec,
    }
    #[derive(Debug, serde::Deserialize)]
    struct Spec {
        #[expect(dead_code)]
        size: u32,
    }
    let info = Arc::new(ResourceInfo::new("x.io", "v1", "Strict", "stricts", true));
    let json = r#"{"metadata":{"name":"p"},"spec":{"other":1}}"#;
    let error = Obj::<Strict>::from_json(&info, json).unwrap().typed().unwrap_err();
    assert_eq!(error.path(), "spec");
    assert!(error.to_string().contains("missing field `size`"), "{error}");
}

#[test]
fn sec_5_neither_errors_nor_debug_show_the_contents_of_strings() {
    let json = r#"{"metadata":{"name":"s"},"data":"hunter2 \"quoted\""}"#;
    let obj = Obj::<Secret>::from_json(&info::<Secret>(), json).unwrap();
    let error = obj.typed().unwrap_err();
    for text in [error.to_string(), format!("{error:?}"), format!("{obj:?}")] {
        assert!(!text.contains("hunter2") && !text.contains("quoted"), "{text}");
    }
    assert_eq!(format!("{obj:?}"), "Obj<Secret>(Secret s @)");
}

#[test]
fn sec_5_errors_of_enums_and_times_show_no_contents_either() {
    #[derive(Debug, serde::Deserialize)]
    enum Phase {
        Up,
        Down,
    }
    #[derive(Debug, serde::Deserialize)]
    struct Phased {
        #[expect(dead_code)]
        phase: Phase,
    }
    let info = Arc::new(ResourceInfo::new("x.io", "v1", "Phased", "phaseds", true));
    let json = r#"{"metadata":{"name":"p"},"phase":"hunter2"}"#;
    let error = Obj::<Phased>::from_json(&info, json).unwrap().typed().unwrap_err().to_string();
    assert_eq!(error, "Phased p does not fit its type at phase: unknown variant, expected `Up` or `Down`");
    let json = r#"{"metadata":{"name":"p","creationTimestamp":"hunter\"2"}}"#;
    let error = Obj::<Pod>::from_json(&self::info::<Pod>(), json).unwrap().typed().unwrap_err().to_string();
    assert!(error.contains("metadata.creationTimestamp") && !error.contains("hunter"), "{error}");
}

#[test]
fn kind_and_version_are_filled_in_where_the_list_left_them_out() {
    let info = info::<Deployment>();
    let bare = Obj::<DynamicObject>::from_json(&info, r#"  {"metadata":{"name":"a"}}"#).unwrap();
    assert_eq!((bare.kind(), bare.api_version()), ("Deployment", "apps/v1"));
    assert_eq!(&*bare.json().unwrap(), br#"{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"a"}}"#);
    let types = bare.typed().unwrap().types.clone().unwrap();
    assert_eq!((types.kind.as_str(), types.api_version.as_str()), ("Deployment", "apps/v1"));
    let stated = r#"{"kind":"Other","apiVersion":"v9","metadata":{"name":"a"}}"#;
    let stated = Obj::<DynamicObject>::from_json(&info, stated).unwrap();
    assert!(matches!(stated.json().unwrap(), Cow::Borrowed(_)));
    assert_eq!(stated.kind(), "Other");
}

#[test]
fn annotations_are_read_from_the_bytes() {
    let json = r#"{"metadata":{"name":"a","annotations":{"x/y":"1","odd]":"2\n"}}}"#;
    let obj = Obj::<Pod>::from_json(&info::<Pod>(), json).unwrap();
    assert_eq!(obj.annotation("x/y").unwrap().as_deref(), Some("1"));
    assert_eq!(obj.annotation("odd]").unwrap().as_deref(), Some("2\n"));
    assert_eq!(obj.annotation("z").unwrap(), None);
}

#[test]
fn key_003_lists_are_not_objects() {
    let error = Obj::<Pod>::from_json(&info::<Pod>(), r#"{"kind":"PodList","metadata":{},"items":[]}"#).unwrap_err();
    assert_eq!(error.to_string(), "object has no meta: PodList has no metadata.name");
}

#[test]
fn detached_objects_have_a_payload_of_their_own() {
    let chunk = Bytes::from(r#"{"metadata":{"name":"a"}}   and much more"#);
    let obj = Obj::<Pod>::from_json(&info::<Pod>(), chunk.slice(..25)).unwrap();
    assert_eq!(obj.raw().unwrap().as_ptr(), chunk.as_ptr());
    let own = obj.detached();
    assert_ne!(own.raw().unwrap().as_ptr(), chunk.as_ptr());
    assert_eq!((own.raw().unwrap(), own.key()), (obj.raw().unwrap(), obj.key()));
    let header: *const Header = obj.header();
    let shared = obj.clone().into_detached();
    assert!(!std::ptr::eq(shared.header(), header), "the original has another reference and never changes");
    assert_eq!(obj.raw().unwrap().as_ptr(), chunk.as_ptr());
    let moved = obj.into_detached();
    assert!(std::ptr::eq(moved.header(), header), "the only reference: only the payload is copied");
    assert_ne!(moved.raw().unwrap().as_ptr(), chunk.as_ptr());
    assert_eq!(moved.raw().unwrap(), own.raw().unwrap());
}

#[test]
fn objects_can_be_shared_between_threads_whatever_their_kind() {
    fn shared<T: Send + Sync>() {}
    shared::<Obj<std::cell::Cell<u8>>>();
}

#[test]
fn the_same_object_can_be_seen_as_another_kind() {
    let obj =
        Obj::<ConfigMap>::from_json(&info::<ConfigMap>(), r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#).unwrap();
    let untyped: Obj<Untyped> = obj.clone().cast();
    assert_eq!(untyped.as_kind::<ConfigMap>().typed().unwrap().data.as_ref().unwrap()["k"], "v");
    let secret = untyped.as_kind::<Secret>().typed().unwrap_err();
    assert!(secret.to_string().contains("ConfigMap"), "{secret}");
}

#[test]
fn the_same_state_is_the_same_uid_and_version() {
    let object = |uid: &str, version: &str| {
        let json = format!(r#"{{"metadata":{{"name":"a","uid":"{uid}","resourceVersion":"{version}"}}}}"#);
        Obj::<ConfigMap>::from_json(&info::<ConfigMap>(), json).unwrap()
    };
    assert!(object("u", "1").is_same_state_as(&object("u", "1")));
    assert!(!object("u", "1").is_same_state_as(&object("u", "2")));
    assert!(!object("u", "1").is_same_state_as(&object("v", "1")));
    assert!(!object("u", "").is_same_state_as(&object("u", "")), "no resource version, so the state is unknown");
    let unknown = object("", "");
    assert!(unknown.is_same_state_as(&unknown.clone()), "but it is itself");
}

#[test]
fn a_value_with_a_name_converts_to_an_object() {
    let mut value = ConfigMap::default();
    assert!(matches!(Obj::from_value(&info::<ConfigMap>(), &value), Err(ValueError::Decode(_))));
    value.metadata.name = Some("a".into());
    let obj = Obj::from_value(&info::<ConfigMap>(), &value).unwrap();
    assert_eq!((obj.key().as_str(), &*obj.typed().unwrap()), ("a", &value));
}

#[test]
fn pruned_values_are_absent_from_payload_and_header() {
    let json = r#"{"kind":"Pod","metadata":{"namespace":"ns","name":"a","labels":{"app":"web","tier":"1"},
        "finalizers":["x"],"managedFields":[{"manager":"m"}]},"spec":{"nodeName":"n1"}}"#;
    let pod = Obj::<Pod>::from_json(&info::<Pod>(), json).unwrap();
    let without = |path: &str| pod.without(&JsonPaths::new([path]).unwrap());

    let lighter = without("metadata.managedFields").unwrap();
    assert!(
        pod.path("metadata.managedFields").unwrap().is_some()
            && lighter.path("metadata.managedFields").unwrap().is_none()
    );
    assert_eq!((lighter.key(), lighter.label("app"), lighter.finalizers().len()), (pod.key(), Some("web"), 1));
    assert_eq!(lighter.typed().unwrap().metadata.managed_fields, None);

    let plainer = without("metadata.labels.app").unwrap();
    assert_eq!((plainer.label("app"), plainer.label("tier")), (None, Some("1")));
    for path in ["metadata.labels", "metadata[*].app"] {
        assert_eq!(without(path).unwrap().label("app"), None, "{path}");
    }
    assert_eq!(without("metadata.finalizers[0]").unwrap().finalizers().len(), 0);
    assert_eq!(without("kind").unwrap().header().kind(), None);
    assert_eq!(without("kind").unwrap().kind(), "Pod", "its kind is known all the same");
    assert!(matches!(without("metadata.name"), Err(DecodeError::NoName { .. })));
    assert!(matches!(without("metadata"), Err(DecodeError::NoMetadata { .. })));
    assert!(matches!(without("[*]"), Err(DecodeError::NoMetadata { .. })));
}

#[test]
fn pruning_nothing_returns_the_object_itself() {
    let pod = Obj::<Pod>::from_json(&info::<Pod>(), r#"{"metadata":{"name":"a"}}"#).unwrap();
    let same = pod.without(&JsonPaths::new(["metadata.managedFields", "status"]).unwrap()).unwrap();
    assert!(Arc::ptr_eq(&pod.inner, &same.inner));
}

#[test]
fn only_keeps_the_matched_values() {
    let json = r#"{"metadata":{"name":"a","labels":{"app":"web"},"uid":"u"},"spec":{"nodeName":"n1","x":1}}"#;
    let pod = Obj::<Pod>::from_json(&info::<Pod>(), json).unwrap();
    let only = pod.only(&JsonPaths::new(["metadata.name", "metadata.uid", "spec.nodeName"]).unwrap()).unwrap();
    assert_eq!(only.raw().unwrap(), &r#"{"metadata":{"name":"a","uid":"u"},"spec":{"nodeName":"n1"}}"#);
    assert_eq!((only.label("app"), only.uid()), (None, "u"));
    assert!(matches!(pod.only(&JsonPaths::new(["spec"]).unwrap()), Err(DecodeError::NoMetadata { .. })));
}
