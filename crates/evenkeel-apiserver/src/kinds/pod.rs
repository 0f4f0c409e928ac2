//! Pods: additions on create, the QoS class, and the fields that an update may change.

use std::collections::{BTreeSet, HashMap, HashSet};

use evenkeel_core::quantity::ExactQuantity;
use serde_json::{Value, json};

use crate::field::FieldError;

use super::check::same;
use super::fill::{Object, at, child, ensure, is_empty, list_at, quantity, text, text_at};
use super::podcheck;

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
    `spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be \
    set to 1 if it was previously negative)";

/// Marks the mirror of a static pod, which its node manages.
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

const BEST_EFFORT: &str = "BestEffort";

/// Returns the QoS class of a pod from its specification.
pub(super) fn qos_class(spec: &Value) -> &'static str {
    /// Sums of cpu and memory.
    #[derive(Default)]
    struct Sums([ExactQuantity; 2]);

    impl Sums {
        /// Adds the given quantities and returns which of the two were present.
        fn add(&mut self, resources: Option<&Value>) -> [bool; 2] {
            let mut given = [false; 2];
            for ((name, sum), given) in ["cpu", "memory"].iter().zip(&mut self.0).zip(&mut given) {
                let quantity = resources.and_then(|resources| resources.get(name)).and_then(quantity);
                if let Some(quantity) = quantity.filter(|quantity| quantity.signum().is_gt()) {
                    *sum += &quantity;
                    *given = true;
                }
            }
            given
        }
    }

    let mut requests = Sums::default();
    let mut limits = Sums::default();
    let mut guaranteed = true;
    let whole_pod = Some(spec).filter(|spec| at(spec, &["resources"]).is_some());
    let containers =
        list_at(spec, &["containers"]).iter().chain(list_at(spec, &["initContainers"])).filter(|_| whole_pod.is_none());
    for owner in whole_pod.into_iter().chain(containers) {
        requests.add(at(owner, &["resources", "requests"]));
        guaranteed &= limits.add(at(owner, &["resources", "limits"])) == [true; 2];
    }
    if requests.0.iter().chain(&limits.0).all(ExactQuantity::is_zero) {
        BEST_EFFORT
    } else if guaranteed && requests.0 == limits.0 {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Validates new ephemeral containers and requires that existing ones are unchanged (MSC-8).
pub(crate) fn validate_ephemeral_containers_update(new: &Value, old: &Value) -> Vec<FieldError> {
    const FIELD: &str = "spec.ephemeralContainers";
    if at(old, &["metadata", "annotations", MIRROR_ANNOTATION]).is_some() {
        return vec![FieldError::forbidden("", "static pods do not support ephemeral containers")];
    }
    let containers = |pod| list_at(pod, &["spec", "ephemeralContainers"]);
    let mut errors = Vec::new();
    podcheck::ephemeral_containers(&mut errors, new.get("spec").unwrap_or(&Value::Null), FIELD);
    let by_name: HashMap<&str, &Value> =
        containers(new).iter().rev().map(|container| (text_at(container, &["name"]), container)).collect();
    for present in containers(old) {
        let name = text_at(present, &["name"]);
        match by_name.get(name).copied() {
            None => {
                let detail = format!("existing ephemeral containers {name:?} may not be removed\n");
                errors.push(FieldError::forbidden(FIELD, detail));
            }
            Some(container) if container != present => {
                let detail = format!("existing ephemeral containers {name:?} may not be changed\n");
                errors.push(FieldError::forbidden(FIELD, detail));
            }
            Some(_) => {}
        }
    }
    errors
}

/// Returns the grace period of a pod's deletion in seconds (DEL-8). `requested` is that of the request.
pub(crate) fn pod_grace_period(pod: &Value, requested: Option<i64>) -> i64 {
    let unscheduled = text_at(pod, &["spec", "nodeName"]).is_empty();
    if unscheduled || matches!(text_at(pod, &["status", "phase"]), "Succeeded" | "Failed") {
        // No container runs that would have to terminate.
        return 0;
    }
    let own = || at(pod, &["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_i64);
    match requested.or_else(own).unwrap_or_default() {
        ..0 => 1,
        period => period,
    }
}

/// Adds the initial status to a new pod.
pub(super) fn prepare_create(pod: &mut Object) {
    ensure(pod, "spec");
    let mut status = json!({"phase": "Pending"});
    let gated = child(pod, "spec").is_some_and(|spec| !is_empty(spec.get("schedulingGates")));
    if gated {
        status["conditions"] = json!([{
            "lastProbeTime": null,
            "lastTransitionTime": null,
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "reason": "SchedulingGated",
            "status": "False",
            "type": "PodScheduled",
        }]);
    }
    status["qosClass"] = pod.get("spec").map_or(BEST_EFFORT, qos_class).into();
    pod.insert("status".into(), status);
}

/// Sets the defaults of a status write: `podIP` and `podIPs` mirror each other.
pub(super) fn default_status(pod: &mut Object) {
    let Some(status) = child(pod, "status") else {
        return;
    };
    let ip = text(status, "podIP").to_owned();
    let first = status
        .get("podIPs")
        .and_then(|ips| ips.get(0))
        .and_then(|first| first.get("ip"))
        .and_then(Value::as_str)
        .map(str::to_owned);
    match first {
        Some(first) if ip.is_empty() => {
            status.insert("podIP".into(), first.into());
        }
        Some(first) if first == ip => {}
        _ if ip.is_empty() => {}
        _ => {
            status.insert("podIPs".into(), json!([{"ip": ip}]));
        }
    }
}

pub(super) fn validate_create(pod: &Value) -> Vec<FieldError> {
    let mut errors = validate_spec(pod);
    if !list_at(pod, &["spec", "ephemeralContainers"]).is_empty() {
        errors.push(FieldError::forbidden("spec.ephemeralContainers", "cannot be set on create"));
    }
    errors
}

fn validate_spec(pod: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    podcheck::spec(&mut errors, pod.get("spec").unwrap_or(&Value::Null), "spec", &[]);
    errors
}

/// Requires that a pod's specification is unchanged, except for its images, deadline, tolerations and scheduling
/// gates.
pub(super) fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate_spec(new);
    for list in ["containers", "initContainers"] {
        let path = ["spec", list];
        if list_at(new, &path).len() != list_at(old, &path).len() {
            errors.push(FieldError::forbidden(path.join("."), "pod updates may not add or remove containers"));
            return errors;
        }
    }
    if !validate_deadline(&mut errors, new, old) {
        return errors;
    }
    validate_tolerations(&mut errors, new, old);
    validate_gates(&mut errors, new, old);
    let changed = changed_fields(new, old);
    if !changed.is_empty() {
        errors.push(FieldError::forbidden(
            "spec",
            format!("pod updates may not change fields other than {UPDATABLE}\nchanged: {}", changed.join(", ")),
        ));
    }
    errors
}

/// Returns false if the error ends the validation.
fn validate_deadline(errors: &mut Vec<FieldError>, new: &Value, old: &Value) -> bool {
    let deadline = |pod| at(pod, &["spec", "activeDeadlineSeconds"]).and_then(Value::as_i64);
    let path = "spec.activeDeadlineSeconds";
    match (deadline(new), deadline(old)) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            let range = format!("must be between 0 and {}, inclusive", i32::MAX);
            errors.push(FieldError::invalid(path, &Value::from(new), range));
            return false;
        }
        (Some(new), Some(old)) if old < new => {
            let detail = "must be less than or equal to previous value";
            errors.push(FieldError::invalid(path, &Value::from(new), detail));
            return false;
        }
        (None, Some(_)) => {
            errors.push(FieldError::invalid(path, &Value::Null, "must not update from a positive integer to nil value"))
        }
        _ => {}
    }
    true
}

fn validate_tolerations(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
    let path = ["spec", "tolerations"];
    // The toleration seconds of a taint may change.
    let identity = |toleration| ["key", "operator", "value", "effect"].map(|key| text_at(toleration, &[key]));
    let present: HashSet<[&str; 4]> = list_at(new, &path).iter().map(identity).collect();
    let kept = list_at(old, &path).iter().all(|old| present.contains(&identity(old)));
    if !kept {
        errors.push(FieldError::forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        ));
    }
}

fn validate_gates(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
    let path = ["spec", "schedulingGates"];
    let gates = |pod| list_at(pod, &path).iter().map(|gate| text_at(gate, &["name"]));
    let known: HashSet<&str> = gates(old).collect();
    let added: Vec<&str> = gates(new).filter(|gate| !known.contains(gate)).collect();
    if !added.is_empty() {
        errors.push(FieldError::forbidden(
            "spec.schedulingGates",
            format!("only deletion is allowed, but found new scheduling gates '{}'", added.join(",")),
        ));
    }
}

/// Returns the immutable fields of the specification that differ.
fn changed_fields(new: &Value, old: &Value) -> Vec<String> {
    let nothing = Object::new();
    let new = new.get("spec").and_then(Value::as_object).unwrap_or(&nothing);
    let old = old.get("spec").and_then(Value::as_object).unwrap_or(&nothing);
    let mut changed = Vec::new();
    let keys: BTreeSet<&String> = new.keys().chain(old.keys()).collect();
    for key in keys {
        let (one, other) = (new.get(key), old.get(key));
        match key.as_str() {
            "activeDeadlineSeconds" | "tolerations" | "schedulingGates" => {}
            "terminationGracePeriodSeconds"
                if other.and_then(Value::as_i64).is_some_and(|old| old < 0)
                    && one.and_then(Value::as_i64) == Some(1) => {}
            "containers" | "initContainers" => {
                let pairs = one
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .zip(other.and_then(Value::as_array).into_iter().flatten());
                for (index, (one, other)) in pairs.enumerate() {
                    let one = one.as_object().unwrap_or(&nothing);
                    let other = other.as_object().unwrap_or(&nothing);
                    let fields: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
                    changed.extend(
                        fields
                            .into_iter()
                            .filter(|field| *field != "image" && !same(one.get(*field), other.get(*field)))
                            .map(|field| format!("spec.{key}[{index}].{field}")),
                    );
                }
            }
            _ if same(one, other) => {}
            _ => changed.push(format!("spec.{key}")),
        }
    }
    changed
}
