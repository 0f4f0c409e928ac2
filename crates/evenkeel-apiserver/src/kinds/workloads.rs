//! Deployment, ReplicaSet, StatefulSet, DaemonSet, ReplicationController and PodTemplate.

use serde_json::{Value, json};

use crate::field::FieldError;

use super::check::{immutable, label_selector, matches, nonnegative, same, selects_all};
use super::fill::{
    Constant::{Int, Text},
    DefaultRule, Object, absent, at, child, ensure, fill, is_empty, items, list_at, text, text_at, zero,
};
use super::{podcheck, podspec, storage};

const REPLICAS: &[DefaultRule] = &[absent("replicas", Int(1))];
const DEPLOYMENT: &[DefaultRule] =
    &[absent("revisionHistoryLimit", Int(10)), absent("progressDeadlineSeconds", Int(600))];
const DEPLOYMENT_ROLLING: &[DefaultRule] = &[absent("maxUnavailable", Text("25%")), absent("maxSurge", Text("25%"))];
const DAEMON_ROLLING: &[DefaultRule] = &[absent("maxUnavailable", Int(1)), absent("maxSurge", Int(0))];
const HISTORY: &[DefaultRule] = &[absent("revisionHistoryLimit", Int(10))];
const ROLLING: &[DefaultRule] = &[zero("type", Text("RollingUpdate"))];
const STATEFUL: &[DefaultRule] = &[zero("podManagementPolicy", Text("OrderedReady")), absent("serviceName", Text(""))];
const STATEFUL_ROLLING: &[DefaultRule] = &[absent("partition", Int(0)), absent("maxUnavailable", Int(1))];
const RETENTION: &[DefaultRule] = &[zero("whenDeleted", Text("Retain")), zero("whenScaled", Text("Retain"))];

pub(super) fn default_deployment(object: &mut Object) {
    let Some(spec) = ensure(object, "spec") else {
        return;
    };
    fill(spec, REPLICAS);
    rolling(spec, "strategy", DEPLOYMENT_ROLLING);
    fill(spec, DEPLOYMENT);
    podspec::default_template(spec, "template");
}

pub(super) fn default_replica_set(object: &mut Object) {
    let Some(spec) = ensure(object, "spec") else {
        return;
    };
    fill(spec, REPLICAS);
    podspec::default_template(spec, "template");
}

pub(super) fn default_daemon_set(object: &mut Object) {
    let Some(spec) = ensure(object, "spec") else {
        return;
    };
    rolling(spec, "updateStrategy", DAEMON_ROLLING);
    fill(spec, HISTORY);
    podspec::default_template(spec, "template");
}

pub(super) fn default_stateful_set(object: &mut Object) {
    let Some(spec) = ensure(object, "spec") else {
        return;
    };
    fill(spec, STATEFUL);
    if let Some(strategy) = ensure(spec, "updateStrategy") {
        if text(strategy, "type").is_empty() {
            ensure(strategy, "rollingUpdate");
        }
        fill(strategy, ROLLING);
        if text(strategy, "type") == "RollingUpdate"
            && let Some(rolling) = child(strategy, "rollingUpdate")
        {
            fill(rolling, STATEFUL_ROLLING);
        }
    }
    if let Some(policy) = ensure(spec, "persistentVolumeClaimRetentionPolicy") {
        fill(policy, RETENTION);
    }
    fill(spec, REPLICAS);
    fill(spec, HISTORY);
    podspec::default_template(spec, "template");
    for claim in items(spec, "volumeClaimTemplates") {
        fill(claim, &[zero("apiVersion", Text("v1")), zero("kind", Text("PersistentVolumeClaim"))]);
        ensure(claim, "metadata");
        storage::default_claim(claim);
    }
}

pub(super) fn default_replication_controller(object: &mut Object) {
    let labels = object
        .get("spec")
        .and_then(|spec| at(spec, &["template", "metadata", "labels"]))
        .filter(|labels| !is_empty(Some(labels)))
        .cloned();
    if let Some(spec) = ensure(object, "spec") {
        fill(spec, REPLICAS);
        if let Some(labels) = &labels
            && is_empty(spec.get("selector"))
        {
            spec.insert("selector".into(), labels.clone());
        }
        if spec.get("template").is_some_and(Value::is_object) {
            podspec::default_template(spec, "template");
        }
    }
    if let Some(labels) = labels {
        default_labels(object, labels);
    }
}

/// Copies the template's labels to an object without labels.
pub(super) fn default_labels(object: &mut Object, labels: Value) {
    if let Some(metadata) = ensure(object, "metadata")
        && is_empty(metadata.get("labels"))
    {
        metadata.insert("labels".into(), labels);
    }
}

fn rolling(spec: &mut Object, key: &str, rules: &[DefaultRule]) {
    let Some(strategy) = ensure(spec, key) else { return };
    fill(strategy, ROLLING);
    if text(strategy, "type") == "RollingUpdate"
        && let Some(rolling) = ensure(strategy, "rollingUpdate")
    {
        fill(rolling, rules);
    }
}

/// Validates the specification of a Deployment, ReplicaSet, StatefulSet or DaemonSet.
pub(super) fn validate(kind: &str, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let nothing = json!({});
    let spec = object.get("spec").unwrap_or(&nothing);
    nonnegative(&mut errors, spec, "spec", "replicas");
    let selector = at(spec, &["selector"]);
    let mut usable = true;
    match selector {
        None => errors.push(FieldError::required("spec.selector", "")),
        Some(selector) => {
            let before = errors.len();
            label_selector(&mut errors, selector, "spec.selector");
            usable = errors.len() == before;
            if selects_all(selector) {
                // Errors of ReplicaSets are worded like those of Deployments, as in kube-apiserver.
                let owner = match kind {
                    "ReplicaSet" => "deployment".to_owned(),
                    kind => kind.to_lowercase(),
                };
                let detail = format!("empty selector is invalid for {owner}");
                errors.push(FieldError::invalid("spec.selector", selector, detail));
            }
        }
    }
    if usable {
        template_labels(&mut errors, selector, spec);
    }
    let claims: Vec<&str> =
        list_at(spec, &["volumeClaimTemplates"]).iter().map(|claim| text_at(claim, &["metadata", "name"])).collect();
    always_running_template(&mut errors, kind, spec, &claims);
    for key in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        nonnegative(&mut errors, spec, "spec", key);
    }
    if kind == "Deployment" {
        validate_deployment_times(&mut errors, spec);
    }
    errors
}

fn validate_deployment_times(errors: &mut Vec<FieldError>, spec: &Value) {
    let seconds = |key| spec.get(key).and_then(Value::as_i64);
    if let Some(deadline) = seconds("progressDeadlineSeconds")
        && deadline <= seconds("minReadySeconds").unwrap_or_default()
    {
        errors.push(FieldError::invalid(
            "spec.progressDeadlineSeconds",
            &Value::from(deadline),
            "must be greater than minReadySeconds",
        ));
    }
    if text_at(spec, &["strategy", "type"]) == "Recreate" && at(spec, &["strategy", "rollingUpdate"]).is_some() {
        errors.push(FieldError::forbidden(
            "spec.strategy.rollingUpdate",
            "may not be specified when strategy `type` is 'Recreate'",
        ));
    }
}

/// Requires that the selector matches the template's labels; an absent selector matches nothing.
pub(super) fn template_labels(errors: &mut Vec<FieldError>, selector: Option<&Value>, spec: &Value) {
    let labels = at(spec, &["template", "metadata", "labels"]);
    if !selector.is_some_and(|selector| matches(selector, labels)) {
        errors.push(FieldError::invalid(
            "spec.template.metadata.labels",
            labels.unwrap_or(&Value::Null),
            "`selector` does not match template `labels`",
        ));
    }
}

fn always_running_template(errors: &mut Vec<FieldError>, kind: &str, spec: &Value, claims: &[&str]) {
    let path = "spec.template";
    podcheck::template(errors, at(spec, &["template"]), path, claims);
    let policy = text_at(spec, &["template", "spec", "restartPolicy"]);
    if !matches!(policy, "Always" | "") {
        errors.push(FieldError::not_supported(format!("{path}.spec.restartPolicy"), &Value::from(policy), &["Always"]));
    }
    if at(spec, &["template", "spec", "activeDeadlineSeconds"]).is_some() {
        let owner = if kind == "Deployment" { "ReplicaSet" } else { kind };
        errors.push(FieldError::forbidden(
            format!("{path}.spec.activeDeadlineSeconds"),
            format!("activeDeadlineSeconds in {owner} is not Supported"),
        ));
    }
}

/// Checks the immutable fields of these kinds.
pub(super) fn validate_update(kind: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate(kind, new);
    immutable(&mut errors, new, old, &["spec", "selector"]);
    if kind == "StatefulSet" {
        for key in ["volumeClaimTemplates", "serviceName", "podManagementPolicy"] {
            immutable(&mut errors, new, old, &["spec", key]);
        }
    }
    errors
}

pub(super) fn validate_replication_controller(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let nothing = json!({});
    let spec = object.get("spec").unwrap_or(&nothing);
    nonnegative(&mut errors, spec, "spec", "minReadySeconds");
    if same(spec.get("selector"), None) {
        errors.push(FieldError::required("spec.selector", ""));
    }
    nonnegative(&mut errors, spec, "spec", "replicas");
    if let Some(labels) = spec.get("selector") {
        template_labels(&mut errors, Some(&json!({"matchLabels": labels})), spec);
    }
    always_running_template(&mut errors, "ReplicationController", spec, &[]);
    errors
}
