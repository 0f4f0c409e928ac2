//! Server-side apply, from the request to the stored object.

use serde_json::{Value, json};

use crate::api::{APPLY, Api, JSON_PATCH, version};
use crate::*;

const A: &str = "/api/v1/namespaces/default/configmaps/a";
const ONE: &str = "/api/v1/namespaces/default/configmaps/a?fieldManager=one";
const TWO: &str = "/api/v1/namespaces/default/configmaps/a?fieldManager=two";

fn intent(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

/// Manager, operation, subresource and fields of every entry.
fn owners(object: &Value) -> Vec<(&str, &str, &str, &Value)> {
    let entries = object["metadata"]["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default();
    entries
        .iter()
        .map(|entry| {
            assert_eq!(entry["fieldsType"], "FieldsV1");
            (
                entry["manager"].as_str().unwrap(),
                entry["operation"].as_str().unwrap(),
                entry["subresource"].as_str().unwrap_or_default(),
                &entry["fieldsV1"],
            )
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn pat_2_ssa_1_an_apply_creates_a_missing_object() {
    let api = Api::start().await;
    let created = api.apply(ONE, &intent(json!({"k": "v"}))).await.expect(201);
    assert!(created["metadata"]["uid"].is_string());
    assert_eq!(owners(&created), [("one", "Apply", "", &json!({"f:data": {"f:k": {}}}))]);
    assert_eq!(api.get(A).await.expect(200), created);
    api.apply(ONE, &intent(json!({"k": "w"}))).await.expect(200);
    // Where its namespace is not there, neither can it be.
    let elsewhere = "/api/v1/namespaces/nowhere/configmaps/a?fieldManager=one";
    api.apply(elsewhere, &intent(json!({}))).await.refusal(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn ssa_1_an_intent_is_yaml_or_json() {
    let api = Api::start().await;
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {x: \"y\"}\ndata:\n  k: v\n";
    let created = api.send("PATCH", ONE, &[("content-type", APPLY)], yaml).await.expect(201);
    assert_eq!((&created["data"]["k"], &created["metadata"]["labels"]["x"]), (&json!("v"), &json!("y")));
    for (body, message) in [
        ("a: [", "error decoding YAML: "),
        ("\u{fffd}\u{0}", "error decoding YAML: "),
        (
            "- a",
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go",
        ),
        ("", "invalid object type: /, Kind="),
    ] {
        let refused = api.send("PATCH", ONE, &[("content-type", APPLY)], body).await;
        assert!(refused.refusal(400, "BadRequest").starts_with(message), "{}", refused.text);
    }
}

#[tokio::test(start_paused = true)]
async fn ssa_1_required_and_forbidden_fields_of_an_apply() {
    let api = Api::start().await;
    for (change, message) in [
        (json!({"apiVersion": null}), "invalid object type: /, Kind=ConfigMap"),
        (json!({"apiVersion": "v2"}), "invalid object type: /v2, Kind=ConfigMap"),
        (json!({"apiVersion": "apps/v1"}), "invalid object type: apps/v1, Kind=ConfigMap"),
        (json!({"apiVersion": "a/b/c"}), "invalid object type: /, Kind="),
        (json!({"kind": "Secret"}), "invalid object type: /v1, Kind=Secret"),
        (json!({"metadata": {"name": "a", "managedFields": []}}), "metadata.managedFields must be nil"),
        (json!({"metadata": {"name": "b"}}), "the name of the object (b) does not match the name on the URL (a)"),
        (json!({"metadata": {}}), "the name of the object (a based on URL) was undeterminable: name must be provided"),
        (
            json!({"metadata": {"name": "a", "namespace": "b"}}),
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ] {
        let mut intent = intent(json!({"k": "v"}));
        for (name, value) in change.as_object().unwrap() {
            intent[name] = value.clone();
        }
        let refused = api.apply(ONE, &intent).await;
        assert_eq!(refused.refusal(400, "BadRequest"), message);
    }
    let mut other = intent(json!({}));
    other["metadata"]["uid"] = "u".into();
    let refused = api.apply(ONE, &other).await;
    assert_eq!(
        refused.refusal(409, "Conflict"),
        "Operation cannot be fulfilled on configmaps \"a\": uid mismatch: the provided object specified uid u, and no \
         existing object was found"
    );
    api.apply(ONE, &intent(json!({"k": "v"}))).await.expect(201);
    let refused = api.apply(ONE, &other).await;
    assert!(refused.refusal(422, "Invalid").contains("metadata.uid"), "{}", refused.text);
}

#[tokio::test(start_paused = true)]
async fn ssa_1_an_apply_needs_a_manager_and_only_an_apply_may_force() {
    let api = Api::start().await;
    let refused = api.apply(A, &intent(json!({}))).await;
    assert!(refused.refusal(422, "Invalid").ends_with("fieldManager: Required value: is required for apply patch"));
    let refused = api.apply(&format!("{ONE}&dryRun=no"), &intent(json!({}))).await;
    assert_eq!(refused.body["details"]["kind"], "PatchOptions", "{}", refused.text);
    api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let refused = api.patch(&format!("{ONE}&force=true"), &json!({})).await;
    assert!(refused.refusal(422, "Invalid").contains("force: Forbidden: may not be specified for non-apply patch"));
}

#[tokio::test(start_paused = true)]
async fn pat_3_an_intent_may_name_the_version_it_is_for() {
    let api = Api::start().await;
    let created = api.apply(ONE, &intent(json!({"k": "v"}))).await.expect(201);
    let mut conditional = intent(json!({"k": "w"}));
    conditional["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
    api.apply(ONE, &conditional).await.expect(200);
    conditional["data"]["k"] = "x".into();
    assert!(api.apply(ONE, &conditional).await.refusal(409, "Conflict").contains("the object has been modified"));
    // The resource version requires an existing object.
    api.delete(A).await.expect(200);
    api.apply(ONE, &conditional).await.refusal(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn pat_4_an_apply_is_an_update() {
    let api = Api::start().await;
    let path = format!("{DEPLOYMENTS}/a?fieldManager=one");
    let mut wanted = deployment("a");
    wanted["status"] = json!({"replicas": 7});
    let created = api.apply(&path, &wanted).await.expect(201);
    assert_eq!((&created["metadata"]["generation"], &created["spec"]["replicas"]), (&json!(1), &json!(1)));
    assert_eq!(created["status"].get("replicas"), None, "the status has its own endpoint");
    assert_eq!(owners(&created)[0].3.get("f:status"), None);
    wanted["spec"]["replicas"] = 3.into();
    let applied = api.apply(&path, &wanted).await.expect(200);
    assert_eq!((&applied["metadata"]["generation"], &applied["spec"]["replicas"]), (&json!(2), &json!(3)));
    wanted["spec"]["replicas"] = (-1).into();
    assert!(api.apply(&path, &wanted).await.refusal(422, "Invalid").contains("spec.replicas: Invalid value: -1"));
    // A field that is no longer applied takes its default again.
    wanted["spec"].as_object_mut().unwrap().remove("replicas");
    assert_eq!(api.apply(&path, &wanted).await.expect(200)["spec"]["replicas"], 1);
}

#[tokio::test(start_paused = true)]
async fn ssa_4_a_status_is_applied_at_its_endpoint_alone() {
    let api = Api::start().await;
    api.apply(&format!("{DEPLOYMENTS}/a?fieldManager=one"), &deployment("a")).await.expect(201);
    let mut wanted = deployment("a");
    wanted["spec"]["replicas"] = 9.into();
    wanted["metadata"]["labels"] = json!({"a": "b"});
    wanted["status"] = json!({"replicas": 3, "conditions": [{"type": "Ready", "status": "True"}]});
    let status = format!("{DEPLOYMENTS}/a/status?fieldManager=one");
    let applied = api.apply(&status, &wanted).await.expect(200);
    assert_eq!((&applied["spec"]["replicas"], &applied["status"]["replicas"]), (&json!(1), &json!(3)));
    assert_eq!(applied["metadata"].get("labels"), None);
    let owned = json!({"f:status": {"f:replicas": {}, "f:conditions": {
        "k:{\"type\":\"Ready\"}": {".": {}, "f:status": {}, "f:type": {}}}}});
    let entries = owners(&applied);
    assert_eq!(entries.len(), 2);
    assert!(entries.contains(&("one", "Apply", "status", &owned)), "{entries:?}");
    // One manager, two entries: an apply to one endpoint does not prune the fields of the other.
    let applied = api.apply(&format!("{DEPLOYMENTS}/a?fieldManager=one"), &deployment("a")).await.expect(200);
    assert_eq!(applied["status"]["replicas"], 3);
    // A status is no reason to create.
    api.apply(&format!("{DEPLOYMENTS}/b/status?fieldManager=one"), &deployment("b")).await.refusal(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn ssa_7_ssa_15_the_first_apply_after_ownership_was_reset() {
    let api = Api::start().await;
    let mut created = api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    created["metadata"]["managedFields"] = json!([{}]);
    let forgotten = api.put(A, &created).await.expect(200);
    assert_eq!(forgotten["metadata"].get("managedFields"), None);
    let refused = api.apply(ONE, &intent(json!({"k": "w"}))).await;
    assert_eq!(
        refused.refusal(409, "Conflict"),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.k"
    );
    let applied = api.apply(ONE, &intent(json!({"l": "v"}))).await.expect(200);
    assert_eq!(
        owners(&applied),
        [
            ("one", "Apply", "", &json!({"f:data": {"f:l": {}}})),
            ("before-first-apply", "Update", "", &json!({"f:data": {".": {}, "f:k": {}}})),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn ssa_8_lists_merge_by_key_and_abandoned_items_are_removed() {
    let api = Api::start().await;
    let one = format!("{DEPLOYMENTS}/a?fieldManager=one");
    let two = format!("{DEPLOYMENTS}/a?fieldManager=two");
    let mut wanted = deployment("a");
    wanted["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]);
    api.apply(&one, &wanted).await.expect(201);
    let side = |env: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"template": {"spec": {
            "containers": [{"name": "main", "env": env}, {"name": "side", "image": "envoy"}]}}}})
    };
    let applied = api.apply(&two, &side(json!([{"name": "C", "value": "3"}]))).await.expect(200);
    let env = |object: &Value| -> Vec<String> {
        let list = object["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
        list.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(env(&applied), ["A", "B", "C"]);
    wanted["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "B", "value": "2"}]);
    let applied = api.apply(&one, &wanted).await.expect(200);
    assert_eq!(env(&applied), ["B", "C"]);
    let nothing = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}});
    let applied = api.apply(&two, &nothing).await.expect(200);
    assert_eq!(env(&applied), ["B"]);
    assert_eq!(applied["spec"]["template"]["spec"]["containers"].as_array().unwrap().len(), 1);
    assert_eq!(owners(&applied).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn err_5_ssa_9_ssa_10_conflicts_with_updaters_and_force() {
    let api = Api::start().await;
    let mut first = config_map("a");
    first["data"] = json!({"a": "1", "b": "1"});
    let manager = [("content-type", "application/json"), ("user-agent", "ctl/1.0")];
    api.send("POST", CONFIG_MAPS, &manager, first.to_string()).await.expect(201);
    let wanted = intent(json!({"a": "2", "b": "2"}));
    let refused = api.apply(ONE, &wanted).await;
    assert_eq!(
        refused.refusal(409, "Conflict"),
        "Apply failed with 2 conflicts: conflicts with \"ctl\" using v1:\n- .data.a\n- .data.b"
    );
    let cause = |field: &str| json!({"reason": "FieldManagerConflict", "message": "conflict with \"ctl\" using v1", "field": field});
    assert_eq!(refused.body["details"], json!({"causes": [cause(".data.a"), cause(".data.b")]}));
    // An equal value is shared without a conflict.
    let shared = api.apply(ONE, &intent(json!({"a": "1"}))).await.expect(200);
    assert_eq!(
        owners(&shared),
        [
            ("one", "Apply", "", &json!({"f:data": {"f:a": {}}})),
            ("ctl", "Update", "", &json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}})),
        ]
    );
    let forced = api.apply(&format!("{ONE}&force=true"), &wanted).await.expect(200);
    assert_eq!(forced["data"], json!({"a": "2", "b": "2"}));
    assert_eq!(owners(&forced)[1].3, &json!({"f:data": {}}));
    // An update takes from appliers without asking.
    let updated = api.patch(A, &json!({"data": {"a": "3"}})).await.expect(200);
    assert_eq!(owners(&updated)[0].3, &json!({"f:data": {"f:b": {}}}));
    api.apply(ONE, &wanted).await.refusal(409, "Conflict");
}

#[tokio::test(start_paused = true)]
async fn ssa_11_an_apply_that_changes_nothing_is_no_write() {
    let api = Api::start().await;
    let path = format!("{DEPLOYMENTS}/a?fieldManager=one");
    let mut wanted = deployment("a");
    wanted["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1000m"}});
    let created = api.apply(&path, &wanted).await.expect(201);
    assert_eq!(created["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"], "1");
    let mut watch = api.watch(DEPLOYMENTS).await;
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    // Also if the configuration spells the value differently.
    let again = api.apply(&path, &wanted).await.expect(200);
    assert_eq!(again, created);
    assert_eq!(watch.types(), "");
    // Another owner is a change.
    let other = format!("{DEPLOYMENTS}/a?fieldManager=two");
    let shared = api.apply(&other, &deployment("a")).await.expect(200);
    assert_eq!(version(&shared), version(&created) + 1);
    assert_eq!(shared["metadata"]["generation"], 1);
    assert_eq!(watch.types(), "MODIFIED");
}

#[tokio::test(start_paused = true)]
async fn ssa_13_intents_that_the_schema_does_not_know_are_refused() {
    let api = Api::start().await;
    let path = format!("{PODS}/a?fieldManager=one");
    let mut wanted = pod("a");
    wanted["spec"]["containers"] = json!([{"name": "main", "image": "a"}, {"name": "main", "image": "b"}]);
    let refused = api.apply(&path, &wanted).await;
    assert_eq!(
        refused.refusal(500, ""),
        "failed to create typed patch object (/a; /v1, Kind=Pod): .spec.containers: duplicate entries for key \
         [name=\"main\"]"
    );
    let mut wanted = deployment("a");
    wanted["spec"]["bogus"] = 1.into();
    wanted["metadata"]["namespace"] = "default".into();
    let refused = api.apply(&format!("{DEPLOYMENTS}/a?fieldManager=one&fieldValidation=Ignore"), &wanted).await;
    assert_eq!(
        refused.refusal(500, ""),
        "failed to create typed patch object (default/a; apps/v1, Kind=Deployment): .spec.bogus: field not declared in \
         schema"
    );
}

#[tokio::test(start_paused = true)]
async fn ssa_14_custom_resources_are_applied_by_their_schema() {
    let api = Api::start().await;
    let mut definition = widgets();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({
    "type": "object", "properties": {
        "size": {"type": "integer", "default": 1},
        "plain": {"type": "array", "items": {"type": "string"}},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                  "items": {"type": "object", "required": ["name"],
                            "properties": {"name": {"type": "string"}, "colour": {"type": "string"}}}},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}}
    }});
    api.post(DEFINITIONS, &definition).await.expect(201);
    let apply = async |manager: &str, spec: Value| {
        let mut wanted = widget("a");
        wanted["spec"] = spec;
        api.apply(&format!("{WIDGETS}/a?fieldManager={manager}"), &wanted).await
    };
    let first = json!({"plain": ["a"], "tags": ["a"], "parts": [{"name": "x"}], "whole": {"a": "1"}});
    let created = apply("one", first.clone()).await.expect(201);
    assert_eq!(created["spec"]["size"], 1);
    assert_eq!(
        owners(&created)[0].3,
        &json!({"f:spec": {
            "f:plain": {}, "f:tags": {"v:\"a\"": {}}, "f:whole": {},
            "f:parts": {"k:{\"name\":\"x\"}": {".": {}, "f:name": {}}}}})
    );
    let second = json!({"tags": ["b"], "parts": [{"name": "x", "colour": "red"}, {"name": "y"}]});
    let applied = apply("two", second).await.expect(200);
    assert_eq!(applied["spec"]["tags"], json!(["a", "b"]));
    assert_eq!(applied["spec"]["parts"], json!([{"name": "x", "colour": "red"}, {"name": "y"}]));
    for (spec, field) in [(json!({"plain": ["a", "b"]}), ".spec.plain"), (json!({"whole": {"b": "1"}}), ".spec.whole")]
    {
        let refused = apply("two", spec).await;
        let message = format!("Apply failed with 1 conflict: conflict with \"one\": {field}");
        assert_eq!(refused.refusal(409, "Conflict"), message);
    }
    let refused = apply("two", json!({"bogus": 1})).await;
    assert!(refused.refusal(500, "").ends_with(".spec.bogus: field not declared in schema"), "{}", refused.text);
    // On its status endpoint nothing else is taken.
    let mut wanted = widget("a");
    wanted["status"] = json!({"phase": "x"});
    let status = api.apply(&format!("{WIDGETS}/a/status?fieldManager=one"), &wanted).await.expect(200);
    let owned = json!({"f:status": {"f:phase": {}}});
    assert!(owners(&status).contains(&("one", "Apply", "status", &owned)), "{status}");
    // Fields that are no longer applied are removed, and the default returns.
    let applied = apply("one", json!({"size": 5})).await.expect(200);
    assert_eq!(applied["spec"]["size"], 5);
    assert_eq!(applied["spec"].get("plain"), None);
    assert_eq!(apply("one", json!({})).await.expect(200)["spec"]["size"], 1);
}

#[tokio::test(start_paused = true)]
async fn ssa_16_what_kubectl_sends_to_move_from_client_side_to_server_side_apply() {
    let api = Api::start().await;
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let mut first = config_map("a");
    first["metadata"]["annotations"] = json!({annotation: config_map("a").to_string()});
    let create = format!("{CONFIG_MAPS}?fieldManager=kubectl-client-side-apply");
    let created = api.post(&create, &first).await.expect(201);
    // The object of the annotation under another manager shares the present values.
    let helper = format!("{A}?fieldManager=kubectl-last-applied");
    let mut last = config_map("a");
    last["metadata"]["annotations"] = first["metadata"]["annotations"].clone();
    let applied = api.apply(&helper, &last).await.expect(200);
    assert_eq!(owners(&applied).len(), 2);
    // All entries are then rewritten, by position and version.
    let mut entry = applied["metadata"]["managedFields"][0].clone();
    entry["manager"] = "kubectl".into();
    let list = json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": [entry]},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": applied["metadata"]["resourceVersion"]},
    ]);
    let patched = api.send("PATCH", A, &[("content-type", JSON_PATCH)], list.to_string()).await.expect(200);
    assert_eq!(owners(&patched).iter().map(|owner| owner.0).collect::<Vec<_>>(), ["kubectl"]);
    let wanted = intent(json!({"k": "w"}));
    let applied = api.apply(&format!("{A}?fieldManager=kubectl"), &wanted).await.expect(200);
    assert_eq!(applied["data"], json!({"k": "w"}));
    assert_eq!(applied["metadata"]["uid"], created["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn ssa_16_without_it_kubectl_may_change_the_fields_of_the_annotation() {
    let api = Api::start().await;
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let mut first = config_map("a");
    first["metadata"]["annotations"] = json!({annotation: config_map("a").to_string()});
    api.post(&format!("{CONFIG_MAPS}?fieldManager=kubectl-client-side-apply"), &first).await.expect(201);
    api.apply(TWO, &intent(json!({"k": "w"}))).await.refusal(409, "Conflict");
    let applied = api.apply(&format!("{A}?fieldManager=kubectl"), &intent(json!({"k": "w"}))).await.expect(200);
    assert_eq!(applied["metadata"]["annotations"][annotation], format!("{}\n", intent(json!({"k": "w"}))));
}

#[tokio::test(start_paused = true)]
async fn dry_2_a_dry_run_of_an_apply_changes_nothing() {
    let api = Api::start().await;
    let dry = format!("{ONE}&dryRun=All");
    let created = api.apply(&dry, &intent(json!({"k": "v"}))).await.expect(201);
    assert_eq!(created["metadata"].get("resourceVersion"), None);
    api.get(A).await.refusal(404, "NotFound");
    let created = api.apply(ONE, &intent(json!({"k": "v"}))).await.expect(201);
    let tried = api.apply(&dry, &intent(json!({"k": "w"}))).await.expect(200);
    assert_eq!(tried["data"]["k"], "w");
    assert_eq!(api.get(A).await.expect(200), created);
}

#[tokio::test(start_paused = true)]
async fn dry_4_an_apply_reports_duplicate_fields() {
    let api = Api::start().await;
    let twice = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1", "k": "2"}}"#;
    let send = async |query: &str| api.send("PATCH", &format!("{ONE}{query}"), &[("content-type", APPLY)], twice).await;
    let refused = send("&fieldValidation=Strict").await;
    assert_eq!(refused.refusal(400, "BadRequest"), "error strict decoding YAML: duplicate field \"data.k\"");
    let warned = send("").await;
    assert_eq!(warned.warnings(), ["299 - \"duplicate field \\\"data.k\\\"\""]);
    assert_eq!(warned.expect(201)["data"]["k"], "2");
    assert!(send("&fieldValidation=Ignore").await.warnings().is_empty());
}

#[tokio::test(start_paused = true)]
async fn ssa_3_a_scale_can_be_applied() {
    let api = Api::start().await;
    let one = format!("{DEPLOYMENTS}/a?fieldManager=one");
    let mut wanted = deployment("a");
    wanted["spec"]["replicas"] = 2.into();
    api.apply(&one, &wanted).await.expect(201);
    let scale = |replicas: u8| json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": replicas}});
    let path = format!("{DEPLOYMENTS}/a/scale?fieldManager=hpa");
    let refused = api.apply(&path, &scale(5)).await;
    let message = "Apply failed with 1 conflict: conflict with \"one\": .spec.replicas";
    assert_eq!(refused.refusal(409, "Conflict"), message);
    let applied = api.apply(&format!("{path}&force=true"), &scale(5)).await.expect(200);
    assert_eq!((&applied["kind"], &applied["spec"]["replicas"]), (&json!("Scale"), &json!(5)));
    let mut nameless = scale(5);
    nameless["metadata"] = json!({});
    api.apply(&path, &nameless).await.expect(200);
    let object = api.get(&format!("{DEPLOYMENTS}/a")).await.expect(200);
    assert_eq!(object["spec"]["replicas"], 5);
    assert!(owners(&object).contains(&("hpa", "Apply", "scale", &json!({"f:spec": {"f:replicas": {}}}))));
    let refused = api.apply(&one, &wanted).await;
    assert_eq!(
        refused.refusal(409, "Conflict"),
        "Apply failed with 1 conflict: conflict with \"hpa\" with subresource \"scale\": .spec.replicas"
    );
    let refused = api.apply(&path, &deployment("a")).await;
    assert_eq!(refused.refusal(400, "BadRequest"), "invalid object type: apps/v1, Kind=Deployment");
    api.apply(&format!("{DEPLOYMENTS}/b/scale?fieldManager=hpa"), &{
        let mut scale = scale(1);
        scale["metadata"]["name"] = "b".into();
        scale
    })
    .await
    .refusal(404, "NotFound");
}

/// Concurrent applies, each with a key of its own: all succeed, and the first one creates the object.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ssa_8_many_appliers_at_once_lose_nothing() {
    let api = Api::start().await;
    let mut tasks = Vec::new();
    for manager in 0..20 {
        let handle = api.handle();
        tasks.push(tokio::spawn(async move {
            let path = format!("{A}?fieldManager=m{manager}");
            let intent = intent(json!({format!("k{manager}"): "v"}));
            handle.send("PATCH", &path, &[("content-type", APPLY)], intent.to_string()).await.status
        }));
    }
    let mut codes = Vec::new();
    for task in tasks {
        codes.push(task.await.unwrap());
    }
    codes.sort_unstable();
    assert_eq!(codes, [vec![200; 19], vec![201]].concat());
    let object = api.get(A).await.expect(200);
    assert_eq!(object["data"].as_object().unwrap().len(), 20);
    assert_eq!(owners(&object).len(), 20);
}

#[tokio::test(start_paused = true)]
async fn definitions_can_be_applied() {
    let api = Api::start().await;
    api.apply(&format!("{DEFINITIONS}/widgets.example.com?fieldManager=one"), &widgets()).await.expect(201);
    api.apply(&format!("{WIDGETS}/a?fieldManager=one"), &widget("a")).await.expect(201);
    api.apply(&format!("{DEFINITIONS}/widgets.example.com?fieldManager=one"), &widgets()).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn ssa_5_a_creator_owns_what_it_sent_and_no_list_that_is_always_there() {
    let api = Api::start().await;
    let created = api.post(DEPLOYMENTS, &deployment("a")).await.expect(201);
    let containers = &owners(&created)[0].3["f:spec"]["f:template"]["f:spec"]["f:containers"];
    assert_eq!(containers.as_object().unwrap().keys().collect::<Vec<_>>(), ["k:{\"name\":\"main\"}"]);
    let service =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let created = api.post("/api/v1/namespaces/default/services", &service).await.expect(201);
    assert!(created["spec"]["clusterIP"].is_string());
    assert_eq!(owners(&created)[0].3["f:spec"].get("f:clusterIP"), None);
    assert!(owners(&created)[0].3["f:spec"].get("f:type").is_some(), "a default counts as sent");
}

#[tokio::test(start_paused = true)]
async fn sub_10_an_empty_list_is_a_change_of_a_custom_resource() {
    let api = Api::start().await;
    api.post(DEFINITIONS, &widgets()).await.expect(201);
    api.post(WIDGETS, &widget("a")).await.expect(201);
    let patched = api.patch(&format!("{WIDGETS}/a"), &json!({"spec": {"list": []}})).await.expect(200);
    assert_eq!((&patched["spec"]["list"], &patched["metadata"]["generation"]), (&json!([]), &json!(2)));
    let patched = api.patch(&format!("{WIDGETS}/a"), &json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
    assert_eq!(patched["metadata"]["generation"], 2);
}
