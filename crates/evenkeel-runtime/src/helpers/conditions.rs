//! Conditions of a status, as `meta.SetStatusCondition` of apimachinery.

use crate::environment::time_of_day;
use evenkeel_core::Obj;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Returns a condition of an object, for [`set_condition`]: observed at the generation of the object, at the current time.
///
/// A `status` of `true` is `True`, of `false` `False`, of `None` `Unknown`. `reason` is a CamelCase word for programs, `message` a
/// sentence for people.
///
/// ```
/// use evenkeel_runtime::helpers::{condition, set_condition};
/// # use evenkeel_core::Obj;
/// # use k8s_openapi::api::apps::v1::Deployment;
/// # use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
/// # fn example(web: &Obj<Deployment>, conditions: &mut Vec<Condition>) {
/// set_condition(conditions, condition(web, "Ready", false, "RollingOut", "one of three replicas"));
/// # }
/// ```
pub fn condition<K>(
    object: &Obj<K>,
    type_: &str,
    status: impl Into<Option<bool>>,
    reason: &str,
    message: impl Into<String>,
) -> Condition {
    let status = match status.into() {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    };
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        observed_generation: object.generation(),
        last_transition_time: Time(time_of_day()),
    }
}

/// Replaces the condition of this type, or appends it. Returns whether anything has changed.
///
/// `last_transition_time` of `condition` is used if the condition is new or its status has changed; otherwise the previous time is
/// kept. An `observed_generation` of `None` removes the previous one.
///
/// ```
/// use evenkeel_runtime::helpers::{is_condition_true, set_condition};
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
/// # fn example(now: Time, generation: Option<i64>) {
/// let mut conditions = Vec::new();
/// let ready = Condition {
///     type_: "Ready".into(),
///     status: "True".into(),
///     reason: "AllReady".into(),
///     message: "three of three".into(),
///     observed_generation: generation,
///     last_transition_time: now,
/// };
/// assert!(set_condition(&mut conditions, ready.clone()));
/// assert!(!set_condition(&mut conditions, ready));
/// assert!(is_condition_true(&conditions, "Ready"));
/// # }
/// ```
pub fn set_condition(conditions: &mut Vec<Condition>, mut condition: Condition) -> bool {
    let Some(current) = conditions.iter_mut().find(|current| current.type_ == condition.type_) else {
        conditions.push(condition);
        return true;
    };
    if current.status == condition.status {
        condition.last_transition_time = current.last_transition_time.clone();
    }
    let changed = *current != condition;
    *current = condition;
    changed
}

/// Removes the condition of this type. Returns whether it existed.
pub fn remove_condition(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.len() < before
}

/// Returns the condition of this type.
pub fn find_condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Returns whether a condition of this type exists and has the status `True`.
pub fn is_condition_true(conditions: &[Condition], type_: &str) -> bool {
    find_condition(conditions, type_).is_some_and(|condition| condition.status == "True")
}
