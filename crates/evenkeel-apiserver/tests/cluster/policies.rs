//! Admission policies.

use evenkeel_apiserver::{ApiServer, AuditPolicy};
use serde_json::{Value, json};

use crate::api::{Api, TestEnv, TestResponse};

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
    assert!(response.refusal(422, "Invalid").ends_with("must evaluate to bool but got dyn"));
    let response = api
        .post(POLICIES, &policy("p", json!({"validations": [{"expression": "true", "messageExpression": "authorizer.path('/').check('get').reason()"}]})))
        .await;
    assert!(response.refusal(422, "Invalid").contains("undeclared reference to 'authorizer'"));
}

/// Returns the annotations of the last create in the audit log.
fn annotations(api: &Api) -> Value {
    let events = api.server.audit_events();
    let mut created =
        events.iter().rev().filter(|event| event["stage"] == "ResponseComplete" && event["verb"] == "create");
    created.next().unwrap()["annotations"].clone()
}

async fn audited(spec: Value, bound: Value) -> Api {
    let api = Api::with(ApiServer::builder().env(TestEnv::new()).audit_policy(AuditPolicy::metadata())).await;
    for (path, object) in [(POLICIES, policy("p", spec)), (BINDINGS, binding("p", bound))] {
        let created = api.post(path, &object).await;
        assert!(created.warnings().is_empty());
        created.expect(201);
    }
    api
}

#[tokio::test]
async fn vap_008_the_action_audit_lists_failures_in_the_audit_log() {
    let spec =
        json!({"validations": [{"expression": "true"}, {"expression": "!has(object.data.a)", "message": "no a"}]});
    let api = audited(spec, json!({"validationActions": ["Audit", "Warn"]})).await;
    let created = api.post(MAPS, &config_map("m", json!({"a": "1"}))).await;
    assert_eq!(created.warnings().len(), 1);
    created.expect(201);
    assert_eq!(
        annotations(&api)["validation.policy.admission.k8s.io/validation_failure"],
        r#"[{"message":"no a","policy":"p","binding":"p-binding","expressionIndex":1,"validationActions":["Audit","Warn"]}]"#
    );
    api.post(MAPS, &config_map("n", json!({"b": "1"}))).await.expect(201);
    assert!(annotations(&api).get("validation.policy.admission.k8s.io/validation_failure").is_none());
}

#[tokio::test]
async fn vap_008_a_long_list_of_failures_is_cut() {
    let validations: Vec<Value> = (0..60).map(|_| json!({"expression": "false"})).collect();
    let api = audited(json!({"validations": validations}), json!({"validationActions": ["Audit"]})).await;
    api.post(MAPS, &config_map("m", json!({}))).await.expect(201);
    let annotations = annotations(&api);
    let list = annotations["validation.policy.admission.k8s.io/validation_failure"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Vec<Value>>(list).unwrap().len(), 50);
}

#[tokio::test]
async fn vap_008_audit_annotations_are_published_under_the_policy() {
    let spec = json!({"auditAnnotations": [
        {"key": "size", "valueExpression": "'  ' + string(object.data.size()) + ' of ' + object.data.a"},
        {"key": "long", "valueExpression": "lists.range(3000).map(i, 'äöüß').join('')"},
        {"key": "nothing", "valueExpression": "null"}, {"key": "blank", "valueExpression": "' '"}]});
    let api = audited(spec, json!({})).await;
    api.post(BINDINGS, &binding("p", json!({"matchResources": {}}))).await.refusal(409, "AlreadyExists");
    api.post(MAPS, &config_map("m", json!({"a": "b"}))).await.expect(201);
    let published = annotations(&api);
    assert_eq!(published["p/size"], "1 of b");
    assert_eq!(published["p/long"].as_str().unwrap().len(), 10 << 10);
    assert!(published.get("p/nothing").is_none() && published.get("p/blank").is_none());
    assert_eq!(
        denial(&api.post(MAPS, &config_map("n", json!({"c": "d"}))).await),
        "expression ''  ' + string(object.data.size()) + ' of ' + object.data.a' resulted in error: no such key: a"
    );
}

#[tokio::test]
async fn vap_008_values_of_several_parameters_are_joined() {
    let spec = json!({"paramKind": {"apiVersion": "v1", "kind": "Secret"},
                      "auditAnnotations": [{"key": "of", "valueExpression": "string(params.metadata.name)"}, {"key": "same", "valueExpression": "'x'"}]});
    let api = audited(spec, json!({"paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"}})).await;
    for name in ["a", "b"] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        api.post("/api/v1/namespaces/default/secrets", &secret).await.expect(201);
    }
    api.post(MAPS, &config_map("m", json!({}))).await.expect(201);
    let published = annotations(&api);
    assert_eq!((&published["p/of"], &published["p/same"]), (&json!("a, b"), &json!("x")));
}

#[tokio::test]
async fn vap_008_keys_and_expressions_of_annotations_are_validated() {
    let api = Api::start().await;
    let annotations = json!([{"key": "a b", "valueExpression": "1"}, {"key": "c", "valueExpression": " "}]);
    let response = api.post(POLICIES, &policy("p", json!({"auditAnnotations": annotations}))).await;
    let message = response.refusal(422, "Invalid");
    for error in [
        "spec.auditAnnotations[0].key: Invalid value: \"p/a b\"",
        "spec.auditAnnotations[0].valueExpression: Invalid value: \"1\": must evaluate to one of [string null_type] but got int",
        "spec.auditAnnotations[1].valueExpression: Required value: valueExpression is not specified",
    ] {
        assert!(message.contains(error), "{message}\nexpected {error}");
    }
}

#[tokio::test]
async fn vap_013_the_status_says_whether_expressions_fit_the_matched_types() {
    let api = Api::start().await;
    let one = format!("{POLICIES}/p");
    let created =
        api.post(POLICIES, &policy("p", json!({"validations": [{"expression": "object.data.size() < 3"}]}))).await;
    assert_eq!(created.expect(201)["metadata"]["generation"], 1);
    let policy_now = api.get(&one).await.expect(200);
    assert_eq!(policy_now["status"], json!({"observedGeneration": 1, "typeChecking": {}}));
    let managers = policy_now["metadata"]["managedFields"].as_array().unwrap();
    assert!(
        managers
            .iter()
            .any(|entry| entry["manager"] == "validatingadmissionpolicy-status" && entry["subresource"] == "status")
    );

    let validations = json!([{"expression": "object.metadata.labels.size() == 0"},
                             {"expression": "object.dat.size() < 3", "messageExpression": "'is ' + object.immutable"}]);
    api.patch(&one, &json!({"spec": {"validations": validations}})).await.expect(200);
    let status = api.get(&one).await.expect(200)["status"].clone();
    assert_eq!(status["observedGeneration"], 2);
    assert_eq!(
        status["typeChecking"]["expressionWarnings"],
        json!([
            {"fieldRef": "spec.validations[1].expression",
             "warning": "/v1, Kind=ConfigMap: ERROR: <input>:1:7: undefined field 'dat'\n | object.dat.size() < 3\n | ......^\n"},
            {"fieldRef": "spec.validations[1].messageExpression",
             "warning": "/v1, Kind=ConfigMap: ERROR: <input>:1:7: found no matching overload for '_+_' applied to '(string, bool)'\n | 'is ' + object.immutable\n | ......^\n"}
        ])
    );
    // Warnings do not change what the policy does.
    api.patch(&one, &json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
    assert_eq!(api.get(&one).await.expect(200)["status"]["observedGeneration"], 2);
}

#[tokio::test]
async fn vap_013_all_kinds_of_the_rules_are_checked_and_wildcards_are_not() {
    let api = Api::start().await;
    let rules = json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments", "daemonsets", "*/scale"]},
                       {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["pods"]}]);
    let spec = json!({"matchConstraints": {"resourceRules": rules},
                      "variables": [{"name": "wanted", "expression": "object.spec.replicas"}],
                      "validations": [{"expression": "object.spec.replicas < 3"}, {"expression": "variables.wanted < 3 || request.name.size() > 1"},
                                      {"expression": "object.spec.template.spec.containers.all(c, c.resources.limits.cpu == c.resources.requests.cpu)"}]});
    api.post(POLICIES, &policy("p", spec)).await.expect(201);
    let status = api.get(&format!("{POLICIES}/p")).await.expect(200)["status"].clone();
    let warnings = status["typeChecking"]["expressionWarnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{status}");
    assert!(
        warnings[0]["warning"]
            .as_str()
            .unwrap()
            .starts_with("apps/v1, Kind=DaemonSet: ERROR: <input>:1:12: undefined field 'replicas'"),
        "{status}"
    );
}

/// Returns this many variables; each has the expression that the function returns for the name of the one before.
fn chain(count: usize, first: &str, next: impl Fn(&str) -> String) -> Value {
    let start = json!({"name": "v0", "expression": first});
    let rest =
        (1..count).map(|at| json!({"name": format!("v{at}"), "expression": next(&format!("variables.v{}", at - 1))}));
    std::iter::once(start).chain(rest).collect()
}

#[tokio::test]
async fn vap_012_chains_of_variables_neither_overflow_nor_explode() {
    let spec = json!({"variables": chain(1000, "1", |before| format!("{before} + 1")),
                      "validations": [{"expression": "variables.v999 == 1000"}]});
    let api = with_policy(spec, json!({})).await;
    api.post(MAPS, &config_map("m", json!({}))).await.expect(201);

    for next in ["[dyn(A), dyn(A)]", "[dyn(A)]"] {
        let spec = json!({"variables": chain(900, "[dyn('x')]", |before| next.replace('A', before)),
                          "validations": [{"expression": "variables.v899 == variables.v899"}]});
        let api = with_policy(spec, json!({})).await;
        assert_eq!(
            denial(&api.post(MAPS, &config_map("m", json!({}))).await),
            "expression 'variables.v899 == variables.v899' resulted in error: the value of the variable is too large"
        );
    }
    let spec = json!({"variables": chain(1001, "1", str::to_owned), "validations": [{"expression": "true"}]});
    let response = Api::start().await.post(POLICIES, &policy("p", spec)).await;
    assert!(response.refusal(422, "Invalid").ends_with("spec.variables: Too many: 1001: must have at most 1000 items"));
}

#[tokio::test]
async fn vap_004_variables_are_evaluated_when_they_are_needed() {
    let variables = chain(20, "object.data.missing == 'x'", |before| format!("has(object.data.use) && {before}"));
    let spec = json!({"variables": variables, "validations": [{"expression": "!variables.v3"}, {"expression": "!variables.v19"}]});
    let api = with_policy(spec, json!({})).await;
    api.post(MAPS, &config_map("m", json!({"a": "b"}))).await.expect(201);
    assert!(denial(&api.post(MAPS, &config_map("n", json!({"use": "b"}))).await).ends_with("no such key: missing"));
}

#[tokio::test]
async fn vap_012_deep_expressions_of_variables_fit_the_stack() {
    let deep = |inner: &str| format!("{}dyn({inner}){}", "[".repeat(115), "][0]".repeat(115));
    let spec = json!({"variables": chain(50, &deep("1"), |before| deep(before)),
                      "validations": [{"expression": format!("{} == 1", deep("variables.v49"))}]});
    let api = with_policy(spec, json!({})).await;
    api.post(MAPS, &config_map("m", json!({}))).await.expect(201);
}
