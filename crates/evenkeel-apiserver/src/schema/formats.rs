//! The `format` keyword: whether a string conforms. [`evenkeel_core::formats`] lists the formats.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use base64::Engine;

/// Returns whether a string conforms to a format. Unknown formats accept everything.
pub(super) fn accepts(format: &str, text: &str) -> bool {
    match format {
        "bsonobjectid" => text.len() == 24 && all(text, |byte| byte.is_ascii_hexdigit()),
        "byte" => base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
        "cidr" => cidr(text),
        "creditcard" => credit_card(text),
        "date" => text.len() == 10 && jiff::civil::Date::from_str(text).is_ok(),
        "date-time" | "datetime" => date_time(text),
        "duration" => duration(text),
        "email" => email(text),
        "hexcolor" => {
            let digits = text.strip_prefix('#').unwrap_or(text);
            matches!(digits.len(), 3 | 6) && all(digits, |byte| byte.is_ascii_hexdigit())
        }
        "hostname" => hostname(text),
        "ipv4" => Ipv4Addr::from_str(text).is_ok(),
        "ipv6" => Ipv6Addr::from_str(text).is_ok(),
        "isbn" => isbn10(text) || isbn13(text),
        "isbn10" => isbn10(text),
        "isbn13" => isbn13(text),
        "k8s-long-name" => text.len() <= 253 && text.split('.').all(name_segment),
        "k8s-short-name" => text.len() <= 63 && name_segment(text),
        "mac" => mac(text),
        "rgbcolor" => rgb_color(text),
        "ssn" => social_security(text),
        "uri" => uri(text),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => uuid(format, text),
        _ => true,
    }
}

fn all(text: &str, test: impl Fn(u8) -> bool) -> bool {
    text.bytes().all(test)
}

fn cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let limit = match IpAddr::from_str(address) {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    !bits.is_empty() && all(bits, |byte| byte.is_ascii_digit()) && bits.parse::<u8>().is_ok_and(|bits| bits <= limit)
}

/// Digits with any separators, the right length, and a Luhn check digit.
fn credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    if !(13..=16).contains(&digits.len()) {
        return false;
    }
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| match (at % 2, digit * 2) {
            (0, _) => *digit,
            (_, double) if double > 9 => double - 9,
            (_, double) => double,
        })
        .sum();
    sum.is_multiple_of(10)
}

fn date_time(text: &str) -> bool {
    let has_time = matches!(text.as_bytes().get(10), Some(b'T' | b't'));
    has_time && jiff::Timestamp::from_str(text).is_ok()
}

/// Go's durations (`1h30m`, `-2.5s`) and a number with a word (`22 ns`, `3 days`).
fn duration(text: &str) -> bool {
    const UNITS: &[&str] = &["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
    const WORDS: &[&str] = &[
        "ns",
        "nano",
        "nanos",
        "nanosecond",
        "nanoseconds",
        "us",
        "µs",
        "micro",
        "micros",
        "microsecond",
        "microseconds",
        "ms",
        "milli",
        "millis",
        "millisecond",
        "milliseconds",
        "s",
        "sec",
        "secs",
        "second",
        "seconds",
        "m",
        "min",
        "mins",
        "minute",
        "minutes",
        "h",
        "hr",
        "hour",
        "hours",
        "d",
        "day",
        "days",
        "w",
        "wk",
        "week",
        "weeks",
    ];
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned == "0" {
        return true;
    }
    let number = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let digits = text.get(..end).unwrap_or_default();
        let fits = digits.bytes().any(|byte| byte.is_ascii_digit()) && digits.matches('.').count() < 2;
        fits.then_some(end)
    };
    let mut rest = unsigned;
    let mut go_style = !rest.is_empty();
    while go_style && !rest.is_empty() {
        let Some(after) = number(rest).and_then(|end| rest.get(end..)) else {
            go_style = false;
            break;
        };
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        go_style = after.get(..end).is_some_and(|unit| UNITS.contains(&unit));
        rest = after.get(end..).unwrap_or_default();
    }
    go_style
        || number(unsigned).and_then(|end| unsigned.get(end..)).is_some_and(|word| WORDS.contains(&word.trim_start()))
}

/// `local@domain`, with an optional display name before `<…>`.
fn email(text: &str) -> bool {
    let address = match text.trim().strip_suffix('>') {
        Some(named) => named.rsplit_once('<').map_or("", |(_, address)| address),
        None => text.trim(),
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let atom = |text: &str| {
        !text.is_empty() && !text.chars().any(|c| c.is_whitespace() || c.is_control() || "()<>[]:;@\\,\"".contains(c))
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let literal = domain.len() > 2 && domain.starts_with('[') && domain.ends_with(']');
    (quoted || local.split('.').all(atom)) && (literal || domain.split('.').all(atom))
}

fn hostname(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c == '-' || c.is_alphanumeric() || (!c.is_ascii() && !c.is_whitespace()))
    };
    let top = text.rsplit('.').next().unwrap_or_default();
    let top_is_word = !text.contains('.') || (top.chars().count() >= 2 && top.chars().all(char::is_alphabetic));
    text.len() <= 255 && text.split('.').all(label) && top_is_word
}

fn isbn10(text: &str) -> bool {
    let digits: Vec<char> = text.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
    if digits.len() != 10 {
        return false;
    }
    let sum: Option<u32> = digits
        .iter()
        .enumerate()
        .map(|(at, c)| match (at, c) {
            (9, 'X' | 'x') => Some(100),
            (at, c) => Some((at as u32 + 1) * c.to_digit(10)?),
        })
        .sum();
    sum.is_some_and(|sum| sum.is_multiple_of(11))
}

fn isbn13(text: &str) -> bool {
    let digits: Vec<char> = text.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
    if digits.len() != 13 {
        return false;
    }
    let sum: Option<u32> =
        digits.iter().enumerate().map(|(at, c)| Some(c.to_digit(10)? * if at % 2 == 0 { 1 } else { 3 })).sum();
    sum.is_some_and(|sum| sum.is_multiple_of(10))
}

/// A segment of a Kubernetes name: lower case letters, digits and inner dashes.
fn name_segment(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
        && all(text, |byte| byte == b'-' || byte.is_ascii_digit() || byte.is_ascii_lowercase())
}

/// Six, eight or twenty bytes in pairs of digits, or in groups of four with dots.
fn mac(text: &str) -> bool {
    let groups = |separator: char, width: usize| {
        let mut count = 0;
        let fits = text.split(separator).all(|group| {
            count += 1;
            group.len() == width && all(group, |byte| byte.is_ascii_hexdigit())
        });
        fits && matches!(count * width / 2, 6 | 8 | 20)
    };
    groups(':', 2) || groups('-', 2) || groups('.', 4)
}

fn rgb_color(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("rgb(").and_then(|inner| inner.strip_suffix(')')) else {
        return false;
    };
    let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
    parts.len() == 3 && parts.iter().all(|part| part.parse::<u8>().is_ok())
}

fn social_security(text: &str) -> bool {
    let digits: String = text.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
    digits.len() == 9 && all(&digits, |byte| byte.is_ascii_digit()) && text.len() <= 11
}

/// A valid request target of HTTP: a URI with a scheme, or an absolute path.
fn uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return false;
    }
    if text.starts_with('/') || text == "*" {
        return true;
    }
    text.split_once(':').is_some_and(|(scheme, rest)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && all(scheme, |byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
            && !rest.is_empty()
    })
}

/// Thirty-two digits, with optional dashes between the groups, and the version of the format.
fn uuid(format: &str, text: &str) -> bool {
    let mut digits = Vec::with_capacity(32);
    for byte in text.bytes() {
        match (byte, digits.len()) {
            (b'-', 8 | 12 | 16 | 20) => {}
            (byte, _) if byte.is_ascii_hexdigit() => digits.push(byte.to_ascii_lowercase()),
            _ => return false,
        }
    }
    let at = |index: usize| digits.get(index).copied().unwrap_or_default();
    let variant = matches!(at(16), b'8' | b'9' | b'a' | b'b');
    digits.len() == 32
        && !text.contains("--")
        && match format {
            "uuid3" => at(12) == b'3',
            "uuid4" => at(12) == b'4' && variant,
            "uuid5" => at(12) == b'5' && variant,
            _ => true,
        }
}
