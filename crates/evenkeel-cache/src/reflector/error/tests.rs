use evenkeel_core::{Reason, Status};

use super::*;

#[test]
fn ref_054_what_happens_every_day_is_not_shouted() {
    let lost = || SourceError::Connection("lost".into());
    assert_eq!(loudness(&ReflectorError::Stream(Status::expired("old").into())), Loudness::Debug);
    assert_eq!(loudness(&ReflectorError::List(Status::failure(410, Reason::GONE, "gone").into())), Loudness::Debug);
    assert_eq!(loudness(&ReflectorError::Stream(lost())), Loudness::Trace);
    assert_eq!(loudness(&ReflectorError::Watch(lost())), Loudness::Debug);
    let forbidden = Status::failure(403, Reason::FORBIDDEN, "no");
    assert_eq!(loudness(&ReflectorError::Watch(forbidden.into())), Loudness::Error);
    assert_eq!(loudness(&ReflectorError::List(lost())), Loudness::Error);
}

#[test]
fn ref_023_the_cause_can_be_told_from_the_error() {
    let error = ReflectorError::List(Status::expired("too old").into());
    assert_eq!(error.to_string(), "failed to list: too old");
    assert!(error.is_expired());
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<SourceError>());
    assert!(cause.is_some_and(SourceError::is_expired));
}

#[test]
fn a_failure_says_what_happened_to_whom_and_what_is_next() {
    let failure = ReflectorFailure {
        reflector: "pods".into(),
        resource: Arc::new(ResourceInfo::new("", "v1", "Pod", "pods", true)),
        phase: ReflectorPhase::Watching,
        error: ReflectorError::VeryShortWatch,
        next: Recovery::Relist { after: Duration::from_millis(800) },
        attempt: 1,
    };
    assert_eq!(
        failure.to_string(),
        "pods (v1 Pod): very short watch: it ended within a second, and no event came; listing again in 800.0ms"
    );
}
