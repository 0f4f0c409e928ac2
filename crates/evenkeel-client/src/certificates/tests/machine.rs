//! When certificates are requested.

use std::time::Duration;

use proptest::prelude::*;

use super::{at, facts};
use crate::certificates::machine::{AttemptFailure, RotationDecision, RotationState};
use crate::certificates::template::CertificateTemplate;

const SECOND: Duration = Duration::from_secs(1);

fn template(name: &str) -> CertificateTemplate {
    CertificateTemplate::new(name)
}

fn sleep(seconds: u64) -> RotationDecision {
    RotationDecision::Sleep(Duration::from_secs(seconds))
}

#[test]
fn a_certificate_is_requested_without_one_and_after_its_expiry() {
    let state = RotationState::new(template("agent"), None, 0.5);
    assert_eq!(state.decide(at(0)), RotationDecision::Request);
    let state = RotationState::new(template("agent"), Some(facts("agent", 1000)), 0.5);
    assert!(state.valid(at(999)).is_some() && state.valid(at(1000)).is_none());
    assert_eq!(state.decide(at(1000)), RotationDecision::Request);
}

#[test]
fn a_certificate_is_rotated_after_70_to_90_percent_of_its_lifetime() {
    for (random, expected) in [(0.0, 700), (0.5, 800), (1.0, 900)] {
        let state = RotationState::new(template("agent"), Some(facts("agent", 1000)), random);
        assert_eq!(state.decide(at(0)), sleep(expected));
        assert_eq!(state.decide(at(expected as i64 - 1)), sleep(1));
        assert_eq!(state.decide(at(expected as i64)), RotationDecision::Request);
    }
}

#[test]
fn a_certificate_that_does_not_satisfy_the_template_is_rotated_at_once() {
    let mut stored = facts("agent", 1000);
    stored.dns_names.insert("extra.test".into());
    let state = RotationState::new(template("other"), Some(stored.clone()), 0.0);
    assert_eq!(state.decide(at(0)), RotationDecision::Request, "another name");
    let mut state = RotationState::new(template("agent"), Some(stored), 0.0);
    assert_eq!(state.decide(at(0)), sleep(700), "it may have more names");
    let mut wanted = template("agent");
    wanted.ip_addresses.push([10, 0, 0, 1].into());
    state.set_template(wanted);
    assert_eq!(state.decide(at(0)), RotationDecision::Request, "an address is missing");
}

#[test]
fn a_signer_that_issues_something_else_is_not_asked_again_at_once() {
    let mut state = RotationState::new(template("agent"), None, 0.0);
    state.installed(facts("somebody-else", 1000), at(0), 0.0);
    assert_eq!(state.decide(at(0)), sleep(700));
    state.set_template(template("other"));
    assert_eq!(state.decide(at(0)), RotationDecision::Request, "unless something else is wanted");
}

#[test]
fn certificates_that_are_due_when_they_are_issued_cause_one_request_a_minute() {
    let mut state = RotationState::new(template("agent"), None, 0.0);
    state.installed(facts("agent", 1000), at(800), 0.0);
    assert_eq!(state.decide(at(800)), sleep(60));
    state.installed(facts("agent", 1000), at(980), 0.0);
    assert_eq!(state.decide(at(980)), sleep(10), "but half of what is left at most");
}

#[test]
fn pauses_double_after_failures_and_are_longer_after_refusals() {
    let mut state = RotationState::new(template("agent"), None, 0.0);
    for expected in [2, 4, 8, 16, 32, 32] {
        assert_eq!(state.failed(AttemptFailure::Passing, at(0), 0.0), expected * SECOND);
        assert_eq!(state.decide(at(0)), sleep(u64::from(expected)));
    }
    for minutes in [1, 2, 4, 8, 16, 30, 30] {
        assert_eq!(state.failed(AttemptFailure::Refused, at(0), 0.0), minutes * 60 * SECOND);
    }
    assert_eq!(state.failed(AttemptFailure::Passing, at(0), 1.0), 32 * SECOND + 32 * SECOND / 10, "with jitter");
    state.installed(facts("agent", 1000), at(0), 0.0);
    assert_eq!(state.failed(AttemptFailure::Passing, at(0), 0.0), 2 * SECOND, "a success resets them");
    state.failed(AttemptFailure::Refused, at(0), 0.0);
    state.set_template(template("other"));
    assert_eq!(state.decide(at(0)), RotationDecision::Request, "another template is another request");
}

proptest! {
    #[test]
    fn a_valid_certificate_is_rotated_before_it_expires(lifetime in 600_i64..1_000_000, random in 0.0..=1.0) {
        let state = RotationState::new(template("agent"), Some(facts("agent", lifetime)), random);
        let RotationDecision::Sleep(wait) = state.decide(at(0)) else { panic!("it was issued just now") };
        let part = wait.as_secs_f64() / lifetime as f64;
        prop_assert!((0.7..=0.9).contains(&part), "{part}");
    }

    #[test]
    fn no_input_makes_it_panic(not_after in i64::from(i32::MIN)..=i64::from(i32::MAX), now in any::<i32>(), random in any::<f64>()) {
        let mut state = RotationState::new(template("agent"), Some(facts("agent", not_after)), random);
        let now = at(i64::from(now));
        state.decide(now);
        state.installed(facts("agent", not_after), now, random);
        state.failed(AttemptFailure::Passing, now, random);
        state.decide(now);
    }
}
