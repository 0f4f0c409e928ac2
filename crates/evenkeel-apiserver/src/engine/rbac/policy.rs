//! The roles and bindings of a fresh kube-apiserver 1.37 (RBA-010 to RBA-013).
//!
//! They are a text, one object per unindented line and its rules or subjects below:
//!
//! ```text
//! ClusterRole view to edit from view       labelled as part of `edit`, gathers the roles that are part of `view`
//!   get,list pods of core named a,b        verbs, resources, API groups, names of objects
//!   get at /version,/healthz               verbs, paths
//! RoleBinding NAMESPACE/NAME of Role NAME
//!   ServiceAccount NAMESPACE/NAME
//! ```

use serde_json::{Map, Value, json};

use super::GROUP;

const POLICY: &str = include_str!("policy.txt");

/// The label of all objects of the policy.
const BOOTSTRAPPING: (&str, &str) = ("kubernetes.io/bootstrapping", "rbac-defaults");
/// The annotation that lets a restart add what is missing.
pub(super) const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
/// The prefix of the labels by which roles are part of another one.
const PART_OF: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// Returns the roles and bindings. Those with an `aggregationRule` have no rules: the aggregation controller writes them.
pub(in crate::engine) fn objects() -> Vec<Value> {
    let mut objects: Vec<Value> = Vec::new();
    for line in POLICY.lines() {
        match (line.strip_prefix("  "), objects.last_mut()) {
            (Some(part), Some(object)) if object["kind"].as_str().is_some_and(|kind| kind.ends_with("Binding")) => {
                add(object, "subjects", subject(part));
            }
            (Some(part), Some(object)) => add(object, "rules", rule(part)),
            _ => objects.push(head(line)),
        }
    }
    objects
}

fn add(object: &mut Value, list: &str, item: Value) {
    match object.get_mut(list).and_then(Value::as_array_mut) {
        Some(items) => items.push(item),
        None => object[list] = json!([item]),
    }
}

/// Returns the object of an unindented line.
fn head(line: &str) -> Value {
    let mut words = line.split(' ');
    let (kind, key) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let mut object = json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": {BOOTSTRAPPING.0: BOOTSTRAPPING.1},
            "annotations": {AUTO_UPDATE: "true"},
        },
    });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    while let (Some(word), Some(value)) = (words.next(), words.next()) {
        match word {
            "to" => object["metadata"]["labels"][format!("{PART_OF}{value}")] = "true".into(),
            "from" => {
                let labels = Map::from_iter([(format!("{PART_OF}{value}"), Value::from("true"))]);
                object["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": labels}]});
            }
            _ => {
                let role = words.next().unwrap_or_default();
                object["roleRef"] = json!({"apiGroup": GROUP, "kind": value, "name": role});
            }
        }
    }
    object
}

fn rule(text: &str) -> Value {
    let words: Vec<&str> = text.split(' ').collect();
    let list = |texts: &str| -> Value { texts.split(',').collect() };
    match words.as_slice() {
        [verbs, "at", urls] => json!({"verbs": list(verbs), "nonResourceURLs": list(urls)}),
        [verbs, resources, "of", groups, rest @ ..] => {
            let groups: Vec<&str> = groups.split(',').map(|group| if group == "core" { "" } else { group }).collect();
            let mut rule = json!({"verbs": list(verbs), "apiGroups": groups, "resources": list(resources)});
            if let ["named", names] = rest {
                rule["resourceNames"] = list(names);
            }
            rule
        }
        _ => Value::Null,
    }
}

fn subject(text: &str) -> Value {
    let (kind, name) = text.split_once(' ').unwrap_or_default();
    match name.split_once('/') {
        Some((namespace, name)) if kind == "ServiceAccount" => {
            json!({"kind": kind, "name": name, "namespace": namespace})
        }
        _ => json!({"kind": kind, "apiGroup": GROUP, "name": name}),
    }
}
