use evenkeel_core::{Reason, Status};

use super::*;

#[test]
fn ref_054_expected_errors_have_low_log_levels() {
    let lost = || SourceError::Connection("lost".into());
    assert_eq!(log_level(&ReflectorError::Stream(Status::expired("old").into())), LogLevel::Debug);
    assert_eq!(log_level(&ReflectorError::List(Status::failure(410, Reason::GONE, "gone").into())), LogLevel::Debug);
    assert_eq!(log_level(&ReflectorError::Stream(lost())), LogLevel::Trace);
    assert_eq!(log_level(&ReflectorError::Watch(lost())), LogLevel::Debug);
    let forbidden = Status::failure(403, Reason::FORBIDDEN, "no");
    assert_eq!(log_level(&ReflectorError::Watch(forbidden.into())), LogLevel::Error);
    assert_eq!(log_level(&ReflectorError::List(lost())), LogLevel::Error);
}

#[test]
fn ref_023_the_error_has_its_source() {
    let error = ReflectorError::List(Status::expired("too old").into());
    assert_eq!(error.to_string(), "failed to list: too old");
    assert!(error.is_expired());
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<SourceError>());
    assert!(cause.is_some_and(SourceError::is_expired));
}

#[test]
fn a_failure_names_error_resource_and_recovery() {
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
        "pods (v1 Pod): very short watch: it ended within a second without an event; relisting in 800.0ms"
    );
}
