//! Events, in both forms: `v1`, and `events.k8s.io/v1` with renamed fields.

use serde_json::Value;

use crate::field::FieldError;
use crate::meta::{qualified_name, refuse};

use super::check::same;
use super::fill::{
    Constant::{Empty, Null, Text},
    DefaultRule, Object, absent, at, fill, text_at,
};

/// Each field's name in `v1`, and in `events.k8s.io/v1`. Errors use the former.
pub(super) const FORMS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];
const WORD_MAX: usize = 128;
const NOTE_MAX: usize = 1024;

const EVENT: &[DefaultRule] = &[
    absent("involvedObject", Empty),
    absent("source", Empty),
    absent("firstTimestamp", Null),
    absent("lastTimestamp", Null),
    absent("eventTime", Null),
    absent("reportingComponent", Text("")),
    absent("reportingInstance", Text("")),
];
const NEW_EVENT: &[DefaultRule] = &[
    absent("regarding", Empty),
    absent("deprecatedSource", Empty),
    absent("deprecatedFirstTimestamp", Null),
    absent("deprecatedLastTimestamp", Null),
    absent("eventTime", Null),
];

/// Writes the times of events even when they are not set. `group` is `""` or `events.k8s.io`.
pub(super) fn default_event(object: &mut Object, group: &str) {
    fill(object, if group.is_empty() { EVENT } else { NEW_EVENT });
}

/// Checks an event in the form of `group`.
pub(super) fn validate_create(object: &Value, group: &str) -> Vec<FieldError> {
    let mut errors = validate_any(object, group);
    if group.is_empty() {
        return errors;
    }
    validate_series(&mut errors, object);
    let mut refuse = |path: &str, detail: &str| errors.push(FieldError::invalid(path, &Value::from(""), detail));
    let kind = text_at(object, &["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        refuse("type", &format!("has invalid value: {kind}"));
    }
    for (path, key) in [
        ("firstTimestamp", "deprecatedFirstTimestamp"),
        ("lastTimestamp", "deprecatedLastTimestamp"),
        ("count", "deprecatedCount"),
        ("source", "deprecatedSource"),
    ] {
        let zero = at(object, &[key]).is_some_and(|value| value.as_i64() == Some(0));
        if !zero && !same(object.get(key), None) {
            refuse(path, "needs to be unset");
        }
    }
    if at(object, &["eventTime"]).is_none() {
        errors.push(FieldError::required("eventTime", ""));
    }
    errors
}

/// Requires that an event of the newer form is unchanged, except for its series.
pub(super) fn validate_update(new: &Value, old: &Value, group: &str) -> Vec<FieldError> {
    let mut errors = validate_any(new, group);
    if group.is_empty() {
        return errors;
    }
    if !same(new.get("series"), old.get("series")) {
        validate_series(&mut errors, new);
    }
    let renamed = FORMS.iter().filter(|(path, _)| *path != "reportingComponent").copied();
    let kept = ["reason", "type", "eventTime", "action", "related", "reportingController", "reportingInstance"];
    for (path, key) in renamed.chain(kept.map(|key| (key, key))) {
        if !same(new.get(key), old.get(key)) {
            let value = new.get(key).unwrap_or(&Value::Null);
            errors.push(FieldError::invalid(path, value, "field is immutable"));
        }
    }
    errors
}

fn validate_any(object: &Value, group: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (subject, note, reporter) = if group.is_empty() {
        ("involvedObject", "message", "reportingComponent")
    } else {
        ("regarding", "note", "reportingController")
    };
    let namespace = text_at(object, &["metadata", "namespace"]);
    let about = text_at(object, &[subject, "namespace"]);
    let is_new = at(object, &["eventTime"]).is_some();
    let fits = match (is_new, about) {
        (false, "") => matches!(namespace, "" | "default"),
        (false, about) => about == namespace,
        (true, "") => matches!(namespace, "default" | "kube-system"),
        (true, _) => true,
    };
    if !fits {
        let detail = "does not match event.namespace";
        errors.push(FieldError::invalid("involvedObject.namespace", &Value::from(about), detail));
    }
    if !is_new {
        return errors;
    }
    let controller = text_at(object, &[reporter]);
    if controller.is_empty() {
        errors.push(FieldError::required(reporter, ""));
    }
    refuse(&mut errors, reporter, controller, qualified_name(controller));
    for key in ["reportingInstance", "action", "reason"] {
        let word = text_at(object, &[key]);
        if word.is_empty() {
            errors.push(FieldError::required(key, ""));
        }
        limit(&mut errors, key, word, WORD_MAX);
    }
    limit(&mut errors, "message", text_at(object, &[note]), NOTE_MAX);
    errors
}

fn limit(errors: &mut Vec<FieldError>, path: &str, value: &str, max: usize) {
    if value.len() > max {
        let detail = format!("can have at most {max} characters");
        errors.push(FieldError::invalid(path, &Value::from(""), detail));
    }
}

fn validate_series(errors: &mut Vec<FieldError>, object: &Value) {
    let Some(series) = at(object, &["series"]) else {
        return;
    };
    if series.get("count").and_then(Value::as_i64).unwrap_or_default() < 2 {
        errors.push(FieldError::invalid("series.count", &Value::from(""), "should be at least 2"));
    }
    if at(series, &["lastObservedTime"]).is_none() {
        errors.push(FieldError::required("series.lastObservedTime", ""));
    }
}
