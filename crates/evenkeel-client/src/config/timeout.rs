//! Times as people write them on command lines.

use std::time::Duration;

use evenkeel_core::duration;

use super::ConfigError;

/// The time that someone means: whole seconds (`30`), or numbers with units (`1m30s`, `1.5h`, `200ms`). Zero means no
/// end.
pub fn parse_timeout(text: &str) -> Result<Duration, ConfigError> {
    let parsed = match text.trim().parse::<u64>() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => duration::parse(text.trim()).ok(),
    };
    parsed.ok_or_else(|| {
        ConfigError::invalid(format!("{text:?} is no time: say whole seconds, or numbers with units such as 1m30s"))
    })
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
