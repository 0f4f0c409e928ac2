use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::AdmissionRules;
use crate::engine::admission::{AdmissionWrite, Operation};
use crate::engine::target::{Target, WriteScope};
use crate::engine::{ApiEngine, Settings};
use crate::env::Env;
use crate::http_types::{ApiRequest, User};
use crate::request_state::RequestState;

struct FixedEnv;

impl Env for FixedEnv {
    fn wall(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn monotonic(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }

    fn random(&self) -> u64 {
        4
    }
}

struct Fixture {
    engine: Arc<ApiEngine>,
    request: ApiRequest,
}

/// A write: group, version, plural, namespace, name, subresource.
type Written<'a> = (&'a str, &'a str, &'a str, Option<&'a str>, &'a str, Option<&'a str>);

impl Fixture {
    fn new() -> Self {
        let request = ApiRequest {
            method: http::Method::POST,
            uri: http::Uri::from_static("/"),
            headers: http::HeaderMap::new(),
            body: bytes::Bytes::new(),
            user: User::default(),
            state: RequestState::default(),
        };
        Fixture { engine: ApiEngine::new(Settings::default(), Arc::new(FixedEnv)), request }
    }

    /// Returns the version in which a write is reviewed, or the error.
    fn select(
        &self,
        rules: &AdmissionRules,
        operation: Operation,
        (group, version, plural, namespace, name, subresource): Written<'_>,
        objects: (Option<&Value>, Option<&Value>),
    ) -> Result<Option<String>, String> {
        let registry = self.engine.registry();
        let resource = registry.lookup(group, version, plural).unwrap();
        let scope = match subresource {
            None => WriteScope::Main,
            Some("status") => WriteScope::Status,
            Some(subresource) => WriteScope::Whole { subresource },
        };
        let write = AdmissionWrite {
            operation,
            target: Target { resource, namespace, name, scope },
            old: objects.1,
            request: &self.request,
            dry_run: false,
        };
        let selected = rules.select(&self.engine, &write, objects.0).map_err(|status| status.message)?;
        Ok(selected.map(|resource| resource.api_version()))
    }

    fn matches(&self, rules: &AdmissionRules, operation: Operation, written: Written<'_>) -> bool {
        self.select(rules, operation, written, (Some(&json!({})), None)).unwrap().is_some()
    }
}

fn rules(rule: Value) -> AdmissionRules {
    let mut all = json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]});
    all.as_object_mut().unwrap().extend(rule.as_object().unwrap().clone());
    AdmissionRules::of_webhook(&json!({"rules": [all]})).unwrap()
}

const POD: Written<'_> = ("", "v1", "pods", Some("default"), "web", None);
const POD_STATUS: Written<'_> = ("", "v1", "pods", Some("default"), "web", Some("status"));
const NODE: Written<'_> = ("", "v1", "nodes", None, "one", None);
const NAMESPACE: Written<'_> = ("", "v1", "namespaces", None, "default", None);
const SCALE: Written<'_> = ("apps", "v1", "deployments", Some("default"), "web", Some("scale"));

#[test]
fn awh_015_patterns_of_resources_and_subresources() {
    let fixture = Fixture::new();
    let table: &[(&str, [bool; 3])] = &[
        ("pods", [true, false, false]),
        ("pods/status", [false, true, false]),
        ("pods/*", [true, true, false]),
        ("*", [true, false, false]),
        ("*/*", [true, true, true]),
        ("*/scale", [false, false, true]),
        ("nodes", [false, false, false]),
    ];
    for (pattern, expected) in table {
        let rules = rules(json!({"resources": [pattern]}));
        let found = [POD, POD_STATUS, SCALE].map(|written| fixture.matches(&rules, Operation::Update, written));
        assert_eq!(found, *expected, "{pattern}");
    }
}

#[test]
fn awh_015_operations_groups_versions_and_scopes() {
    let fixture = Fixture::new();
    let matches = |rule: Value, operation, written| fixture.matches(&rules(rule), operation, written);
    assert!(matches(json!({"operations": ["CREATE", "DELETE"]}), Operation::Delete, POD));
    assert!(!matches(json!({"operations": ["CREATE", "DELETE"]}), Operation::Update, POD));
    assert!(matches(json!({"operations": ["CONNECT"]}), Operation::Connect, POD));
    assert!(!matches(json!({"apiGroups": ["apps"]}), Operation::Create, POD));
    assert!(matches(json!({"apiGroups": [""]}), Operation::Create, POD));
    assert!(!matches(json!({"apiVersions": ["v2"]}), Operation::Create, POD));
    for (scope, expected) in
        [("Namespaced", [true, false, false]), ("Cluster", [false, true, true]), ("*", [true, true, true])]
    {
        let rule = rules(json!({"scope": scope}));
        let found = [POD, NODE, NAMESPACE].map(|written| fixture.matches(&rule, Operation::Create, written));
        assert_eq!(found, expected, "{scope}");
    }
}

#[test]
fn awh_013_a_rule_for_one_version_catches_requests_through_another() {
    let fixture = Fixture::new();
    let of = |policy: &str| {
        let rule = json!({"operations": ["*"], "apiGroups": ["autoscaling"], "apiVersions": ["v2"],
                          "resources": ["horizontalpodautoscalers"]});
        AdmissionRules::of_webhook(&json!({"rules": [rule], "matchPolicy": policy})).unwrap()
    };
    let written = |version| ("autoscaling", version, "horizontalpodautoscalers", Some("default"), "web", None);
    let select = |policy: &str, version| {
        fixture.select(&of(policy), Operation::Create, written(version), (Some(&json!({})), None)).unwrap()
    };
    assert_eq!(select("Equivalent", "v1").as_deref(), Some("autoscaling/v2"));
    assert_eq!(select("Equivalent", "v2").as_deref(), Some("autoscaling/v2"));
    assert_eq!(select("Exact", "v1"), None);
    assert_eq!(select("Exact", "v2").as_deref(), Some("autoscaling/v2"));
}

#[test]
fn awh_014_selectors_of_namespaces_and_objects() {
    let fixture = Fixture::new();
    let rule = json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]});
    let of = |key: &str, labels: Value| {
        AdmissionRules::of_webhook(&json!({"rules": [rule], key: {"matchLabels": labels}})).unwrap()
    };
    let labelled = |labels: Value| json!({"metadata": {"labels": labels}});
    let select = |rules: &AdmissionRules, operation, written, new: Option<&Value>, old: Option<&Value>| {
        fixture.select(rules, operation, written, (new, old)).map(|selected| selected.is_some())
    };
    let by_name = of("namespaceSelector", json!({"kubernetes.io/metadata.name": "default"}));
    let other = of("namespaceSelector", json!({"kubernetes.io/metadata.name": "other"}));
    let empty = json!({});
    assert_eq!(select(&by_name, Operation::Create, POD, Some(&empty), None), Ok(true));
    assert_eq!(select(&other, Operation::Create, POD, Some(&empty), None), Ok(false));
    assert_eq!(select(&other, Operation::Create, NODE, Some(&empty), None), Ok(true), "cluster-scoped objects match");
    let team = of("namespaceSelector", json!({"team": "a"}));
    let named = labelled(json!({"team": "a"}));
    assert_eq!(select(&team, Operation::Create, NAMESPACE, Some(&named), None), Ok(true), "its own labels decide");
    assert_eq!(select(&team, Operation::Delete, NAMESPACE, None, Some(&named)), Ok(false), "the stored labels decide");
    let missing = ("", "v1", "pods", Some("missing"), "web", None);
    assert_eq!(
        select(&by_name, Operation::Create, missing, Some(&empty), None),
        Err("namespaces \"missing\" not found".to_owned())
    );

    let objects = of("objectSelector", json!({"app": "web"}));
    let (with, without) = (labelled(json!({"app": "web"})), labelled(json!({})));
    assert_eq!(select(&objects, Operation::Update, POD, Some(&with), Some(&without)), Ok(true));
    assert_eq!(select(&objects, Operation::Update, POD, Some(&without), Some(&with)), Ok(true));
    assert_eq!(select(&objects, Operation::Update, POD, Some(&without), Some(&without)), Ok(false));
    assert_eq!(select(&objects, Operation::Delete, POD, None, Some(&with)), Ok(true));
    assert!(
        AdmissionRules::of_webhook(&json!({"objectSelector": {"matchExpressions": [
        {"key": "a", "operator": "Like"}]}}))
        .is_err()
    );
}

#[test]
fn policies_exclude_resources_and_name_objects() {
    let fixture = Fixture::new();
    let rule = |resources: Value, names: Value| {
        json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources,
               "resourceNames": names})
    };
    let policy = |value: Value| AdmissionRules::of_policy(&value).unwrap();
    let named = policy(json!({"resourceRules": [rule(json!(["pods"]), json!(["web", "db"]))]}));
    assert!(fixture.matches(&named, Operation::Create, POD));
    assert!(!fixture.matches(&named, Operation::Create, ("", "v1", "pods", Some("default"), "other", None)));
    let excluding = policy(json!({"resourceRules": [rule(json!(["*"]), json!([]))],
                                  "excludeResourceRules": [rule(json!(["pods"]), json!([]))]}));
    assert!(!fixture.matches(&excluding, Operation::Create, POD));
    assert!(fixture.matches(&excluding, Operation::Create, NODE));
    assert!(fixture.matches(&policy(Value::Null), Operation::Create, POD), "a policy without rules matches everything");
    let webhook = AdmissionRules::of_webhook(&json!({})).unwrap();
    assert!(!fixture.matches(&webhook, Operation::Create, POD), "a webhook without rules matches nothing");
}
