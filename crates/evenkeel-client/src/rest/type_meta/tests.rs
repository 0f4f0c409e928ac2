use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube_core::{ApiResource, DynamicObject};
use serde_json::{Value, json};

use super::*;

fn of<T: Serialize>(value: &T) -> Option<String> {
    type_meta(value).map(|(api_version, kind)| format!("{api_version} {kind}"))
}

#[test]
fn a_stated_kind_is_used() {
    assert_eq!(of(&Pod::default()).as_deref(), Some("v1 Pod"));
    assert_eq!(of(&&Deployment::default()).as_deref(), Some("apps/v1 Deployment"));
    let resource = ApiResource::erase::<Deployment>(&());
    assert_eq!(of(&DynamicObject::new("a", &resource)).as_deref(), Some("apps/v1 Deployment"));
    let value = json!({"spec": {"kind": "Other", "apiVersion": "v9"}, "kind": "Foo", "apiVersion": "a/v1"});
    assert_eq!(of(&crate::Unstructured(value)).as_deref(), Some("a/v1 Foo"));
}

#[test]
fn a_value_without_kind_and_version_has_none() {
    let values =
        [json!(null), json!("Pod"), json!([1]), json!({}), json!({"kind": "Pod"}), json!({"apiVersion": "v1"})];
    for value in values {
        assert_eq!(of(&value), None, "{value}");
    }
    assert_eq!(of(&json!({"kind": 3, "apiVersion": "v1"})), None);
    assert_eq!(of(&Some(Value::Null)), None);
}
