//! The query of a URL, decoded once, with typed getters.
use std::time::Duration;

use evenkeel_core::Status;
use evenkeel_core::duration::{self, DurationError};

/// The parameters of a request's query, in the order in which they were sent.
///
/// A key may repeat; the getters read its first value, as Go's `url.Values` does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes the text after the `?`. A pair with an invalid escape is dropped, as in Go.
    pub(crate) fn parse(text: Option<&str>) -> Query {
        let pairs = text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        Query(
            pairs
                .filter_map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    Some((percent_decode(key, true)?, percent_decode(value, true)?))
                })
                .collect(),
        )
    }

    /// Returns the first value of a parameter. An empty value counts.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Returns every value of a parameter that may repeat (`dryRun`, `command`).
    pub(crate) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the first value of a parameter; `None` if it is empty.
    pub(crate) fn non_empty(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// Parses a boolean in the syntax of Go's `strconv.ParseBool`. A parameter without a value (`?force`) is true.
    pub(crate) fn bool(&self, name: &str) -> Result<Option<bool>, Status> {
        match self.get(name) {
            None => Ok(None),
            Some("") => Ok(Some(true)),
            Some(value) => match go_bool(value) {
                Some(value) => Ok(Some(value)),
                None => Err(unreadable("ParseBool", value, "invalid syntax")),
            },
        }
    }

    /// Parses a decimal integer. An empty value counts as absent.
    pub(crate) fn int(&self, name: &str) -> Result<Option<i64>, Status> {
        let Some(value) = self.non_empty(name) else {
            return Ok(None);
        };
        value.parse().map(Some).map_err(|error: std::num::ParseIntError| {
            use std::num::IntErrorKind::{NegOverflow, PosOverflow};
            let why = match error.kind() {
                PosOverflow | NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            unreadable("ParseInt", value, why)
        })
    }

    /// Parses `timeout` in Go's duration syntax (URL-10).
    pub(crate) fn timeout(&self) -> Result<Option<Duration>, Status> {
        let Some(value) = self.non_empty("timeout") else {
            return Ok(None);
        };
        duration::parse(value).map(Some).map_err(|error| {
            let why = match error {
                DurationError::Negative => "timeout must not be negative:",
                DurationError::Invalid => "time: invalid duration",
            };
            Status::bad_request(format!("invalid timeout specified in the request URL - {why} {value:?}"))
        })
    }

    /// Returns whether a GET of a collection is a watch (URL-3): `watch` is present and neither `false` nor `0`.
    pub(crate) fn is_watch(&self) -> bool {
        self.get("watch").is_some_and(|value| !value.eq_ignore_ascii_case("false") && value != "0")
    }
}

fn unreadable(function: &str, value: &str, why: &str) -> Status {
    Status::bad_request(format!("strconv.{function}: parsing {value:?}: {why}"))
}

/// Go's `strconv.ParseBool`.
pub(crate) fn go_bool(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Decodes percent-encoding. Returns `None` if an escape is invalid or the result is not UTF-8.
pub(crate) fn percent_decode(text: &str, plus_is_space: bool) -> Option<String> {
    let encoded = text.contains('%') || (plus_is_space && text.contains('+'));
    if !encoded {
        return Some(text.to_owned());
    }
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let high = char::from(bytes.next()?).to_digit(16)?;
                let low = char::from(bytes.next()?).to_digit(16)?;
                (high * 16 + low) as u8
            }
            b'+' if plus_is_space => b' ',
            byte => byte,
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests;
