//! Policies that change objects.

use evenkeel_apiserver::{AdmissionHook, AdmissionReview, AdmissionVerdict};
use serde_json::{Value, json};

use crate::PODS;
use crate::api::{Api, TestResponse};
use crate::webhooks::{builder, recording};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
           "spec": {"containers": [{"name": "main", "image": "a"}]}})
}

fn rule(group: &str, resources: &[&str]) -> Value {
    json!([{"apiGroups": [group], "apiVersions": ["v1"], "operations": ["*"], "resources": resources}])
}

/// Returns a policy for ConfigMaps with further fields of its spec.
fn policy(name: &str, more: Value) -> Value {
    let mut policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
                            "metadata": {"name": name}, "spec": {"reinvocationPolicy": "Never",
                            "matchConstraints": {"resourceRules": rule("", &["configmaps"])}}});
    policy["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    policy
}

fn binding(name: &str, more: Value) -> Value {
    let mut binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
                             "metadata": {"name": format!("{name}-binding")}, "spec": {"policyName": name}});
    binding["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    binding
}

fn applies(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn patches(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

async fn add(api: &Api, name: &str, spec: Value) {
    let created = api.post(POLICIES, &policy(name, spec)).await;
    assert!(created.warnings().is_empty());
    created.expect(201);
    let created = api.post(BINDINGS, &binding(name, json!({}))).await;
    assert!(created.warnings().is_empty());
    created.expect(201);
}

async fn with_mutations(mutations: Value) -> Api {
    let api = Api::start().await;
    add(&api, "p", json!({"mutations": mutations})).await;
    api
}

/// Starts a server with a policy for pods.
async fn with_pod_mutation(mutation: Value) -> Api {
    let api = Api::start().await;
    let constraints = json!({"resourceRules": rule("", &["pods", "pods/*"])});
    add(&api, "p", json!({"mutations": [mutation], "matchConstraints": constraints})).await;
    api
}

/// Returns the text of a denial after its standard beginning.
#[track_caller]
fn denial(response: &TestResponse) -> &str {
    let message = response.refusal(403, "Invalid");
    assert_eq!(response.body["details"]["causes"][0]["message"], message);
    message.strip_prefix("policy 'p' with binding 'p-binding' denied request: ").unwrap_or(message)
}

#[tokio::test]
async fn mup_001_mutations_run_in_order_on_the_result_of_the_one_before() {
    let api = with_mutations(json!([
        applies("Object{data: {'b': object.data.a + '2'}}"),
        patches("[JSONPatch{op: 'add', path: '/data/c', value: object.data.b + '3'}]"),
    ]))
    .await;
    add(&api, "q", json!({"mutations": [applies("Object{data: {'d': object.data.c + '4'}}")]})).await;
    let created = api.post(MAPS, &config_map("m")).await.expect(201);
    assert_eq!(created["data"], json!({"a": "1", "b": "12", "c": "123", "d": "1234"}));
    api.delete(&format!("{MAPS}/m")).await.expect(200);
    api.delete(&format!("{BINDINGS}/q-binding")).await.expect(200);
    let created = api.post(MAPS, &config_map("m")).await.expect(201);
    assert_eq!(created["data"], json!({"a": "1", "b": "12", "c": "123"}));
}

#[tokio::test]
async fn mup_001_policies_run_before_webhooks_and_validation_after_both() {
    let own = AdmissionHook::mutating("m.example.com").rule(&["CREATE"], &[""], &["v1"], &["configmaps"]);
    let (builder, reviews) = recording(builder(), own, |_: &AdmissionReview| AdmissionVerdict::allow());
    let api = Api::with(builder).await;
    add(&api, "p", json!({"mutations": [applies("Object{metadata: Object.metadata{labels: {'bad value': ''}}}")]}))
        .await;
    let response = api.post(MAPS, &config_map("m")).await;
    assert!(response.refusal(422, "Invalid").contains("metadata.labels: Invalid value: \"bad value\""));
    assert_eq!(reviews.take()[0]["object"]["metadata"]["labels"], json!({"bad value": ""}));
}

#[tokio::test]
async fn mup_001_conditions_variables_and_parameters_are_those_of_validating_policies() {
    let api = Api::start().await;
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "Secret"},
        "matchConditions": [{"name": "named", "expression": "object.metadata.name != 'spared'"}],
        "variables": [{"name": "team", "expression": "params.metadata.annotations.team"}],
        "mutations": [applies("Object{data: {params.metadata.name: variables.team + '/' + namespaceObject.metadata.name}}")]});
    api.post(POLICIES, &policy("p", spec)).await.expect(201);
    let reference =
        json!({"paramRef": {"selector": {"matchLabels": {"is": "param"}}, "parameterNotFoundAction": "Deny"}});
    api.post(BINDINGS, &binding("p", reference)).await.expect(201);
    let refused = api.post(MAPS, &config_map("m")).await;
    assert_eq!(
        refused.refusal(403, "Forbidden"),
        "policy 'p' with binding 'p-binding' denied request: failed to configure binding: no params found for policy binding \
         with `Deny` parameterNotFoundAction"
    );
    for (name, team) in [("x", "blue"), ("y", "red")] {
        let metadata = json!({"name": name, "labels": {"is": "param"}, "annotations": {"team": team}});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
        api.post("/api/v1/namespaces/default/secrets", &secret).await.expect(201);
    }
    let created = api.post(MAPS, &config_map("m")).await.expect(201);
    assert_eq!(created["data"], json!({"a": "1", "x": "blue/default", "y": "red/default"}));
    assert_eq!(api.post(MAPS, &config_map("spared")).await.expect(201)["data"], json!({"a": "1"}));
}

#[tokio::test]
async fn mup_002_a_configuration_is_merged_as_server_side_apply_does() {
    let sidecar = "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 'b'},
                    Object.spec.containers{name: 'main', env: [Object.spec.containers.env{name: 'X', value: '1'}]}]}}";
    let api = with_pod_mutation(applies(sidecar)).await;
    let created = api.post(PODS, &pod("a")).await.expect(201);
    let containers = created["spec"]["containers"].as_array().unwrap();
    let names: Vec<&str> = containers.iter().map(|container| container["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["side", "main"]);
    assert_eq!(containers[1]["env"], json!([{"name": "X", "value": "1"}]));
    // The writer does not own what a policy sets.
    let owned = created["metadata"]["managedFields"].to_string();
    assert!(owned.contains("main") && !owned.contains("side"), "{owned}");
}

#[tokio::test]
async fn mup_002_atomic_parts_and_unknown_fields_are_refused() {
    for (expression, why) in [
        (
            "Object{spec: Object.spec{tolerations: [Object.spec.tolerations{key: 'a'}], nodeSelector: {'a': 'b'}}}",
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: \
             .spec.nodeSelector, .spec.tolerations",
        ),
        (
            "Object{spec: Object.spec{other: 1}}",
            "error applying patch: failed to convert patch object to typed object: .spec.other: field not declared in schema",
        ),
        (
            "Object{spec: Object.status{hostname: 'a'}}",
            "type mismatch: unexpected type name \"Object.status\", expected \"Object.spec\", which matches field name path \
             from root Object type",
        ),
        (
            "Object{spec: object.spec.missing}",
            "expression 'Object{spec: object.spec.missing}' resulted in error: no such key: missing",
        ),
    ] {
        let api = with_pod_mutation(applies(expression)).await;
        assert_eq!(denial(&api.post(PODS, &pod("a")).await), why, "{expression}");
    }
}

#[tokio::test]
async fn mup_003_a_json_patch_is_a_list_of_operations() {
    let api = with_mutations(json!([patches(
        "[JSONPatch{op: 'add', path: '/metadata/labels', value: {}},
          JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/a'), value: 'b'},
          JSONPatch{op: 'copy', from: '/data/a', path: '/data/b'}] +
         (has(object.data.drop) ? [JSONPatch{op: 'remove', path: '/data/drop'}] : [])"
    )]))
    .await;
    let mut sent = config_map("m");
    sent["data"]["drop"] = json!("x");
    let created = api.post(MAPS, &sent).await.expect(201);
    assert_eq!(created["metadata"]["labels"], json!({"example.com/a": "b"}));
    assert_eq!(created["data"], json!({"a": "1", "b": "1"}));

    let api = with_pod_mutation(patches(
        "[JSONPatch{op: 'add', path: '/spec/initContainers', value: [Object.spec.initContainers{name: 'i', image: 'b'}]}]",
    ))
    .await;
    let created = api.post(PODS, &pod("a")).await.expect(201);
    assert_eq!(created["spec"]["initContainers"][0]["name"], "i");
}

#[tokio::test]
async fn mup_003_a_failed_test_changes_nothing_and_other_failures_deny() {
    let api = with_mutations(json!([
        patches(
            "[JSONPatch{op: 'add', path: '/data/b', value: 'x'}, JSONPatch{op: 'test', path: '/data/a', value: '2'}]"
        ),
        applies("Object{data: {'c': 'kept'}}"),
    ]))
    .await;
    assert_eq!(api.post(MAPS, &config_map("m")).await.expect(201)["data"], json!({"a": "1", "c": "kept"}));

    let api = with_mutations(json!([patches("[JSONPatch{op: 'remove', path: '/data/z'}]")])).await;
    let refused = api.post(MAPS, &config_map("m")).await;
    assert!(denial(&refused).starts_with("JSON Patch: "), "{}", refused.text);
    let unknown = "[JSONPatch{op: 'add', path: '/spec/other', value: 1}]";
    let api = with_pod_mutation(patches(unknown)).await;
    assert_eq!(
        api.post(PODS, &pod("a")).await.refusal(500, "InternalError"),
        "Internal error occurred: strict decoding error: unknown field \"spec.other\""
    );
}

#[tokio::test]
async fn mup_004_a_failure_denies_under_fail_and_is_ignored_under_ignore() {
    let api = Api::start().await;
    let broken = |policy: &str| json!({"failurePolicy": policy, "mutations": [applies("Object{data: {'b': object.data.missing}}")]});
    add(&api, "p", broken("Fail")).await;
    add(&api, "q", broken("Fail")).await;
    let refused = api.post(MAPS, &config_map("m")).await;
    let text = |name: &str| {
        format!(
            "policy '{name}' with binding '{name}-binding' denied request: expression 'Object{{data: {{'b': \
             object.data.missing}}}}' resulted in error: no such key: missing"
        )
    };
    assert_eq!(refused.refusal(403, "Invalid"), text("p"));
    assert_eq!(refused.body["details"]["causes"], json!([{"message": text("p")}, {"message": text("q")}]));
    assert_eq!(refused.body["details"]["name"], "m");

    let api = Api::start().await;
    add(&api, "p", broken("Ignore")).await;
    assert_eq!(api.post(MAPS, &config_map("m")).await.expect(201)["data"], json!({"a": "1"}));
    let unknown = json!({"paramKind": {"apiVersion": "rules.evenkeel.dev/v1", "kind": "Limit"}, "mutations": [applies("Object{}")]});
    add(&api, "r", unknown).await;
    assert_eq!(
        api.post(MAPS, &config_map("n")).await.refusal(403, "Forbidden"),
        "policy \"r\" denied request: failed to configure policy: failed to find resource referenced by paramKind: \
         'rules.evenkeel.dev/v1, Kind=Limit'"
    );
}

#[tokio::test]
async fn mup_005_a_policy_runs_again_after_a_later_change_if_it_asks_for_it() {
    for (reinvocation, expected) in [("Never", "1"), ("IfNeeded", "11")] {
        let api = Api::start().await;
        let counts = applies("Object{data: {'runs': (has(object.data.runs) ? object.data.runs : '') + '1'}}");
        add(&api, "a", json!({"reinvocationPolicy": reinvocation, "mutations": [counts]})).await;
        let once = json!({"matchConditions": [{"name": "absent", "expression": "!has(object.data.late)"}],
                          "mutations": [applies("Object{data: {'late': 'x'}}")]});
        add(&api, "b", once).await;
        let created = api.post(MAPS, &config_map("m")).await.expect(201);
        assert_eq!(created["data"], json!({"a": "1", "late": "x", "runs": expected}), "{reinvocation}");
    }
}

#[tokio::test]
async fn mup_005_a_change_of_a_webhook_runs_a_policy_again() {
    let own = AdmissionHook::mutating("m.example.com").rule(&["CREATE"], &[""], &["v1"], &["configmaps"]);
    let (builder, reviews) = recording(builder(), own, |_: &AdmissionReview| {
        AdmissionVerdict::patch(&json!([{"op": "add", "path": "/data/hook", "value": "x"}]))
    });
    let api = Api::with(builder).await;
    let counts = applies("Object{data: {'runs': (has(object.data.runs) ? object.data.runs : '') + '1'}}");
    add(&api, "a", json!({"reinvocationPolicy": "IfNeeded", "mutations": [counts]})).await;
    let created = api.post(MAPS, &config_map("m")).await.expect(201);
    assert_eq!(created["data"], json!({"a": "1", "hook": "x", "runs": "11"}));
    assert_eq!(reviews.count(), 1);
}

#[tokio::test]
async fn mup_005_results_are_defaulted_after_each_mutation() {
    let api = with_pod_mutation(applies(
        "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 'b'}]}}",
    ))
    .await;
    let constraints = json!({"resourceRules": rule("", &["pods"])});
    let sees = json!({"matchConstraints": constraints, "mutations": [applies(
        "Object{metadata: Object.metadata{annotations: {'policy': object.spec.containers.filter(c, c.name == 'side')[0].imagePullPolicy}}}")]});
    add(&api, "q", sees).await;
    let created = api.post(PODS, &pod("a")).await.expect(201);
    assert_eq!(created["metadata"]["annotations"]["policy"], "Always");
}

#[tokio::test]
async fn mup_006_deletes_cannot_be_matched() {
    let api = Api::start().await;
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "DELETE"], "resources": ["configmaps"]}]);
    let spec = json!({"matchConstraints": {"resourceRules": rules}, "mutations": [applies("Object{}")]});
    assert!(api.post(POLICIES, &policy("p", spec)).await.refusal(422, "Invalid").ends_with(
        "spec.matchConstraints.resourceRules.operations: Unsupported value: \"DELETE\": supported values: \"*\", \"CONNECT\", \
         \"CREATE\", \"UPDATE\""
    ));
    let response = api.post(BINDINGS, &binding("p", json!({"matchResources": {"resourceRules": rules}}))).await;
    assert!(
        response.refusal(422, "Invalid").contains("spec.matchResources.resourceRules.operations: Unsupported value")
    );
    // `*` does not reach deletes either.
    add(&api, "p", json!({"mutations": [applies("Object{data: {'b': object.data.a}}")]})).await;
    api.post(MAPS, &config_map("m")).await.expect(201);
    api.delete(&format!("{MAPS}/m")).await.expect(200);
}

#[tokio::test]
async fn mup_006_policies_are_validated_when_they_are_written() {
    let api = Api::start().await;
    for (spec, error) in [
        (json!({"mutations": []}), "spec.mutations: Required value: mutations must contain at least one item"),
        (json!({"mutations": [applies("{'a': 1}")]}), "must evaluate to Object but got map(string, int)"),
        (json!({"mutations": [patches("[1]")]}), "must evaluate to list(JSONPatch) but got list(int)"),
        (
            json!({"mutations": [{"patchType": "JSONPatch", "applyConfiguration": {"expression": "Object{}"}}]}),
            "[spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch, \
             spec.mutations[0].applyConfiguration: Invalid value: \"{applyConfiguration}\": must not be specified when \
             patchType is JSONPatch]",
        ),
        (
            json!({"mutations": [{"patchType": "Other"}]}),
            "spec.mutations[0].patchType: Unsupported value: \"Other\": supported values: \"ApplyConfiguration\", \"JSONPatch\"",
        ),
        (
            json!({"mutations": [applies("Object{}")], "reinvocationPolicy": "Always"}),
            "spec.reinvocationPolicy: Unsupported value: \"Always\": supported values: \"IfNeeded\", \"Never\"",
        ),
        (
            json!({"mutations": [applies("Object{}")], "variables": [{"name": "a", "expression": "Object{}"}]}),
            "undeclared reference to 'Object' (in container '')\n | Object{}\n | ......^",
        ),
    ] {
        let response = api.post(POLICIES, &policy("p", spec)).await;
        let message = response.refusal(422, "Invalid");
        assert!(message.ends_with(error), "{message}\nexpected {error}");
    }
}

#[tokio::test]
async fn mup_001_the_scale_of_a_workload_is_changed_as_a_scale() {
    let api = Api::start().await;
    let constraints = json!({"resourceRules": rule("apps", &["deployments/scale"])});
    let cap = "Object{spec: Object.spec{replicas: object.spec.replicas > 3 ? 3 : object.spec.replicas}}";
    add(&api, "p", json!({"matchConstraints": constraints, "mutations": [applies(cap)]})).await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
                            "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}});
    api.post(DEPLOYMENTS, &deployment).await.expect(201);
    let scaled = api.patch(&format!("{DEPLOYMENTS}/d/scale"), &json!({"spec": {"replicas": 9}})).await.expect(200);
    assert_eq!(scaled["spec"]["replicas"], 3);
    assert_eq!(api.get(&format!("{DEPLOYMENTS}/d")).await.expect(200)["spec"]["replicas"], 3);
}

#[tokio::test]
async fn mup_001_custom_resources_are_changed_by_their_schema() {
    let api = Api::start().await;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer"}, "tags": {"type": "object", "additionalProperties": {"type": "string"}},
        "list": {"type": "array", "items": {"type": "string"}}}}}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.expect(201);
    let constraints = json!({"resourceRules": rule("example.com", &["widgets"])});
    let spec = |expression: &str| json!({"matchConstraints": constraints, "mutations": [applies(expression)]});
    add(&api, "a", spec("Object{spec: Object.spec{size: object.spec.size + 1, tags: {'b': '2'}}}")).await;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"},
                        "spec": {"size": 1, "tags": {"a": "1"}}});
    let created = api.post(widgets, &widget).await.expect(201);
    assert_eq!(created["spec"], json!({"size": 2, "tags": {"a": "1", "b": "2"}}));
    add(&api, "p", spec("Object{spec: Object.spec{list: ['x']}}")).await;
    let refused = api.patch(&format!("{widgets}/w"), &json!({"spec": {"size": 5}})).await;
    assert!(
        denial(&refused).ends_with("may not mutate atomic arrays, maps or structs: .spec.list"),
        "{}",
        refused.text
    );
}

#[tokio::test]
async fn mup_004_a_result_that_shares_its_parts_is_measured_as_a_whole() {
    let api = Api::start().await;
    let mut variables = vec![json!({"name": "v0", "expression": "['x']"})];
    variables.extend((1..19).map(|at| {
        json!({"name": format!("v{at}"), "expression": format!("[dyn(variables.v{0}), dyn(variables.v{0})]", at - 1)})
    }));
    let mutation = patches(
        "[JSONPatch{op: 'add', path: '/data/b', value: [variables.v18, variables.v18, variables.v18, variables.v18, variables.v18, variables.v18, variables.v18, variables.v18]}]",
    );
    add(&api, "p", json!({"variables": variables, "mutations": [mutation]})).await;
    let refused = api.post(MAPS, &config_map("m")).await;
    assert!(denial(&refused).starts_with("the result of expression '[JSONPatch{"), "{}", refused.text);
}
