//! The schemas of built-in types, from the OpenAPI document of the release.
//!
//! The document is never read whole: an index of where each type's text begins is made on first use, and a type is
//! compiled when someone first looks into it.

use std::sync::{LazyLock, OnceLock};

use serde_json::{Map, Value};

use super::{Form, List, Node, Patching, Schema};

/// A JSON object from OpenAPI names to schemas, without white space, sorted by name.
const DOCUMENT: &str = include_str!("../../data/openapi-schemas-1.37.json");

/// How every OpenAPI name of the document begins. References have more before the name, so the opening quote makes it
/// the mark of an entry.
const ENTRY: &str = "\"io.k8s.";
/// The rarest letter of the mark, and where it stands: looking for it alone finds the marks several times faster.
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

/// Types whose JSON is whatever their own decoder makes of it.
const OPAQUE: &[&str] = &[
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
    "io.k8s.apimachinery.pkg.runtime.RawExtension",
];

/// Optional properties that are written even when they are not set, as `null`: times that are no pointers, and lists
/// without `omitempty`. The OpenAPI document does not tell them from the ones that are left out.
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

/// The node of a named type. Text that is not a schema takes any value; the document has none.
pub(super) fn compile(id: &'static str, text: &str) -> Node {
    let special = match id {
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time" => Some(Form::Time),
        "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime" => Some(Form::MicroTime),
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => Some(Form::Quantity),
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => Some(Form::IntOrString),
        id if OPAQUE.contains(&id) => Some(Form::Any),
        // `JSONSchemaPropsOrBool` and its like.
        id if id.strip_prefix(JSON_SCHEMA).is_some_and(|rest| rest.starts_with("Or")) => Some(Form::ObjectOrElse),
        _ => None,
    };
    if let Some(form) = special {
        return Node {
            form,
            alternative: lookup(JSON_SCHEMA).filter(|_| form == Form::ObjectOrElse),
            ..Node::default()
        };
    }
    let Ok(Value::Object(source)) = serde_json::from_str(text) else {
        return Node::default();
    };
    let mut node = read(&source);
    if let Some((_, names)) = NULLS.iter().find(|(candidate, _)| *candidate == id) {
        node.nulls.extend(names.iter().map(|name| Box::from(*name)));
    }
    node
}

fn read(source: &Map<String, Value>) -> Node {
    let text = |key: &str| source.get(key).and_then(Value::as_str);
    let reference =
        text("$ref").or_else(|| source.get("allOf")?.as_array()?.iter().find_map(|part| part.get("$ref")?.as_str()));
    let mut node = Node {
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
        ..Node::default()
    };
    let child = |source: &Value| source.as_object().map(|source| Schema::owned(read(source)));
    node.items = source.get("items").and_then(child).map(Box::new);
    node.values = source.get("additionalProperties").and_then(child).map(Box::new);
    if let Some(Value::Object(properties)) = source.get("properties") {
        node.properties =
            properties.iter().filter_map(|(name, source)| Some((Box::from(name.as_str()), child(source)?))).collect();
    }
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

/// `x-kubernetes-list-type` and the keys that go with it.
pub(super) fn list(source: &Map<String, Value>) -> List {
    match source.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => List::Set,
        Some("map") => List::Map(strings(source.get("x-kubernetes-list-map-keys")).map(str::to_owned).collect()),
        _ => List::Atomic,
    }
}

/// How strategic merge patches treat the value. The strategy `retainKeys` is for those who make patches.
fn patching(source: &Map<String, Value>) -> Patching {
    let text = |key: &str| source.get(key).and_then(Value::as_str);
    let mut strategies = text("x-kubernetes-patch-strategy").unwrap_or_default().split(',');
    match strategies.find(|strategy| matches!(*strategy, "merge" | "replace")) {
        Some("merge") => Patching::Merge(text("x-kubernetes-patch-merge-key").map(Box::from)),
        Some(_) => Patching::Replace,
        None => Patching::Default,
    }
}

/// The strings of a list of strings.
pub(super) fn strings(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}
