//! The environment of the process.

use evenkeel_base::task::simulated_time_of_day;
use jiff::{SignedDuration, Timestamp};

/// Returns the time of day. It dates what is written and is never compared.
#[expect(clippy::disallowed_methods, reason = "the edge: a simulation has its own clock")]
pub(crate) fn time_of_day() -> Timestamp {
    let simulated = simulated_time_of_day().and_then(|time| SignedDuration::try_from(time).ok());
    simulated.and_then(|time| Timestamp::UNIX_EPOCH.checked_add(time).ok()).unwrap_or_else(Timestamp::now)
}

/// Returns the name of the host or pod.
pub(crate) fn hostname() -> String {
    let kernel = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let variable = |name: &str| std::env::var(name).ok();
    [kernel(), variable("HOSTNAME"), variable("COMPUTERNAME")]
        .into_iter()
        .flatten()
        .map(|name| name.trim().to_owned())
        .find(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests;
