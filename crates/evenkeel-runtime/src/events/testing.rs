//! Shared helpers of the event tests.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;

use super::names::event_name;
use super::{Event, Occurrence, Reporter};

/// Some day in 2024.
pub(crate) const START: i64 = 1_714_521_600;

pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_second(START + i64::try_from(seconds).unwrap()).unwrap()
}

pub(crate) fn reference(kind: &str, name: &str) -> ObjectReference {
    let text = |text: &str| Some(text.to_owned());
    ObjectReference {
        api_version: text("v1"),
        kind: text(kind),
        namespace: text("ns"),
        name: text(name),
        uid: Some(format!("uid-of-{name}")),
        resource_version: text("7"),
        field_path: None,
    }
}

pub(crate) fn reporter() -> Arc<Reporter> {
    Arc::new(Reporter { controller: "kubelet".into(), instance: "kubelet-one".into(), host: Some("node".into()) })
}

/// Returns an occurrence of the event this many seconds after the start.
pub(crate) fn occurrence(event: Event, seconds: u64) -> Occurrence {
    let (at, since_start) = (at(seconds), Duration::from_secs(seconds));
    Occurrence::new(event, &reporter(), at, since_start, |object| event_name(object, at.as_nanosecond(), 0)).unwrap()
}

/// A warning about the pod `web`.
pub(crate) fn warning(reason: &str, note: &str) -> Event {
    Event::warning(reason).note(note).regarding(&reference("Pod", "web"))
}

pub(crate) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
