//! The conditions of `evenkeel wait`: parsed, and evaluated on an object.

use evenkeel_client::Unstructured;
use evenkeel_client::wait::ConditionState;
use evenkeel_client::wait::conditions::{condition_is, is_deleted_or_replaced, job_complete, pod_ready};
use evenkeel_core::Obj;
use evenkeel_core::jsonpath::{Dialect, JsonPathError, JsonPathTemplate};
use serde_json::Value;

/// A condition to wait for.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    Create,
    Delete,
    Stated { kind: String, status: String },
    Path { text: String, template: JsonPathTemplate, value: Option<String> },
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Condition::Create, Condition::Create) | (Condition::Delete, Condition::Delete) => true,
            (Condition::Stated { kind, status }, Condition::Stated { kind: other, status: other_status }) => {
                (kind, status) == (other, other_status)
            }
            (Condition::Path { text, value, .. }, Condition::Path { text: other, value: other_value, .. }) => {
                (text, value) == (other, other_value)
            }
            _ => false,
        }
    }
}

/// Parses one of kubectl's forms.
pub(super) fn parse(text: &str) -> Result<Condition, String> {
    match text.to_lowercase().as_str() {
        "create" => return Ok(Condition::Create),
        "delete" => return Ok(Condition::Delete),
        _ => {}
    }
    if let Some(stated) = text.strip_prefix("condition=") {
        let (kind, status) = stated.split_once('=').unwrap_or((stated, "true"));
        if kind.is_empty() || status.is_empty() {
            return Err("a condition is condition=TYPE or condition=TYPE=STATUS".to_owned());
        }
        return Ok(Condition::Stated { kind: kind.to_owned(), status: status.to_owned() });
    }
    if let Some(expression) = text.strip_prefix("jsonpath=") {
        let (path, value) = split_path(expression);
        if path.is_empty() || value == Some("") {
            return Err("a path is jsonpath={.status.phase} or jsonpath={.status.phase}=Running".to_owned());
        }
        let template = JsonPathTemplate::parse_relaxed(path, Dialect::Kubectl).map_err(|error| error.to_string())?;
        let value = value.map(|value| value.trim_matches(['\'', '"']).to_owned());
        return Ok(Condition::Path { text: path.to_owned(), template: template.allow_missing_keys(true), value });
    }
    Err(format!("unrecognized condition: {text:?}"))
}

/// Splits a path from its value at the first `=` that is no part of a comparison.
fn split_path(expression: &str) -> (&str, Option<&str>) {
    let bytes = expression.as_bytes();
    let is_operator = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        matches!(before, Some(b'=' | b'!' | b'<' | b'>')) || bytes.get(at + 1) == Some(&b'=')
    };
    let single = expression.match_indices('=').map(|(at, _)| at).find(|at| !is_operator(*at));
    match single {
        Some(at) => (expression.get(..at).unwrap_or_default(), expression.get(at + 1..)),
        None => (expression, None),
    }
}

impl Condition {
    /// Returns what the condition says about an object. `uid` is that of the object that was there at the start.
    ///
    /// # Errors
    /// The path fits no object, or not this one.
    pub(super) fn state(
        &self,
        object: Option<&Obj<Unstructured>>,
        uid: Option<&str>,
    ) -> Result<ConditionState, String> {
        match self {
            Condition::Create => Ok(object.is_some().into()),
            Condition::Delete => Ok(is_deleted_or_replaced(uid.unwrap_or_default())(object).into()),
            Condition::Stated { kind, status } => Ok(stated(object, kind, status)),
            Condition::Path { template, value, .. } => match object {
                Some(object) => path(object, template, value.as_deref()).map(Into::into),
                None => Ok(ConditionState::Pending),
            },
        }
    }
}

/// The library knows when conditions of some kinds cannot be met any more.
fn stated(object: Option<&Obj<Unstructured>>, kind: &str, status: &str) -> ConditionState {
    let of = object.map(|object| object.kind()).unwrap_or_default();
    let is = |expected: &str| kind.eq_ignore_ascii_case(expected) && status.eq_ignore_ascii_case("true");
    let state: ConditionState = condition_is(kind, status)(object).into();
    match (of, state) {
        (_, ConditionState::Met) => ConditionState::Met,
        ("Pod", _) if is("Ready") => pod_ready()(object),
        ("Job", _) if is("Complete") => job_complete()(object),
        ("Job", _) if is("Failed") && job_complete()(object).is_met() => {
            ConditionState::Never("the job has completed".to_owned())
        }
        (_, state) => state,
    }
}

fn path(object: &Obj<Unstructured>, template: &JsonPathTemplate, expected: Option<&str>) -> Result<bool, String> {
    let document = object.typed().map_err(|error| error.to_string())?;
    let results = match template.results(&document.0) {
        Ok(results) => results,
        // The list may grow.
        Err(JsonPathError::OutOfBounds { .. }) => return Ok(false),
        Err(error) => return Err(error.to_string()),
    };
    let mut found = results.into_iter().flatten();
    match (found.next(), found.next()) {
        (None, _) => Ok(false),
        (Some(_), Some(_)) => Err("given jsonpath expression matches more than one value".to_owned()),
        (Some(value), None) => match (expected, value) {
            (None, _) => Ok(true),
            (Some(_), Value::Object(_) | Value::Array(_)) => {
                Err("jsonpath leads to a nested object or list which is not supported".to_owned())
            }
            (Some(expected), Value::String(text)) => Ok(text.trim() == expected.trim()),
            (Some(expected), scalar) => {
                let text = scalar.to_string();
                Ok(text == expected.trim())
            }
        },
    }
}

/// One of them is enough: met if one is, never if none can be any more.
pub(super) fn one_of(states: Vec<ConditionState>) -> ConditionState {
    let mut reasons = Vec::new();
    let mut is_pending = states.is_empty();
    for state in states {
        match state {
            ConditionState::Met => return ConditionState::Met,
            ConditionState::Pending => is_pending = true,
            ConditionState::Never(reason) => reasons.push(reason),
        }
    }
    if is_pending { ConditionState::Pending } else { ConditionState::Never(reasons.join("; ")) }
}
