//! Costs: what an evaluation costs at run time, and what it may cost at most.
//!
//! Both follow cel-go and kube-apiserver number by number, because definitions are accepted or refused by them.

mod estimate;
mod library;

#[cfg(test)]
mod tests;

pub(crate) use estimate::Estimator;

use crate::library::{net, opaque::Opaque};
use crate::value::Value;

/// The cost of a variable or field.
pub(crate) const IDENT: u64 = 1;
/// The cost of a list literal.
pub(crate) const LIST: u64 = 10;
/// The cost of a map literal.
pub(crate) const MAP: u64 = 30;
/// The cost of an object literal.
pub(crate) const STRUCT: u64 = 40;
/// The cost of an authorization check.
const CHECK: u64 = 350_000;
/// The cost of reading one character.
const PER_CHARACTER: f64 = 0.1;
/// The cost of one character of a regular expression.
const PER_PATTERN_CHARACTER: f64 = 0.25;

/// The bounds of a cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostEstimate {
    /// The least.
    pub min: u64,
    /// The most.
    pub max: u64,
}

impl CostEstimate {
    pub(crate) fn fixed(cost: u64) -> Self {
        CostEstimate { min: cost, max: cost }
    }

    fn plus(self, other: Self) -> Self {
        CostEstimate { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Self) -> Self {
        CostEstimate { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    fn scaled(self, factor: f64) -> Self {
        CostEstimate { min: scale(self.min, factor), max: scale(self.max, factor) }
    }

    fn union(self, other: Self) -> Self {
        CostEstimate { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// Sizes have the same bounds and the same arithmetic.
type SizeEstimate = CostEstimate;

fn scale(value: u64, factor: f64) -> u64 {
    let scaled = (value as f64 * factor).ceil();
    if scaled >= u64::MAX as f64 { u64::MAX } else { scaled as u64 }
}

/// Returns the size of a value as costs count it: characters, bytes, items; 1 for others.
fn size(value: &Value<'_>) -> u64 {
    let length = match value {
        Value::String(text) => text.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        Value::Optional(Some(value)) => return size(value),
        Value::Opaque(value) => return net::size_of(value).unwrap_or(1),
        _ => 1,
    };
    length as u64
}

/// The most parts of a value whose cost of reading is counted. No limit of an evaluation allows more.
const MAX_TRAVERSED: usize = 1 << 20;

/// Returns the cost of reading a value with all it contains.
fn traversal(value: &Value<'_>) -> u64 {
    if value.is_bounded(MAX_TRAVERSED, usize::MAX) { traversal_of_parts(value) } else { u64::MAX }
}

fn traversal_of_parts(value: &Value<'_>) -> u64 {
    match value {
        Value::String(text) => (text.len() as f64 * PER_CHARACTER) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * PER_CHARACTER) as u64,
        Value::List(list) => list.iter().map(|item| traversal_of_parts(&item)).sum(),
        Value::Map(map) => {
            let entries = map.entries();
            entries.map(|(key, value)| traversal_of_parts(&key.to_value()) + traversal_of_parts(&value)).sum()
        }
        _ => 1,
    }
}

/// Returns the actual cost of a call.
pub(crate) fn of_call(function: &str, overload: &str, args: &[Value<'_>], result: Option<&Value<'_>>) -> u64 {
    let arg = |index: usize| args.get(index).map_or(1, size);
    let read = |size: u64| scale(size, PER_CHARACTER);
    match function {
        "check" => CHECK,
        "fieldSelector" | "labelSelector" => LIST + read(arg(1)) + scale(scale(arg(1), 0.5), (LIST + STRUCT) as f64),
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => {
            args.first().map_or(0, traversal)
        }
        "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "jsonpatch.escapeKey"
        | "cidr"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver" => read(arg(0)),
        "ip" if overload != "cidr_ip" => read(arg(0)),
        "replace" | "split" | "ip.isCanonical" => scale(arg(0), 2.0 * PER_CHARACTER),
        "join" => scale(result.map_or(1, size), 2.0 * PER_CHARACTER),
        "find" | "findAll" => read(arg(0) + 1) * scale(arg(1), PER_PATTERN_CHARACTER),
        "containsIP" => {
            let parse = if overload == "cidr_contains_ip_string" { read(arg(1)) } else { 0 };
            read(2 * arg(0)) + parse
        }
        "containsCIDR" => {
            let parse = if overload == "cidr_contains_cidr_string" { read(arg(1)) } else { 0 };
            read(2 * arg(0)) + read(arg(0)) + 1 + parse
        }
        "validate" => {
            let pattern = match args.first() {
                Some(Value::Opaque(value)) => match &**value {
                    Opaque::Format(format) => format.pattern_length(),
                    _ => 1,
                },
                _ => 1,
            };
            read(arg(1) + 1) * scale(pattern, PER_PATTERN_CHARACTER)
        }
        "_==_" if matches!(args.first(), Some(Value::Opaque(_))) => 1,
        _ => of_standard_call(overload, args),
    }
}

fn of_standard_call(overload: &str, args: &[Value<'_>]) -> u64 {
    let arg = |index: usize| args.get(index).map_or(1, size);
    let read = |size: u64| scale(size, PER_CHARACTER);
    match overload {
        "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string" | "strings_quote"
        | "string_format" => read(arg(0)),
        "in_list" => arg(1),
        "less_string"
        | "greater_string"
        | "less_equals_string"
        | "greater_equals_string"
        | "less_bytes"
        | "greater_bytes"
        | "less_equals_bytes"
        | "greater_equals_bytes"
        | "equals"
        | "not_equals" => read(arg(0).min(arg(1))),
        "add_string" | "add_bytes" => read(arg(0) + arg(1)),
        "matches_string" => read(arg(0) + 1) * scale(arg(1), PER_PATTERN_CHARACTER),
        "contains_string" => read(arg(0)) * read(arg(1)),
        _ => 1,
    }
}
