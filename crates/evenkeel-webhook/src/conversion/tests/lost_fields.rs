//! Fields that the other version does not have.

use super::*;
use crate::testing::{ConversionTestError, ConversionTester};

const ANNOTATION: &str = "example.com/conversion-data";

/// Returns the object with the `spec` that a function makes of it.
fn with_spec<const V: u8>(json: &Value, spec: impl FnOnce(&Value) -> Value) -> Foo<V> {
    let mut json = json.clone();
    json["apiVersion"] = format!("example.com/v{V}").into();
    json["spec"] = spec(&json["spec"]);
    Foo::new(&json)
}

/// Returns the parts, with these of their members.
fn parts(spec: &Value, members: &[&str]) -> Value {
    let list = spec["parts"].as_array().into_iter().flatten();
    let part = |part: &Value| -> Value {
        let known = members.iter().filter_map(|name| Some(((*name).to_owned(), part.get(name)?.clone())));
        Value::Object(known.collect())
    };
    list.map(part).collect()
}

/// v1 has `size`, `colour`, and parts with a name and a weight. The hub has `replicas`, `zone`, and parts with a name. v2 is
/// the hub without `zone`.
fn lossy() -> Conversion<Foo<3>> {
    Conversion::hub::<Foo<3>>(&["v1", "v2", "v3"])
        .spoke::<Foo<1>>(
            |foo| Ok(with_spec(&foo.json(), |spec| json!({"replicas": spec["size"], "parts": parts(spec, &["name"])}))),
            |hub| Ok(with_spec(&hub.json(), |spec| json!({"size": spec["replicas"], "parts": parts(spec, &["name"])}))),
        )
        .spoke::<Foo<2>>(
            |foo| Ok(with_spec(&foo.json(), Value::clone)),
            |hub| {
                Ok(with_spec(
                    &hub.json(),
                    |spec| json!({"replicas": spec["replicas"], "parts": parts(spec, &["name"])}),
                ))
            },
        )
}

fn object(version: u8, spec: &Value) -> Value {
    let mut object = foo(version, "a", "");
    object["spec"] = spec.clone();
    object
}

fn first() -> Value {
    object(1, &json!({"size": 2, "colour": "red", "parts": [{"name": "a", "weight": 1}, {"name": "b", "weight": 2}]}))
}

async fn converted(conversions: &Conversions, object: &Value, version: u8) -> Value {
    let answer = send(conversions, &review(&format!("example.com/v{version}"), std::slice::from_ref(object))).await;
    assert_eq!(answer["response"]["result"], json!({"status": "Success"}));
    answer["response"]["convertedObjects"][0].clone()
}

#[tokio::test]
async fn cnv_014_what_the_hub_has_no_field_for_comes_back_with_the_changes_since_then() {
    let conversions = lossy().keep_lost_fields().served();
    let mut hub = converted(&conversions, &first(), 3).await;
    assert_eq!(hub["spec"], json!({"replicas": 2, "parts": [{"name": "a"}, {"name": "b"}]}));
    assert_eq!(hub["metadata"]["annotations"].as_object().unwrap().keys().collect::<Vec<_>>(), [ANNOTATION]);
    assert_eq!(converted(&conversions, &hub, 1).await, first());

    hub["spec"] = json!({"replicas": 5, "parts": [{"name": "new"}, {"name": "b"}]});
    let back = converted(&conversions, &hub, 1).await;
    let expected = json!({"size": 5, "colour": "red", "parts": [{"name": "new"}, {"name": "b", "weight": 2}]});
    assert_eq!(back, object(1, &expected));
}

#[tokio::test]
async fn cnv_014_the_annotation_passes_through_other_versions() {
    let conversions = lossy().keep_lost_fields().served();
    let mut hub = converted(&conversions, &first(), 3).await;
    hub["spec"]["zone"] = json!("north");
    // A client reads and writes v2, which has neither.
    let mut second = converted(&conversions, &hub, 2).await;
    assert_eq!(second["spec"], json!({"replicas": 2, "parts": [{"name": "a"}, {"name": "b"}]}));
    second["spec"]["replicas"] = json!(7);
    let hub = converted(&conversions, &second, 3).await;
    assert_eq!((&hub["spec"]["replicas"], &hub["spec"]["zone"]), (&json!(7), &json!("north")));
    let back = converted(&conversions, &hub, 1).await;
    assert_eq!((&back["spec"]["size"], &back["spec"]["colour"]), (&json!(7), &json!("red")));
    // v1 cannot hold the zone, and keeps it.
    assert_eq!(converted(&conversions, &back, 3).await["spec"]["zone"], "north");
}

#[tokio::test]
async fn cnv_014_an_object_that_loses_nothing_gets_no_annotation_and_a_damaged_one_is_ignored() {
    let conversions = lossy().keep_lost_fields().served();
    let mut small = object(1, &json!({"size": 2, "parts": []}));
    assert_eq!(converted(&conversions, &small, 3).await["metadata"]["annotations"], Value::Null);
    for damaged in ["", "{", "[]", r#"{"v3": 1}"#, r#"{"v3": {"spec": [], "metadata": {"name": "b"}}}"#] {
        small["metadata"]["annotations"] = json!({ANNOTATION: damaged, "mine": "x"});
        let hub = converted(&conversions, &small, 3).await;
        assert_eq!(hub["metadata"]["name"], "a", "{damaged}");
        assert_eq!(hub["metadata"]["annotations"]["mine"], "x", "{damaged}");
    }
}

fn definition() -> CustomResourceDefinition {
    let parts = json!({"type": "array", "items": {"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "minLength": 1}, "weight": {"type": "integer", "format": "int32"},
    }}});
    let version = |name: &str, spec: Value| {
        let spec = json!({"type": "object", "required": ["parts"], "properties": spec});
        let schema = json!({"type": "object", "properties": {"spec": spec}, "required": ["spec"]});
        json!({"name": name, "served": true, "storage": name == "v3", "schema": {"openAPIV3Schema": schema}})
    };
    let (count, text) = (json!({"type": "integer", "minimum": 0}), json!({"type": "string"}));
    let names = json!({"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}});
    serde_json::from_value(json!({"metadata": {"name": "foos.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"kind": "Foo", "plural": "foos"},
        "versions": [
            version("v1", json!({"size": count, "colour": text, "parts": parts})),
            version("v2", json!({"replicas": count, "parts": names})),
            version("v3", json!({"replicas": count, "zone": text, "parts": names})),
        ],
    }}))
    .unwrap()
}

#[test]
fn cnv_014_generated_objects_of_every_version_survive_the_round_trip() {
    let keeping = ConversionTester::new(lossy().keep_lost_fields()).unwrap();
    keeping.generated(&definition(), 100).unwrap();
    let losing = ConversionTester::new(lossy()).unwrap();
    let lost = losing.generated(&definition(), 100).unwrap_err();
    assert!(matches!(&lost, ConversionTestError::Changed { from, to, .. } if from == "v1" && to == "v3"), "{lost}");
}

#[test]
fn cnv_014_the_tester_names_what_is_lost_and_converters_that_fail() {
    let losing = ConversionTester::new(lossy()).unwrap();
    let lost = losing.round_trip(&first()).unwrap_err().to_string();
    assert!(lost.starts_with("v1 to v3 and back changes the object by") && lost.contains("/spec/colour"), "{lost}");
    let failing = ConversionTester::new(conversion()).unwrap();
    let failed = failing.round_trip(&foo(3, "a", "fail")).unwrap_err().to_string();
    assert!(failed.starts_with("cannot convert from v3 to v1: spec.size is too large for v1"), "{failed}");
    let unknown = failing.round_trip(&foo(7, "a", "")).unwrap_err().to_string();
    assert!(unknown.contains("\"example.com/v7\" is no version of the kind"), "{unknown}");
    let mut patterned = definition();
    let schema = patterned.spec.versions[0].schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
    let spec = schema.properties.as_mut().unwrap().get_mut("spec").unwrap();
    spec.properties.as_mut().unwrap().get_mut("colour").unwrap().pattern = Some("^#".to_owned());
    spec.required = Some(vec!["colour".to_owned()]);
    let problem = losing.generated(&patterned, 1).unwrap_err().to_string();
    assert!(problem.contains("version v1: .spec.colour is required and has a pattern"), "{problem}");
}
