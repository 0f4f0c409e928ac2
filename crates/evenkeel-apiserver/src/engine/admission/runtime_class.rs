//! RuntimeClass: the overhead and the nodes of a pod's runtime (ADM-026).

use serde_json::Value;

use super::pod_resources::read;
use super::{AdmissionPlugin, AdmissionWrite, list_at, text_at, value_at};
use crate::engine::ApiEngine;
use crate::engine::object::set_path;
use crate::engine::request_error::RequestError;

const CLASSES: &str = "runtimeclasses.node.k8s.io";
const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
const WITHOUT_CLASS: &str = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";

pub(super) struct RuntimeClass;

impl AdmissionPlugin for RuntimeClass {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        write.creates("pods")
    }

    fn mutate(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        pod: &mut Value,
        _: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        let Some(class) = class_of(engine, write, pod)? else { return Ok(()) };
        if let Some(overhead) = overhead_of(&class) {
            let given = read(value_at(pod, &["spec", "overhead"]));
            if !given.is_empty() && given != read(Some(overhead)) {
                return Err(write.forbidden(pod, MISMATCH));
            }
            set_path(pod, &["spec", "overhead"], Some(overhead.clone()));
        }
        let Some(scheduling) = class.get("scheduling").filter(|it| it.is_object()) else { return Ok(()) };
        let selector = scheduling.get("nodeSelector").and_then(Value::as_object);
        for (key, value) in selector.into_iter().flatten() {
            let own = value_at(pod, &["spec", "nodeSelector"]).and_then(|own| own.get(key)).filter(|own| *own != value);
            if let Some(own) = own {
                let [wanted, own] = [value, own].map(|value| value.as_str().unwrap_or_default());
                let why = format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; pod.spec.nodeSelector[{key}] = {own}"
                );
                return Err(write.forbidden(pod, why));
            }
            set_path(pod, &["spec", "nodeSelector", key], Some(value.clone()));
        }
        let mut all = list_at(pod, &["spec", "tolerations"]).to_vec();
        all.extend(list_at(scheduling, &["tolerations"]).iter().cloned());
        if !all.is_empty() {
            set_path(pod, &["spec", "tolerations"], Some(Value::Array(without_redundant(all))));
        }
        Ok(())
    }

    fn validate(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        object: Option<&Value>,
        _: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        let Some(pod) = object else { return Ok(()) };
        let class = class_of(engine, write, pod)?;
        let given = value_at(pod, &["spec", "overhead"]).filter(|overhead| !overhead.is_null());
        match class.as_ref().and_then(overhead_of) {
            Some(overhead) if read(Some(overhead)) != read(given) => Err(write.forbidden(pod, MISMATCH)),
            None if given.is_some() => Err(write.forbidden(pod, WITHOUT_CLASS)),
            _ => Ok(()),
        }
    }
}

/// Returns the class that a pod names.
fn class_of(engine: &ApiEngine, write: &AdmissionWrite<'_>, pod: &Value) -> Result<Option<Value>, RequestError> {
    let name = value_at(pod, &["spec", "runtimeClassName"]).and_then(Value::as_str);
    let Some(name) = name else { return Ok(None) };
    match engine.store.get(CLASSES, name) {
        Some(class) => Ok(Some(class.value())),
        None => Err(write.forbidden(pod, format!("pod rejected: RuntimeClass {name:?} not found"))),
    }
}

/// Returns the overhead of a class that sets one.
fn overhead_of(class: &Value) -> Option<&Value> {
    class.get("overhead").filter(|overhead| overhead.is_object())?.get("podFixed")
}

/// Leaves out tolerations that others include. Of equal ones the first is kept.
fn without_redundant(all: Vec<Value>) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for (index, toleration) in all.iter().enumerate() {
        let by_earlier = merged.iter().any(|kept| includes(kept, toleration));
        let later = all.iter().skip(index + 1);
        let by_later = later.filter(|later| *later != toleration).any(|later| includes(later, toleration));
        if !by_earlier && !by_later {
            merged.push(toleration.clone());
        }
    }
    merged
}

/// Returns whether one toleration tolerates all that another one does.
fn includes(all: &Value, one: &Value) -> bool {
    let [all_of, one_of] = [all, one].map(|toleration| move |key: &'static str| text_at(toleration, &[key]));
    let seconds = |toleration: &Value| toleration.get("tolerationSeconds").and_then(Value::as_i64);
    if all == one {
        return true;
    }
    let every_key = all_of("key").is_empty() && all_of("operator") == "Exists";
    let has_key = every_key || all_of("key") == one_of("key");
    let has_effect = all_of("effect").is_empty() || all_of("effect") == one_of("effect");
    let is_as_long = match (all_of("effect"), seconds(all)) {
        ("NoExecute", Some(longest)) => seconds(one).is_some_and(|seconds| seconds <= longest),
        _ => true,
    };
    let has_value = match all_of("operator") {
        "Exists" => true,
        "Equal" | "" => one_of("operator") == "Equal" && one_of("value") == all_of("value"),
        _ => false,
    };
    has_key && has_effect && is_as_long && has_value
}
