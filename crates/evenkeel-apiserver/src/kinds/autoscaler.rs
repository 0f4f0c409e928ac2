//! Validation of HorizontalPodAutoscalers.

use evenkeel_core::quantity::ExactQuantity;
use serde_json::Value;

use super::fill::{at, list_at, quantity, text_at};
use crate::field::{FieldError, is_full};
use crate::meta::{NEGATIVE, dns_label, path_segment, refuse};

const MAX_PERIOD_SECONDS: i64 = 1800;
const MAX_WINDOW_SECONDS: i64 = 3600;
const SELECT_POLICIES: [&str; 3] = ["Disabled", "Max", "Min"];
const POLICY_TYPES: [&str; 2] = ["Percent", "Pods"];
const METRIC_TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
/// The sources of a metric, in the order in which they are checked.
const SOURCES: [&str; 5] = ["object", "external", "pods", "resource", "containerResource"];

/// Validates an autoscaler in version v1 or v2.
pub(super) fn validate(autoscaler: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(spec) = at(autoscaler, &["spec"]) else { return errors };
    let min = at(spec, &["minReplicas"]).and_then(Value::as_i64);
    let max = at(spec, &["maxReplicas"]).and_then(Value::as_i64).unwrap_or_default();
    if let Some(min) = min.filter(|min| *min < 0) {
        errors.push(FieldError::invalid("spec.minReplicas", &min.into(), NEGATIVE));
    }
    if max == 0 {
        errors.push(FieldError::required("spec.maxReplicas", "must be set and greater than 0"));
    } else if max < 0 {
        errors.push(FieldError::invalid("spec.maxReplicas", &max.into(), "must be greater than or equal to 1"));
    }
    if min.is_some_and(|min| max < min) {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid("spec.maxReplicas", &max.into(), detail));
    }
    object_reference(&mut errors, at(spec, &["scaleTargetRef"]), "spec.scaleTargetRef");
    metrics(&mut errors, spec, min);
    for direction in ["scaleUp", "scaleDown"] {
        if let Some(rules) = at(spec, &["behavior", direction]) {
            scaling_rules(&mut errors, rules, &format!("spec.behavior.{direction}"));
        }
    }
    errors
}

fn object_reference(errors: &mut Vec<FieldError>, reference: Option<&Value>, path: &str) {
    let reference = reference.unwrap_or(&Value::Null);
    for key in ["kind", "name"] {
        match text_at(reference, &[key]) {
            "" => errors.push(FieldError::required(format!("{path}.{key}"), "")),
            text => refuse(errors, format_args!("{path}.{key}"), text, path_segment(text)),
        }
    }
    let version = text_at(reference, &["apiVersion"]);
    if version.matches('/').count() > 1 {
        let detail = format!("unexpected GroupVersion string: {version}");
        errors.push(FieldError::invalid(format!("{path}.apiVersion"), &version.into(), detail));
    }
}

fn metrics(errors: &mut Vec<FieldError>, spec: &Value, min: Option<i64>) {
    // Version v1 has one metric in a field of its own.
    let percent = at(spec, &["targetCPUUtilizationPercentage"]);
    if let Some(percent) = percent.filter(|percent| percent.as_i64().is_some_and(|percent| percent < 1)) {
        let path = "spec.metrics[0].resource.target.averageUtilization";
        errors.push(FieldError::invalid(path, percent, "must be greater than 0"));
    }
    let metrics = list_at(spec, &["metrics"]);
    for (index, metric) in metrics.iter().enumerate() {
        if is_full(errors) {
            return;
        }
        validate_metric(errors, metric, &format!("spec.metrics[{index}]"));
    }
    let scales_to_zero = metrics.iter().any(|metric| matches!(text_at(metric, &["type"]), "Object" | "External"));
    if min == Some(0) && !scales_to_zero {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden("spec.metrics", detail));
    }
}

fn validate_metric(errors: &mut Vec<FieldError>, metric: &Value, path: &str) {
    let kind = text_at(metric, &["type"]);
    let is_known = METRIC_TYPES.contains(&kind);
    let unsupported = FieldError::not_supported(format!("{path}.type"), &kind.into(), &METRIC_TYPES);
    if kind.is_empty() {
        errors.push(FieldError::required(format!("{path}.type"), "must specify a metric source type"));
    }
    if !is_known {
        errors.push(unsupported.clone());
    }
    let present: Vec<&str> = SOURCES.into_iter().filter(|source| at(metric, &[source]).is_some()).collect();
    if let Some(source) = present.first() {
        metric_source(errors, source, &metric[*source], &format!("{path}.{source}"));
    }
    let mut expected = kind.to_owned();
    if let Some(first) = expected.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    if !is_known {
        errors.push(unsupported);
    } else if !present.contains(&expected.as_str()) {
        let detail = "must populate information for the given metric source";
        errors.push(FieldError::required(format!("{path}.{expected}"), detail));
    }
    if present.len() != 1 {
        for source in present.iter().filter(|source| **source != expected) {
            let detail = "must populate the given metric source only";
            errors.push(FieldError::forbidden(format!("{path}.{source}"), detail));
        }
    }
}

fn metric_source(errors: &mut Vec<FieldError>, kind: &str, source: &Value, path: &str) {
    match kind {
        "resource" | "containerResource" => {
            let name = text_at(source, &["name"]);
            if name.is_empty() {
                errors.push(FieldError::required(format!("{path}.name"), "must specify a resource name"));
            }
            if kind == "containerResource" {
                match text_at(source, &["container"]) {
                    "" => errors.push(FieldError::required(format!("{path}.container"), "must specify a container")),
                    container => refuse(errors, format_args!("{path}.container"), container, dns_label(container)),
                }
            }
        }
        _ => {
            if kind == "object" {
                object_reference(errors, at(source, &["describedObject"]), &format!("{path}.describedObject"));
            }
            let path = format!("{path}.metric.name");
            match text_at(source, &["metric", "name"]) {
                "" => errors.push(FieldError::required(path, "must specify a metric name")),
                name => refuse(errors, &path, name, path_segment(name)),
            }
        }
    }
    let target = at(source, &["target"]).unwrap_or(&Value::Null);
    let path = format!("{path}.target");
    metric_target(errors, target, &path);
    let has = |key: &str| at(target, &[key]).is_some();
    let (value, average, utilization) = (has("value"), has("averageValue"), has("averageUtilization"));
    let average_path = format!("{path}.averageValue");
    match kind {
        "object" if !value && !average => {
            errors.push(FieldError::required(average_path, "must set either a target value or averageValue"));
        }
        "external" if !value && !average => {
            let detail = "must set either a target value for metric or a per-pod target";
            errors.push(FieldError::required(average_path, detail));
        }
        "external" if value && average => {
            let detail = "may not set both a target value for metric and a per-pod target";
            errors.push(FieldError::forbidden(format!("{path}.value"), detail));
        }
        "pods" if !average => {
            errors.push(FieldError::required(average_path, "must specify a positive target averageValue"));
        }
        "resource" | "containerResource" if !utilization && !average => {
            let detail = "must set either a target raw value or a target utilization";
            errors.push(FieldError::required(format!("{path}.averageUtilization"), detail));
        }
        "resource" | "containerResource" if utilization && average => {
            let detail = "may not set both a target raw value and a target utilization";
            errors.push(FieldError::forbidden(average_path, detail));
        }
        _ => {}
    }
}

fn metric_target(errors: &mut Vec<FieldError>, target: &Value, path: &str) {
    let kind = text_at(target, &["type"]);
    if kind.is_empty() {
        errors.push(FieldError::required(format!("{path}.type"), "must specify a metric target type"));
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid(format!("{path}.type"), &kind.into(), detail));
    }
    for key in ["value", "averageValue"] {
        if let Some(value) = at(target, &[key])
            && quantity(value).is_some_and(|quantity| quantity <= ExactQuantity::default())
        {
            errors.push(FieldError::invalid(format!("{path}.{key}"), value, "must be positive"));
        }
    }
    if let Some(percent) = at(target, &["averageUtilization"])
        && percent.as_i64().is_some_and(|percent| percent < 1)
    {
        errors.push(FieldError::invalid(format!("{path}.averageUtilization"), percent, "must be greater than 0"));
    }
}

fn scaling_rules(errors: &mut Vec<FieldError>, rules: &Value, path: &str) {
    if let Some(window) = at(rules, &["stabilizationWindowSeconds"]) {
        let path = format!("{path}.stabilizationWindowSeconds");
        match window.as_i64().unwrap_or_default() {
            ..0 => errors.push(FieldError::invalid(path, window, "must be greater than or equal to zero")),
            seconds if seconds > MAX_WINDOW_SECONDS => {
                let detail = format!("must be less than or equal to {MAX_WINDOW_SECONDS}");
                errors.push(FieldError::invalid(path, window, detail));
            }
            _ => {}
        }
    }
    if let Some(select) = at(rules, &["selectPolicy"])
        && !select.as_str().is_some_and(|select| SELECT_POLICIES.contains(&select))
    {
        errors.push(FieldError::not_supported(format!("{path}.selectPolicy"), select, &SELECT_POLICIES));
    }
    let policies = list_at(rules, &["policies"]);
    if policies.is_empty() {
        errors.push(FieldError::required(format!("{path}.policies"), "must specify at least one Policy"));
    }
    for (index, policy) in policies.iter().enumerate() {
        if is_full(errors) {
            return;
        }
        scaling_policy(errors, policy, &format!("{path}.policies[{index}]"));
    }
    if let Some(tolerance) = at(rules, &["tolerance"])
        && quantity(tolerance).is_some_and(|tolerance| tolerance < ExactQuantity::default())
    {
        errors.push(FieldError::invalid(format!("{path}.tolerance"), tolerance, NEGATIVE));
    }
}

fn scaling_policy(errors: &mut Vec<FieldError>, policy: &Value, path: &str) {
    let kind = text_at(policy, &["type"]);
    if !POLICY_TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(format!("{path}.type"), &kind.into(), &POLICY_TYPES));
    }
    for key in ["value", "periodSeconds"] {
        let number = at(policy, &[key]).and_then(Value::as_i64).unwrap_or_default();
        if number <= 0 {
            errors.push(FieldError::invalid(format!("{path}.{key}"), &number.into(), "must be greater than zero"));
        } else if key == "periodSeconds" && number > MAX_PERIOD_SECONDS {
            let detail = format!("must be less than or equal to {MAX_PERIOD_SECONDS}");
            errors.push(FieldError::invalid(format!("{path}.{key}"), &number.into(), detail));
        }
    }
}
