//! The reflector with a scripted source in virtual time, and against the embedded server.

#[cfg(feature = "client")]
mod end_to_end;
mod events;
mod hard_cases;
mod hostile;
mod lists;
mod machine;
mod meanwhile;
mod metrics;
mod watch_lists;
mod watches;

use std::time::Duration;

use evenkeel_core::Status;

use crate::reflector::testing::*;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn gone() -> Status {
    Status::expired("too old resource version")
}

/// A list at version 10, to be watched from there.
fn listed_at_ten() -> Script {
    Script::default().list(list(&[("a", "1")], "10"))
}

/// Returns the versions of the watch requests.
fn watches_of(fixture: &ReflectorFixture) -> Vec<String> {
    let version = |entry| match entry {
        Entry::Watch(version) => Some(version),
        _ => None,
    };
    fixture.diary.requests().into_iter().filter_map(version).collect()
}

/// Returns the number of list requests.
fn lists_of(fixture: &ReflectorFixture) -> usize {
    fixture.diary.count(|entry| matches!(entry, Entry::List(..)))
}
