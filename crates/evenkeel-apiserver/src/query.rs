//! The query of a URL, decoded once and read by type.
use std::time::Duration;

use evenkeel_core::Status;
use evenkeel_core::duration::{self, DurationError};

/// The parameters of a request's query, in the order in which they were sent.
///
/// A key may repeat; the getters read its first value, as Go's `url.Values` does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes what stands after the `?`. A pair with a broken escape is dropped, as Go's server does.
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

    /// The first value of a parameter. An empty value is a value.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Every value of a parameter, for those that may repeat (`dryRun`, `command`).
    pub(crate) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The first value of a parameter, where an empty one counts as absent.
    pub(crate) fn non_empty(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// A boolean in the syntax of Go's `strconv.ParseBool`. A parameter with no value (`?force`) is true.
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

    /// A whole number in base ten; an empty value counts as absent.
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

    /// The time the client gives a request (URL-10): `timeout` in Go's duration syntax.
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

    /// Whether a GET of a collection is a watch (URL-3): `watch` is there, and is neither `false` nor `0`.
    pub(crate) fn asks_to_watch(&self) -> bool {
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

/// Undoes percent-encoding; `None` when an escape is broken or the result is not UTF-8.
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
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::parse(Some(text))
    }

    #[test]
    fn pairs_are_decoded_and_may_repeat() {
        let query = query("labelSelector=a%3Db%2Cc+d&dryRun=All&dryRun=None&empty&bad=%zz&x=1;y=2");
        assert_eq!(query.get("labelSelector"), Some("a=b,c d"));
        assert_eq!(query.all("dryRun").collect::<Vec<_>>(), ["All", "None"]);
        assert_eq!((query.get("empty"), query.non_empty("empty")), (Some(""), None));
        assert_eq!((query.get("bad"), query.get("x")), (None, None));
        assert_eq!(Query::parse(None), Query::default());
    }

    #[test]
    fn url_3_watch_is_on_unless_false_or_zero() {
        for on in ["watch", "watch=", "watch=true", "watch=1", "watch=yes"] {
            assert!(query(on).asks_to_watch(), "{on}");
        }
        for off in ["", "watch=false", "watch=0", "watch=False"] {
            assert!(!query(off).asks_to_watch(), "{off}");
        }
    }

    #[test]
    fn url_10_timeout_is_a_go_duration() {
        let timeout = |text: &str| query(&format!("timeout={text}")).timeout();
        for (text, millis) in [
            ("32s", 32_000),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            (".5s", 500),
            ("250ms", 250),
            ("0", 0),
            ("-0s", 0),
            ("%2B1s", 1_000),
            ("1500us", 1),
        ] {
            assert_eq!(timeout(text).unwrap().map(|d| d.as_millis()), Some(millis), "{text}");
        }
        for text in ["abc", "5", "1x", "-3s", "s", ".", "9999999999h", "1s2", "-"] {
            let status = timeout(text).unwrap_err();
            assert!(status.is_bad_request());
            assert!(status.message.starts_with("invalid timeout specified in the request URL"), "{status}");
        }
        assert_eq!(query("").timeout().unwrap(), None);
    }

    #[test]
    fn url_14_bad_values_of_known_options_are_bad_requests() {
        assert_eq!(query("force=T").bool("force").unwrap(), Some(true));
        assert_eq!(query("force").bool("force").unwrap(), Some(true));
        assert_eq!(query("").bool("force").unwrap(), None);
        let status = query("force=yes").bool("force").unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (400, "strconv.ParseBool: parsing \"yes\": invalid syntax"));
        assert_eq!(query("limit=500").int("limit").unwrap(), Some(500));
        assert_eq!(query("limit=").int("limit").unwrap(), None);
        let status = query("limit=five").int("limit").unwrap_err();
        assert_eq!(status.message, "strconv.ParseInt: parsing \"five\": invalid syntax");
        let status = query("limit=99999999999999999999").int("limit").unwrap_err();
        assert!(status.message.ends_with("value out of range"), "{status}");
    }

    proptest::proptest! {
        #[test]
        fn url_14_no_query_breaks_the_reader(text in "(timeout=|limit=|force=)?[-+.0-9a-zµ%&=;]{0,24}") {
            let query = query(&text);
            let _ = (query.timeout(), query.int("limit"), query.bool("force"), query.asks_to_watch());
        }
    }
}
