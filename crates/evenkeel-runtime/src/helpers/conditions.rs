//! Conditions of a status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Sets a condition: the one of its type, or a new one at the end. Answers whether anything has changed.
///
/// The time of `condition` is when this was found out. It becomes the time of the last transition if the condition is new, or if
/// its status has changed; else the time stays what it was. An `observed_generation` of `None` leaves none behind.
///
/// ```
/// use evenkeel_runtime::helpers::{is_condition_true, set_condition};
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
/// # fn example(now: Time, generation: Option<i64>) {
/// let mut conditions = Vec::new();
/// let ready = Condition {
///     type_: "Ready".into(),
///     status: "True".into(),
///     reason: "AllThere".into(),
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

/// Removes the condition of this type. Answers whether it was there.
pub fn remove_condition(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.len() < before
}

/// The condition of this type.
pub fn find_condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether there is a condition of this type and its status is `True`.
pub fn is_condition_true(conditions: &[Condition], type_: &str) -> bool {
    find_condition(conditions, type_).is_some_and(|condition| condition.status == "True")
}
