//! Conversion of the kinds with two stored forms: events and autoscalers.
//!
//! All other kinds are the same in every served version, so only their `apiVersion` is rewritten.

use serde_json::{Value, json};

use super::fill::{Object, child, ensure, is_empty, text};
use super::{events, policy};

/// Annotations for fields that v1 autoscalers lack, as JSON in the form of v2.
const AUTOSCALER_ANNOTATIONS: [(&str, &str, &str); 4] = [
    ("spec", "metrics", "autoscaling.alpha.kubernetes.io/metrics"),
    ("spec", "behavior", "autoscaling.alpha.kubernetes.io/behavior"),
    ("status", "currentMetrics", "autoscaling.alpha.kubernetes.io/current-metrics"),
    ("status", "conditions", "autoscaling.alpha.kubernetes.io/conditions"),
];
/// For each of the two CPU utilizations: the field of v1, the list of v2, and the key of the number in the metric.
const CPU_FIELDS: [(&str, &str, &str, &str); 2] = [
    ("spec", "targetCPUUtilizationPercentage", "metrics", "target"),
    ("status", "currentCPUUtilizationPercentage", "currentMetrics", "current"),
];

/// Converts an object, whose current version is in its `apiVersion`, to another version (MSC-1).
pub(crate) fn convert(kind: &str, object: &mut Value, api_version: &str) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    if text(object, "apiVersion") == api_version {
        return;
    }
    let from = object.insert("apiVersion".into(), api_version.into());
    match (kind, from.as_ref().and_then(Value::as_str), api_version) {
        ("Event", Some("v1"), "events.k8s.io/v1") => {
            rename(object, events::FORMS);
            for key in ["reportingController", "reportingInstance"] {
                if is_empty(object.get(key)) {
                    object.remove(key);
                }
            }
            events::default_event(object, "events.k8s.io");
        }
        ("Event", Some("events.k8s.io/v1"), "v1") => {
            rename(object, events::FORMS.map(|(old, new)| (new, old)));
            events::default_event(object, "");
        }
        ("HorizontalPodAutoscaler", Some("autoscaling/v1"), "autoscaling/v2") => {
            autoscaler_to_second(object);
            policy::default_autoscaler(object, "v2");
        }
        ("HorizontalPodAutoscaler", Some("autoscaling/v2"), "autoscaling/v1") => autoscaler_to_first(object),
        _ => {}
    }
}

fn rename<const N: usize>(object: &mut Object, names: [(&str, &str); N]) {
    for (from, to) in names {
        if let Some(value) = object.remove(from) {
            object.insert(to.to_owned(), value);
        }
    }
}

fn autoscaler_to_second(object: &mut Object) {
    for (part, key, annotation) in AUTOSCALER_ANNOTATIONS {
        let annotations = child(object, "metadata").and_then(|metadata| child(metadata, "annotations"));
        let kept = annotations.and_then(|annotations| annotations.remove(annotation));
        // An annotation with other contents is ignored.
        let Some(value) = kept.and_then(|kept| serde_json::from_str::<Value>(kept.as_str()?).ok()) else {
            continue;
        };
        if let Some(part) = ensure(object, part) {
            part.insert(key.to_owned(), value);
        }
    }
    for (part, field, list, side) in CPU_FIELDS {
        let Some(part) = child(object, part) else { continue };
        let Some(percent) = part.remove(field).filter(|percent| !percent.is_null()) else {
            continue;
        };
        let mut metric = json!({"type": "Resource", "resource": {"name": "cpu"}});
        metric["resource"][side] = json!({"averageUtilization": percent});
        if side == "target" {
            metric["resource"][side]["type"] = "Utilization".into();
        }
        match part.get_mut(list) {
            Some(Value::Array(metrics)) => metrics.insert(0, metric),
            _ => {
                part.insert(list.to_owned(), json!([metric]));
            }
        }
    }
    if let Some(metadata) = child(object, "metadata")
        && is_empty(metadata.get("annotations"))
    {
        metadata.remove("annotations");
    }
}

fn autoscaler_to_first(object: &mut Object) {
    for (part, field, list, side) in CPU_FIELDS {
        let Some(part) = child(object, part) else { continue };
        let Some(metrics) = part.get_mut(list).and_then(Value::as_array_mut) else {
            continue;
        };
        let share = |metric: &Value| {
            let resource = metric.get("resource").filter(|resource| resource.get("name") == Some(&"cpu".into()))?;
            resource.get(side)?.get("averageUtilization").filter(|share| share.is_i64()).cloned()
        };
        let found = metrics.iter().enumerate().find_map(|(index, metric)| Some((index, share(metric)?)));
        if let Some((index, percent)) = found {
            metrics.remove(index);
            part.insert(field.to_owned(), percent);
        }
    }
    for (part, key, annotation) in AUTOSCALER_ANNOTATIONS {
        let value = child(object, part).and_then(|part| part.remove(key));
        let Some(value) = value.filter(|value| !is_empty(Some(value))) else {
            continue;
        };
        let annotations = ensure(object, "metadata").and_then(|metadata| ensure(metadata, "annotations"));
        if let Some(annotations) = annotations {
            annotations.insert(annotation.to_owned(), value.to_string().into());
        }
    }
    if let Some(status) = ensure(object, "status") {
        status.entry("currentReplicas").or_insert(0.into());
        status.entry("desiredReplicas").or_insert(0.into());
    }
}

#[cfg(test)]
mod tests;
