use http::{HeaderMap, Method, Uri};

use super::*;

fn decide(policy: &AuditPolicy, user: &str, method: Method, path: &str) -> Option<AuditDecision> {
    let uri: Uri = path.parse().unwrap();
    let user = User { name: user.to_owned(), groups: vec![format!("{user}s")], ..User::default() };
    policy.decide(&RequestInfo::of(&method, &uri, &HeaderMap::new()), &user)
}

fn level(policy: &AuditPolicy, user: &str, method: Method, path: &str) -> AuditLevel {
    decide(policy, user, method, path).map_or(AuditLevel::None, |decision| decision.level)
}

fn policy(rules: &str) -> AuditPolicy {
    AuditPolicy::parse(&format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{rules}")).unwrap()
}

#[test]
fn aud_002_the_first_matching_rule_decides() {
    let policy = policy(
        "rules:
        - {level: None, users: [kubelet]}
        - {level: None, nonResourceURLs: ['/healthz*', /version]}
        - {level: RequestResponse, userGroups: [bobs], verbs: [create], resources: [{resources: [pods]}]}
        - {level: Request, resources: [{group: apps, resources: ['*/scale', 'daemonsets/*']}], namespaces: [a]}
        - {level: Metadata, resources: [{resources: [configmaps], resourceNames: [one]}]}
        - {level: Request, resources: [{group: batch}]}",
    );
    let get = |user, path| level(&policy, user, Method::GET, path);
    assert_eq!(get("kubelet", "/api/v1/configmaps"), AuditLevel::None);
    assert_eq!(get("bob", "/healthz/ping"), AuditLevel::None);
    assert_eq!(level(&policy, "bob", Method::POST, "/api/v1/namespaces/a/pods"), AuditLevel::RequestResponse);
    assert_eq!(level(&policy, "joe", Method::POST, "/api/v1/namespaces/a/pods"), AuditLevel::None);
    assert_eq!(get("bob", "/apis/apps/v1/namespaces/a/deployments/x/scale"), AuditLevel::Request);
    assert_eq!(get("bob", "/apis/apps/v1/namespaces/b/deployments/x/scale"), AuditLevel::None);
    assert_eq!(get("bob", "/apis/apps/v1/namespaces/a/daemonsets/x"), AuditLevel::Request);
    assert_eq!(get("bob", "/apis/apps/v1/namespaces/a/deployments/x"), AuditLevel::None);
    assert_eq!(get("bob", "/api/v1/namespaces/a/configmaps/one"), AuditLevel::Metadata);
    assert_eq!(get("bob", "/api/v1/namespaces/a/configmaps/two"), AuditLevel::None);
    assert_eq!(get("bob", "/apis/batch/v1/jobs"), AuditLevel::Request);
}

#[test]
fn aud_002_stages_and_managed_fields_are_omitted_globally_and_per_rule() {
    let policy = policy(
        "omitStages: [RequestReceived]
omitManagedFields: true
rules:
- {level: Metadata, verbs: [get], omitStages: [ResponseStarted], omitManagedFields: false}
- {level: Metadata}",
    );
    let first = decide(&policy, "bob", Method::GET, "/api/v1/namespaces/a").unwrap();
    assert_eq!(first.omit_stages, [AuditStage::RequestReceived, AuditStage::ResponseStarted]);
    assert!(!first.omit_managed_fields);
    let second = decide(&policy, "bob", Method::GET, "/api/v1/pods").unwrap();
    assert_eq!((second.omit_stages, second.omit_managed_fields), (vec![AuditStage::RequestReceived], true));
}

#[test]
fn sec_66_bodies_with_tokens_are_never_recorded() {
    let policy = policy("rules: [{level: RequestResponse}]");
    let post = |path| level(&policy, "bob", Method::POST, path);
    assert_eq!(post("/api/v1/namespaces/a/serviceaccounts/b/token"), AuditLevel::Metadata);
    assert_eq!(post("/apis/authentication.k8s.io/v1/tokenreviews"), AuditLevel::Metadata);
    assert_eq!(post("/api/v1/namespaces/a/secrets"), AuditLevel::RequestResponse, "the policy decides");
    let default = AuditPolicy::request_response();
    assert_eq!(level(&default, "bob", Method::POST, "/api/v1/namespaces/a/secrets"), AuditLevel::Metadata);
    assert_eq!(level(&default, "bob", Method::POST, "/api/v1/namespaces/a/configmaps"), AuditLevel::Metadata);
    assert_eq!(level(&default, "bob", Method::POST, "/api/v1/namespaces/a/pods"), AuditLevel::RequestResponse);
}

#[test]
fn invalid_policies_are_refused_with_the_reason() {
    let error = |text: &str| AuditPolicy::parse(text).unwrap_err().to_string();
    let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
    assert!(error("kind: Pod\napiVersion: v1").contains("\"Pod\" of \"v1\""));
    assert!(error(&format!("{head}rules: [{{level: Loud}}]")).contains("Loud"));
    assert!(error(&format!("{head}rules: [{{level: None, user: [x]}}]")).contains("user"));
    let both = format!("{head}rules: [{{level: None, namespaces: [a], nonResourceURLs: ['*']}}]");
    assert!(error(&both).starts_with("rules[0] of the audit policy: a rule is for resources"));
    assert!(error(&format!("{head}rules: [{{level: None, nonResourceURLs: ['/a*b']}}]")).contains("at the end only"));
    assert!(error(&format!("{head}rules: [{{level: None, resources: [{{resourceNames: [a]}}]}}]")).contains("need"));
}
