//! Validation of the durations.

use std::time::Duration;

use crate::election::config::{ConfigError, Timing};

fn millis(lease: u64, renew: u64, retry: u64) -> Timing {
    let [lease_duration, renew_deadline, retry_period] = [lease, renew, retry].map(Duration::from_millis);
    Timing { lease_duration, renew_deadline, retry_period, ..Timing::default() }
}

#[test]
fn le_001_invalid_durations_are_rejected_in_this_order() {
    assert_eq!(Timing::default().check(), Ok(()));
    assert_eq!(millis(2_000, 1_201, 1_000).check(), Ok(()));
    assert!(matches!(millis(10_000, 10_000, 20_000).check(), Err(ConfigError::LeaseDurationTooShort { .. })));
    assert!(matches!(millis(15_000, 2_400, 2_000).check(), Err(ConfigError::RenewDeadlineTooShort { .. })));
    assert_eq!(millis(15_000, 10_000, 0).check(), Err(ConfigError::Zero { what: "retry period" }));
    assert!(matches!(millis(15_000, 0, 0).check(), Err(ConfigError::RenewDeadlineTooShort { .. })));
    assert!(matches!(millis(0, 0, 0).check(), Err(ConfigError::LeaseDurationTooShort { .. })));
    let long = Timing { lease_duration: Duration::MAX, ..Timing::default() };
    assert!(matches!(long.check(), Err(ConfigError::LeaseDurationTooLong { .. })));
    let retry = Timing { retry_period: Duration::MAX, ..Timing::default() };
    assert!(matches!(retry.check(), Err(ConfigError::RenewDeadlineTooShort { .. })));
}

#[test]
fn le_002_the_default_durations_are_those_of_client_go() {
    let timing = Timing::default();
    assert_eq!(timing, millis(15_000, 10_000, 2_000));
    assert_eq!((timing.grace(), timing.call_timeout()), (Duration::from_secs(2), Duration::from_secs(5)));
}

#[test]
fn le_014_durations_are_written_in_whole_seconds_and_less_than_one_is_rejected() {
    assert_eq!(millis(15_900, 10_000, 2_000).lease_seconds(), 15);
    assert!(matches!(millis(900, 500, 100).check(), Err(ConfigError::SubSecondLease { .. })));
    // Truncation to whole seconds would remove the margin that keeps a leader safe.
    assert!(matches!(millis(15_900, 15_500, 2_000).check(), Err(ConfigError::LeaseDurationTooShort { .. })));
}

#[test]
fn le_021_the_grace_has_to_fit_before_another_candidate_can_lead() {
    let with = |grace| Timing { grace: Some(Duration::from_secs(grace)), ..Timing::default() };
    assert_eq!(with(5).check(), Ok(()));
    let (grace, room) = (Duration::from_secs(6), Duration::from_secs(5));
    assert_eq!(with(6).check(), Err(ConfigError::GraceTooLong { grace, room }));
    assert_eq!(millis(15_000, 14_000, 2_000).grace(), Duration::from_millis(500), "half of what there is");
}

#[test]
fn lk_009_a_call_times_out_after_half_of_the_deadline_and_at_least_a_second() {
    assert_eq!(millis(60_000, 40_000, 2_000).call_timeout(), Duration::from_secs(20));
    assert_eq!(millis(3_000, 1_500, 1_000).call_timeout(), Duration::from_secs(1));
    assert_eq!(millis(3_000, 500, 100).call_timeout(), Duration::from_millis(500), "and never more than all of it");
}
