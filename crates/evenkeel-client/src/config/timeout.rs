//! Times as people write them on command lines.

use std::time::Duration;

use super::ConfigError;

/// The time that someone means: whole seconds (`30`), or numbers with units (`1m30s`, `1.5h`, `200ms`). Zero means no
/// end.
pub fn parse_timeout(text: &str) -> Result<Duration, ConfigError> {
    let parsed = match text.trim().parse::<u64>() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => units(text.trim()),
    };
    parsed.ok_or_else(|| {
        ConfigError::invalid(format!("{text:?} is no time: say whole seconds, or numbers with units such as 1m30s"))
    })
}

fn units(mut text: &str) -> Option<Duration> {
    text = text.strip_prefix('+').unwrap_or(text);
    if text.is_empty() {
        return None;
    }
    let mut total = Duration::ZERO;
    while !text.is_empty() {
        let (number, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.')?);
        let (unit, rest) = rest.split_at(rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len()));
        let unit = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        let number: f64 = number.parse().ok()?;
        total = total.checked_add(Duration::try_from_secs_f64(number * unit).ok()?)?;
        text = rest;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kcf_025_seconds_or_units() {
        for (text, time) in [
            ("0", Duration::ZERO),
            ("30", Duration::from_secs(30)),
            ("1m30s", Duration::from_secs(90)),
            ("1.5h", Duration::from_secs(5400)),
            ("200ms", Duration::from_millis(200)),
            ("10µs", Duration::from_micros(10)),
        ] {
            assert_eq!(parse_timeout(text).unwrap(), time, "{text}");
        }
        for odd in ["", "-1", "-1s", "s", "1x", "1s2", "..s", "1e400h", "99999999999999999999h", "+"] {
            assert!(parse_timeout(odd).is_err(), "{odd}");
        }
    }
}
