use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{JSON, JSONSchemaProps};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;

fn spec_of<T: JsonSchema>() -> Value {
    ObjectSchema::of::<T>().build().to_value()["properties"]["spec"].clone()
}

/// Returns the path of the first schema that has no type.
fn untyped(schema: &Value, path: &str) -> Option<String> {
    let has = |key: &str| schema.get(key).is_some();
    if !has("type") && !has("x-kubernetes-int-or-string") && !has("x-kubernetes-preserve-unknown-fields") {
        return Some(path.to_owned());
    }
    let properties = schema["properties"].as_object().into_iter().flatten();
    let inner = ["items", "additionalProperties"].into_iter().filter_map(|key| Some((key, schema.get(key)?)));
    let all = properties.map(|(name, property)| (name.as_str(), property)).chain(inner);
    all.into_iter().find_map(|(name, property)| untyped(property, &format!("{path}.{name}")))
}

#[track_caller]
fn structural<T: JsonSchema>() -> Value {
    let schema = spec_of::<T>();
    assert_eq!(untyped(&schema, "spec"), None);
    assert!(!schema.to_string().contains("$ref\":\""), "{schema}");
    schema
}

#[test]
fn scf_003_times_quantities_and_ports_have_the_schemas_of_kubernetes() {
    assert_eq!(spec_of::<Time>()["format"], "date-time");
    assert_eq!(spec_of::<MicroTime>()["format"], "date-time");
    assert_eq!(spec_of::<IntOrString>()["x-kubernetes-int-or-string"], true);
    let quantity = spec_of::<Quantity>();
    assert_eq!(quantity["x-kubernetes-int-or-string"], true);
    assert!(quantity["pattern"].as_str().is_some_and(|pattern| pattern.contains("[KMGTPE]i")), "{quantity}");
}

#[test]
fn scf_003_an_optional_quantity_is_nullable() {
    #[derive(JsonSchema)]
    #[expect(dead_code)]
    struct Spec {
        size: Option<Quantity>,
        port: Option<IntOrString>,
        text: Option<String>,
    }
    let schema = structural::<Spec>();
    for field in ["size", "port", "text"] {
        assert_eq!(schema["properties"][field]["nullable"], true, "{field}: {schema}");
    }
    assert_eq!(schema["properties"]["size"]["x-kubernetes-int-or-string"], true);
    assert!(schema["properties"]["size"]["pattern"].is_string());
    assert_eq!(schema.get("required"), None);
}

#[test]
fn scf_003_embedded_metadata_keeps_what_templates_set() {
    let schema = structural::<PodTemplateSpec>();
    let metadata = schema["properties"]["metadata"]["properties"].as_object().unwrap();
    assert_eq!(metadata.keys().collect::<BTreeSet<_>>().len(), 5);
    for name in ["annotations", "finalizers", "labels", "name", "namespace"] {
        assert!(metadata.contains_key(name), "{name}");
    }
    assert_eq!(spec_of::<ObjectMeta>()["properties"]["labels"]["additionalProperties"]["type"], "string");
}

#[test]
fn scf_003_types_of_kubernetes_are_structural() {
    structural::<PodTemplateSpec>();
    structural::<Container>();
    structural::<Vec<Condition>>();
    // It contains itself.
    structural::<JSONSchemaProps>();
    assert_eq!(spec_of::<RawExtension>()["x-kubernetes-preserve-unknown-fields"], true);
    assert_eq!(spec_of::<JSON>()["x-kubernetes-preserve-unknown-fields"], true);
    assert_eq!(
        spec_of::<BTreeMap<String, Value>>()["additionalProperties"],
        json!({"x-kubernetes-preserve-unknown-fields": true})
    );
}

#[test]
fn a_type_that_contains_itself_is_cut() {
    #[derive(JsonSchema)]
    #[expect(dead_code)]
    struct Tree {
        name: String,
        children: Vec<Tree>,
    }
    let schema = structural::<Tree>();
    let inner = &schema["properties"]["children"]["items"];
    assert_eq!(*inner, json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
}

#[test]
fn collections_and_numbers_have_forms_that_kubernetes_accepts() {
    let set = spec_of::<BTreeSet<String>>();
    assert_eq!(set["x-kubernetes-list-type"], "set");
    assert_eq!(set.get("uniqueItems"), None);
    assert_eq!(structural::<(String, i32)>()["items"], json!({"x-kubernetes-preserve-unknown-fields": true}));
    assert_eq!(structural::<[u8; 3]>()["items"], json!({"type": "integer", "minimum": 0, "maximum": 255}));
    assert_eq!(structural::<HashMap<u16, bool>>()["additionalProperties"], json!({"type": "boolean"}));
    assert_eq!(spec_of::<u32>(), json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}));
    assert_eq!(spec_of::<i32>(), json!({"type": "integer", "format": "int32"}));
    assert_eq!(spec_of::<std::net::IpAddr>(), json!({"type": "string"}));
}

#[derive(JsonSchema, Serialize, Deserialize)]
struct Disk {
    size: i32,
}

#[test]
fn an_enum_of_names_is_a_list_of_them() {
    #[derive(JsonSchema)]
    #[expect(dead_code)]
    enum Level {
        /// Little.
        Low,
        High,
    }
    let schema = structural::<Level>();
    assert_eq!((&schema["type"], &schema["enum"]), (&json!("string"), &json!(["High", "Low"])), "{schema}");
    #[derive(JsonSchema)]
    #[expect(dead_code)]
    struct Spec {
        level: Option<Level>,
    }
    let schema = structural::<Spec>();
    assert_eq!(schema["properties"]["level"]["nullable"], true);
    assert_eq!(schema["properties"]["level"]["enum"].as_array().unwrap().len(), 2);
}

#[test]
fn an_enum_with_fields_has_one_property_per_variant() {
    #[derive(JsonSchema)]
    #[serde(rename_all = "camelCase")]
    #[expect(dead_code)]
    enum Source {
        /// A disk.
        Disk(Disk),
        EmptyDir {},
    }
    let schema = structural::<Source>();
    assert_eq!(schema["properties"]["disk"]["description"], "A disk.");
    assert_eq!(schema["oneOf"], json!([{"required": ["disk"]}, {"required": ["emptyDir"]}]));
    assert_eq!(schema["type"], "object");
}

#[test]
fn a_tagged_enum_has_the_properties_of_all_variants() {
    #[derive(JsonSchema)]
    #[serde(tag = "type")]
    #[expect(dead_code)]
    enum Source {
        Disk(Disk),
        Nfs { server: String },
    }
    let schema = structural::<Source>();
    assert_eq!(schema["properties"]["type"], json!({"type": "string", "enum": ["Disk", "Nfs"]}));
    assert_eq!(schema["required"], json!(["type"]));
    assert!(schema["properties"]["size"].is_object() && schema["properties"]["server"].is_object(), "{schema}");
}

#[test]
fn variants_of_different_types_accept_any_value() {
    #[derive(JsonSchema)]
    #[serde(untagged)]
    #[expect(dead_code)]
    enum Port {
        Number(u16),
        Name(String),
    }
    assert_eq!(structural::<Port>()["x-kubernetes-int-or-string"], true);
    #[derive(JsonSchema)]
    #[expect(dead_code)]
    enum Mixed {
        Plain,
        With { size: i32 },
    }
    assert_eq!(structural::<Mixed>()["x-kubernetes-preserve-unknown-fields"], true);
    #[derive(JsonSchema)]
    #[expect(dead_code)]
    struct Flat {
        name: String,
        #[serde(flatten)]
        rest: BTreeMap<String, String>,
    }
    let schema = structural::<Flat>();
    assert_eq!(
        (schema.get("additionalProperties"), &schema["x-kubernetes-preserve-unknown-fields"]),
        (None, &json!(true))
    );
}

#[test]
fn scf_004_rules_of_a_field_and_of_its_type_are_both_kept() {
    #[derive(JsonSchema)]
    #[schemars(transform = rule(Rule::new("self.size > 0").message("must not be empty")))]
    #[expect(dead_code)]
    struct Volume {
        size: i32,
    }
    #[derive(JsonSchema)]
    #[expect(dead_code)]
    struct Spec {
        #[schemars(transform = rule("self == oldSelf"))]
        #[schemars(transform = rule(Rule::new("true").reason(kube_core::Reason::FieldValueForbidden).field_path(".size").optional_old_self(true)))]
        volume: Option<Volume>,
        #[schemars(transform = merge(ListMerge::Map(vec!["name".to_owned()])))]
        list: Vec<Container>,
    }
    let schema = structural::<Spec>();
    let rules = schema["properties"]["volume"]["x-kubernetes-validations"].as_array().unwrap();
    assert_eq!(rules.len(), 3, "{rules:?}");
    assert_eq!(rules[0], json!({"rule": "self.size > 0", "message": "must not be empty"}));
    assert_eq!(
        rules[2],
        json!({"rule": "true", "reason": "FieldValueForbidden", "fieldPath": ".size", "optionalOldSelf": true})
    );
    let list = &schema["properties"]["list"];
    assert_eq!(
        (&list["x-kubernetes-list-type"], &list["x-kubernetes-list-map-keys"]),
        (&json!("map"), &json!(["name"]))
    );
}

#[test]
fn a_root_has_its_description_rules_and_status() {
    let schema =
        ObjectSchema::of::<Disk>().status::<Condition>().description("A volume.").rule("true").build().to_value();
    assert_eq!((&schema["description"], &schema["required"]), (&json!("A volume."), &json!(["spec"])));
    assert_eq!(schema["x-kubernetes-validations"], json!([{"rule": "true"}]));
    assert_eq!(schema["properties"]["status"]["nullable"], true);
    let flat = ObjectSchema::of::<Disk>().flat_spec().build().to_value();
    assert_eq!(flat["properties"]["size"]["type"], "integer");
}
