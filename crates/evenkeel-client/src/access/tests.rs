use http::Method;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::rest::Query;

fn access(method: Method, url: &str) -> Access {
    let (path, parameters) = url.split_once('?').unwrap_or((url, ""));
    let mut query = Query::new();
    query.add_encoded(parameters);
    let is_watch = query.get("watch") == Some("true");
    Access::of_request(&method, path, &query, is_watch)
}

fn log_of(requests: &[(Method, &str)]) -> AccessLog {
    let mut log = AccessLog::default();
    log.extend(requests.iter().map(|(method, url)| access(method.clone(), url)));
    log
}

fn texts<'a>(accesses: impl IntoIterator<Item = &'a Access>) -> Vec<String> {
    accesses.into_iter().map(ToString::to_string).collect()
}

/// Returns the rules as JSON: those of the cluster, and those of the namespaces.
fn shown(rules: &RbacRules) -> serde_json::Value {
    json!([rules.cluster, rules.namespaces])
}

#[test]
fn scf_007_a_request_is_a_verb_on_a_resource() {
    for (method, url, expected) in [
        (Method::GET, "/api/v1/pods", "list pods"),
        (Method::GET, "/api/v1/pods?watch=true", "watch pods"),
        (Method::GET, "/api/v1/namespaces/web/pods/a", "get pods in web named a"),
        (Method::HEAD, "/api/v1/namespaces/web/pods/a", "get pods in web named a"),
        (
            Method::GET,
            "/api/v1/namespaces/web/secrets?watch=true&fieldSelector=metadata.name%3Dx",
            "watch secrets in web named x",
        ),
        (Method::GET, "/api/v1/nodes?fieldSelector=spec.a=1,metadata.name==n", "list nodes named n"),
        (Method::POST, "/apis/apps/v1/namespaces/web/deployments", "create deployments.apps in web"),
        (
            Method::PUT,
            "/apis/apps/v1/namespaces/web/deployments/d/status",
            "update deployments.apps/status in web named d",
        ),
        (Method::PATCH, "/apis/example.com/v1/foos/a%20b", "patch foos.example.com named a b"),
        (Method::DELETE, "/api/v1/namespaces/web/pods/a", "delete pods in web named a"),
        (Method::DELETE, "/api/v1/namespaces/web/pods", "deletecollection pods in web"),
        (Method::POST, "/api/v1/namespaces/web/pods/a/eviction", "create pods/eviction in web named a"),
        (Method::GET, "/api/v1/namespaces", "list namespaces"),
        (Method::GET, "/api/v1/namespaces/web", "get namespaces named web"),
        (Method::PUT, "/api/v1/namespaces/web/finalize", "update namespaces/finalize named web"),
        (Method::GET, "/api/v1/namespaces/web/services/s/proxy/some/path", "get services/proxy in web named s"),
        (Method::GET, "/apis/apps/v1", "get /apis/apps/v1"),
        (Method::GET, "/metrics/", "get /metrics"),
        (Method::GET, "/", "get /"),
    ] {
        assert_eq!(access(method, url).to_string(), expected, "{url}");
    }
}

#[test]
fn scf_006_equal_rules_are_merged_and_sorted() {
    let log = log_of(&[
        (Method::GET, "/api/v1/pods?watch=true"),
        (Method::GET, "/api/v1/pods"),
        (Method::GET, "/apis/apps/v1/deployments"),
        (Method::GET, "/apis/apps/v1/deployments?watch=true"),
        (Method::GET, "/apis/apps/v1/replicasets?watch=true"),
        (Method::GET, "/apis/apps/v1/replicasets"),
        (Method::POST, "/api/v1/namespaces/web/events"),
        (Method::POST, "/apis/events.k8s.io/v1/namespaces/web/events"),
        (Method::GET, "/version"),
        (Method::GET, "/apis/apps/v1"),
        (Method::GET, "/metrics"),
    ]);
    let expected = json!([
        [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
            {"apiGroups": ["apps"], "resources": ["deployments", "replicasets"], "verbs": ["list", "watch"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ],
        {"web": [{"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create"]}]},
    ]);
    assert_eq!(shown(&log.rules()), expected);
    assert_eq!(shown(&log.rules().merged()), expected);
    let mut reversed = AccessLog::default();
    reversed.extend(log.iter().cloned().collect::<Vec<_>>().into_iter().rev());
    assert_eq!(shown(&reversed.rules()), expected);
}

#[test]
fn scf_006_a_namespace_makes_a_role_unless_the_cluster_role_grants_it() {
    let log = log_of(&[
        (Method::GET, "/api/v1/pods"),
        (Method::GET, "/api/v1/namespaces/web/pods"),
        (Method::PATCH, "/api/v1/namespaces/web/pods/a"),
        (Method::PATCH, "/api/v1/namespaces/ops/pods/a"),
    ]);
    let pods = |verb: &str| json!([{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]);
    assert_eq!(shown(&log.rules()), json!([pods("list"), {"ops": pods("patch"), "web": pods("patch")}]));
    let wide = log.in_all_namespaces(&["ops"]).rules();
    let both = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "patch"]}]);
    assert_eq!(shown(&wide), json!([both, {}]), "what is granted everywhere is in no role");
    let kinds: Vec<_> = log.rules().roles("r").unwrap().into_iter().map(|role| role["kind"].clone()).collect();
    assert_eq!(kinds, ["ClusterRole", "Role", "Role"]);
}

#[test]
fn scf_006_names_are_in_rules_on_request() {
    let log = log_of(&[
        (Method::GET, "/api/v1/namespaces/web/secrets/b"),
        (Method::GET, "/api/v1/namespaces/web/secrets/a"),
        (Method::POST, "/api/v1/namespaces/web/secrets"),
        (Method::GET, "/api/v1/namespaces/web/configmaps/c"),
    ]);
    let named = log.rules_by_name(&["secrets"]);
    assert_eq!(
        shown(&named),
        json!([[], {"web": [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"], "verbs": ["get"]},
        ]}])
    );
    // What is granted for all names needs no name.
    let mut with_all = log.clone();
    with_all.add(Access::on("get", "", ("secrets", ""), "web", ""));
    let rules = with_all.rules_by_name(&["secrets"]);
    assert!(!shown(&rules).to_string().contains("resourceNames"), "{rules:?}");
}

#[test]
fn scf_007_a_check_lists_what_is_missing_and_what_is_unused() {
    let log = log_of(&[
        (Method::GET, "/api/v1/namespaces/web/pods/a"),
        (Method::PATCH, "/apis/example.com/v1/namespaces/web/foos/a/status"),
        (Method::GET, "/version"),
    ]);
    let granted = RbacRules::parse(
        "
kind: ClusterRole
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: r}
rules:
- {apiGroups: [''], resources: [pods], verbs: [get, list]}
- {apiGroups: ['*'], resources: ['*/scale'], verbs: ['*']}
---
kind: Role
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: r, namespace: ops}
rules:
- {apiGroups: [example.com], resources: [foos/status], verbs: [patch]}
",
    )
    .unwrap();
    let Err(AccessError::Missing { missing, unused }) = granted.check(&log) else {
        panic!("the role is in another namespace")
    };
    assert_eq!(texts(&missing), ["patch foos.example.com/status in web named a"]);
    assert_eq!(texts(&unused), ["list pods", "* *.*/scale", "patch foos.example.com/status in ops"]);
    let error = granted.check(&log).unwrap_err().to_string();
    assert!(error.starts_with("used and not granted: patch foos.example.com/status in web named a;"), "{error}");

    let sufficient = granted.and(log.rules());
    assert_eq!(texts(&sufficient.check(&log).unwrap()).len(), 3);
    assert_eq!(texts(&log.rules().check(&log).unwrap()), Vec::<String>::new(), "minimal");
}

#[test]
fn scf_007_rules_grant_as_the_rbac_authorizer_does() {
    let rules = |rule: serde_json::Value| RbacRules {
        cluster: vec![serde_json::from_value(rule).unwrap()],
        ..RbacRules::default()
    };
    let pods = |more: serde_json::Value| {
        let mut rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
        rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        rules(rule)
    };
    let get = |url: &str| access(Method::GET, url);
    for (granted, access, expected) in [
        (pods(json!({})), get("/api/v1/namespaces/web/pods/a"), true),
        (pods(json!({})), get("/api/v1/namespaces/web/pods/a/log"), false),
        (pods(json!({"resources": ["pods/log"]})), get("/api/v1/namespaces/web/pods/a/log"), true),
        (pods(json!({"resources": ["*/log"]})), get("/api/v1/namespaces/web/pods/a/log"), true),
        (pods(json!({"resources": ["*"]})), get("/api/v1/namespaces/web/pods/a/log"), true),
        (pods(json!({"resourceNames": ["b"]})), get("/api/v1/namespaces/web/pods/a"), false),
        (pods(json!({"resourceNames": ["a"]})), get("/api/v1/namespaces/web/pods/a"), true),
        (pods(json!({"resourceNames": ["a"], "verbs": ["*"]})), get("/api/v1/namespaces/web/pods"), false),
        (pods(json!({"apiGroups": ["*"], "verbs": ["*"]})), get("/api/v1/namespaces/web/pods"), true),
        (pods(json!({"apiGroups": ["apps"]})), get("/api/v1/namespaces/web/pods/a"), false),
        (rules(json!({"nonResourceURLs": ["/logs/*"], "verbs": ["get"]})), get("/logs/a"), true),
        (rules(json!({"nonResourceURLs": ["/logs"], "verbs": ["get"]})), get("/logs/a"), false),
        (rules(json!({"nonResourceURLs": ["*"], "verbs": ["post"]})), get("/logs/a"), false),
    ] {
        assert_eq!(granted.grant(&access), expected, "{granted:?} {access}");
    }
}

#[test]
fn scf_007_bindings_decide_which_roles_count_and_where() {
    let role = |kind: &str, name: &str, verb: &str| {
        let namespace = if kind == "Role" { ", namespace: web" } else { "" };
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata: {{name: {name}{namespace}}}\n\
             rules: [{{apiGroups: [''], resources: [pods], verbs: [{verb}]}}]\n---\n"
        )
    };
    let binding = |kind: &str, of: &str, name: &str| {
        let namespace = if kind == "RoleBinding" { ", namespace: ops" } else { "" };
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata: {{name: b{namespace}}}\n\
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {of}, name: {name}}}\n---\n"
        )
    };
    let roles =
        role("ClusterRole", "bound", "get") + &role("ClusterRole", "local", "list") + &role("Role", "other", "watch");
    let all = RbacRules::parse(&roles).unwrap();
    assert_eq!(
        (all.cluster[0].verbs.join(" "), all.namespaces["web"][0].verbs.join(" ")),
        ("get list".into(), "watch".into())
    );
    let bindings =
        binding("ClusterRoleBinding", "ClusterRole", "bound") + &binding("RoleBinding", "ClusterRole", "local");
    let bound = RbacRules::parse(&(roles + &bindings)).unwrap();
    assert_eq!(bound.cluster[0].verbs, ["get"]);
    assert_eq!(bound.namespaces.keys().collect::<Vec<_>>(), ["ops"], "the Role in web is not bound");
    assert_eq!(bound.namespaces["ops"][0].verbs, ["list"]);
}

#[test]
fn scf_007_a_log_is_bounded() {
    let mut log = AccessLog::default();
    for name in 0..1000 {
        log.add(Access::on("get", "", ("pods", ""), "web", &format!("pod-{name}")));
    }
    assert_eq!(log.iter().count(), 65, "64 names, and one for all names");
    assert!(log.iter().any(|access| access.to_string() == "get pods in web"));
    for namespace in 0..70_000 {
        log.add(Access::on("list", "", ("pods", ""), &format!("n{namespace}"), ""));
    }
    assert_eq!(log.iter().count(), 65_536);
    assert!(!log.is_complete());
    assert_eq!(log.rules().check(&log), Err(AccessError::Incomplete));
}

#[test]
fn scf_007_audit_events_tell_what_each_user_used() {
    let event = |more: serde_json::Value| {
        let mut event =
            json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "stage": "ResponseComplete"});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event.to_string()
    };
    let lines = [
        event(json!({"verb": "create", "user": {"username": "ann"}, "requestURI": "/api/v1/namespaces/web/pods",
            "objectRef": {"resource": "pods", "namespace": "web", "name": "a", "apiVersion": "v1"}})),
        event(json!({"verb": "patch", "user": {"username": "ann"}, "responseStatus": {"code": 201},
            "objectRef": {"resource": "foos", "namespace": "web", "name": "a", "apiGroup": "example.com"}})),
        String::new(),
        event(json!({"verb": "watch", "user": {"username": "ann"}, "impersonatedUser": {"username": "bob"},
            "requestURI": "/api/v1/namespaces/web/secrets?watch=true&fieldSelector=metadata.name%3Dkey",
            "objectRef": {"resource": "secrets", "namespace": "web"}})),
        event(json!({"verb": "get", "user": {"username": "bob"}, "requestURI": "/metrics?x=1"})),
        event(json!({"verb": "get", "user": {}, "requestURI": "/refused"})),
    ];
    let users = read_audit_log(lines.join("\n").as_bytes()).unwrap();
    assert_eq!(users.keys().collect::<Vec<_>>(), ["ann", "bob"]);
    assert_eq!(
        texts(users["ann"].iter()),
        ["create pods in web", "create foos.example.com in web named a", "patch foos.example.com in web named a"]
    );
    assert_eq!(texts(users["bob"].iter()), ["get /metrics", "watch secrets in web named key"]);

    let mut written = Vec::new();
    users["ann"].write_audit_log("ann", &mut written).unwrap();
    users["bob"].write_audit_log("bob", &mut written).unwrap();
    assert_eq!(read_audit_log(&*written).unwrap(), users, "a log is read as it was written");
}

#[test]
fn scf_007_a_line_that_is_no_event_is_named() {
    for (text, expected) in [
        ("\nno json", "line 2 is no event of audit.k8s.io: it is not JSON"),
        (
            "{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}",
            "line 1 is no event of audit.k8s.io: its kind is \"Pod\" of \"v1\"",
        ),
        ("{\"verb\":1}", "line 1 is no event of audit.k8s.io: a field has another type"),
    ] {
        assert_eq!(read_audit_log(text.as_bytes()).unwrap_err().to_string(), expected);
    }
}

/// Uses with few different parts, so that they overlap. Some names have another type in YAML unless they are quoted.
fn any_access() -> impl Strategy<Value = Access> {
    let verb = prop::sample::select(vec!["create", "get", "list", "patch", "watch"]);
    let group = prop::sample::select(vec!["", "apps", "example.com"]);
    let resource = prop::sample::select(vec![("pods", ""), ("pods", "status"), ("secrets", ""), ("leases", "")]);
    let namespace = prop::sample::select(vec!["", "web", "ops"]);
    let name = prop::sample::select(vec!["", "a", "b", "true", "1e3", "null"]);
    (verb, group, resource, namespace, name)
        .prop_map(|(verb, group, resource, namespace, name)| Access::on(verb, group, resource, namespace, name))
}

proptest! {
    #[test]
    fn scf_006_rules_grant_exactly_what_was_used(accesses in prop::collection::vec(any_access(), 0..40), by_name: bool) {
        let mut log = AccessLog::default();
        log.extend(accesses);
        let named: &[&str] = if by_name { &["secrets", "leases.example.com", "pods"] } else { &[] };
        let rules = log.rules_by_name(named);
        prop_assert_eq!(rules.check(&log), Ok(Vec::new()), "sufficient and minimal");
        prop_assert_eq!(&rules.merged(), &rules);
        let manifest = crate::manifest::to_yaml(rules.roles("r").unwrap()).unwrap();
        prop_assert_eq!(RbacRules::parse(&manifest).unwrap(), rules, "{}", manifest);
        let mut lines = Vec::new();
        log.write_audit_log("u", &mut lines).unwrap();
        let read = read_audit_log(&*lines).unwrap().remove("u").unwrap_or_default();
        prop_assert_eq!(read, log);
    }
}

#[test]
fn scf_007_a_server_adds_the_requests_that_it_receives() {
    let mut log = AccessLog::default();
    log.add_request(
        &Method::GET,
        "/api/v1/namespaces/default/pods?watch=1&fieldSelector=metadata.name%3Dweb",
        Some(200),
    );
    log.add_request(&Method::GET, "/api/v1/pods?watch=false", None);
    log.add_request(&Method::PATCH, "/apis/apps/v1/namespaces/default/deployments/web", Some(201));
    log.add_request(&Method::PUT, "/apis/apps/v1/namespaces/default/deployments/web/status", Some(200));
    log.add_request(&Method::GET, "/metrics", Some(403));
    let used: Vec<String> = log.iter().map(ToString::to_string).collect();
    let expected = [
        "create deployments.apps in default named web",
        "get /metrics",
        "list pods",
        "patch deployments.apps in default named web",
        "update deployments.apps/status in default named web",
        "watch pods in default named web",
    ];
    assert_eq!(used, expected);
}
