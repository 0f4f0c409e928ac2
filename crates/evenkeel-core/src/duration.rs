//! Durations in the format of Go and the API: `1h0m0s`, `1m30s`, `1.5s`, `300ms`.

use std::fmt::Write;
use std::time::Duration;

/// A text that is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text does not follow the grammar, or exceeds the range of Go (about 292 years).
    #[error("invalid duration: expected numbers with units, such as 1m30s")]
    Invalid,
    /// The duration is negative.
    #[error("negative duration")]
    Negative,
}

/// Parses the grammar of Go's `time.ParseDuration`: `300ms`, `1.5h`, `2h45m`, `0`.
///
/// ```
/// use std::time::Duration;
/// use evenkeel_core::duration;
///
/// assert_eq!(duration::parse("1m30s"), Ok(Duration::from_secs(90)));
/// assert_eq!(duration::to_text(Duration::from_secs(90)), "1m30s");
/// ```
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => (true, unsigned),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let nanoseconds = if unsigned == "0" { 0 } else { parts(unsigned).ok_or(DurationError::Invalid)? };
    if negative && nanoseconds > 0 {
        return Err(DurationError::Negative);
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// Returns the nanoseconds of one or more numbers with units.
fn parts(mut rest: &str) -> Option<u64> {
    let mut nanoseconds: u128 = 0;
    loop {
        let (whole, after) = rest.split_at(digits(rest));
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(digits(after)),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit: u128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        nanoseconds += u128::from(whole) * unit;
        // Digits after the fifteenth are below a nanosecond in every unit.
        let fraction = fraction.get(..15).unwrap_or(fraction);
        if !fraction.is_empty() {
            let digits: u128 = fraction.parse().ok()?;
            nanoseconds += digits * unit / 10u128.pow(fraction.len() as u32);
        }
        if nanoseconds > i64::MAX as u128 {
            return None;
        }
        if after.is_empty() {
            return u64::try_from(nanoseconds).ok();
        }
        rest = after;
    }
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// Formats a duration as Go does: `1h0m0s`, `1m30s`, `1.5s`, `300ms`, `0s`.
pub fn to_text(duration: Duration) -> String {
    let nanos = duration.subsec_nanos();
    let mut text = String::new();
    if duration.as_secs() == 0 && nanos > 0 {
        let (unit, name) = match nanos {
            1_000_000.. => (1_000_000, "ms"),
            1_000.. => (1_000, "µs"),
            _ => (1, "ns"),
        };
        decimal(&mut text, u64::from(nanos / unit), nanos % unit, unit);
        text.push_str(name);
        return text;
    }
    let minutes = duration.as_secs() / 60;
    if minutes >= 60 {
        let _ = write!(text, "{}h", minutes / 60);
    }
    if minutes > 0 {
        let _ = write!(text, "{}m", minutes % 60);
    }
    decimal(&mut text, duration.as_secs() % 60, nanos, 1_000_000_000);
    text.push('s');
    text
}

/// Appends `whole` and the fraction `part / unit` without trailing zeros. `unit` is a power of ten.
fn decimal(text: &mut String, whole: u64, part: u32, unit: u32) {
    let _ = write!(text, "{whole}");
    if part > 0 {
        let digits = unit.ilog10() as usize;
        let fraction = format!("{part:0digits$}");
        let _ = write!(text, ".{}", fraction.trim_end_matches('0'));
    }
}

#[cfg(test)]
mod tests;
