use std::sync::Arc;

use evenkeel_core::merge_rules::MergeType;
use evenkeel_core::{Obj, ResourceInfo, Status};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Map, Value, json};

use super::schema::FieldType;
use super::*;
use crate::api::{Patch, Unstructured};
use crate::error::RequestName;

fn deployment(managed: Value, spec: Value) -> Obj<Deployment> {
    let metadata = json!({"name": "web", "namespace": "default", "resourceVersion": "7", "managedFields": managed});
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec});
    Obj::from_json(&Arc::new(ResourceInfo::of::<Deployment>()), object.to_string()).unwrap()
}

fn entry(manager: &str, operation: &str, fields: Value) -> Value {
    json!({
        "manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": fields,
    })
}

/// A Deployment of which `me` owns some fields.
fn applied() -> Obj<Deployment> {
    let container = json!({
        ".": {}, "f:image": {}, "f:name": {},
        "f:ports": {
            "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}},
            "k:{\"containerPort\":53,\"protocol\":\"UDP\"}": {"f:name": {}},
        },
        "f:resources": {},
    });
    let fields = json!({
        "f:spec": {
            "f:replicas": {},
            "f:selector": {},
            "f:strategy": {},
            "f:gone": {},
            "f:template": {"f:spec": {
                "f:containers": {"k:{\"name\":\"web\"}": container},
                "f:imagePullSecrets": {"k:{\"name\":\"a\"}": {}},
                "f:nodeSelector": {},
            }},
        },
    });
    let status = json!({"f:status": {"f:replicas": {}}});
    let mut of_status = entry("me", "Apply", status);
    of_status["subresource"] = json!("status");
    let managed =
        json!([entry("me", "Update", json!({"f:spec": {"f:paused": {}}})), of_status, entry("me", "Apply", fields)]);
    let side = json!({"name": "side", "image": "side:1"});
    let ports = json!([
        {"containerPort": 81, "protocol": "TCP"},
        {"containerPort": 80, "protocol": "TCP", "name": "http"},
        {"containerPort": 53, "protocol": "UDP", "name": "dns"},
    ]);
    let web = json!({"name": "web", "image": "web:1", "ports": ports, "resources": {"limits": {"cpu": "1"}}});
    let pod = json!({
        "containers": [side, web],
        "imagePullSecrets": [{"name": "b"}, {"name": "a"}],
        "nodeSelector": {"disk": "ssd"},
    });
    deployment(
        managed,
        json!({
            "replicas": 3,
            "paused": true,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate"},
            "template": {"spec": pod},
        }),
    )
}

#[test]
fn acf_003_the_leaves_of_the_applier_and_the_identity_are_extracted() {
    let extracted = Partial::extract(&applied(), "me").unwrap();
    // A key that has its default and is not owned need not be stated.
    let ports = json!([{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP", "name": "dns"}]);
    let container = json!({"name": "web", "image": "web:1", "ports": ports, "resources": {}});
    let pod = json!({"containers": [container], "imagePullSecrets": [{"name": "a"}], "nodeSelector": {"disk": "ssd"}});
    let expected = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 3,
            // Owned as a whole, and owned without its contents.
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {},
            "template": {"spec": pod},
        },
    });
    assert_eq!(*extracted.as_json(), expected);
}

#[test]
fn acf_003_a_manager_without_an_entry_owns_the_identity_alone() {
    let identity = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
    });
    assert_eq!(*Partial::extract(&applied(), "you").unwrap().as_json(), identity);
    assert_eq!(*Partial::extract_subresource(&applied(), "me", "scale").unwrap().as_json(), identity);
    let status = Partial::extract_subresource(&applied(), "me", "status").unwrap();
    assert_eq!(*status.as_json(), identity, "a field that does not exist any more is left out");
}

#[test]
fn acf_005_an_object_without_managed_fields_is_an_error() {
    for managed in [json!([]), Value::Null] {
        let error = Partial::extract(&deployment(managed, json!({})), "me").unwrap_err();
        assert_eq!(error, ManagedFieldsError::Missing { object: "Deployment default/web".into() });
    }
}

#[test]
fn csu_004_field_sets_that_cannot_be_read_are_an_error() {
    for fields in [json!("x"), json!({"f:spec": 1}), json!({"spec": {}}), Value::Null] {
        let object =
            deployment(json!([entry("me", "Apply", fields.clone()), entry("old", "Update", fields)]), json!({}));
        assert!(matches!(Partial::extract(&object, "me"), Err(ManagedFieldsError::Malformed { .. })));
        let upgraded = upgrade_from_client_side_apply(&object, &["old"], "me", "");
        assert!(matches!(upgraded, Err(ManagedFieldsError::Malformed { .. })));
        assert_eq!(client_side_managers(&object).unwrap(), Vec::<String>::new(), "the search ignores them");
    }
}

#[test]
fn acf_004_custom_kinds_need_the_schema_of_the_server() {
    let info = Arc::new(ResourceInfo::new("example.com", "v1", "Foo", "foos", true));
    let fields = json!({"f:spec": {"f:whole": {}, "f:parts": {}, "f:list": {}, "f:refs": {}, "f:any": {}}});
    let value = json!({
        "apiVersion": "example.com/v1", "kind": "Foo",
        "metadata": {"name": "a", "managedFields": [entry("me", "Apply", fields)]},
        "spec": {"whole": {"a": 1}, "parts": {"a": 1}, "list": [1], "refs": [{"name": "x"}], "any": {"a": 1}},
    });
    let object: Obj<Unstructured> = Obj::from_json(&info, value.to_string()).unwrap();
    let error = Partial::extract(&object, "me").unwrap_err();
    assert!(matches!(&error, ManagedFieldsError::UnknownSchema { kind, .. } if kind == "Foo"), "{error}");

    let spec = json!({"type": "object", "properties": {
        "whole": {"allOf": [{"$ref": "#/components/schemas/Whole"}]},
        "parts": {"type": "object"},
        "list": {"type": "array"},
        "refs": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    }});
    let kind = json!([{"group": "example.com", "version": "v1", "kind": "Foo"}]);
    let document = json!({"components": {"schemas": {
        "Foo": {"type": "object", "x-kubernetes-group-version-kind": kind, "properties": {"spec": spec}},
        "Whole": {"type": "object", "x-kubernetes-map-type": "atomic"},
    }}});
    let types = FieldType::in_document(&document, "example.com", "v1", "Foo").unwrap();
    assert!(FieldType::in_document(&document, "example.com", "v2", "Foo").is_none());
    let spec = types.field("spec");
    assert!(spec.field("whole").is_atomic(&json!({})) && !spec.field("parts").is_atomic(&json!({})));
    assert!(spec.field("list").is_atomic(&json!([])) && !spec.field("refs").is_atomic(&json!([])));
    assert!(!spec.field("any").is_atomic(&json!({})), "a map without a schema is owned key by key");
    let pod = FieldType::BuiltIn(MergeType::of_kind("v1", "Pod").unwrap());
    assert!(!pod.field("spec").field("containers").is_atomic(&json!([])));
}

/// The operations of a patch.
fn operations(patch: Option<Patch>) -> Value {
    serde_json::from_slice(&patch.unwrap().bytes().unwrap()).unwrap()
}

fn upgraded(entries: Value, old: &[&str]) -> Value {
    let patch = upgrade_from_client_side_apply(&deployment(entries, json!({})), old, "new", "").unwrap();
    operations(patch)[0]["value"].take()
}

#[test]
fn csu_001_update_entries_of_old_managers_are_united_into_the_apply_entry() {
    let leaf = |name: &str| json!({"f:spec": {name: {}}});
    let other = entry("other", "Update", leaf("f:paused"));
    let mut elsewhere = entry("old", "Update", leaf("f:minReadySeconds"));
    elsewhere["apiVersion"] = json!("apps/v1beta1");
    let mut status = entry("old", "Update", leaf("f:status"));
    status["subresource"] = json!("status");
    let entries = json!([
        entry("new", "Apply", json!({"f:spec": {"f:replicas": {}, "f:template": {}}})),
        elsewhere,
        entry("old", "Update", json!({"f:spec": {"f:template": {"f:spec": {}}, "f:selector": {}}})),
        status,
        other,
    ]);
    let template = json!({".": {}, "f:spec": {}});
    let united = json!({"f:spec": {"f:replicas": {}, "f:selector": {}, "f:template": template}});
    let expected = json!([entry("new", "Apply", united), entries[3], other]);
    assert_eq!(upgraded(entries.clone(), &["old"]), expected);
    // Two old managers, one of them absent.
    assert_eq!(upgraded(entries, &["absent", "old"]), expected);
}

#[test]
fn csu_002_without_an_apply_entry_the_first_update_entry_becomes_it() {
    let fields = json!({"f:spec": {"f:replicas": {}}});
    let entries = json!([entry("other", "Apply", json!({})), entry("old", "Update", fields.clone())]);
    let expected = json!([entry("other", "Apply", json!({})), entry("new", "Apply", fields)]);
    assert_eq!(upgraded(entries.clone(), &["old"]), expected);
    let nothing = upgrade_from_client_side_apply(&deployment(entries, json!({})), &["absent"], "new", "").unwrap();
    assert!(nothing.is_none());
}

#[test]
fn csu_003_the_patch_replaces_managed_fields_and_resource_version() {
    let object = deployment(json!([entry("old", "Update", json!({"f:spec": {}}))]), json!({}));
    let operations = operations(upgrade_from_client_side_apply(&object, &["old"], "new", "").unwrap());
    assert_eq!(operations[0]["op"], "replace");
    assert_eq!(operations[0]["path"], "/metadata/managedFields");
    assert_eq!(operations[1], json!({"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}));
    assert_eq!(operations.as_array().map(Vec::len), Some(2));
}

#[test]
fn csu_004_client_side_managers_own_the_annotation() {
    let annotations = json!({".": {}, "f:kubectl.kubernetes.io/last-applied-configuration": {}});
    let fields = json!({"f:metadata": {"f:annotations": annotations}});
    let entries = json!([
        entry("kubectl", "Update", fields.clone()),
        entry("b", "Apply", fields),
        entry("c", "Update", json!({"f:metadata": {"f:annotations": {}}})),
    ]);
    assert_eq!(client_side_managers(&deployment(entries, json!({}))).unwrap(), ["kubectl"]);
}

#[test]
fn acf_007_a_conflict_lists_managers_and_fields() {
    let causes = json!([
        {"reason": "FieldManagerConflict", "message": "conflict with \"kube\\\"ctl\" using apps/v1", "field": ".spec.replicas"},
        {"reason": "Other", "message": "\"x\"", "field": ".spec"},
    ]);
    let status = json!({"code": 409, "reason": "Conflict", "details": {"causes": causes}});
    let status: Status = serde_json::from_value(status).unwrap();
    let request = RequestName::new(&http::Method::PATCH, "/x");
    let error = Error::Api { request, status: Box::new(status) };
    let conflict = ApplyConflict { manager: "kube\"ctl".into(), field: ".spec.replicas".into() };
    assert_eq!(apply_conflicts(&error), [conflict]);
    assert_eq!(apply_conflicts(&Error::ManagedFields(ManagedFieldsError::Missing { object: String::new() })), []);
    let none: Map<String, Value> = Map::new();
    assert!(super::entries::is_leaf(&none));
}
