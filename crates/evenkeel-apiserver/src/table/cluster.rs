//! Columns of nodes, namespaces, events, configuration and the smaller kinds.

use std::collections::BTreeSet;

use serde_json::Value;

use super::age::since;
use super::cell::{AGE, Column, NAME, Row, boolean, integer, plain, text, text_of};

pub(super) const NAMED: &[Column] = &[NAME, AGE];

pub(super) const NAMESPACE: &[Column] = &[
    NAME,
    text("Status", "Whether the namespace is in use or on its way out.", |row| row.text(&["status", "phase"]).into()),
    AGE,
];

pub(super) const SECRET: &[Column] = &[
    NAME,
    text("Type", "What the secret is for.", |row| row.text(&["type"]).into()),
    text("Data", "How many entries it has.", |row| row.count(&["data"]).into()),
    AGE,
];

pub(super) const CONFIG_MAP: &[Column] = &[
    NAME,
    text("Data", "How many entries it has.", |row| (row.count(&["data"]) + row.count(&["binaryData"])).into()),
    AGE,
];

pub(super) const NODE: &[Column] = &[
    NAME,
    text("Status", "Whether the node is ready and takes pods.", |row| {
        let mut conditions = row.list(&["status", "conditions"]).iter();
        let ready = conditions.rfind(|condition| text_of(condition, &["type"]) == "Ready");
        let status = match ready.map(|condition| text_of(condition, &["status"])) {
            Some("True") => "Ready",
            Some(_) => "NotReady",
            None => "Unknown",
        };
        match row.get(&["spec", "unschedulable"]) {
            Some(Value::Bool(true)) => format!("{status},SchedulingDisabled").into(),
            _ => status.into(),
        }
    }),
    text("Roles", "The roles its labels give it.", |row| node_roles(row).into()),
    AGE,
    text("Version", "The version of its kubelet.", |row| row.text(&["status", "nodeInfo", "kubeletVersion"]).into()),
    text("Internal-IP", "Its address in the cluster.", |row| node_address(row, "InternalIP").into()).wide(),
    text("External-IP", "Its address outside the cluster.", |row| node_address(row, "ExternalIP").into()).wide(),
    text("OS-Image", "The operating system it reports.", |row| {
        row.text_or(&["status", "nodeInfo", "osImage"], "<unknown>")
    })
    .wide(),
    text("Kernel-Version", "The kernel it reports, and for which machine.", |row| {
        let kernel = row.text_or(&["status", "nodeInfo", "kernelVersion"], "<unknown>");
        match row.text(&["status", "nodeInfo", "architecture"]) {
            "" => kernel,
            machine => format!("{} ({machine})", plain(&kernel)).into(),
        }
    })
    .wide(),
    text("Container-Runtime", "The container runtime it reports.", |row| {
        row.text_or(&["status", "nodeInfo", "containerRuntimeVersion"], "<unknown>")
    })
    .wide(),
];

fn node_roles(row: &Row<'_>) -> String {
    let labels = row.get(&["metadata", "labels"]).and_then(Value::as_object);
    let roles: BTreeSet<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.as_str() {
            "kubernetes.io/role" => value.as_str(),
            key => key.strip_prefix("node-role.kubernetes.io/"),
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() {
        return "<none>".to_owned();
    }
    roles.into_iter().collect::<Vec<_>>().join(",")
}

fn node_address<'a>(row: &Row<'a>, kind: &str) -> &'a str {
    row.list(&["status", "addresses"])
        .iter()
        .find(|address| text_of(address, &["type"]) == kind)
        .map_or("<none>", |address| text_of(address, &["address"]))
}

/// The two forms of events have different field names; the first that is present is returned.
fn either<'a>(row: &Row<'a>, one: &[&str], other: &[&str]) -> Option<&'a Value> {
    row.get(one).or_else(|| row.get(other))
}

fn either_text<'a>(row: &Row<'a>, one: &[&str], other: &[&str]) -> &'a str {
    either(row, one, other).and_then(Value::as_str).unwrap_or_default()
}

fn first_seen(row: &Row<'_>) -> String {
    let first = either(row, &["firstTimestamp"], &["deprecatedFirstTimestamp"]);
    since(first.or_else(|| row.get(&["eventTime"])), row.now)
}

pub(super) const EVENT: &[Column] = &[
    text("Last Seen", "How long ago it happened last.", |row| {
        if row.get(&["series"]).is_some() {
            return row.since(&["series", "lastObservedTime"]).into();
        }
        match either(row, &["lastTimestamp"], &["deprecatedLastTimestamp"]) {
            Some(last) => since(Some(last), row.now).into(),
            None => first_seen(row).into(),
        }
    }),
    text("Type", "Normal or Warning.", |row| row.text(&["type"]).into()),
    text("Reason", "The reason of the event.", |row| row.text(&["reason"]).into()),
    text("Object", "To what it happened.", |row| {
        let part = |key| either_text(row, &["involvedObject", key], &["regarding", key]);
        let kind = part("kind").to_lowercase();
        match part("name") {
            "" => kind.into(),
            name => format!("{kind}/{name}").into(),
        }
    }),
    text("Subobject", "To which part of the object.", |row| {
        either_text(row, &["involvedObject", "fieldPath"], &["regarding", "fieldPath"]).into()
    })
    .wide(),
    text("Source", "Who reports it.", |row| event_source(row).into()).wide(),
    text("Message", "What happened.", |row| either_text(row, &["message"], &["note"]).trim().into()),
    text("First Seen", "How long ago it happened first.", |row| first_seen(row).into()).wide(),
    text("Count", "How often it happened.", |row| {
        let count = match row.get(&["series"]) {
            Some(_) => row.int(&["series", "count"]),
            None => either(row, &["count"], &["deprecatedCount"]).and_then(Value::as_i64).unwrap_or_default().max(1),
        };
        count.into()
    })
    .wide(),
    text("Name", "The name of the event.", |row| row.name().into()).naming().wide(),
];

fn event_source(row: &Row<'_>) -> String {
    let component = match either_text(row, &["source", "component"], &["deprecatedSource", "component"]) {
        "" => either_text(row, &["reportingComponent"], &["reportingController"]),
        component => component,
    };
    let instance = match either_text(row, &["source", "host"], &["deprecatedSource", "host"]) {
        "" => row.text(&["reportingInstance"]),
        host => host,
    };
    if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") }
}

pub(super) const QUOTA: &[Column] = &[
    NAME,
    text("Request", "Used and hard request quotas.", |row| quota(row, false).into()),
    text("Limit", "What is used of the limits.", |row| quota(row, true).into()),
    AGE,
];

fn quota(row: &Row<'_>, limits: bool) -> String {
    let hard = row.get(&["status", "hard"]).and_then(Value::as_object);
    let shown: Vec<String> = hard
        .into_iter()
        .flatten()
        .filter(|(resource, _)| resource.starts_with("limits.") == limits)
        .map(|(resource, hard)| {
            let used = row.get(&["status", "used", resource]).map_or_else(|| "0".to_owned(), plain);
            format!("{resource}: {used}/{}", plain(hard))
        })
        .collect();
    shown.join(", ")
}

pub(super) const LEASE: &[Column] =
    &[NAME, text("Holder", "Who holds it.", |row| row.text(&["spec", "holderIdentity"]).into()), AGE];

pub(super) const LEASE_CANDIDATE: &[Column] = &[
    NAME,
    text("LeaseName", "The lease it is a candidate for.", |row| row.text(&["spec", "leaseName"]).into()),
    text("BinaryVersion", "The version of its program.", |row| row.text(&["spec", "binaryVersion"]).into()),
    text("EmulationVersion", "The version it behaves as.", |row| row.text(&["spec", "emulationVersion"]).into()),
    AGE,
];

pub(super) const PRIORITY_CLASS: &[Column] = &[
    NAME,
    integer("Value", "The priority that pods of the class get.", |row| row.int(&["value"]).into()),
    boolean("Global-Default", "Whether pods without a class get this one.", |row| {
        row.bool_or(&["globalDefault"], false)
    }),
    AGE,
    text("PreemptionPolicy", "Whether its pods push out others.", |row| row.text(&["preemptionPolicy"]).into()),
];

pub(super) const RUNTIME_CLASS: &[Column] =
    &[NAME, text("Handler", "What runs its containers.", |row| row.text(&["handler"]).into()), AGE];

pub(super) const SCALE: &[Column] = &[
    text("Name", "The name of what is scaled.", |row| row.name().into()),
    integer("Desired", "How many pods there should be.", |row| row.int(&["spec", "replicas"]).into()),
    integer("Available", "How many pods there are.", |row| row.int(&["status", "replicas"]).into()),
    AGE,
];

pub(super) const RESOURCE_SLICE: &[Column] = &[
    NAME,
    text("Node", "The node that has the devices.", |row| row.text(&["spec", "nodeName"]).into()),
    text("Driver", "The driver of the devices.", |row| row.text(&["spec", "driver"]).into()),
    text("Pool", "The pool they belong to.", |row| row.text(&["spec", "pool", "name"]).into()),
    AGE,
];

pub(super) const COMPONENT_STATUS: &[Column] = &[
    NAME,
    text("Status", "Whether the component is healthy.", |row| {
        match health(row).map(|condition| text_of(condition, &["status"])) {
            Some("True") => "Healthy".into(),
            Some(_) => "Unhealthy".into(),
            None => "Unknown".into(),
        }
    }),
    text("Message", "The message.", |row| health(row).map_or("", |condition| text_of(condition, &["message"])).into()),
    text("Error", "What is wrong with it.", |row| {
        health(row).map_or("", |condition| text_of(condition, &["error"])).into()
    }),
];

fn health<'a>(row: &Row<'a>) -> Option<&'a Value> {
    let mut conditions = row.list(&["conditions"]).iter();
    conditions.find(|condition| text_of(condition, &["type"]) == "Healthy")
}

pub(super) const DEVICE_TAINT: &[Column] = &[
    NAME,
    text("Key", "The key of the taint.", |row| row.text(&["spec", "taint", "key"]).into()),
    text("Value", "The value of the taint.", |row| row.text(&["spec", "taint", "value"]).into()),
    text("Effect", "What the taint does.", |row| row.text(&["spec", "taint", "effect"]).into()),
    text("TimeAdded", "How long ago it was added.", |row| {
        let path = &["spec", "taint", "timeAdded"];
        match row.get(path) {
            Some(_) => row.since(path).into(),
            None => "".into(),
        }
    }),
    AGE,
];
