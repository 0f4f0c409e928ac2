//! Durations and points in time, in the formats of Go.

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

/// Parses a duration as Go does: `1h30m`, `-1.5s`, `0`.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') || whole.len() > 19 {
            return None;
        }
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        total = total.checked_add(if whole.is_empty() { 0 } else { whole.parse::<i128>().ok()? } * unit)?;
        let mut scale = unit;
        for digit in fraction.bytes() {
            scale /= 10;
            total = total.checked_add(i128::from(digit - b'0') * scale)?;
        }
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// Returns the duration in seconds, as `string(duration)` prints it.
pub(crate) fn format_duration(nanos: i64) -> String {
    let (sign, nanos) = if nanos < 0 { ("-", nanos.unsigned_abs()) } else { ("", nanos.unsigned_abs()) };
    let (seconds, fraction) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    if fraction == 0 {
        return format!("{sign}{seconds}s");
    }
    let fraction = format!("{fraction:09}");
    format!("{sign}{seconds}.{}s", fraction.trim_end_matches('0'))
}

/// Parses RFC 3339.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let separated = bytes.get(10).is_some_and(|byte| matches!(byte, b'T' | b't')) && bytes.get(4) == Some(&b'-');
    separated.then(|| text.parse().ok()).flatten()
}

/// Parses a date as midnight in UTC.
pub(crate) fn parse_date(text: &str) -> Option<Timestamp> {
    let date: jiff::civil::Date = text.parse().ok()?;
    (text.len() == 10).then(|| date.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())).flatten()
}

/// Formats as RFC 3339 with as many digits of the second as needed.
pub(crate) fn format_timestamp(at: Timestamp) -> String {
    at.to_string()
}

/// Returns a point in time in a zone: `UTC`, or an offset such as `+02:00`. Other names need a database of zones.
pub(crate) fn in_zone(at: Timestamp, zone: Option<&str>) -> Option<jiff::Zoned> {
    let zone = match zone {
        None | Some("" | "UTC" | "Etc/UTC" | "GMT" | "Z") => TimeZone::UTC,
        Some(text) => {
            let (sign, digits) = match text.strip_prefix('-') {
                Some(digits) => (-1, digits),
                None => (1, text.strip_prefix('+').unwrap_or(text)),
            };
            let (hours, minutes) = digits.split_once(':')?;
            let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
            if !(0..=14).contains(&hours) || !(0..60).contains(&minutes) {
                return None;
            }
            Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()?.to_time_zone()
        }
    };
    Some(at.to_zoned(zone))
}
