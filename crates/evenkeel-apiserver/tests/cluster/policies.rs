//! Admission policies.

use serde_json::{Value, json};

use crate::api::{Api, TestResponse};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// Returns a policy for ConfigMaps with further fields of its spec.
fn policy(name: &str, more: Value) -> Value {
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]);
    let mut policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
                            "metadata": {"name": name}, "spec": {"matchConstraints": {"resourceRules": rules}}});
    policy["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    policy
}

fn binding(name: &str, more: Value) -> Value {
    let mut binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
                             "metadata": {"name": format!("{name}-binding")}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
    binding["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    binding
}

/// Starts a server with a policy `p` and a binding of it.
async fn with_policy(spec: Value, bound: Value) -> Api {
    let api = Api::start().await;
    api.post(POLICIES, &policy("p", spec)).await.expect(201);
    api.post(BINDINGS, &binding("p", bound)).await.expect(201);
    api
}

async fn with_validation(validation: Value) -> Api {
    with_policy(json!({"validations": [validation]}), json!({})).await
}

fn denial(response: &TestResponse) -> &str {
    let message = response.refusal(422, "Invalid");
    message.split_once("denied request: ").map_or(message, |(_, text)| text)
}

#[tokio::test]
async fn vap_001_a_policy_acts_through_a_binding() {
    let api = Api::start().await;
    api.post(POLICIES, &policy("p", json!({"validations": [{"expression": "false"}]}))).await.expect(201);
    api.post(MAPS, &config_map("a", json!({}))).await.expect(201);
    api.post(BINDINGS, &binding("missing", json!({}))).await.expect(201);
    api.post(MAPS, &config_map("b", json!({}))).await.expect(201);
    api.post(BINDINGS, &binding("p", json!({}))).await.expect(201);
    api.post(MAPS, &config_map("c", json!({}))).await.refusal(422, "Invalid");
    api.delete(&format!("{BINDINGS}/p-binding")).await.expect(200);
    api.post(MAPS, &config_map("c", json!({}))).await.expect(201);
}

#[tokio::test]
async fn vap_002_defaults_and_required_fields() {
    let api = Api::start().await;
    let created = api.post(POLICIES, &policy("p", json!({"validations": [{"expression": "true"}]}))).await.expect(201);
    assert_eq!(created["spec"]["failurePolicy"], "Fail");
    assert_eq!(created["spec"]["matchConstraints"]["matchPolicy"], "Equivalent");
    assert_eq!(created["spec"]["matchConstraints"]["namespaceSelector"], json!({}));
    let mut without = policy("q", json!({"validations": [{"expression": "true"}]}));
    without["spec"]["matchConstraints"] = json!({});
    let response = api.post(POLICIES, &without).await;
    assert!(response.refusal(422, "Invalid").contains("spec.matchConstraints.resourceRules: Required value"));
}

#[tokio::test]
async fn vap_003_conditions_are_checked_after_rules_and_selectors() {
    let spec = json!({"matchConditions": [{"name": "named", "expression": "object.metadata.name != 'spared'"}],
                      "validations": [{"expression": "false"}]});
    let selected = json!({"matchResources": {"objectSelector": {"matchLabels": {"check": "yes"}}}});
    let api = with_policy(spec, selected).await;
    api.post(MAPS, &config_map("other", json!({}))).await.expect(201);
    let labelled = |name: &str| {
        let mut map = config_map(name, json!({}));
        map["metadata"]["labels"] = json!({"check": "yes"});
        map
    };
    api.post(MAPS, &labelled("spared")).await.expect(201);
    api.post(MAPS, &labelled("a")).await.refusal(422, "Invalid");
    api.post(
        "/api/v1/namespaces/default/secrets",
        &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
    )
    .await
    .expect(201);
}

#[tokio::test]
async fn vap_003_an_error_of_a_condition_follows_the_failure_policy() {
    let spec = |policy: &str| {
        json!({"failurePolicy": policy, "matchConditions": [{"name": "broken", "expression": "object.data.missing == 'x'"}],
                                     "validations": [{"expression": "false"}]})
    };
    let api = with_policy(spec("Fail"), json!({})).await;
    assert_eq!(
        denial(&api.post(MAPS, &config_map("a", json!({"b": "c"}))).await),
        "expression 'object.data.missing == 'x'' resulted in error: no such key: missing"
    );
    let api = with_policy(spec("Ignore"), json!({})).await;
    api.post(MAPS, &config_map("a", json!({"b": "c"}))).await.expect(201);
}

#[tokio::test]
async fn vap_004_variables_of_expressions() {
    let spec = json!({
        "variables": [{"name": "size", "expression": "request.operation == 'DELETE' ? 0 : object.data.size()"},
                      {"name": "double", "expression": "variables.size * 2"}],
        "validations": [
            {"expression": "request.operation != 'CREATE' || oldObject == null", "message": "old"},
            {"expression": "request.operation != 'DELETE' || (object == null && oldObject.metadata.name == request.name)", "message": "new"},
            {"expression": "params == null || true", "message": "params"},
            {"expression": "namespaceObject.metadata.name == request.namespace && request.resource.resource == 'configmaps'", "message": "namespace"},
            {"expression": "variables.double <= 2", "messageExpression": "'twice is ' + string(variables.double)"},
            {"expression": "authorizer.requestResource.check('create').allowed()", "message": "authorizer"}]});
    let mut spec = spec;
    spec["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let api = with_policy(spec, json!({})).await;
    api.post(MAPS, &config_map("a", json!({"x": "1"}))).await.expect(201);
    assert_eq!(denial(&api.post(MAPS, &config_map("b", json!({"x": "1", "y": "2"}))).await), "twice is 4");
    api.delete(&format!("{MAPS}/a")).await.expect(200);
}

#[tokio::test]
async fn vap_005_a_reason_sets_the_code() {
    for (reason, code) in [("Forbidden", 403), ("RequestEntityTooLarge", 413), ("Invalid", 422)] {
        let api = with_validation(json!({"expression": "false", "reason": reason})).await;
        api.post(MAPS, &config_map("a", json!({}))).await.refusal(code, reason);
    }
    let api = Api::start().await;
    let response =
        api.post(POLICIES, &policy("p", json!({"validations": [{"expression": "true", "reason": "Other"}]}))).await;
    assert!(response.refusal(422, "Invalid").ends_with(
        "spec.validations[0].reason: Unsupported value: \"Other\": supported values: \"Forbidden\", \"Invalid\", \
         \"RequestEntityTooLarge\", \"Unauthorized\""
    ));
}

#[tokio::test]
async fn vap_006_the_message_names_policy_and_binding() {
    let api = with_policy(
        json!({"validations": [{"expression": "!has(object.data.a)"}, {"expression": "!has(object.data.b)", "message": "no b"}]}),
        json!({}),
    )
    .await;
    let response = api.post(MAPS, &config_map("m", json!({"a": "1", "b": "2"}))).await;
    let text =
        "ValidatingAdmissionPolicy 'p' with binding 'p-binding' denied request: failed expression: !has(object.data.a)";
    assert_eq!(response.refusal(422, "Invalid"), format!("configmaps \"m\" is forbidden: {text}"));
    assert_eq!(response.body["details"]["causes"], json!([{"message": text}]));
    assert_eq!(denial(&api.post(MAPS, &config_map("m", json!({"b": "2"}))).await), "no b");
}

#[tokio::test]
async fn vap_007_warnings_let_the_request_pass() {
    let api = with_policy(
        json!({"validations": [{"expression": "false", "message": "no"}]}),
        json!({"validationActions": ["Warn"]}),
    )
    .await;
    let response = api.post(MAPS, &config_map("m", json!({}))).await;
    assert_eq!(
        response.warnings(),
        ["299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p-binding': no\""]
    );
    response.expect(201);
    let both = api.post(BINDINGS, &binding("q", json!({"validationActions": ["Deny", "Warn"]}))).await;
    assert!(both.refusal(422, "Invalid").contains("must not contain both Deny and Warn"));
}

#[tokio::test]
async fn vap_009_an_evaluation_error_follows_the_failure_policy() {
    let spec =
        |policy: &str| json!({"failurePolicy": policy, "validations": [{"expression": "object.data.missing == 'x'"}]});
    let api = with_policy(spec("Fail"), json!({})).await;
    assert_eq!(
        denial(&api.post(MAPS, &config_map("a", json!({"b": "c"}))).await),
        "expression 'object.data.missing == 'x'' resulted in error: no such key: missing"
    );
    let api = with_policy(spec("Ignore"), json!({})).await;
    api.post(MAPS, &config_map("a", json!({"b": "c"}))).await.expect(201);
}

#[tokio::test]
async fn vap_010_parameters_by_name_and_by_selector() {
    let spec = json!({"paramKind": {"apiVersion": "v1", "kind": "Secret"},
                      "validations": [{"expression": "object.data.size() < int(params.metadata.annotations.most)", "messageExpression": "'of ' + params.metadata.name"}]});
    let param = |name: &str, most: &str| {
        json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "labels": {"is": "param"}, "annotations": {"most": most}}})
    };
    let secrets = "/api/v1/namespaces/default/secrets";
    let api =
        with_policy(spec.clone(), json!({"paramRef": {"name": "limit", "parameterNotFoundAction": "Deny"}})).await;
    let two = config_map("m", json!({"a": "1", "b": "2"}));
    assert_eq!(
        api.post(MAPS, &two).await.refusal(422, "Invalid"),
        "configmaps \"m\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p-binding' denied request: failed to configure \
         binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    );
    api.post(secrets, &param("limit", "2")).await.expect(201);
    assert_eq!(denial(&api.post(MAPS, &two).await), "of limit");
    api.patch(&format!("{secrets}/limit"), &json!({"metadata": {"annotations": {"most": "3"}}})).await.expect(200);
    api.post(MAPS, &two).await.expect(201);

    let selected =
        json!({"paramRef": {"selector": {"matchLabels": {"is": "param"}}, "parameterNotFoundAction": "Allow"}});
    let api = with_policy(spec, selected).await;
    api.post(MAPS, &two).await.expect(201);
    api.delete(&format!("{MAPS}/m")).await.expect(200);
    api.post(secrets, &param("wide", "9")).await.expect(201);
    api.post(secrets, &param("narrow", "1")).await.expect(201);
    assert_eq!(denial(&api.post(MAPS, &two).await), "of narrow");
    let both = json!({"paramRef": {"name": "a", "selector": {}}});
    api.post(BINDINGS, &binding("q", both)).await.refusal(422, "Invalid");
}

#[tokio::test]
async fn vap_011_an_unknown_kind_of_parameters_denies() {
    let spec = json!({"paramKind": {"apiVersion": "rules.evenkeel.dev/v1", "kind": "Limit"}, "validations": [{"expression": "true"}]});
    let api = with_policy(spec, json!({"paramRef": {"name": "a", "parameterNotFoundAction": "Allow"}})).await;
    assert_eq!(
        denial(&api.post(MAPS, &config_map("m", json!({}))).await),
        "failed to configure policy: failed to find resource referenced by paramKind: 'rules.evenkeel.dev/v1, Kind=Limit'"
    );
}

#[tokio::test]
async fn vap_012_budgets_and_limits() {
    let conditions: Vec<Value> =
        (0..65).map(|index| json!({"name": format!("c{index}"), "expression": "true"})).collect();
    let api = Api::start().await;
    let response = api
        .post(POLICIES, &policy("p", json!({"matchConditions": conditions, "validations": [{"expression": "true"}]})))
        .await;
    assert!(
        response.refusal(422, "Invalid").contains("spec.matchConditions: Too many: 65: must have at most 64 items")
    );
    let costly = json!({"expression": "lists.range(350).all(a, lists.range(350).all(b, a + b >= 0))"});
    let validations: Vec<Value> = (0..20).map(|_| costly.clone()).collect();
    let api = with_policy(json!({"validations": validations}), json!({})).await;
    assert_eq!(
        denial(&api.post(MAPS, &config_map("m", json!({}))).await),
        "validation failed due to running out of cost budget, no further validation rules will be run"
    );
}

#[tokio::test]
async fn vap_014_configuration_of_admission_is_not_reviewed() {
    let everything = json!({"matchConstraints": {"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]},
                            "validations": [{"expression": "false"}]});
    let api = with_policy(everything, json!({})).await;
    api.post(MAPS, &config_map("m", json!({}))).await.refusal(422, "Invalid");
    api.post(POLICIES, &policy("q", json!({"validations": [{"expression": "true"}]}))).await.expect(201);
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}});
    api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await.expect(201);
    api.delete(&format!("{BINDINGS}/p-binding")).await.expect(200);
    api.post(MAPS, &config_map("m", json!({}))).await.expect(201);
}

#[tokio::test]
async fn vap_004_expressions_are_compiled_when_the_policy_is_written() {
    let api = Api::start().await;
    let response =
        api.post(POLICIES, &policy("p", json!({"validations": [{"expression": "object.spec.x > 1 &&"}]}))).await;
    assert!(response.refusal(422, "Invalid").contains(
        "spec.validations[0].expression: Invalid value: \"object.spec.x > 1 &&\": compilation failed: ERROR: <input>:1:21: Syntax error: \
         mismatched input '<EOF>'"
    ));
    let response = api.post(POLICIES, &policy("p", json!({"validations": [{"expression": "object.spec.x"}]}))).await;
    assert!(response.refusal(422, "Invalid").ends_with("must evaluate to bool"));
    let response = api
        .post(POLICIES, &policy("p", json!({"validations": [{"expression": "true", "messageExpression": "authorizer.path('/').check('get').reason()"}]})))
        .await;
    assert!(response.refusal(422, "Invalid").contains("undeclared reference to 'authorizer'"));
}
