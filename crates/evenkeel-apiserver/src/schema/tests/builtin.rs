use std::collections::BTreeSet;

use evenkeel_core::merge_rules::{ListOwnership, MergeType, PatchRule};
use serde_json::{Value, json};

use super::super::*;
use super::{builtin, fault};

fn decoded(id: &str, mut value: Value) -> Value {
    let unknown = builtin(id).decode_builtin(&mut value).unwrap();
    assert!(unknown.is_empty(), "{unknown:?}");
    value
}

const POD: &str = "io.k8s.api.core.v1.Pod";

const DEPLOYMENT: &str = "io.k8s.api.apps.v1.Deployment";

const CONFIG_MAP: &str = "io.k8s.api.core.v1.ConfigMap";

#[test]
fn every_type_of_the_document_is_found_and_reads_as_json() {
    let document: serde_json::Map<String, Value> =
        serde_json::from_str(include_str!("../../../data/openapi-schemas-1.37.json")).unwrap();
    assert!(document.len() > 600);
    for (id, source) in document {
        let schema = builtin(&id);
        assert_eq!(serde_json::from_str::<Value>(schema.text).unwrap(), source, "{id}");
        let properties = source.get("properties").and_then(Value::as_object);
        for name in properties.into_iter().flatten().map(|(name, _)| name) {
            assert!(schema.field(name).is_some(), "{id} {name}");
        }
        for (_, field) in schema.node().properties.iter() {
            assert!(field.node().target.is_some() || field.shape().form != Form::Any, "{id}");
        }
    }
    assert!(Schema::builtin("io.k8s.api.core.v1.Nothing").is_none());
}

#[test]
fn accessors_follow_references() {
    let pod = builtin(POD);
    let containers = pod.field("spec").unwrap().field("containers").unwrap();
    assert_eq!(containers.list_type(), ListType::Map(&["name".to_owned()]));
    let ports = containers.items().unwrap().field("ports").unwrap();
    assert_eq!(ports.list_type(), ListType::Map(&["containerPort".to_owned(), "protocol".to_owned()]));
    let protocol = ports.items().unwrap().field("protocol").unwrap();
    assert_eq!(protocol.default_value(), Some(&json!("TCP")));
    let selector = builtin(DEPLOYMENT).field("spec").unwrap().field("selector").unwrap();
    assert!(selector.is_atomic_map());
    let labels = pod.field("metadata").unwrap().field("labels").unwrap();
    assert!(labels.field("anything").is_some());
    assert_eq!(pod.field("metadata").unwrap().field("finalizers").unwrap().list_type(), ListType::Set);
}

#[test]
fn recursive_types_compile_and_print() {
    let props = builtin("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps");
    let deeper = props.field("properties").unwrap().field("a").unwrap().field("not").unwrap();
    assert!(deeper.field("pattern").is_some());
    assert!(format!("{deeper:?}").ends_with("JSONSchemaProps)"));
}

#[test]
fn dry_4_unknown_fields_are_named_by_path() {
    let mut value = json!({"apiVersion": "v1", "kind": "Pod", "bogus": 1, "spec": {
        "containers": [{"name": "c", "bogus": {"x": 1}}, {"name": "d", "env": [{"name": "E", "nope": 2}]}],
        "nodeSelector": {"any": "thing"},
    }});
    let unknown = builtin(POD).decode_builtin(&mut value).unwrap();
    assert_eq!(unknown, ["bogus", "spec.containers[0].bogus", "spec.containers[1].env[0].nope"]);
    assert_eq!(value["spec"]["containers"][0].get("bogus"), None);
    assert_eq!(value["spec"]["nodeSelector"], json!({"any": "thing"}));
}

#[test]
fn dry_4_duplicate_fields_are_named_by_path() {
    let text = br#"{"data":{"k":"1","k":"2","k":"3"},"l":[{"a":1},{"a":1,"a":2}],"data2":{}}"#;
    let parsed = json::parse(text).unwrap();
    assert_eq!(parsed.duplicates, ["data.k", "l[1].a"]);
    assert_eq!(parsed.value["data"]["k"], "3");
    assert!(json::parse(b"{not json").is_err());
    assert!(json::parse(b"{} x").is_err());
    assert!(json::parse("[".repeat(100_000).as_bytes()).is_err());
    let numbers = json::parse(b"[1, -1, 1.5, 18446744073709551615, null, true]").unwrap();
    assert_eq!(numbers.value, json!([1, -1, 1.5, u64::MAX, null, true]));
}

#[test]
fn dry_5_unknown_fields_of_builtins_are_dropped() {
    let mut value = json!({"apiVersion": "v1", "kind": "ConfigMap", "bogus": 1, "metadata": {"name": "a"}});
    assert_eq!(builtin(CONFIG_MAP).decode_builtin(&mut value).unwrap(), ["bogus"]);
    assert_eq!(value, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}));
}

#[test]
fn neg_10_an_event_shows_what_its_encoder_always_writes() {
    let event = decoded(
        "io.k8s.api.core.v1.Event",
        json!({"apiVersion": "v1", "kind": "Event", "count": 1, "message": "hello", "reason": "Tested",
            "type": "Normal", "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "n"},
            "metadata": {"generateName": "e-"}, "source": {"component": "evenkeel"}}),
    );
    assert_eq!(
        event,
        json!({"apiVersion": "v1", "kind": "Event", "count": 1, "message": "hello", "reason": "Tested",
            "type": "Normal", "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "n"},
            "metadata": {"generateName": "e-"}, "source": {"component": "evenkeel"},
            "eventTime": null, "reportingComponent": "", "reportingInstance": ""})
    );
}

#[test]
fn neg_10_a_deployment_shows_what_its_encoder_always_writes() {
    let deployment = decoded(
        DEPLOYMENT,
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "creationTimestamp": null},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}, "annotations": {}},
                "spec": {"containers": [{"name": "c", "image": "nginx:1", "args": [], "env": null}],
                    "volumes": [{"name": "v", "emptyDir": {}}]}}}}),
    );
    assert_eq!(
        deployment,
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "strategy": {}, "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "nginx:1", "resources": {}}],
                    "volumes": [{"name": "v", "emptyDir": {}}]}}},
            "status": {}})
    );
}

#[test]
fn neg_10_times_take_their_canonical_form() {
    let lease = decoded(
        "io.k8s.api.coordination.v1.Lease",
        json!({"metadata": {"name": "lock", "creationTimestamp": "2026-01-01T02:00:00.5+02:00"},
            "spec": {"renewTime": "2026-01-01T00:00:00.123456Z", "leaseTransitions": 0}}),
    );
    assert_eq!(
        lease,
        json!({"metadata": {"name": "lock", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"renewTime": "2026-01-01T00:00:00.123456Z", "leaseTransitions": 0}})
    );
    let pod = decoded(POD, json!({"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}}));
    assert_eq!(
        pod["status"]["conditions"],
        json!([{"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": null}])
    );
}

#[test]
fn obj_15_invalid_times_are_rejected() {
    let lease = |time: &str| fault("io.k8s.api.coordination.v1.Lease", json!({"spec": {"renewTime": time}}));
    assert_eq!(
        lease("soon"),
        r#"parsing time "soon" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "soon" as "2006""#
    );
    assert_eq!(
        lease("2026-01-01T00:00:00Z"),
        "parsing time \"2026-01-01T00:00:00Z\" as \"2006-01-02T15:04:05.000000Z07:00\": \
         cannot parse \"Z\" as \".000000\""
    );
    assert_eq!(lease("2026-02-31T00:00:00.000000Z"), r#"parsing time "2026-02-31T00:00:00.000000Z": day out of range"#);
    let number = fault(CONFIG_MAP, json!({"metadata": {"creationTimestamp": 7}}));
    assert_eq!(number, "json: cannot unmarshal number into Go value of type string");
}

#[test]
fn obj_15_type_errors_are_those_of_go() {
    assert_eq!(
        fault(DEPLOYMENT, json!({"spec": {"replicas": "two"}})),
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
    );
    assert_eq!(
        fault(DEPLOYMENT, json!({"spec": {"replicas": 1.5}})),
        "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32"
    );
    assert_eq!(
        fault(DEPLOYMENT, json!({"spec": {"replicas": 3_000_000_000u64}})),
        "json: cannot unmarshal number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32"
    );
    assert_eq!(
        fault(CONFIG_MAP, json!({"data": {"k": 1}})),
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
    );
    assert_eq!(
        fault(POD, json!({"spec": {"containers": {}}})),
        "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container"
    );
    assert_eq!(
        fault(POD, json!({"spec": {"containers": [{"env": [{"name": true}]}]}})),
        "json: cannot unmarshal bool into Go struct field EnvVar.spec.containers.env.name of type string"
    );
    assert_eq!(fault(POD, json!([])), "json: cannot unmarshal array into Go value of type v1.Pod");
    assert_eq!(
        fault("io.k8s.api.core.v1.Secret", json!({"data": {"b": "!!!"}})),
        "illegal base64 data at input byte 0"
    );
    assert_eq!(
        fault("io.k8s.api.core.v1.Secret", json!({"data": {"b": "AAECA"}})),
        "illegal base64 data at input byte 4"
    );
}

#[test]
fn nulls_and_empties_follow_omitempty() {
    let role = decoded("io.k8s.api.rbac.v1.Role", json!({"metadata": {"name": "r", "labels": {}}}));
    assert_eq!(role, json!({"metadata": {"name": "r"}, "rules": null}));
    let role = decoded("io.k8s.api.rbac.v1.Role", json!({"metadata": {"name": "r"}, "rules": []}));
    assert_eq!(role["rules"], json!([]));
    let map = decoded(CONFIG_MAP, json!({"data": {"k": null}, "binaryData": {}, "immutable": false}));
    assert_eq!(map, json!({"data": {"k": ""}, "immutable": false, "metadata": {}}));
    let node = decoded("io.k8s.api.core.v1.Node", json!({}));
    assert_eq!(node["status"]["daemonEndpoints"], json!({"kubeletEndpoint": {"Port": 0}}));
    assert_eq!(node["status"]["nodeInfo"]["machineID"], "");
}

#[test]
fn decoding_twice_changes_nothing() {
    for (id, value) in [
        (DEPLOYMENT, json!({"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}})),
        ("io.k8s.api.core.v1.Event", json!({})),
        ("io.k8s.api.core.v1.Node", json!({"status": {"capacity": {"cpu": "0.5"}}})),
    ] {
        let once = decoded(id, value);
        assert_eq!(decoded(id, once.clone()), once);
    }
}

#[test]
fn quantities_take_their_canonical_form() {
    let pod = decoded(POD, json!({"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": 2}}}]}}));
    assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["cpu"], "2");
    let pod = decoded(POD, json!({"spec": {"overhead": {"cpu": " 0.5", "memory": "1024Mi"}}}));
    assert_eq!(pod["spec"]["overhead"], json!({"cpu": "500m", "memory": "1Gi"}));
}

#[test]
fn obj_15_required_and_enum_of_builtins() {
    let deployment =
        decoded(DEPLOYMENT, json!({"metadata": {}, "spec": {"template": {"spec": {"restartPolicy": "Sometimes"}}}}));
    let errors: Vec<String> =
        builtin(DEPLOYMENT).validate_builtin(&deployment).iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "spec.selector: Required value",
            "spec.template.spec.containers: Required value",
            "spec.template.spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \
             \"Never\", \"OnFailure\"",
        ]
    );
}

#[test]
fn dry_4_strict_faults_of_the_recorded_scenario() {
    let mut value = json!({"apiVersion": "v1", "kind": "ConfigMap", "bogus": 1, "metadata": {"name": "a"}});
    let unknown = builtin(CONFIG_MAP).decode_builtin(&mut value).unwrap();
    let complaints = json::complaints(&unknown, &["data.k".to_owned()]);
    assert_eq!(complaints, ["unknown field \"bogus\"", "duplicate field \"data.k\""]);
    let status = DecodeFault::strict(&complaints[..1]).status("ConfigMap", "v1");
    assert_eq!(
        status.message,
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"bogus\""
    );
    assert_eq!((status.code, status.reason.as_str()), (400, "BadRequest"));
}

#[test]
fn invalid_json_is_rejected_with_the_errors_of_go() {
    for (text, fault) in [
        ("{not json", "invalid character 'n' looking for beginning of object key string"),
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ("{}}", "invalid character '}' after top-level value"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("[1 2]", "invalid character '2' after array element"),
        ("{\"a\" 1}", "invalid character '1' after object key"),
        ("{\"a\":1 \"b\":2}", "invalid character '\"' after object key:value pair"),
        ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
        ("nul!", "invalid character '!' in literal null (expecting 'l')"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("1.", "unexpected end of JSON input"),
        ("[1.x]", "invalid character 'x' after decimal point in numeric literal"),
        ("[1e]", "invalid character ']' in exponent of numeric literal"),
        ("\"\\q\"", "invalid character 'q' in string escape code"),
        ("\"\\u12g4\"", "invalid character 'g' in \\u hexadecimal character escape"),
        ("\"a\nb\"", "invalid character '\\n' in string literal"),
        ("'a'", "invalid character '\\'' looking for beginning of value"),
        ("\u{0}", "invalid character '\\x00' looking for beginning of value"),
    ] {
        assert_eq!(json::parse(text.as_bytes()).unwrap_err().to_string(), fault, "{text}");
    }
    assert!(json::parse("[".repeat(10_000).as_bytes()).is_err());
}

#[test]
fn dry_5_schemas_inside_definitions_are_decoded_too() {
    let props = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let schema = decoded(
        props,
        json!({"type": "array", "items": {"type": "object", "bogus": 1, "required": [], "properties": {
            "a": {"additionalProperties": true}, "b": {"additionalProperties": {"enum": [null, {}], "default": {}}}}}}),
    );
    assert_eq!(
        schema,
        json!({"type": "array", "items": {"type": "object", "properties": {
            "a": {"additionalProperties": true}, "b": {"additionalProperties": {"enum": [null, {}], "default": {}}}}}})
    );
    assert_eq!(
        fault(props, json!({"items": {"type": 1}})),
        "json: cannot unmarshal number into Go struct field JSONSchemaProps.type of type string"
    );
}

/// Compares the rules of a type, and of everything below it, with those of the client.
fn compare_merge_rules(schema: &Schema, rules: MergeType, path: &str, seen: &mut BTreeSet<String>) {
    for (name, field) in schema.shape().properties.iter() {
        let path = format!("{path}.{name}");
        let Some(place) = rules.field(name) else {
            // The members of every kind, which have no protobuf.
            assert!(["apiVersion", "kind"].contains(&&**name), "{path} has no type");
            continue;
        };
        let list = match place.list_ownership() {
            ListOwnership::Atomic => List::Atomic,
            ListOwnership::Set => List::Set,
            ListOwnership::Map(keys) => List::Map(keys.iter().map(ToString::to_string).collect()),
        };
        assert_eq!(field.node().list, list, "{path}");
        let patch = match place.patch_rule() {
            PatchRule::Default => Patching::Default,
            PatchRule::Merge(key) => Patching::Merge(key.map(Into::into)),
            PatchRule::Replace => Patching::Replace,
        };
        assert_eq!(field.node().patch, patch, "{path}");
        let is_object = field.shape().form == Form::Object;
        if is_object && !path.ends_with(".claimRef") {
            assert_eq!(field.is_atomic_map(), place.is_atomic(), "{path}");
        }
        let below = match field.items() {
            Some(items) => place.items().map(|place| (items, place)),
            None => Some((field, place)),
        };
        if let Some((field, place)) = below.filter(|(field, _)| field.shape().form == Form::Object) {
            let target = field.node().target.map_or("", |target| target.id);
            if seen.insert(target.to_owned()) {
                compare_merge_rules(field, place, &path, seen);
            }
        }
    }
}

#[test]
fn wrh_005_the_client_has_the_merge_keys_of_the_document() {
    let document: Value = serde_json::from_str(include_str!("../../../data/openapi-schemas-1.37.json")).unwrap();
    let mut kinds = 0;
    let mut seen = BTreeSet::new();
    for (id, schema) in document.as_object().unwrap() {
        let Some([only]) = schema["x-kubernetes-group-version-kind"].as_array().map(Vec::as_slice) else { continue };
        let text = |name: &str| only[name].as_str().unwrap_or_default();
        let api_version = match text("group") {
            "" => text("version").to_owned(),
            group => format!("{group}/{}", text("version")),
        };
        let Some(rules) = MergeType::of_kind(&api_version, text("kind")) else { continue };
        kinds += 1;
        compare_merge_rules(builtin(id), rules, "", &mut seen);
    }
    assert!(kinds > 100, "{kinds}");
    assert!(seen.len() > 300, "{}", seen.len());
}
