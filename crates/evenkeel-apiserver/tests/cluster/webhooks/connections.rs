//! Reviews of what is not stored: connections, bindings of the collection, reviews of permissions.

use evenkeel_apiserver::{
    AdmissionHook, AdmissionReview, AdmissionVerdict, ContainerProcess, ExitStatus, ServerVersion,
};
use serde_json::{Value, json};

use super::{builder, recording};
use crate::PODS;
use crate::api::Api;

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
           "spec": {"containers": [{"name": "main", "image": "a"}, {"name": "side", "image": "b"}]}})
}

fn connections(name: &str, mutating: bool) -> AdmissionHook {
    let hook = if mutating { AdmissionHook::mutating(name) } else { AdmissionHook::validating(name) };
    hook.rule(&["CONNECT"], &["*"], &["*"], &["*/*"])
}

async fn succeed(_: ContainerProcess) -> ExitStatus {
    ExitStatus::SUCCESS
}

#[tokio::test]
async fn awh_005_connections_are_reviewed_with_their_options() {
    let allow = |_: &AdmissionReview| AdmissionVerdict::allow();
    let deny = |_: &AdmissionReview| AdmissionVerdict::deny("no sessions");
    let (builder, mutating) = recording(builder().exec(succeed), connections("m.example.com", true), allow);
    let (builder, validating) = recording(builder, connections("v.example.com", false), deny);
    let api = Api::with(builder).await;
    api.post(PODS, &pod("web")).await.expect(201);
    assert_eq!((mutating.count(), validating.count()), (0, 0), "a create is not a connection");

    let refused =
        api.post(&format!("{PODS}/web/exec?container=side&command=ls&command=-l&stdout=true"), &json!({})).await;
    assert_eq!(
        refused.refusal(403, "Forbidden"),
        "admission webhook \"v.example.com\" denied the request: no sessions"
    );
    for reviews in [&mutating, &validating] {
        let review = reviews.take().remove(0);
        assert_eq!((&review["operation"], &review["subResource"]), (&json!("CONNECT"), &json!("exec")));
        assert_eq!((&review["name"], &review["namespace"]), (&json!("web"), &json!("default")));
        assert_eq!(review["kind"], json!({"group": "", "version": "v1", "kind": "PodExecOptions"}));
        assert_eq!(review["resource"], json!({"group": "", "version": "v1", "resource": "pods"}));
        let options = json!({"kind": "PodExecOptions", "apiVersion": "v1", "container": "side", "stdout": true, "command": ["ls", "-l"]});
        assert_eq!((&review["object"], &review["oldObject"]), (&options, &Value::Null));
    }

    api.get(&format!("{PODS}/web/proxy/a/b")).await.refusal(403, "Forbidden");
    let review = validating.take().remove(0);
    assert_eq!((&review["operation"], &review["subResource"]), (&json!("CONNECT"), &json!("proxy")));
    assert_eq!(review["object"], json!({"kind": "PodProxyOptions", "apiVersion": "v1", "path": "/a/b"}));
    api.get("/api/v1/nodes/one/proxy").await.refusal(403, "Forbidden");
    assert_eq!(validating.take()[0]["object"]["kind"], "NodeProxyOptions");
}

#[tokio::test]
async fn awh_015_the_collection_of_bindings_is_reviewed() {
    let own = AdmissionHook::validating("v.example.com").rule(&["CREATE"], &[""], &["v1"], &["bindings"]);
    let (builder, reviews) =
        recording(builder(), own, |review: &AdmissionReview| match review.object()["target"]["name"].as_str() {
            Some("one") => AdmissionVerdict::allow().warn("bound"),
            _ => AdmissionVerdict::deny("not there"),
        });
    let api = Api::with(builder).await;
    api.post(PODS, &pod("web")).await.expect(201);
    let binding = |node: &str| json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}, "target": {"kind": "Node", "name": node}});
    let bindings = "/api/v1/namespaces/default/bindings";
    api.post(bindings, &binding("two")).await.refusal(403, "Forbidden");
    assert!(api.get(&format!("{PODS}/web")).await.expect(200)["spec"].get("nodeName").is_none());
    let bound = api.post(bindings, &binding("one")).await;
    assert_eq!((bound.status, bound.warnings()), (201, vec!["299 - \"bound\""]));
    assert_eq!(api.get(&format!("{PODS}/web")).await.expect(200)["spec"]["nodeName"], "one");
    let reviews = reviews.take();
    assert_eq!(reviews.len(), 2);
    assert_eq!((&reviews[0]["name"], &reviews[0]["resource"]["resource"]), (&json!("web"), &json!("bindings")));
}

#[tokio::test]
async fn vap_014_webhooks_see_reviews_of_permissions_before_1_37() {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}});
    for (version, seen) in [(ServerVersion::V1_36, 1), (ServerVersion::V1_37, 0)] {
        let own = AdmissionHook::validating("v.example.com").rule(&["*"], &["*"], &["*"], &["*"]);
        let (builder, reviews) =
            recording(builder().version(version), own, |_: &AdmissionReview| AdmissionVerdict::allow());
        let api = Api::with(builder).await;
        let answer = api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await.expect(201);
        assert_eq!((answer["status"]["allowed"].as_bool(), reviews.count()), (Some(true), seen));
    }
}

/// Adds a mutating policy with one mutation of a subresource of pods.
async fn add_policy(api: &Api, name: &str, subresource: &str, mutation: Value) {
    let admission = "/apis/admissionregistration.k8s.io/v1";
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": [subresource]}]);
    let spec =
        json!({"reinvocationPolicy": "Never", "matchConstraints": {"resourceRules": rules}, "mutations": [mutation]});
    let policy = json!({"metadata": {"name": name}, "spec": spec});
    api.post(&format!("{admission}/mutatingadmissionpolicies"), &policy).await.expect(201);
    let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name}});
    api.post(&format!("{admission}/mutatingadmissionpolicybindings"), &binding).await.expect(201);
}

#[tokio::test]
async fn mup_006_connections_are_matched_and_their_options_changed() {
    let deny = |_: &AdmissionReview| AdmissionVerdict::deny("no sessions");
    let (builder, reviews) = recording(builder().exec(succeed), connections("v.example.com", false), deny);
    let api = Api::with(builder).await;
    api.post(PODS, &pod("web")).await.expect(201);
    let expression = "[JSONPatch{op: 'replace', path: '/container', value: 'main'}]";
    add_policy(&api, "p", "pods/exec", json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}))
        .await;
    let exec = format!("{PODS}/web/exec?container=side&command=ls&stdout=true");
    api.post(&exec, &json!({})).await.refusal(403, "Forbidden");
    assert_eq!(reviews.take()[0]["object"]["container"], "main");
    let applies =
        |expression: &str| json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
    add_policy(&api, "q", "pods/exec", applies("Object{container: 'main'}")).await;
    assert!(api.post(&exec, &json!({})).await.refusal(403, "Invalid").ends_with(
        "error applying patch: failed to convert patch object to typed object: no corresponding type for /v1, \
         Kind=PodExecOptions"
    ));
}

#[tokio::test]
async fn mup_002_a_binding_is_changed_by_its_schema() {
    let api = Api::with(builder()).await;
    api.post(PODS, &pod("web")).await.expect(201);
    let expression = "Object{target: Object.target{name: 'two'}}";
    let mutation = json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
    add_policy(&api, "p", "pods/binding", mutation).await;
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}, "target": {"kind": "Node", "name": "one"}});
    let bound = api.post(&format!("{PODS}/web/binding"), &binding).await;
    // ObjectReference is atomic.
    assert!(bound.refusal(403, "Invalid").ends_with("may not mutate atomic arrays, maps or structs: .target"));
    let expression = "Object{metadata: Object.metadata{labels: {'a': 'b'}}}";
    let mutation = json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
    let policies = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
    api.patch(&format!("{policies}/p"), &json!({"spec": {"mutations": [mutation]}})).await.expect(200);
    api.post(&format!("{PODS}/web/binding"), &binding).await.expect(201);
    assert_eq!(api.get(&format!("{PODS}/web")).await.expect(200)["metadata"]["labels"]["a"], "b");
}
