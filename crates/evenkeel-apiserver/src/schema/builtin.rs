//! The schemas of built-in types, from the OpenAPI document of the release.
//!
//! The document is never parsed whole: the first use builds an index of the offsets of each type, and a type is
//! compiled on first access.

use std::sync::{LazyLock, OnceLock};

use serde_json::{Map, Value};

use super::{Form, List, Patching, Schema, SchemaNode};

/// A JSON object from OpenAPI names to schemas, without white space, sorted by name.
const DOCUMENT: &str = include_str!("../../data/openapi-schemas-1.37.json");

/// The prefix of every OpenAPI name in the document. References have more text before the name, so the opening quote
/// marks an entry.
const ENTRY: &str = "\"io.k8s.";
/// The rarest character of the prefix, and its offset: searching for it alone finds the entries several times faster.
const RARE: (char, usize) = ('8', 5);

static INDEX: LazyLock<Vec<Schema>> = LazyLock::new(index);

pub(super) fn lookup(id: &str) -> Option<&'static Schema> {
    let index: &'static [Schema] = &INDEX;
    index.binary_search_by(|schema| schema.id.cmp(id)).ok().and_then(|at| index.get(at))
}

fn index() -> Vec<Schema> {
    let document = DOCUMENT.trim_end();
    let document = document.strip_suffix('}').unwrap_or(document);
    let mut entries = Vec::with_capacity(640);
    let mut starts = document
        .match_indices(RARE.0)
        .filter_map(|(at, _)| at.checked_sub(RARE.1))
        .filter(|at| document.get(*at..).is_some_and(|rest| rest.starts_with(ENTRY)))
        .peekable();
    while let Some(start) = starts.next() {
        let end = starts.peek().map_or(document.len(), |next| next - 1);
        let entry = document.get(start + 1..end).unwrap_or_default();
        if let Some((id, text)) = entry.split_once("\":") {
            entries.push(Schema { id, text, node: OnceLock::new() });
        }
    }
    entries
}

const JSON_SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// Types with a decoder of their own, whose JSON has any form.
const OPAQUE: &[&str] = &[
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
    "io.k8s.apimachinery.pkg.runtime.RawExtension",
];

/// Optional properties that are written as `null` when they are not set: times that are not pointers, and lists
/// without `omitempty`. The OpenAPI document does not distinguish them from omitted ones.
const NULLS: &[(&str, &[&str])] = &[
    ("io.k8s.api.apps.v1.DaemonSetCondition", &["lastTransitionTime"]),
    ("io.k8s.api.apps.v1.DeploymentCondition", &["lastTransitionTime", "lastUpdateTime"]),
    ("io.k8s.api.apps.v1.ReplicaSetCondition", &["lastTransitionTime"]),
    ("io.k8s.api.apps.v1.StatefulSetCondition", &["lastTransitionTime"]),
    ("io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerCondition", &["lastTransitionTime"]),
    ("io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus", &["currentMetrics"]),
    ("io.k8s.api.batch.v1.JobCondition", &["lastProbeTime", "lastTransitionTime"]),
    ("io.k8s.api.certificates.v1.CertificateSigningRequestCondition", &["lastTransitionTime", "lastUpdateTime"]),
    ("io.k8s.api.core.v1.ContainerStateRunning", &["startedAt"]),
    ("io.k8s.api.core.v1.ContainerStateTerminated", &["finishedAt", "startedAt"]),
    ("io.k8s.api.core.v1.Event", &["eventTime", "firstTimestamp", "lastTimestamp"]),
    ("io.k8s.api.core.v1.EventSeries", &["lastObservedTime"]),
    ("io.k8s.api.core.v1.NamespaceCondition", &["lastTransitionTime"]),
    ("io.k8s.api.core.v1.NodeCondition", &["lastHeartbeatTime", "lastTransitionTime"]),
    ("io.k8s.api.core.v1.PersistentVolumeClaimCondition", &["lastProbeTime", "lastTransitionTime"]),
    ("io.k8s.api.core.v1.PodCondition", &["lastProbeTime", "lastTransitionTime"]),
    ("io.k8s.api.core.v1.ReplicationControllerCondition", &["lastTransitionTime"]),
    ("io.k8s.api.discovery.v1.EndpointSlice", &["endpoints", "ports"]),
    ("io.k8s.api.events.v1.Event", &["deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"]),
    ("io.k8s.api.events.v1.EventSeries", &["lastObservedTime"]),
    ("io.k8s.api.flowcontrol.v1.FlowSchemaCondition", &["lastTransitionTime"]),
    ("io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationCondition", &["lastTransitionTime"]),
    ("io.k8s.api.rbac.v1.ClusterRole", &["rules"]),
    ("io.k8s.api.rbac.v1.Role", &["rules"]),
    ("io.k8s.api.storage.v1.VolumeError", &["time"]),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionCondition",
        &["lastTransitionTime"],
    ),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionStatus",
        &["conditions", "storedVersions"],
    ),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Condition", &["lastTransitionTime"]),
    ("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceCondition", &["lastTransitionTime"]),
];

/// Compiles the node of a named type. Text that is not a schema accepts any value; the document has none.
pub(super) fn compile(id: &'static str, text: &str) -> SchemaNode {
    let special = match id {
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time" => Some(Form::Time),
        "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime" => Some(Form::MicroTime),
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => Some(Form::Quantity),
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => Some(Form::IntOrString),
        id if OPAQUE.contains(&id) => Some(Form::Any),
        // `JSONSchemaPropsOrBool` and similar types.
        id if id.strip_prefix(JSON_SCHEMA).is_some_and(|rest| rest.starts_with("Or")) => Some(Form::ObjectOrElse),
        _ => None,
    };
    if let Some(form) = special {
        return SchemaNode {
            form,
            alternative: lookup(JSON_SCHEMA).filter(|_| form == Form::ObjectOrElse),
            ..SchemaNode::default()
        };
    }
    let Ok(Value::Object(source)) = serde_json::from_str(text) else {
        return SchemaNode::default();
    };
    let mut node = read(&source);
    if let Some((_, names)) = NULLS.iter().find(|(candidate, _)| *candidate == id) {
        node.nulls.extend(names.iter().map(|name| Box::from(*name)));
    }
    node
}

fn read(source: &Map<String, Value>) -> SchemaNode {
    let text = |key: &str| source.get(key).and_then(Value::as_str);
    let reference =
        text("$ref").or_else(|| source.get("allOf")?.as_array()?.iter().find_map(|part| part.get("$ref")?.as_str()));
    let mut node = SchemaNode {
        target: reference.and_then(|reference| lookup(reference.rsplit('/').next()?)),
        default: source.get("default").cloned(),
        form: match (text("type"), text("format")) {
            (Some("object"), _) => Form::Object,
            (Some("array"), _) => Form::Array,
            (Some("string"), Some("byte")) => Form::Bytes,
            (Some("string"), _) => Form::String,
            (Some("integer"), Some("int32")) => Form::Integer32,
            (Some("integer"), _) => Form::Integer,
            (Some("number"), _) => Form::Number,
            (Some("boolean"), _) => Form::Boolean,
            _ => Form::Any,
        },
        list: list(source),
        patch: patching(source),
        atomic: text("x-kubernetes-map-type") == Some("atomic"),
        required: strings(source.get("required")).map(Box::from).collect(),
        choices: source.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
        ..SchemaNode::default()
    };
    let child = |source: &Value| source.as_object().map(|source| Schema::owned(read(source)));
    node.items = source.get("items").and_then(child).map(Box::new);
    node.values = source.get("additionalProperties").and_then(child).map(Box::new);
    if let Some(Value::Object(properties)) = source.get("properties") {
        node.properties =
            properties.iter().filter_map(|(name, source)| Some((Box::from(name.as_str()), child(source)?))).collect();
    }
    let fields = node.properties.iter().map(|(_, schema)| schema).chain(node.values.as_deref());
    node.has_choices = fields.into_iter().any(|field| !field.node().choices.is_empty());
    // A required list or map has no `omitempty`.
    node.nulls = node
        .required
        .iter()
        .filter(|name| {
            node.property(name).is_some_and(|schema| {
                let node = schema.node();
                node.default.is_none() && (node.form == Form::Array || node.values.is_some())
            })
        })
        .cloned()
        .collect();
    node
}

/// Reads `x-kubernetes-list-type` and its keys.
pub(super) fn list(source: &Map<String, Value>) -> List {
    match source.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => List::Set,
        Some("map") => List::Map(strings(source.get("x-kubernetes-list-map-keys")).map(str::to_owned).collect()),
        _ => List::Atomic,
    }
}

/// Reads the strategic merge patch strategy. `retainKeys` matters only to clients that create patches.
fn patching(source: &Map<String, Value>) -> Patching {
    let text = |key: &str| source.get(key).and_then(Value::as_str);
    let mut strategies = text("x-kubernetes-patch-strategy").unwrap_or_default().split(',');
    match strategies.find(|strategy| matches!(*strategy, "merge" | "replace")) {
        Some("merge") => Patching::Merge(text("x-kubernetes-patch-merge-key").map(Box::from)),
        Some(_) => Patching::Replace,
        None => Patching::Default,
    }
}

/// Returns the strings of a list.
pub(super) fn strings(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}
