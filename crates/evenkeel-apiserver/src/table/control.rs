//! Columns of roles, certificates, admission and flow control.

use serde_json::Value;

use super::age::human_duration;
use super::cell::{AGE, Column, NAME, Row, get, integer, labels, selector, text, text_of};

pub(super) const ROLE_BINDING: &[Column] = &[
    NAME,
    text("Role", "The role that is given.", |row| {
        format!("{}/{}", row.text(&["roleRef", "kind"]), row.text(&["roleRef", "name"])).into()
    }),
    AGE,
    text("Users", "The bound users.", |row| subjects(row, "User").into()).wide(),
    text("Groups", "The groups that have it.", |row| subjects(row, "Group").into()).wide(),
    text("ServiceAccounts", "The service accounts that have it.", |row| subjects(row, "ServiceAccount").into()).wide(),
];

fn subjects(row: &Row<'_>, kind: &str) -> String {
    let chosen = row.list(&["subjects"]).iter().filter(|subject| text_of(subject, &["kind"]) == kind);
    let names: Vec<String> = chosen
        .map(|subject| {
            let name = text_of(subject, &["name"]);
            if kind == "ServiceAccount" {
                format!("{}/{name}", text_of(subject, &["namespace"]))
            } else {
                name.to_owned()
            }
        })
        .collect();
    names.join(", ")
}

pub(super) const SIGNING_REQUEST: &[Column] = &[
    NAME,
    AGE,
    text("SignerName", "Who should sign.", |row| row.text_or(&["spec", "signerName"], "<none>")),
    text("Requestor", "The requesting user.", |row| row.text(&["spec", "username"]).into()),
    text("RequestedDuration", "For how long.", |row| {
        let seconds = row.get(&["spec", "expirationSeconds"]).and_then(Value::as_i64);
        seconds.map_or_else(|| "<none>".into(), |seconds| human_duration(seconds).into())
    }),
    text("Condition", "What has been decided.", |row| {
        let has = |wanted: &str| {
            let mut conditions = row.list(&["status", "conditions"]).iter();
            conditions.any(|condition| text_of(condition, &["type"]) == wanted)
        };
        let mut condition = if has("Denied") {
            "Denied".to_owned()
        } else if has("Approved") {
            "Approved".to_owned()
        } else {
            "Pending".to_owned()
        };
        if has("Failed") {
            condition.push_str(",Failed");
        }
        if !row.text(&["status", "certificate"]).is_empty() {
            condition.push_str(",Issued");
        }
        condition.into()
    }),
];

pub(super) const WEBHOOKS: &[Column] =
    &[NAME, integer("Webhooks", "How many webhooks it has.", |row| row.count(&["webhooks"]).into()), AGE];

pub(super) const VALIDATING_POLICY: &[Column] = &[
    NAME,
    integer("Validations", "How many rules it has.", |row| row.count(&["spec", "validations"]).into()),
    PARAM_KIND,
    AGE,
];

pub(super) const MUTATING_POLICY: &[Column] = &[
    NAME,
    integer("Mutations", "How many changes it makes.", |row| row.count(&["spec", "mutations"]).into()),
    PARAM_KIND,
    AGE,
];

pub(super) const PARAM_KIND: Column =
    text("ParamKind", "The kind of its parameters.", |row| match row.get(&["spec", "paramKind"]) {
        Some(kind) => format!("{}/{}", text_of(kind, &["apiVersion"]), text_of(kind, &["kind"])).into(),
        None => "<unset>".into(),
    });

pub(super) const POLICY_BINDING: &[Column] = &[
    NAME,
    text("PolicyName", "The policy that is bound.", |row| row.text(&["spec", "policyName"]).into()),
    text("ParamRef", "Where its parameters are.", |row| {
        let Some(reference) = row.get(&["spec", "paramRef"]) else {
            return "<unset>".into();
        };
        match (text_of(reference, &["namespace"]), text_of(reference, &["name"])) {
            ("", "") | (_, "") => match get(reference, &["selector"]) {
                Some(labels) => selector(Some(labels)).into(),
                None => "<unset>".into(),
            },
            ("", name) => format!("*/{name}").into(),
            (namespace, name) => format!("{namespace}/{name}").into(),
        }
    }),
    AGE,
];

pub(super) const FLOW_SCHEMA: &[Column] = &[
    NAME,
    text("PriorityLevel", "The level that matching requests get.", |row| {
        row.text(&["spec", "priorityLevelConfiguration", "name"]).into()
    }),
    text("MatchingPrecedence", "Which schema wins; the lowest does.", |row| {
        row.int(&["spec", "matchingPrecedence"]).into()
    }),
    text("DistinguisherMethod", "How flows are distinguished.", |row| {
        row.text_or(&["spec", "distinguisherMethod", "type"], "<none>")
    }),
    AGE,
    text("MissingPL", "Whether the level does not exist.", |row| {
        let mut conditions = row.list(&["status", "conditions"]).iter();
        let dangling = conditions.find(|condition| text_of(condition, &["type"]) == "Dangling");
        dangling.map_or("?", |condition| text_of(condition, &["status"])).into()
    }),
];

pub(super) const PRIORITY_LEVEL: &[Column] = &[
    NAME,
    text("Type", "Whether requests are limited.", |row| row.text(&["spec", "type"]).into()),
    text("NominalConcurrencyShares", "Its share of what the server does at once.", |row| {
        limited(row, &["nominalConcurrencyShares"])
    }),
    text("Queues", "How many queues it has.", |row| limited(row, &["limitResponse", "queuing", "queues"])),
    text("HandSize", "How many queues a flow may use.", |row| limited(row, &["limitResponse", "queuing", "handSize"])),
    text("QueueLengthLimit", "How many requests wait in one queue.", |row| {
        limited(row, &["limitResponse", "queuing", "queueLengthLimit"])
    }),
    AGE,
];

fn limited(row: &Row<'_>, path: &[&str]) -> Value {
    let level = row.get(&["spec", "limited"]);
    level.and_then(|level| get(level, path)).cloned().unwrap_or_else(|| "<none>".into())
}

pub(super) const API_SERVICE: &[Column] = &[
    NAME,
    text("Service", "Who serves the version.", |row| match row.get(&["spec", "service"]) {
        Some(service) => format!("{}/{}", text_of(service, &["namespace"]), text_of(service, &["name"])).into(),
        None => "Local".into(),
    }),
    text("Available", "Whether the version can be used.", |row| {
        let mut conditions = row.list(&["status", "conditions"]).iter();
        let available = conditions.find(|condition| text_of(condition, &["type"]) == "Available");
        match available.map(|condition| (text_of(condition, &["status"]), text_of(condition, &["reason"]))) {
            None => "Unknown".into(),
            Some(("True", _)) => "True".into(),
            Some((status, reason)) => format!("{status} ({reason})").into(),
        }
    }),
    AGE,
];

pub(super) const TRUST_BUNDLE: &[Column] = &[
    NAME,
    text("SignerName", "Whose certificates are to be trusted.", |row| row.text_or(&["spec", "signerName"], "<none>")),
];

pub(super) const POD_CERTIFICATE: &[Column] = &[
    NAME,
    text("PodName", "The requesting pod.", |row| row.text(&["spec", "podName"]).into()),
    text("ServiceAccountName", "The account of the pod.", |row| row.text(&["spec", "serviceAccountName"]).into()),
    text("NodeName", "The node of the pod.", |row| row.text(&["spec", "nodeName"]).into()),
    text("SignerName", "Who should sign.", |row| row.text(&["spec", "signerName"]).into()),
    text("State", "What has been decided.", |row| {
        let conditions = row.list(&["status", "conditions"]).iter();
        let decided = conditions
            .map(|condition| text_of(condition, &["type"]))
            .rfind(|kind| matches!(*kind, "Issued" | "Denied" | "Failed"));
        decided.unwrap_or("Pending").into()
    }),
    text("UnverifiedUserAnnotations", "Annotations set by the pod, not verified.", |row| {
        labels(row.get(&["spec", "unverifiedUserAnnotations"])).into()
    }),
];

pub(super) const MIGRATION: &[Column] = &[
    text("Name", "The name of the object, unique among its kind.", |row| row.name().into()),
    text("Resource", "Which resource is rewritten.", |row| {
        match (row.text(&["spec", "resource", "resource"]), row.text(&["spec", "resource", "group"])) {
            (resource, "") => resource.into(),
            (resource, group) => format!("{resource}.{group}").into(),
        }
    }),
    text("Status", "How far it is.", |row| {
        let conditions = row.list(&["status", "conditions"]).iter();
        let mut holding = conditions
            .filter(|condition| text_of(condition, &["status"]) == "True")
            .map(|condition| text_of(condition, &["type"]))
            .filter(|kind| matches!(*kind, "Running" | "Failed" | "Succeeded"));
        holding.next_back().unwrap_or("Unknown").into()
    }),
];
