//! Conditions for [`wait_for`](super::wait_for): plain functions of an object that may be there or not.
//!
//! ```
//! use evenkeel_client::wait::conditions::{and, condition_true, exists, is_deleted, not, or};
//! use evenkeel_core::Obj;
//! use k8s_openapi::api::core::v1::Pod;
//!
//! let ready_or_gone = or(condition_true("Ready"), is_deleted::<Pod>());
//! let has_node = |pod: &Obj<Pod>| matches!(pod.path("spec.nodeName"), Ok(Some(_)));
//! let placed = and(exists(), move |pod: Option<&Obj<Pod>>| pod.is_some_and(has_node));
//! assert!(ready_or_gone(None) && !placed(None) && not(exists::<Pod>())(None));
//! ```

use std::borrow::Cow;

use evenkeel_core::Obj;
use serde::Deserialize;

/// The object is there.
pub fn exists<K>() -> impl Fn(Option<&Obj<K>>) -> bool + Clone {
    |object: Option<&Obj<K>>| object.is_some()
}

/// The object is not there. One that has been asked to go, and has not gone yet, is.
pub fn is_deleted<K>() -> impl Fn(Option<&Obj<K>>) -> bool + Clone {
    |object: Option<&Obj<K>>| object.is_none()
}

/// The object of this uid is not there; there may be another one of the same name.
pub fn is_deleted_or_replaced<K>(uid: impl Into<String>) -> impl Fn(Option<&Obj<K>>) -> bool + Clone {
    let uid = uid.into();
    move |object: Option<&Obj<K>>| object.is_none_or(|object| object.uid() != uid)
}

/// The object is there, and in `status.conditions` says that this condition is `True`.
///
/// A condition that was last looked at before the object changed is not believed: if it, or else the status as a whole,
/// carries an `observedGeneration`, that must not be older than the object's own generation.
pub fn condition_true<K>(condition: impl Into<String>) -> impl Fn(Option<&Obj<K>>) -> bool + Clone {
    condition_is(condition, "True")
}

/// As [`condition_true`], for a condition of which another status is wanted: `False`, `Unknown`.
pub fn condition_is<K>(
    condition: impl Into<String>,
    status: impl Into<String>,
) -> impl Fn(Option<&Obj<K>>) -> bool + Clone {
    let (condition, status) = (condition.into(), status.into());
    move |object: Option<&Obj<K>>| object.is_some_and(|object| states(object, &condition, &status))
}

/// Both hold.
pub fn and<K>(
    first: impl Fn(Option<&Obj<K>>) -> bool,
    second: impl Fn(Option<&Obj<K>>) -> bool,
) -> impl Fn(Option<&Obj<K>>) -> bool {
    move |object: Option<&Obj<K>>| first(object) && second(object)
}

/// At least one holds.
pub fn or<K>(
    first: impl Fn(Option<&Obj<K>>) -> bool,
    second: impl Fn(Option<&Obj<K>>) -> bool,
) -> impl Fn(Option<&Obj<K>>) -> bool {
    move |object: Option<&Obj<K>>| first(object) || second(object)
}

/// It does not hold.
pub fn not<K>(condition: impl Fn(Option<&Obj<K>>) -> bool) -> impl Fn(Option<&Obj<K>>) -> bool {
    move |object: Option<&Obj<K>>| !condition(object)
}

/// An entry of `status.conditions`, as far as it matters here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stated<'a> {
    #[serde(borrow, rename = "type")]
    condition: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
    observed_generation: Option<i64>,
}

fn states<K>(object: &Obj<K>, condition: &str, status: &str) -> bool {
    // A status that cannot be read, or is not made like others, has no conditions that could be true.
    let Ok(Some(conditions)) = object.path("status.conditions") else { return false };
    let stated: Vec<Stated<'_>> = serde_json::from_str(conditions.json()).unwrap_or_default();
    let found = stated.iter().find(|stated| stated.condition.eq_ignore_ascii_case(condition));
    found.is_some_and(|found| {
        let status_as_a_whole = || object.path("status.observedGeneration").ok()?.and_then(|value| value.as_i64());
        let observed = found.observed_generation.or_else(status_as_a_whole);
        let outdated = observed.zip(object.generation()).is_some_and(|(observed, current)| observed < current);
        found.status.eq_ignore_ascii_case(status) && !outdated
    })
}

#[cfg(test)]
mod tests;
