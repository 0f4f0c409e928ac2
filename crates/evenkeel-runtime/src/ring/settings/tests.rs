//! Tests of the knobs.

use super::*;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn refused(change: impl FnOnce(&mut RingSettings)) -> RingConfigError {
    let mut settings = RingSettings::default();
    change(&mut settings);
    settings.check("ring", "pod-0").unwrap_err()
}

#[test]
fn shr_069_the_defaults_are_valid() {
    assert_eq!(RingSettings::default().check("foo-controller", "foo-7d4b.example"), Ok(()));
}

#[test]
fn shr_069_what_would_break_exclusion_is_refused() {
    let error = refused(|settings| settings.grace = secs(5));
    assert!(matches!(error, RingConfigError::LeaseDurationTooShort { .. }), "{error}");
    let error = refused(|settings| settings.heartbeat = Duration::from_millis(3_334));
    assert!(matches!(error, RingConfigError::HeartbeatTooSlow { .. }), "{error}");
    let error = refused(|settings| settings.lease_duration = Duration::from_millis(900));
    assert!(matches!(error, RingConfigError::NotWholeSeconds { .. }), "{error}");
    let error = refused(|settings| settings.lease_duration = Duration::from_millis(15_500));
    assert!(matches!(error, RingConfigError::NotWholeSeconds { .. }), "{error}");
    let error = refused(|settings| settings.lease_duration = Duration::MAX);
    assert!(matches!(error, RingConfigError::NotWholeSeconds { .. }), "{error}");
    let error = refused(|settings| settings.renew_deadline = Duration::MAX);
    assert!(matches!(error, RingConfigError::LeaseDurationTooShort { .. }), "{error}");
}

#[test]
fn shr_069_zero_values_are_refused_by_name() {
    assert_eq!(refused(|settings| settings.drain_limit = secs(0)), RingConfigError::Zero { what: "drain limit" });
    let error = refused(|settings| settings.slices_per_member = 0);
    assert_eq!(error, RingConfigError::Zero { what: "number of slices per member" });
    assert!(matches!(refused(|settings| settings.imbalance = f64::NAN), RingConfigError::Imbalance { .. }));
    assert!(matches!(refused(|settings| settings.slices_per_member = 17), RingConfigError::TooManySlices { .. }));
}

#[test]
fn shr_069_names_that_no_lease_can_have_are_refused() {
    let check = |name: &str, identity: &str| RingSettings::default().check(name, identity);
    assert!(check(&"a".repeat(40), "pod").is_ok());
    for name in ["", "A", "a.b", "-a", "a-", &"a".repeat(41)] {
        assert!(matches!(check(name, "pod"), Err(RingConfigError::Name { .. })), "{name}");
    }
    for identity in ["", "Pod", "a_b", ".a"] {
        assert!(matches!(check("ring", identity), Err(RingConfigError::Identity { .. })), "{identity}");
    }
}
