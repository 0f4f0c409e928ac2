//! Human-readable durations: two or three significant figures, the larger the coarser (TAB-7).

use jiff::Timestamp;
use serde_json::Value;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Returns Kubernetes' short form of a number of seconds: `119s`, `3m10s`, `2h`, `3d4h`, `2y11d`.
pub(crate) fn human_duration(seconds: i64) -> String {
    // Clocks differ a little: up to a second in the future counts as now.
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => two(seconds, (MINUTE, 'm'), (1, 's')),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => two(seconds, (HOUR, 'h'), (MINUTE, 'm')),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => two(seconds, (DAY, 'd'), (HOUR, 'h')),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two(seconds, (YEAR, 'y'), (DAY, 'd')),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// Formats the larger unit, and the smaller one unless it is zero.
fn two(seconds: i64, (large, letter): (i64, char), (small, small_letter): (i64, char)) -> String {
    let rest = seconds % large / small;
    if rest == 0 {
        format!("{}{letter}", seconds / large)
    } else {
        format!("{}{letter}{rest}{small_letter}", seconds / large)
    }
}

/// Returns the age of a time, or `<unknown>` if it is absent or invalid.
pub(super) fn since(time: Option<&Value>, now: Timestamp) -> String {
    match parse(time) {
        Some(time) => human_duration(whole_seconds(time, now)),
        None => "<unknown>".to_owned(),
    }
}

/// Returns the difference of two times in whole seconds, rounded towards zero.
pub(super) fn whole_seconds(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_secs()
}

pub(super) fn parse(time: Option<&Value>) -> Option<Timestamp> {
    time?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests;
