//! Timeouts as written on command lines.

use std::time::Duration;

use evenkeel_core::duration;

use super::ConfigError;

/// Parses a timeout: whole seconds (`30`), or numbers with units (`1m30s`, `1.5h`, `200ms`). Zero means none.
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
mod tests;
