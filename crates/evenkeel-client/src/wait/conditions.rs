//! Conditions for [`wait_for`](super::wait_for): functions of an object that may not exist.
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

/// The object exists.
pub fn exists<K>() -> impl Fn(Option<&Obj<K>>) -> bool + Clone {
    |object: Option<&Obj<K>>| object.is_some()
}

/// The object does not exist. An object that is being deleted still exists.
pub fn is_deleted<K>() -> impl Fn(Option<&Obj<K>>) -> bool + Clone {
    |object: Option<&Obj<K>>| object.is_none()
}

/// The object with this uid does not exist; another one of the same name may.
pub fn is_deleted_or_replaced<K>(uid: impl Into<String>) -> impl Fn(Option<&Obj<K>>) -> bool + Clone {
    let uid = uid.into();
    move |object: Option<&Obj<K>>| object.is_none_or(|object| object.uid() != uid)
}

/// The object exists, and this condition in its `status.conditions` is `True`.
///
/// A stale condition does not count: the `observedGeneration` of the condition, or else of the status, must not be
/// older than the object's generation.
pub fn condition_true<K>(condition: impl Into<String>) -> impl Fn(Option<&Obj<K>>) -> bool + Clone {
    condition_is(condition, "True")
}

/// As [`condition_true`], for another status: `False`, `Unknown`.
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

/// An entry of `status.conditions`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TypeMetaFields<'a> {
    #[serde(borrow, rename = "type")]
    condition: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
    observed_generation: Option<i64>,
}

fn states<K>(object: &Obj<K>, condition: &str, status: &str) -> bool {
    // A status that cannot be decoded has no conditions.
    let Ok(Some(conditions)) = object.path("status.conditions") else { return false };
    let stated: Vec<TypeMetaFields<'_>> = serde_json::from_str(conditions.json()).unwrap_or_default();
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
