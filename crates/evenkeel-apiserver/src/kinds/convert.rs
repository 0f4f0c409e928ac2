//! Kinds that have two forms over one store: events, and autoscalers.
//!
//! All other kinds look the same in every version that is served, so only their `apiVersion` is rewritten.

use serde_json::{Value, json};

use super::fill::{Object, child, ensure, is_empty, text};
use super::{events, policy};

/// What the first version of an autoscaler has no fields for is kept in annotations, as JSON in the form of the second.
const AUTOSCALER_ANNOTATIONS: [(&str, &str, &str); 4] = [
    ("spec", "metrics", "autoscaling.alpha.kubernetes.io/metrics"),
    ("spec", "behavior", "autoscaling.alpha.kubernetes.io/behavior"),
    ("status", "currentMetrics", "autoscaling.alpha.kubernetes.io/current-metrics"),
    ("status", "conditions", "autoscaling.alpha.kubernetes.io/conditions"),
];
/// For each of the two places where the use of CPU stands: the field of the first version, the list of the second, and
/// under which key of the metric the number is.
const CPU_FIELDS: [(&str, &str, &str, &str); 2] = [
    ("spec", "targetCPUUtilizationPercentage", "metrics", "target"),
    ("status", "currentCPUUtilizationPercentage", "currentMetrics", "current"),
];

/// Brings an object, whose present form its `apiVersion` tells, into the form of another version (MSC-1).
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
        // What somebody else wrote there is not ours to understand.
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
mod tests {
    use super::*;

    #[test]
    fn msc_1_events_are_readable_in_both_forms() {
        let mut event = json!({
            "apiVersion": "v1", "kind": "Event", "count": 1, "eventTime": null, "message": "hello", "reason": "Tested",
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
            "involvedObject": {"kind": "Pod", "name": "p"}, "reportingComponent": "", "reportingInstance": "",
            "source": {"component": "evenkeel"}, "type": "Normal",
        });
        let before = event.clone();
        convert("Event", &mut event, "events.k8s.io/v1");
        assert_eq!(
            event,
            json!({
                "apiVersion": "events.k8s.io/v1", "kind": "Event", "deprecatedCount": 1, "eventTime": null,
                "note": "hello", "reason": "Tested", "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
                "deprecatedLastTimestamp": "2026-01-01T00:00:00Z", "regarding": {"kind": "Pod", "name": "p"},
                "deprecatedSource": {"component": "evenkeel"}, "type": "Normal",
            })
        );
        convert("Event", &mut event, "v1");
        assert_eq!(event, before);
    }

    #[test]
    fn obj_14_an_autoscaler_keeps_everything_through_its_first_version() {
        let before = json!({
            "apiVersion": "autoscaling/v2", "metadata": {"name": "a"},
            "spec": {
                "behavior": {"scaleUp": {"policies": [], "selectPolicy": "Max", "stabilizationWindowSeconds": 0},
                             "scaleDown": {"policies": [], "selectPolicy": "Max"}},
                "maxReplicas": 3, "minReplicas": 1,
                "metrics": [
                    {"type": "Resource",
                     "resource": {"name": "cpu", "target": {"averageUtilization": 50, "type": "Utilization"}}},
                    {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"averageValue": "1"}}},
                ],
            },
            "status": {"currentReplicas": 1, "desiredReplicas": 1, "currentMetrics": [
                {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 42}}},
            ]},
        });
        let mut object = before.clone();
        convert("HorizontalPodAutoscaler", &mut object, "autoscaling/v1");
        assert_eq!(object["spec"]["targetCPUUtilizationPercentage"], 50);
        assert_eq!(object["spec"].get("metrics"), None);
        assert_eq!(object["status"]["currentCPUUtilizationPercentage"], 42);
        convert("HorizontalPodAutoscaler", &mut object, "autoscaling/v2");
        assert_eq!(object, before);
    }

    #[test]
    fn obj_14_other_kinds_change_their_api_version_only() {
        let mut object = json!({"apiVersion": "networking.k8s.io/v1beta1", "spec": {"cidrs": []}});
        convert("ServiceCIDR", &mut object, "networking.k8s.io/v1");
        assert_eq!(object, json!({"apiVersion": "networking.k8s.io/v1", "spec": {"cidrs": []}}));
    }
}
