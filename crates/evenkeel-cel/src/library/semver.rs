//! Semantic versions.

use std::cmp::Ordering;

use super::opaque::Opaque;
use super::{Evaluated, Library, no_overload};
use crate::error::EvalError;
use crate::value::Value;

pub(super) const LIBRARY: Library = Library {
    since: 33,
    rows: &[
        (
            "semver",
            semver,
            &[("string_to_semver", "(string) -> semver"), ("string_bool_to_semver", "(string, bool) -> semver")],
        ),
        (
            "isSemver",
            is_semver,
            &[("is_semver_string", "(string) -> bool"), ("is_semver_string_bool", "(string, bool) -> bool")],
        ),
        ("major", major, &[("semver_major", "semver.() -> int")]),
        ("minor", minor, &[("semver_minor", "semver.() -> int")]),
        ("patch", patch, &[("semver_patch", "semver.() -> int")]),
    ],
};

/// A semantic version. Builds do not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Semver {
    numbers: [u64; 3],
    prerelease: Vec<Identifier>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Text(String),
}

impl PartialOrd for Semver {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Semver {
    fn cmp(&self, other: &Self) -> Ordering {
        // A version is after its prereleases.
        self.numbers
            .cmp(&other.numbers)
            .then_with(|| self.prerelease.is_empty().cmp(&other.prerelease.is_empty()))
            .then_with(|| self.prerelease.cmp(&other.prerelease))
    }
}

impl Semver {
    fn parse(text: &str) -> Option<Self> {
        let known = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
        if build.is_some_and(|build| !build.split('.').all(known)) {
            return None;
        }
        let (numbers, prerelease) = rest.split_once('-').map_or((rest, None), |(a, b)| (a, Some(b)));
        let numbers: Vec<u64> = numbers.split('.').map(number).collect::<Option<_>>()?;
        let prerelease = match prerelease {
            None => Vec::new(),
            Some(text) => text
                .split('.')
                .map(|part| {
                    if !known(part) {
                        None
                    } else if part.bytes().all(|byte| byte.is_ascii_digit()) {
                        number(part).map(Identifier::Number)
                    } else {
                        Some(Identifier::Text(part.to_owned()))
                    }
                })
                .collect::<Option<_>>()?,
        };
        Some(Semver { numbers: numbers.try_into().ok()?, prerelease })
    }

    /// Accepts a leading `v`, missing numbers and leading zeros.
    fn parse_loosely(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let end = text.find(['+', '-']).unwrap_or(text.len());
        let (numbers, rest) = text.split_at(end);
        let mut parts: Vec<String> = numbers
            .split('.')
            .map(|part| {
                let trimmed = part.trim_start_matches('0');
                if trimmed.is_empty() && !part.is_empty() { "0".to_owned() } else { trimmed.to_owned() }
            })
            .collect();
        if parts.len() < 3 && !rest.is_empty() {
            return None;
        }
        while parts.len() < 3 {
            parts.push("0".to_owned());
        }
        Self::parse(&format!("{}{rest}", parts.join(".")))
    }
}

fn number(text: &str) -> Option<u64> {
    let valid = text.bytes().all(|byte| byte.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
    valid.then(|| text.parse().ok()).flatten()
}

fn parsed(function: &str, args: &[Value<'_>]) -> Result<Option<Semver>, EvalError> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Ok(Semver::parse(text)),
        [Value::String(text), Value::Bool(true)] => Ok(Semver::parse_loosely(text)),
        _ => Err(no_overload(function, args)),
    }
}

fn semver<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    parsed("semver", args)?
        .map(|version| Value::opaque(Opaque::Semver(version)))
        .ok_or_else(|| EvalError::failed("invalid semantic version"))
}

fn is_semver<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(parsed("isSemver", args)?.is_some()))
}

fn part<'a>(function: &str, args: &[Value<'a>], index: usize) -> Evaluated<'a> {
    if let [Value::Opaque(value)] = args
        && let Opaque::Semver(version) = &**value
    {
        let part = version.numbers.get(index).copied().unwrap_or(0);
        return Ok(Value::Int(i64::try_from(part).unwrap_or(i64::MAX)));
    }
    Err(no_overload(function, args))
}

fn major<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    part("major", args, 0)
}

fn minor<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    part("minor", args, 1)
}

fn patch<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    part("patch", args, 2)
}
