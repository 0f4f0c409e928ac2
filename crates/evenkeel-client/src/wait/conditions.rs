//! Conditions for [`wait_for`](super::wait_for): functions of an object that may not exist.
//!
//! ```
//! use evenkeel_client::wait::conditions::{and, exists, is_deleted, not, or, pod_ready};
//! use evenkeel_core::Obj;
//! use k8s_openapi::api::core::v1::Pod;
//!
//! let ready_or_gone = or(pod_ready(), is_deleted::<Pod>());
//! let has_node = |pod: &Obj<Pod>| matches!(pod.path("spec.nodeName"), Ok(Some(_)));
//! let placed = and(exists(), move |pod: Option<&Obj<Pod>>| pod.is_some_and(has_node));
//! assert!(ready_or_gone(None).is_met() && placed(None).is_pending() && not(exists::<Pod>())(None).is_met());
//! ```
//!
//! A condition returns a boolean, or a [`ConditionState`], which can also say that waiting is in vain: a pod that has
//! failed is never ready. Conditions of a kind work with any type of object: `Pod`, `DynamicObject` or one of your own.
//! They are pending while the object does not exist.

mod kinds;
mod rollouts;

use std::borrow::Cow;

use evenkeel_core::Obj;
use serde::Deserialize;

use super::condition_state::ConditionState;

pub use kinds::{
    api_service_available, crd_established, ingress_load_balancer_ready, job_complete, job_finished, namespace_active,
    node_ready, pod_finished, pod_ready, pvc_bound, service_load_balancer_ready,
};
pub use rollouts::{daemon_set_rolled_out, deployment_available, deployment_rolled_out, stateful_set_rolled_out};

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

/// Both hold. Never if one of them never holds.
pub fn and<K, A: Into<ConditionState>, B: Into<ConditionState>>(
    first: impl Fn(Option<&Obj<K>>) -> A,
    second: impl Fn(Option<&Obj<K>>) -> B,
) -> impl Fn(Option<&Obj<K>>) -> ConditionState {
    move |object: Option<&Obj<K>>| match (first(object).into(), second(object).into()) {
        (never @ ConditionState::Never(_), _) | (_, never @ ConditionState::Never(_)) => never,
        (ConditionState::Met, ConditionState::Met) => ConditionState::Met,
        _ => ConditionState::Pending,
    }
}

/// At least one holds. Never if both never hold.
pub fn or<K, A: Into<ConditionState>, B: Into<ConditionState>>(
    first: impl Fn(Option<&Obj<K>>) -> A,
    second: impl Fn(Option<&Obj<K>>) -> B,
) -> impl Fn(Option<&Obj<K>>) -> ConditionState {
    move |object: Option<&Obj<K>>| match (first(object).into(), second(object).into()) {
        (ConditionState::Met, _) | (_, ConditionState::Met) => ConditionState::Met,
        (ConditionState::Never(first), ConditionState::Never(second)) => {
            ConditionState::Never(format!("{first}; {second}"))
        }
        _ => ConditionState::Pending,
    }
}

/// It does not hold, now or never.
pub fn not<K, C: Into<ConditionState>>(
    condition: impl Fn(Option<&Obj<K>>) -> C,
) -> impl Fn(Option<&Obj<K>>) -> ConditionState {
    move |object: Option<&Obj<K>>| (!condition(object).into().is_met()).into()
}

/// An entry of `status.conditions`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusCondition<'a> {
    #[serde(borrow, rename = "type")]
    condition: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(borrow, default)]
    reason: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    message: Option<Cow<'a, str>>,
    observed_generation: Option<i64>,
}

fn states<K>(object: &Obj<K>, condition: &str, status: &str) -> bool {
    stated(object, condition, status).is_some()
}

/// Returns the reason and the message of a condition with this status; `None` if the object does not have it, or for
/// an older generation.
fn stated<K>(object: &Obj<K>, condition: &str, status: &str) -> Option<String> {
    // A status that cannot be decoded has no conditions.
    let conditions = object.path("status.conditions").ok()??;
    let stated: Vec<StatusCondition<'_>> = serde_json::from_str(conditions.json()).unwrap_or_default();
    let found = stated.iter().find(|stated| stated.condition.eq_ignore_ascii_case(condition))?;
    let status_as_a_whole = || object.path("status.observedGeneration").ok()?.and_then(|value| value.as_i64());
    let observed = found.observed_generation.or_else(status_as_a_whole);
    let outdated = observed.zip(object.generation()).is_some_and(|(observed, current)| observed < current);
    if outdated || !found.status.eq_ignore_ascii_case(status) {
        return None;
    }
    let details = [found.reason.as_deref(), found.message.as_deref()];
    let details: Vec<&str> = details.into_iter().flatten().filter(|text| !text.is_empty()).collect();
    Some(details.join(": "))
}

#[cfg(test)]
mod tests;
