//! RBAC decides as a naive evaluator does (SEC-67).

use proptest::prelude::*;
use serde_json::{Value, json};

use super::index::RbacIndex;
use super::policy;
use crate::authorization::{AccessAttributes, AccessTarget, ResourceAttributes};
use crate::http_types::User;
use crate::store::{Draft, Facts, Record};

fn record(object: &Value) -> Record {
    Draft::new(object, Facts::default(), 1).preview(1)
}

fn texts(values: &Value) -> Vec<&str> {
    values.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Everything that upstream's documentation says about a rule, without an index.
fn rule_allows(rule: &Value, access: &AccessAttributes<'_>) -> bool {
    let any = |key: &str, wanted: &dyn Fn(&str) -> bool| texts(&rule[key]).into_iter().any(wanted);
    let verb = any("verbs", &|verb| verb == "*" || verb == access.verb);
    match access.target {
        AccessTarget::Path(path) => {
            verb && any("nonResourceURLs", &|url| match url.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => path == url,
            })
        }
        AccessTarget::Resource(target) => {
            let combined = match target.subresource {
                "" => target.resource.to_owned(),
                subresource => format!("{}/{subresource}", target.resource),
            };
            let any_of = format!("*/{}", target.subresource);
            let names = texts(&rule["resourceNames"]);
            verb && any("apiGroups", &|group| group == "*" || group == target.group)
                && any("resources", &|resource| {
                    resource == "*" || resource == combined || (!target.subresource.is_empty() && resource == any_of)
                })
                && (names.is_empty() || names.contains(&target.name))
        }
    }
}

fn is_subject(subject: &Value, user: &User, namespace: &str) -> bool {
    let name = subject["name"].as_str().unwrap_or_default();
    match subject["kind"].as_str() {
        Some("User") => user.name == name,
        Some("Group") => user.groups.iter().any(|group| group == name),
        Some("ServiceAccount") => {
            let own = subject["namespace"].as_str().unwrap_or_default();
            let namespace = if own.is_empty() { namespace } else { own };
            !namespace.is_empty() && user.name == format!("system:serviceaccount:{namespace}:{name}")
        }
        _ => false,
    }
}

fn naive(objects: &[Value], access: &AccessAttributes<'_>) -> bool {
    let of_access = match access.target {
        AccessTarget::Resource(target) => target.namespace,
        AccessTarget::Path(_) => "",
    };
    objects.iter().filter(|object| object.get("roleRef").is_some()).any(|binding| {
        let namespace = binding["metadata"]["namespace"].as_str().unwrap_or_default();
        let subjects = binding["subjects"].as_array().into_iter().flatten();
        let applies = namespace.is_empty() || namespace == of_access;
        applies
            && subjects.into_iter().any(|subject| is_subject(subject, access.user, namespace))
            && objects.iter().any(|role| {
                let home = if role["kind"] == "Role" { namespace } else { "" };
                role["kind"] == binding["roleRef"]["kind"]
                    && role["metadata"]["name"] == binding["roleRef"]["name"]
                    && role["metadata"]["namespace"].as_str().unwrap_or_default() == home
                    && role["rules"].as_array().into_iter().flatten().any(|rule| rule_allows(rule, access))
            })
    })
}

fn index(objects: &[Value]) -> RbacIndex {
    let mut index = RbacIndex::default();
    for object in objects {
        let name = object["metadata"]["name"].as_str().unwrap();
        let key = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        };
        let record = record(object);
        match object["kind"].as_str().unwrap() {
            "Role" => index.set_role(&key, Some(&record)),
            "ClusterRole" => index.set_cluster_role(&key, Some(&record)),
            "RoleBinding" => index.set_binding(&key, Some(&record)),
            _ => index.set_cluster_binding(&key, Some(&record)),
        }
    }
    index
}

fn some(of: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(of, 0..=2)
}

fn rule() -> impl Strategy<Value = Value> {
    let resources = some(&["pods", "pods/log", "*/log", "*", "secrets", "*/"]);
    let parts = (some(&["get", "list", "*"]), some(&["", "apps", "*"]), resources, some(&["a", "b"]));
    (parts, some(&["/x", "/x/*", "*"])).prop_map(|((verbs, groups, resources, names), urls)| {
        json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names,
               "nonResourceURLs": urls})
    })
}

fn subject() -> impl Strategy<Value = Value> {
    let kinds = prop::sample::select(vec!["User", "Group", "ServiceAccount"]);
    let names = prop::sample::select(vec!["joe", "devs", "system:serviceaccount:n:joe"]);
    (kinds, names, prop::sample::select(vec!["", "n", "m"])).prop_map(|(kind, name, namespace)| {
        let mut subject = json!({"kind": kind, "name": name});
        if kind == "ServiceAccount" && !namespace.is_empty() {
            subject["namespace"] = namespace.into();
        }
        subject
    })
}

fn object() -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(vec!["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"]);
    let place = (kind, prop::sample::select(vec!["r", "s"]), prop::sample::select(vec!["n", "m"]));
    let role = (prop::sample::select(vec!["Role", "ClusterRole"]), prop::sample::select(vec!["r", "s", "gone"]));
    let parts = (prop::collection::vec(rule(), 0..3), prop::collection::vec(subject(), 0..3));
    (place, role, parts).prop_map(|((kind, name, namespace), role, (rules, subjects))| {
        let mut object = json!({"kind": kind, "metadata": {"name": name}});
        if !kind.starts_with("Cluster") {
            object["metadata"]["namespace"] = namespace.into();
        }
        if kind.ends_with("Binding") {
            let role_kind = if kind == "ClusterRoleBinding" { "ClusterRole" } else { role.0 };
            object["roleRef"] = json!({"kind": role_kind, "name": role.1});
            object["subjects"] = subjects.into();
        } else {
            object["rules"] = rules.into();
        }
        object
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn sec_67_rbac_decides_like_a_naive_evaluator(
        // A later object replaces an earlier one of the same key.
        mut objects in prop::collection::vec(object(), 0..10),
        user in prop::sample::select(vec!["joe", "ann", "system:serviceaccount:n:joe"]),
        groups in some(&["devs", "joe"]),
        verb in prop::sample::select(vec!["get", "list", "watch"]),
        group in prop::sample::select(vec!["", "apps"]),
        resource in prop::sample::select(vec!["pods", "secrets"]),
        subresource in prop::sample::select(vec!["", "log"]),
        namespace in prop::sample::select(vec!["", "n", "m"]),
        name in prop::sample::select(vec!["", "a", "c"]),
        path in prop::sample::select(vec!["", "/x", "/x/y", "/z"]),
    ) {
        let index = index(&objects);
        let mut seen = std::collections::BTreeSet::new();
        objects.reverse();
        objects.retain(|object| seen.insert(format!("{} {}", object["kind"], object["metadata"])));
        let groups = groups.into_iter().map(str::to_owned).collect();
        let user = User { name: user.to_owned(), groups, ..User::default() };
        let target = match path {
            "" => AccessTarget::Resource(ResourceAttributes { group, resource, subresource, namespace, name }),
            path => AccessTarget::Path(path),
        };
        let access = AccessAttributes { user: &user, verb, target };
        prop_assert_eq!(index.decide(&access).is_allowed(), naive(&objects, &access));
    }
}

#[test]
fn sec_67_removed_objects_grant_nothing() {
    let mut index = index(&policy::objects());
    let user = User { name: "system:kube-scheduler".to_owned(), ..User::default() };
    let target = ResourceAttributes { resource: "nodes", ..ResourceAttributes::default() };
    let access = AccessAttributes { user: &user, verb: "list", target: AccessTarget::Resource(target) };
    assert!(index.decide(&access).is_allowed());
    index.set_cluster_binding("system:kube-scheduler", None);
    assert!(!index.decide(&access).is_allowed());
}

#[test]
fn rba_010_every_line_of_the_policy_is_understood() {
    let objects = policy::objects();
    assert!(objects.len() > 130, "{}", objects.len());
    for object in &objects {
        let kind = object["kind"].as_str().unwrap();
        assert!(["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"].contains(&kind), "{object}");
        assert_eq!(object.get("roleRef").is_some(), kind.ends_with("Binding"), "{object}");
        for rule in object["rules"].as_array().into_iter().flatten() {
            assert!(!texts(&rule["verbs"]).is_empty(), "{object}");
            let of_resources = !texts(&rule["apiGroups"]).is_empty() && !texts(&rule["resources"]).is_empty();
            assert_ne!(of_resources, !texts(&rule["nonResourceURLs"]).is_empty(), "{object}");
        }
    }
}
