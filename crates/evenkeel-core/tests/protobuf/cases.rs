//! Cases of protobuf that no fixture has, byte by byte (PB-092), and the types decoded from them.

use std::collections::HashMap;

use evenkeel_core::protobuf::{DEPTH_LIMIT, Message, from_slice, to_vec, unwrap_envelope, wrap_envelope, write_json};
use evenkeel_core::{ProtobufError, WireError};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::api::events::v1::EventSeries;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// Encodes a field of a varint.
fn int(number: u64, value: i64) -> Vec<u8> {
    [varint(number << 3), varint(value as u64)].concat()
}

/// Encodes a field of bytes.
fn field(number: u64, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [varint(number << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

fn of(api_version: &str, kind: &str) -> &'static Message {
    Message::of_kind(api_version, kind).unwrap()
}

/// Returns the JSON of a message, on which tree and text agree.
fn show(message: &'static Message, bytes: &[u8]) -> Value {
    let tree: Value = from_slice(message, bytes).unwrap();
    let mut text = Vec::new();
    write_json(message, bytes, None, &mut text).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&text).unwrap(), tree);
    tree
}

/// Returns the error of both readers.
fn refuse(message: &'static Message, bytes: &[u8]) -> ProtobufError {
    let error = from_slice::<Value>(message, bytes).unwrap_err();
    assert_eq!(write_json(message, bytes, None, &mut Vec::new()), Err(error.clone()));
    error
}

fn pod_spec(spec: &[u8]) -> Value {
    show(of("v1", "Pod"), &field(2, spec))["spec"].clone()
}

#[test]
fn pb_021_only_the_envelope_states_kind_and_version() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
    let bytes = to_vec(of("v1", "Pod"), &pod).unwrap();
    assert_eq!(bytes, field(1, field(1, "a")));
    assert_eq!(show(of("v1", "Pod"), &bytes), json!({"metadata": {"name": "a"}}));
    let typed: Pod = from_slice(of("v1", "Pod"), &bytes).unwrap();
    assert_eq!(to_vec(of("v1", "Pod"), &typed).unwrap(), bytes, "the type states its kind too");
}

#[test]
fn pb_022_a_quantity_without_text_is_zero() {
    let limits = |value: &[u8]| field(2, field(8, field(1, [field(1, "cpu"), value.to_vec()].concat())));
    for empty in [vec![], field(2, ""), field(2, field(1, ""))] {
        assert_eq!(pod_spec(&limits(&empty))["containers"][0]["resources"]["limits"], json!({"cpu": "0"}));
    }
    let numbers = json!({"spec": {"capacity": {"storage": 5}}});
    let bytes = to_vec(of("v1", "PersistentVolume"), &numbers).unwrap();
    assert_eq!(show(of("v1", "PersistentVolume"), &bytes)["spec"]["capacity"]["storage"], "5", "as Go reads it");
}

#[test]
fn pb_023_a_number_or_a_string() {
    let port = |port: &[u8]| show(of("v1", "Service"), &field(2, field(1, field(4, port))))["spec"]["ports"][0].clone();
    assert_eq!(port(&[])["targetPort"], 0, "an empty message is an integer");
    assert_eq!(port(&int(2, -5))["targetPort"], -5);
    assert_eq!(port(&[int(1, 1), int(2, 0), field(3, "http")].concat())["targetPort"], "http");
    assert_eq!(port(&int(1, 1))["targetPort"], "", "a string that is empty");
    assert_eq!(port(&[int(1, 0), int(2, 7), field(3, "http")].concat())["targetPort"], 7);
    let service = json!({"spec": {"ports": [{"targetPort": ""}, {"targetPort": 8}]}});
    let bytes = to_vec(of("v1", "Service"), &service).unwrap();
    assert_eq!(show(of("v1", "Service"), &bytes), service);
    let typed: Service = from_slice(of("v1", "Service"), &bytes).unwrap();
    let port = &typed.spec.unwrap().ports.unwrap()[1];
    assert_eq!(port.target_port, Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(8)));
}

#[test]
fn pb_024_no_time_is_not_the_start_of_1970() {
    let condition = |time: &[u8]| {
        let bytes = field(3, field(2, [field(1, "Ready"), field(4, time)].concat()));
        show(of("v1", "Pod"), &bytes)["status"]["conditions"][0]["lastTransitionTime"].clone()
    };
    assert_eq!(condition(&[]), Value::Null);
    assert_eq!(condition(&[int(1, 0), int(2, 0)].concat()), "1970-01-01T00:00:00Z");
    assert_eq!(
        condition(&[int(1, -1), int(2, 999_999_999)].concat()),
        "1969-12-31T23:59:59Z",
        "a part of a second goes"
    );
    assert_eq!(condition(&int(1, -62_135_596_800)), Value::Null, "Go's zero time, written out");
    for (text, message) in [
        ("1970-01-01T00:00:00Z", vec![8, 0, 16, 0]),
        ("1970-01-01T01:00:01.9+01:00", vec![8, 1, 16, 0]),
        ("0001-01-01T00:00:00Z", vec![]),
    ] {
        let pod = json!({"metadata": {"deletionTimestamp": text}});
        assert_eq!(to_vec(of("v1", "Pod"), &pod).unwrap(), field(1, field(9, message)), "{text}");
    }
    let far = field(1, field(9, int(1, i64::MAX)));
    assert_eq!(refuse(of("v1", "Pod"), &far), ProtobufError::InvalidTime { path: "metadata.deletionTimestamp".into() });
    let wrong = to_vec(of("v1", "Pod"), &json!({"metadata": {"deletionTimestamp": "yesterday"}}));
    assert_eq!(wrong, Err(ProtobufError::InvalidTime { path: "metadata.deletionTimestamp".into() }));
}

#[test]
fn pb_025_times_of_events_have_six_digits() {
    let event = of("events.k8s.io/v1", "Event");
    let time = |time: &[u8]| show(event, &field(2, time))["eventTime"].clone();
    assert_eq!(time(&[int(1, 1), int(2, 1_999)].concat()), "1970-01-01T00:00:01.000001Z");
    assert_eq!(time(&int(1, 1)), "1970-01-01T00:00:01.000000Z");
    assert_eq!(time(&[int(1, 1), int(2, -1)].concat()), "1970-01-01T00:00:00.999999Z");
    assert_eq!(time(&[]), Value::Null);
    let bytes = to_vec(event, &json!({"eventTime": "1970-01-01T00:00:01.123456789Z"})).unwrap();
    assert_eq!(bytes, field(2, [int(1, 1), int(2, 123_456_000)].concat()));
    let bytes = to_vec(event, &json!({"eventTime": "1969-12-31T23:59:59.5Z"})).unwrap();
    assert_eq!(bytes, field(2, [int(1, -1), int(2, 500_000_000)].concat()));
}

#[test]
fn pb_026_durations_are_those_of_go() {
    let metrics = of("metrics.k8s.io/v1beta1", "NodeMetrics");
    for (nanos, text) in
        [(90_000_000_000, "1m30s"), (0, "0s"), (-1_500_000, "-1.5ms"), (i64::MAX, "2562047h47m16.854775807s")]
    {
        let bytes = field(3, int(1, nanos));
        assert_eq!(show(metrics, &bytes)["window"], text);
        assert_eq!(to_vec(metrics, &json!({"window": text})).unwrap(), bytes);
    }
    let expected = ProtobufError::Unexpected { path: "window".into(), expected: "a duration" };
    assert_eq!(to_vec(metrics, &json!({"window": "soon"})), Err(expected));
}

#[test]
fn pb_027_an_object_in_an_object() {
    let revision = of("apps/v1", "ControllerRevision");
    let data = |raw: &[u8]| field(2, field(1, raw));
    assert_eq!(show(revision, &data(b" {\"a\": [1, null]} "))["data"], json!({"a": [1, null]}));
    assert_eq!(show(revision, &data(b""))["data"], Value::Null);
    assert_eq!(show(revision, &field(2, ""))["data"], Value::Null);
    let nested = wrap_envelope("v1", "Pod", &field(1, field(1, "a")));
    let shown = show(revision, &data(&nested));
    assert_eq!(shown["data"], json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}}));
    let other = |raw: &[u8]| refuse(revision, &data(raw));
    assert_eq!(other(b"\xd9\xd9\xf7\xa0"), ProtobufError::UnsupportedFormat { path: "data".into() }, "CBOR");
    assert_eq!(
        other(&wrap_envelope("example.com/v1", "Foo", b"")),
        ProtobufError::UnsupportedFormat { path: "data".into() }
    );
    for bad in [&b"{"[..], b"nothing", b"{} {}", b"\"\xff\""] {
        assert_eq!(other(bad), ProtobufError::NotJson { path: "data".into() });
    }
    let deep = (0..1000).fold(b"1".to_vec(), |inner, _| wrap_envelope("apps/v1", "ControllerRevision", &data(&inner)));
    let error = refuse(revision, &data(&deep));
    assert!(matches!(error, ProtobufError::TooDeep { limit: DEPTH_LIMIT, .. }), "{error}");
}

#[test]
fn pb_028_owned_fields_are_left_out_when_empty() {
    let entry = |fields: &[u8]| {
        let bytes = field(1, field(17, [field(1, "m"), fields.to_vec()].concat()));
        show(of("v1", "Pod"), &bytes)["metadata"]["managedFields"][0].clone()
    };
    assert_eq!(entry(&field(7, field(1, r#"{"f:a":{}}"#))), json!({"manager": "m", "fieldsV1": {"f:a": {}}}));
    assert_eq!(entry(&field(7, "")), json!({"manager": "m"}));
    assert_eq!(entry(&field(7, field(1, ""))), json!({"manager": "m"}));
}

#[test]
fn pb_029_fields_of_inline_messages_appear_in_their_parent() {
    let unknown = field(63, "?");
    let source = [field(2, ""), unknown.clone()].concat();
    let volume = [field(1, "v"), field(2, source), unknown].concat();
    assert_eq!(pod_spec(&field(1, volume))["volumes"], json!([{"name": "v", "emptyDir": {}}]));
    let binding = of("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding");
    let rule = json!({"resourceNames": ["n"], "operations": ["*"], "apiGroups": ["g"], "scope": "Cluster"});
    let object = json!({"spec": {"matchResources": {"resourceRules": [rule]}}});
    let bytes = to_vec(binding, &object).unwrap();
    let inner = [field(1, "g"), field(4, "Cluster")].concat();
    let middle = [field(1, "*"), field(2, inner)].concat();
    let rule = [field(1, "n"), field(2, middle)].concat();
    assert_eq!(bytes, field(2, field(3, field(3, rule))), "two levels down, in order");
    assert_eq!(show(binding, &bytes), object);
    let bare = to_vec(binding, &json!({"spec": {"matchResources": {"resourceRules": [{}]}}})).unwrap();
    assert_eq!(bare, field(2, field(3, field(3, field(2, field(2, ""))))), "Go writes them even if they are empty");
}

#[test]
fn pb_030_maps() {
    let map = of("v1", "ConfigMap");
    let pairs = [
        field(2, [field(2, "1"), field(1, "b")].concat()),
        field(2, field(1, "a")),
        field(2, field(2, "x")),
        field(2, [field(1, "b"), field(2, "2")].concat()),
    ];
    let shown = json!({"data": {"": "x", "a": "", "b": "2"}});
    assert_eq!(show(map, &pairs.concat()), shown, "in any order, with gaps, and the last of two counts");
    let unsorted: HashMap<String, String> = (0..50).map(|at| (format!("k{at}"), "v".repeat(at * 5))).collect();
    let sorted: std::collections::BTreeMap<_, _> = unsorted.clone().into_iter().collect();
    let bytes = to_vec(map, &json!({"data": sorted})).unwrap();
    #[derive(Serialize)]
    struct Unsorted {
        data: HashMap<String, String>,
    }
    assert_eq!(to_vec(map, &Unsorted { data: unsorted }).unwrap(), bytes, "PB-086: keys are sorted");
}

#[test]
fn pb_031_bytes_are_base64() {
    let secret = of("v1", "Secret");
    let pair = |key: &str, value: &[u8]| field(2, [field(1, key), value.to_vec()].concat());
    let bytes = [pair("a", &field(2, b"\x00\xff")), pair("empty", &field(2, "")), pair("nil", b"")].concat();
    assert_eq!(show(secret, &bytes)["data"], json!({"a": "AP8=", "empty": "", "nil": ""}));
    let typed: Secret = from_slice(secret, &bytes).unwrap();
    let data = typed.data.unwrap();
    assert_eq!((&data["a"].0, &data["nil"].0), (&vec![0, 255], &vec![]));
    let written = to_vec(secret, &json!({"data": {"a": "AP8=", "empty": "", "nil": null}})).unwrap();
    assert_eq!(written, bytes, "PB-092: nothing and an empty value");
    let wrong = ProtobufError::Unexpected { path: "data".into(), expected: "a string of base64" };
    assert_eq!(to_vec(secret, &json!({"data": {"a": "?"}})), Err(wrong));
}

#[test]
fn pb_032_lists_that_are_messages() {
    let review = of("authorization.k8s.io/v1", "SubjectAccessReview");
    let object = json!({"spec": {"extra": {"a": ["1", "2"], "b": []}}});
    let bytes = to_vec(review, &object).unwrap();
    assert_eq!(show(review, &bytes), object, "an empty one is there");
    // A message of a list called items is no such list.
    let projection = json!({"spec": {"volumes": [{"name": "v", "projected": {"sources": [{"downwardAPI": {"items": [{"path": "p"}]}}]}}]}});
    let bytes = to_vec(of("v1", "Pod"), &projection).unwrap();
    assert_eq!(show(of("v1", "Pod"), &bytes), projection);
}

fn definition(schema: &[u8]) -> Vec<u8> {
    field(2, field(7, field(4, field(1, schema))))
}

fn schema_of(schema: &[u8]) -> Value {
    let shown = show(of("apiextensions.k8s.io/v1", "CustomResourceDefinition"), &definition(schema));
    shown.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap().clone()
}

#[test]
fn pb_033_schemas_or_other_values() {
    let string = field(5, "string");
    let (items, additional, dependencies) = (24, 30, 32);
    assert_eq!(schema_of(&field(items, field(1, &string))), json!({"items": {"type": "string"}}));
    assert_eq!(
        schema_of(&field(items, [field(2, &string), field(2, "")].concat())),
        json!({"items": [{"type": "string"}, {}]})
    );
    assert_eq!(
        schema_of(&field(items, [field(2, &string), field(1, "")].concat())),
        json!({"items": [{"type": "string"}]})
    );
    assert_eq!(schema_of(&field(items, "")), json!({"items": null}));
    assert_eq!(schema_of(&field(additional, int(1, 1))), json!({"additionalProperties": true}));
    assert_eq!(schema_of(&field(additional, "")), json!({"additionalProperties": false}));
    let both = [int(1, 1), field(2, &string)].concat();
    assert_eq!(schema_of(&field(additional, both)), json!({"additionalProperties": {"type": "string"}}));
    let pair = |key: &str, value: &[u8]| field(dependencies, [field(1, key), field(2, value)].concat());
    let pairs = [pair("a", &[field(2, "x"), field(2, "y")].concat()), pair("b", &field(1, &string)), pair("c", b"")];
    assert_eq!(
        schema_of(&pairs.concat()),
        json!({"dependencies": {"a": ["x", "y"], "b": {"type": "string"}, "c": null}})
    );
}

#[test]
fn pb_033_schemas_nest_to_a_limit() {
    let definitions = of("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let nested = |levels| (0..levels).fold(Vec::new(), |inner, _| field(28, inner));
    let fine: Value = from_slice(definitions, &definition(&nested(DEPTH_LIMIT - 10))).unwrap();
    assert!(fine.is_object());
    let typed =
        from_slice::<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition>;
    assert!(typed(definitions, &definition(&nested(DEPTH_LIMIT - 10))).is_ok());
    let error = refuse(definitions, &definition(&nested(300)));
    assert!(matches!(error, ProtobufError::TooDeep { limit: DEPTH_LIMIT, .. }), "{error}");
    let deep = (0..300).fold(json!({}), |inner, _| json!({"not": inner}));
    let deep = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": deep}}]}});
    assert!(matches!(to_vec(definitions, &deep), Err(ProtobufError::TooDeep { .. })));
}

#[test]
fn pb_034_numbers() {
    let container = |priority: &[u8]| pod_spec(priority)["priority"].clone();
    assert_eq!(container(&int(25, -1)), -1);
    assert_eq!(container(&int(25, 0xffff_ffff)), -1, "only 32 bits count");
    let schema =
        |bits: f64| schema_of(&[varint(9 << 3 | 1), bits.to_bits().to_le_bytes().to_vec()].concat())["maximum"].clone();
    assert_eq!(schema(1.5), json!(1.5));
    assert_eq!(schema(3.0), json!(3), "Go writes no fraction");
    assert_eq!(schema(1e19), json!(10_000_000_000_000_000_000_u64));
    assert_eq!(schema(f64::NAN), Value::Null);
    let pod = of("v1", "Pod");
    let expected = ProtobufError::Unexpected { path: "spec.priority".into(), expected: "a number of 32 bits" };
    assert_eq!(to_vec(pod, &json!({"spec": {"priority": 1_i64 << 40}})), Err(expected));
    assert_eq!(to_vec(pod, &json!({"spec": {"priority": -1}})).unwrap(), field(2, int(25, -1)), "ten bytes");
}

#[test]
fn pb_035_numbers_may_be_packed() {
    let groups = |bytes: &[u8]| pod_spec(&field(14, bytes))["securityContext"]["supplementalGroups"].clone();
    assert_eq!(groups(&[int(4, 1), int(4, 300)].concat()), json!([1, 300]));
    assert_eq!(groups(&[int(4, 1), field(4, [2, 0xac, 2]), int(4, 3)].concat()), json!([1, 2, 300, 3]));
    assert_eq!(groups(&field(4, "")), json!([]));
    let written =
        to_vec(of("v1", "Pod"), &json!({"spec": {"securityContext": {"supplementalGroups": [1, 300]}}})).unwrap();
    assert_eq!(written, field(2, field(14, [int(4, 1), int(4, 300)].concat())), "we do not pack");
}

#[test]
fn pb_036_unknown_fields_and_wrong_types() {
    let unknown = [field(60, "x"), int(61, 1), b"\xfb\x03\x08\x01\xfc\x03".to_vec(), field(2000, "y")].concat();
    let pod = [field(1, [unknown.clone(), field(1, "a")].concat()), unknown].concat();
    assert_eq!(show(of("v1", "Pod"), &pod), json!({"metadata": {"name": "a"}}));
    let error = refuse(of("v1", "Pod"), &field(1, int(1, 1)));
    let wire_type = WireError::WireType(0);
    assert_eq!(error, ProtobufError::Malformed { path: "metadata.name".into(), source: wire_type });
    let error = refuse(
        of("v1", "Pod"),
        &field(2, field(2, [field(1, "c"), field(6, int(3, 1)), field(6, field(3, "x"))].concat())),
    );
    assert_eq!(error.path(), "spec.containers[0].ports[1].containerPort");
    assert_eq!(
        error.to_string(),
        "malformed protobuf at spec.containers[0].ports[1].containerPort: unexpected wire type 2"
    );
    assert!(matches!(refuse(of("v1", "Pod"), b"\x02\x00"), ProtobufError::Malformed { source: WireError::BadTag, .. }));
}

#[test]
fn pb_037_invalid_utf_8_is_replaced_as_in_go() {
    let bytes = [field(1, field(1, b"a\xffb")), field(2, [field(1, b"\xfe"), field(2, b"\xc3\x28")].concat())].concat();
    let shown = json!({"metadata": {"name": "a\u{fffd}b"}, "data": {"\u{fffd}": "\u{fffd}("}});
    assert_eq!(show(of("v1", "ConfigMap"), &bytes), shown);
    let typed: ConfigMap = from_slice(of("v1", "ConfigMap"), &bytes).unwrap();
    assert_eq!(typed.metadata.name.unwrap(), "a\u{fffd}b");
}

#[test]
fn pb_038_the_last_of_two_values_wins() {
    let twice = [field(1, "a"), field(1, "b")].concat();
    assert_eq!(show(of("v1", "Pod"), &field(1, twice)), json!({"metadata": {"name": "b"}}));
    let apart = [field(1, "a"), field(3, "n"), field(1, "b")].concat();
    let shown = json!({"metadata": {"name": "b", "namespace": "n"}});
    assert_eq!(show(of("v1", "Pod"), &field(1, &apart)), shown);
    // A type that rejects duplicate names never receives them.
    #[derive(Deserialize)]
    struct Named {
        metadata: Names,
    }
    #[derive(Deserialize)]
    struct Names {
        name: String,
    }
    assert_eq!(from_slice::<Named>(of("v1", "Pod"), &field(1, apart)).unwrap().metadata.name, "b");
}

#[test]
fn pb_039_lists_of_objects() {
    let list = of("v1", "PodList");
    let pod = |name: &str| field(2, field(1, field(1, name)));
    let bytes = [field(1, [field(2, "7"), int(4, 3)].concat()), pod("a"), pod("b")].concat();
    let typed: k8s_openapi::List<Pod> = from_slice(list, &bytes).unwrap();
    assert_eq!(typed.metadata.remaining_item_count, Some(3));
    let names: Vec<_> = typed.items.iter().map(|pod| pod.metadata.name.as_deref()).collect();
    assert_eq!(names, [Some("a"), Some("b")]);
    assert_eq!(to_vec(list, &typed).unwrap(), bytes);
}

#[test]
fn pb_040_empty_messages_mean_something() {
    let volume = [field(1, "v"), field(2, field(2, ""))].concat();
    assert_eq!(pod_spec(&field(1, volume))["volumes"], json!([{"name": "v", "emptyDir": {}}]));
    let pod = json!({"spec": {"affinity": {"podAffinity": {}}}});
    let bytes = to_vec(of("v1", "Pod"), &pod).unwrap();
    assert_eq!(show(of("v1", "Pod"), &bytes), pod);
    let typed: Pod = from_slice(of("v1", "Pod"), &bytes).unwrap();
    assert!(typed.spec.unwrap().affinity.unwrap().pod_affinity.is_some());
}

#[test]
fn pb_051_zeros_are_shown_where_json_shows_them() {
    // hostNetwork and nodeName are plain and left out, terminationGracePeriodSeconds and hostUsers are pointers and kept.
    let spec = [int(4, 0), field(10, ""), int(11, 0), int(37, 0)].concat();
    assert_eq!(pod_spec(&spec), json!({"terminationGracePeriodSeconds": 0, "hostUsers": false}));
    // The name of a container has no omitempty; its image has.
    assert_eq!(pod_spec(&field(2, [field(1, ""), field(2, "")].concat()))["containers"], json!([{"name": ""}]));
    let pod = json!({"spec": {"terminationGracePeriodSeconds": 0, "hostUsers": false, "runtimeClassName": ""}});
    let bytes = to_vec(of("v1", "Pod"), &pod).unwrap();
    assert_eq!(show(of("v1", "Pod"), &bytes), pod, "PB-085: a zero that is there is written");
    let typed: Pod = from_slice(of("v1", "Pod"), &bytes).unwrap();
    let spec = typed.spec.unwrap();
    assert_eq!((spec.termination_grace_period_seconds, spec.host_users), (Some(0), Some(false)));
    assert_eq!(spec.runtime_class_name.as_deref(), Some(""));
}

#[test]
fn pb_052_messages_are_kept_and_no_creation_time_is_left_out() {
    let bytes = [field(1, field(8, "")), field(2, ""), field(3, "")].concat();
    assert_eq!(show(of("v1", "Pod"), &bytes), json!({"metadata": {}, "spec": {}, "status": {}}));
}

#[test]
fn pb_053_absent_fields_stay_absent() {
    assert_eq!(show(of("v1", "Pod"), b""), json!({}));
    assert_eq!(from_slice::<Pod>(of("v1", "Pod"), b"").unwrap(), Pod::default());
    assert_eq!(
        to_vec(of("v1", "Pod"), &json!({"spec": null, "metadata": {"labels": {}, "finalizers": []}})).unwrap(),
        field(1, "")
    );
}

#[test]
fn pb_061_an_unset_time_is_go_s_zero_time_for_required_fields() {
    let zero = "0001-01-01T00:00:00Z".parse().unwrap();
    let message = of("apps/v1", "Deployment");
    #[derive(Deserialize)]
    struct Insists {
        status: Conditions,
    }
    #[derive(Deserialize)]
    struct Conditions {
        conditions: Vec<Timed>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Timed {
        last_update_time: String,
        last_transition_time: Option<String>,
    }
    let bytes = field(3, field(6, [field(6, ""), field(7, "")].concat()));
    let conditions = from_slice::<Insists>(message, &bytes).unwrap().status.conditions;
    assert_eq!(
        (conditions[0].last_update_time.as_str(), &conditions[0].last_transition_time),
        ("0001-01-01T00:00:00Z", &None)
    );

    let event = of("events.k8s.io/v1", "Event");
    #[derive(Deserialize)]
    struct Series {
        series: EventSeries,
    }
    let series = from_slice::<Series>(event, &field(3, [int(1, 2), field(2, "")].concat())).unwrap().series;
    assert_eq!((series.count, series.last_observed_time.0), (2, zero));

    let service = of("v1", "Service");
    #[derive(Deserialize)]
    struct Conditioned {
        status: ConditionList,
    }
    #[derive(Deserialize)]
    struct ConditionList {
        conditions: Vec<Condition>,
    }
    let bytes = field(3, field(2, [field(1, "Ready"), field(4, "")].concat()));
    assert_eq!(from_slice::<Conditioned>(service, &bytes).unwrap().status.conditions[0].last_transition_time.0, zero);
}

#[test]
fn pb_066_lists_may_be_scattered() {
    let container = |name: &str| field(2, field(1, name));
    let volume = |name: &str| field(1, [field(1, name), field(2, field(2, ""))].concat());
    let spec = [
        container("a"),
        volume("v"),
        field(3, "Always"),
        container("b"),
        volume("w"),
        container("c"),
        field(3, "Never"),
    ];
    let bytes = field(2, spec.concat());
    let shown = show(of("v1", "Pod"), &bytes)["spec"].clone();
    assert_eq!(shown["restartPolicy"], "Never");
    assert_eq!(shown["containers"], json!([{"name": "a"}, {"name": "b"}, {"name": "c"}]));
    assert_eq!(shown["volumes"].as_array().unwrap().len(), 2);
    let typed: Pod = from_slice(of("v1", "Pod"), &bytes).unwrap();
    let names: Vec<String> = typed.spec.unwrap().containers.into_iter().map(|container| container.name).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let map = [field(2, [field(1, "a"), field(2, "1")].concat()), field(1, ""), field(2, field(1, "b"))];
    assert_eq!(show(of("v1", "ConfigMap"), &map.concat())["data"], json!({"a": "1", "b": ""}));
}

#[test]
fn pb_062_raw_values_receive_json() {
    #[derive(Deserialize)]
    struct Raw {
        data: Box<RawValue>,
        metadata: Box<RawValue>,
        revision: Option<Box<RawValue>>,
    }
    let bytes = [field(1, field(1, "a")), field(2, field(1, r#"{"x": 1}"#)), int(3, 7)].concat();
    let raw: Raw = from_slice(of("apps/v1", "ControllerRevision"), &bytes).unwrap();
    assert_eq!((raw.data.get(), raw.metadata.get()), (r#"{"x": 1}"#, r#"{"name":"a"}"#));
    assert_eq!(raw.revision.unwrap().get(), "7");
}

#[test]
fn pb_063_custom_types_decode_as_from_json() {
    #[derive(Debug, Deserialize, Serialize, PartialEq)]
    enum Policy {
        Always,
        Never,
    }
    #[derive(Debug, Deserialize, Serialize, PartialEq)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        restart_policy: Policy,
        priority: u32,
        #[serde(flatten)]
        rest: HashMap<String, Value>,
    }
    #[derive(Debug, Deserialize, Serialize, PartialEq)]
    struct MyPod {
        spec: Spec,
    }
    let bytes = field(2, [field(3, "Never"), field(10, "node"), int(25, 5)].concat());
    let mine: MyPod = from_slice(of("v1", "Pod"), &bytes).unwrap();
    let rest = HashMap::from([("nodeName".to_owned(), json!("node"))]);
    assert_eq!(mine, MyPod { spec: Spec { restart_policy: Policy::Never, priority: 5, rest } });
    assert_eq!(to_vec(of("v1", "Pod"), &mine).unwrap(), bytes);
    let error = from_slice::<MyPod>(of("v1", "Pod"), &field(2, field(3, "hunter2"))).unwrap_err();
    assert_eq!(error.path(), "spec.restartPolicy");
    assert!(!error.to_string().contains("hunter2") && !format!("{error:?}").contains("hunter2"), "{error}");
}

#[test]
fn pb_070_events_of_a_watch() {
    let event = of("v1", "WatchEvent");
    let bookmark = wrap_envelope("v1", "Pod", &field(1, field(6, "12")));
    let shown = show(event, &[field(1, "BOOKMARK"), field(2, field(1, &bookmark))].concat());
    assert_eq!(shown["object"], json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "12"}}));
    let status =
        wrap_envelope("v1", "Status", &[field(1, ""), field(2, "Failure"), field(4, "Expired"), int(6, 410)].concat());
    let shown = show(event, &[field(1, "ERROR"), field(2, field(1, status))].concat());
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410});
    assert_eq!(shown, json!({"type": "ERROR", "object": status}));
}

#[test]
fn pb_081_a_field_that_would_be_lost_is_an_error() {
    let pod = of("v1", "Pod");
    let lost = |path: &str| Err(ProtobufError::NotRepresentable { path: path.into() });
    assert_eq!(
        to_vec(pod, &json!({"spec": {"containers": [{"name": "c", "mine": 1}]}})),
        lost("spec.containers[0].mine")
    );
    assert_eq!(to_vec(pod, &json!({"data": {}})), lost("data"));
    let set = of("apps/v1", "StatefulSet");
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}});
    let bytes = to_vec(set, &json!({"spec": {"volumeClaimTemplates": [claim]}})).unwrap();
    assert_eq!(show(set, &bytes)["spec"]["volumeClaimTemplates"], json!([{"metadata": {"name": "c"}}]));
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    assert_eq!(to_vec(of("policy/v1", "DeleteOptions"), &options).unwrap(), int(1, 0));
}

#[test]
fn pb_082_references_keep_kind_and_version() {
    let binding = json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]});
    let message = of("rbac.authorization.k8s.io/v1", "RoleBinding");
    assert_eq!(show(message, &to_vec(message, &binding).unwrap()), binding);
    let event = json!({"involvedObject": {"apiVersion": "v1", "kind": "Pod"}});
    assert_eq!(show(of("v1", "Event"), &to_vec(of("v1", "Event"), &event).unwrap()), event);
}

#[test]
fn pb_084_a_value_of_another_type_is_an_error() {
    let pod = of("v1", "Pod");
    for (object, path, expected) in [
        (json!("pod"), "", "an object"),
        (json!({"metadata": []}), "metadata", "an object"),
        (json!({"metadata": {"name": 1}}), "metadata.name", "a string"),
        (json!({"metadata": {"labels": []}}), "metadata.labels", "an object"),
        (json!({"metadata": {"finalizers": {}}}), "metadata.finalizers", "a list"),
        (json!({"metadata": {"finalizers": ["a", 1]}}), "metadata.finalizers[1]", "a string"),
        (json!({"spec": {"hostNetwork": 1}}), "spec.hostNetwork", "a bool"),
        (json!({"spec": {"priority": 1.5}}), "spec.priority", "a number of 32 bits"),
        (json!({"status": {"startTime": 1}}), "status.startTime", "a time"),
    ] {
        assert_eq!(to_vec(pod, &object), Err(ProtobufError::Unexpected { path: path.into(), expected }), "{object}");
    }
}

#[test]
fn pb_086_fields_are_in_order_and_lengths_of_any_size() {
    for length in [0, 1, 127, 128, 16_383, 16_384, 100_000] {
        let name = "x".repeat(length);
        let object = json!({"metadata": {"annotations": {"a": name}, "name": "n"}, "data": {"k": name}});
        let bytes = to_vec(of("v1", "ConfigMap"), &object).unwrap();
        let pair = [field(1, "a"), field(2, &name)].concat();
        let metadata = [field(1, "n"), field(12, pair)].concat();
        let expected = [field(1, metadata), field(2, [field(1, "k"), field(2, &name)].concat())].concat();
        assert_eq!(bytes, expected, "{length}");
    }
}

#[test]
fn pb_092_truncated_messages_are_errors() {
    let object = json!({
        "metadata": {"name": "a", "labels": {"b": "c"}}, "spec": {"containers": [{"name": "d", "args": ["e"]}], "volumes": [{"name": "v", "emptyDir": {}}]},
    });
    let pod = of("v1", "Pod");
    let bytes = to_vec(pod, &object).unwrap();
    let whole = show(pod, &bytes);
    assert_eq!(whole, object);
    let tops: Vec<usize> = vec![0, 2 + bytes[1] as usize];
    for cut in 0..bytes.len() {
        let read = from_slice::<Value>(pod, &bytes[..cut]);
        assert_eq!(read.is_ok(), tops.contains(&cut), "at {cut}");
    }
    let envelope = wrap_envelope("v1", "Pod", &bytes);
    assert_eq!(unwrap_envelope(&envelope).unwrap().raw, bytes);
}
