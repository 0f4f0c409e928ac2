//! Times as parsed by Go's `time.Parse` and formatted by `metav1.Time`.

use jiff::Timestamp;

use crate::env::{rfc3339, rfc3339_micro};

const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
const MICROS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Returns the canonical form of a time: UTC, with whole seconds or with six digits of a second.
///
/// Errors are worded like Go's, for example `parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as
/// "2006"`.
pub(super) fn canonical(text: &str, micros: bool) -> Result<String, String> {
    let layout = if micros { MICROS } else { SECONDS };
    if let Err((rest, element)) = scan(text, micros) {
        return Err(format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}"));
    }
    let time: Timestamp = text.parse().map_err(|_| format!("parsing time {text:?}: day out of range"))?;
    Ok(if micros { rfc3339_micro(time) } else { rfc3339(time) })
}

/// Checks the text against the layout; the error is the rest of the text and the element that it does not match.
fn scan(text: &str, micros: bool) -> Result<(), (&str, &'static str)> {
    const HEAD: [(&str, usize); 11] = [
        ("2006", 4),
        ("-", 0),
        ("01", 2),
        ("-", 0),
        ("02", 2),
        ("T", 0),
        ("15", 2),
        (":", 0),
        ("04", 2),
        (":", 0),
        ("05", 2),
    ];
    let mut rest = text;
    for (element, digits) in HEAD {
        let next = if digits == 0 { rest.strip_prefix(element) } else { skip_digits(rest, digits) };
        rest = next.ok_or((rest, element))?;
    }
    if micros {
        rest = rest.strip_prefix('.').and_then(|digits| skip_digits(digits, 6)).ok_or((rest, ".000000"))?;
    } else if let Some(fraction) = rest.strip_prefix('.') {
        rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    if rest == "Z" {
        return Ok(());
    }
    let zone = rest
        .strip_prefix(['+', '-'])
        .and_then(|zone| skip_digits(zone, 2))
        .and_then(|zone| zone.strip_prefix(':'))
        .and_then(|zone| skip_digits(zone, 2));
    match zone {
        Some("") => Ok(()),
        _ => Err((rest, "Z07:00")),
    }
}

fn skip_digits(text: &str, count: usize) -> Option<&str> {
    let (digits, rest) = text.split_at_checked(count)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(rest)
}
