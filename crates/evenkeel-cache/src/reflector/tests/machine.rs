//! The state machine by itself: no source, no store, no clock.

use std::time::Duration;

use evenkeel_core::{ResourceVersion, Status};
use proptest::prelude::*;
use tokio::time::Instant;

use crate::reflector::backoff::Backoff;
use crate::reflector::error::Recovery;
use crate::reflector::machine::{
    DueAction, PageOutcome, ReflectorAction, ReflectorMachine, ReflectorSettings, WatchEnd,
};
use crate::source::SourceError;

fn settings() -> ReflectorSettings {
    ReflectorSettings {
        resync_period: Duration::ZERO,
        page_size: 0,
        watch_list: false,
        consistent_restart: false,
        min_watch_timeout: Duration::ZERO,
        backoff: Backoff::default(),
        internal_error_retry: Duration::ZERO,
        silence: None,
    }
}

/// Returns a machine that has listed at version 10.
fn listed(settings: ReflectorSettings, now: Instant) -> ReflectorMachine {
    let watch_list = settings.watch_list;
    let mut machine = ReflectorMachine::new(settings);
    let first = machine.step(now, 0.0);
    let version = ResourceVersion::new("10");
    if watch_list {
        assert!(matches!(first, ReflectorAction::Watch(request) if request.initial_events));
    } else {
        assert!(matches!(first, ReflectorAction::List(_)));
        assert!(matches!(machine.page(version.clone(), String::new(), 1), PageOutcome::Last(last) if last == version));
    }
    machine.synced(&version, now);
    machine
}

fn timeout(min: u64, random: f64) -> u64 {
    let now = Instant::now();
    let mut machine = listed(ReflectorSettings { min_watch_timeout: Duration::from_secs(min), ..settings() }, now);
    match machine.step(now, random) {
        ReflectorAction::Watch(request) => request.timeout.as_secs(),
        step => panic!("{step:?}"),
    }
}

proptest! {
    #[test]
    fn ref_029_timeouts_are_spread_over_five_to_ten_minutes(random in 0.0..1.0f64) {
        prop_assert!((300..600).contains(&timeout(0, random)));
    }

    #[test]
    fn ref_030_longer_timeouts_are_spread_over_once_to_twice_as_long(min in 301u64..10_000, random in 0.0..1.0f64) {
        prop_assert!((min..2 * min).contains(&timeout(min, random)));
    }

    /// For any sequence of events, the machine has a next step, and nothing that failed twice in a row is repeated
    /// without a wait.
    #[test]
    fn the_request_rate_is_bounded(happenings in proptest::collection::vec(0..8u8, 1..200), watch_list: bool) {
        let mut now = Instant::now();
        let mut machine = ReflectorMachine::new(ReflectorSettings { watch_list, ..settings() });
        let (mut requests, start) = (0u32, now);
        for happening in happenings {
            let happened = |machine: &mut ReflectorMachine, ending: WatchEnd<'_>| {
                machine.watch_ended(ending, now, 0.0);
            };
            let error = SourceError::from(match happening % 4 {
                0 => Status::expired("old"),
                1 => Status::internal("broken"),
                2 => Status::failure(429, evenkeel_core::Reason::TOO_MANY_REQUESTS, "busy"),
                _ => Status::failure(422, evenkeel_core::Reason::INVALID, "no"),
            });
            match machine.step(now, 0.0) {
                ReflectorAction::Wait(until) => {
                    prop_assert!(until > now);
                    now = until;
                }
                ReflectorAction::List(_) => {
                    requests += 1;
                    if happening < 4 {
                        machine.list_failed(&error, now, 0.0);
                    } else {
                        let version = ResourceVersion::new("10");
                        if let PageOutcome::Last(version) = machine.page(version, String::new(), 1) {
                            machine.synced(&version, now);
                        }
                    }
                }
                ReflectorAction::Watch(request) => {
                    requests += 1;
                    machine.watch_opened(now);
                    match happening {
                        0..4 => happened(&mut machine, WatchEnd::Failed(&error)),
                        4 => happened(&mut machine, WatchEnd::Closed),
                        5 => happened(&mut machine, WatchEnd::Refused(&error)),
                        6 => {
                            machine.event("11", true);
                            happened(&mut machine, WatchEnd::Closed);
                        }
                        _ => {
                            if request.initial_events {
                                machine.synced(&ResourceVersion::new("12"), now);
                            }
                            happened(&mut machine, WatchEnd::Unusable);
                        }
                    }
                }
            }
        }
        // A round has at most an expired stream, a refused one, an expired list, a list of the newest version, a
        // watch, and one with few events; then there is a wait of at least 0.8 s.
        let waits = (now - start).as_secs_f64() / 0.8;
        prop_assert!(f64::from(requests) <= 8.0 * (waits + 1.0), "{requests} requests in {:?}", now - start);
    }
}

#[test]
fn ref_039_a_version_that_expires_twice_is_not_listed_again() {
    let mut now = Instant::now();
    let mut machine = listed(settings(), now);
    let gone = SourceError::from(Status::expired("old"));
    let mut requested = Vec::new();
    for answered in ["10", "12", "12"] {
        assert!(matches!(machine.step(now, 0.0), ReflectorAction::Watch(_)));
        machine.watch_ended(WatchEnd::Failed(&gone), now, 0.0);
        if let ReflectorAction::Wait(until) = machine.step(now, 0.0) {
            now = until;
        }
        let ReflectorAction::List(request) = machine.step(now, 0.0) else { panic!("no list follows") };
        requested.push(request.resource_version);
        machine.page(ResourceVersion::new(answered), String::new(), 1);
        machine.synced(&ResourceVersion::new(answered), now);
    }
    assert_eq!(requested, ["10", "", "12"], "a stale replica has returned 10 again");
}

#[test]
fn ref_016_a_consistent_restart_lists_without_a_version() {
    for (consistent_restart, version) in [(false, "0"), (true, "")] {
        let now = Instant::now();
        let mut machine = ReflectorMachine::new(ReflectorSettings { consistent_restart, ..settings() });
        let ReflectorAction::List(request) = machine.step(now, 0.0) else { panic!("no list") };
        assert_eq!(request.resource_version, version);
        machine.page(ResourceVersion::new("10"), String::new(), 1);
        machine.synced(&ResourceVersion::new("10"), now);
        machine.restart();
        let ReflectorAction::List(request) = machine.step(now, 0.0) else { panic!("no list") };
        assert_eq!(request.resource_version, "10", "a relist is not older than what is stored");
    }
}

#[test]
fn ref_030_shorter_timeouts_are_raised_to_five_minutes() {
    assert_eq!((timeout(0, 0.0), timeout(300, 0.0), timeout(299, 0.0), timeout(301, 0.0)), (300, 300, 300, 301));
}

#[test]
fn ref_048_additions_move_the_version_only_of_a_watch_with_a_start_version() {
    let now = Instant::now();
    let mut machine = listed(settings(), now);
    machine.step(now, 0.0);
    machine.event("7", true);
    assert_eq!(machine.version(), "7");

    let mut machine = listed(settings(), now);
    machine.synced(&ResourceVersion::new("0"), now);
    machine.step(now, 0.0);
    machine.event("7", true);
    assert_eq!(machine.version(), "0");
    machine.event("9", false);
    machine.event("8", true);
    assert_eq!(machine.version(), "8", "after anything else has happened additions count");
}

#[test]
fn an_event_without_a_version_does_not_move_it() {
    let now = Instant::now();
    let mut machine = listed(settings(), now);
    machine.step(now, 0.0);
    machine.event("", false);
    assert_eq!(machine.version(), "10");
}

#[test]
fn a_retry_after_is_bounded() {
    let now = Instant::now();
    let mut machine = ReflectorMachine::new(settings());
    machine.step(now, 0.0);
    let mut busy = Status::failure(429, evenkeel_core::Reason::TOO_MANY_REQUESTS, "busy");
    busy.details = Some(evenkeel_core::StatusDetails { retry_after_seconds: 1_000_000, ..Default::default() });
    let next = machine.list_failed(&busy.into(), now, 0.0);
    assert_eq!(next, Recovery::Relist { after: Duration::from_secs(300) });
}

/// Opens a watch and ends it.
fn watched(machine: &mut ReflectorMachine, now: Instant, ending: WatchEnd<'_>) -> Recovery {
    assert!(matches!(machine.step(now, 0.0), ReflectorAction::Watch(_)));
    machine.event("11", true);
    machine.watch_ended(ending, now, 0.0).next
}

/// Waits for the next round, and lists.
fn relist(machine: &mut ReflectorMachine, now: &mut Instant) {
    if let ReflectorAction::Wait(until) = machine.step(*now, 0.0) {
        *now = until;
    }
    assert!(matches!(machine.step(*now, 0.0), ReflectorAction::List(_)));
    let version = ResourceVersion::new("12");
    machine.page(version.clone(), String::new(), 1);
    machine.synced(&version, *now);
}

#[test]
fn rwd_004_each_round_has_a_window_of_its_own() {
    let mut now = Instant::now();
    let mut machine = listed(ReflectorSettings { internal_error_retry: Duration::from_secs(1), ..settings() }, now);
    let broken = SourceError::from(Status::internal("broken"));
    assert!(matches!(watched(&mut machine, now, WatchEnd::Failed(&broken)), Recovery::Rewatch { .. }));
    now += Duration::from_secs(1);
    let gone = SourceError::from(Status::expired("old"));
    assert!(matches!(watched(&mut machine, now, WatchEnd::Failed(&gone)), Recovery::Relist { .. }));
    relist(&mut machine, &mut now);
    let next = watched(&mut machine, now, WatchEnd::Failed(&broken));
    assert!(
        matches!(next, Recovery::Rewatch { .. }),
        "more than a second after the first, but not in the same round: {next:?}"
    );
}

#[test]
fn a_new_round_resets_the_delay_of_short_watches() {
    let mut now = Instant::now();
    let mut machine = listed(settings(), now);
    let at_once = Recovery::Rewatch { after: Duration::ZERO };
    assert_eq!(watched(&mut machine, now, WatchEnd::Closed), at_once);
    assert_ne!(watched(&mut machine, now, WatchEnd::Closed), at_once);
    now += Duration::from_secs(1);
    assert!(matches!(watched(&mut machine, now, WatchEnd::Unusable), Recovery::Relist { .. }));
    relist(&mut machine, &mut now);
    assert_eq!(watched(&mut machine, now, WatchEnd::Closed), at_once);
}

fn watched_at(machine: &mut ReflectorMachine, now: Instant) -> String {
    match machine.step(now, 0.0) {
        ReflectorAction::Watch(request) => request.resource_version,
        step => panic!("{step:?}"),
    }
}

#[test]
fn shr_053_a_watch_of_more_places_starts_earlier_and_lists_are_not_older_than_what_was_reached() {
    let now = Instant::now();
    let version = ResourceVersion::new;
    for watch_list in [false, true] {
        let listed = |now| listed(ReflectorSettings { watch_list, ..settings() }, now);
        let mut machine = listed(now);
        machine.rewind(&version("7"), version("12"));
        assert_eq!(watched_at(&mut machine, now), "7");
        machine.watch_opened(now);
        machine.event("8", false);
        let expired = SourceError::from(Status::failure(410, evenkeel_core::Reason::default(), "too old"));
        machine.watch_ended(WatchEnd::Failed(&expired), now, 0.0);
        let later = now + Duration::from_secs(60);
        let requested = match machine.step(later, 0.0) {
            ReflectorAction::List(request) => request.resource_version,
            ReflectorAction::Watch(request) => request.resource_version,
            step => panic!("{step:?}"),
        };
        assert_eq!(requested, "12", "a list of version 8 would go back in time");
        // A version beyond that counts as before.
        let mut machine = listed(now);
        machine.rewind(&version("7"), version("12"));
        watched_at(&mut machine, now);
        machine.watch_opened(now);
        machine.event("13", false);
        machine.watch_ended(WatchEnd::Unusable, now, 0.0);
        let requested = match machine.step(later, 0.0) {
            ReflectorAction::List(request) => request.resource_version,
            ReflectorAction::Watch(request) => request.resource_version,
            step => panic!("{step:?}"),
        };
        assert_eq!(requested, "13");
    }
}

#[test]
fn shr_053_a_watch_is_requested_again_at_once_and_an_initial_list_is_completed_first() {
    let now = Instant::now();
    let mut machine = listed(settings(), now);
    machine.rewatch(now);
    assert_eq!(machine.due(now), DueAction::Nothing, "no watch is open");
    machine.rewatch(now);
    assert_eq!(watched_at(&mut machine, now), "10");
    // The request that follows has the new places already.
    assert_eq!(machine.due(now), DueAction::Nothing);
    machine.watch_opened(now);
    machine.rewatch(now);
    assert_eq!((machine.wake_at(), machine.due(now)), (Some(now), DueAction::Rewatch));
    let verdict = machine.watch_ended(WatchEnd::Replaced, now, 0.0);
    assert_eq!(verdict.next, Recovery::Rewatch { after: Duration::ZERO });
    assert_eq!(watched_at(&mut machine, now), "10");

    let mut machine = ReflectorMachine::new(ReflectorSettings { watch_list: true, ..settings() });
    assert!(matches!(machine.step(now, 0.0), ReflectorAction::Watch(request) if request.initial_events));
    machine.watch_opened(now);
    machine.rewatch(now);
    assert_eq!(machine.due(now), DueAction::Nothing, "the initial list is not complete");
    machine.synced(&ResourceVersion::new("10"), now);
    assert_eq!(machine.due(now), DueAction::Rewatch);
}
