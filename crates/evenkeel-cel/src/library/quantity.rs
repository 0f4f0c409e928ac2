//! Quantities of Kubernetes.

use std::cmp::Ordering;

use super::opaque::Opaque;
use super::{Evaluated, Library, no_overload};
use crate::error::EvalError;
use crate::value::Value;

pub(super) const LIBRARY: Library = Library {
    since: 28,
    rows: &[
        ("quantity", quantity, &[("string_to_quantity", "(string) -> quantity")]),
        ("isQuantity", is_quantity, &[("is_quantity_string", "(string) -> bool")]),
        ("sign", sign, &[("quantity_sign", "quantity.() -> int")]),
        (
            "isGreaterThan",
            is_greater,
            &[
                ("quantity_is_greater_than", "quantity.(quantity) -> bool"),
                ("semver_is_greater_than", "semver.(semver) -> bool"),
            ],
        ),
        (
            "isLessThan",
            is_less,
            &[
                ("quantity_is_less_than", "quantity.(quantity) -> bool"),
                ("semver_is_less_than", "semver.(semver) -> bool"),
            ],
        ),
        (
            "compareTo",
            compare_to,
            &[("quantity_compare_to", "quantity.(quantity) -> int"), ("semver_compare_to", "semver.(semver) -> int")],
        ),
        ("asApproximateFloat", as_float, &[("quantity_get_float", "quantity.() -> double")]),
        ("asInteger", as_integer, &[("quantity_get_int", "quantity.() -> int")]),
        ("isInteger", is_integer, &[("quantity_is_integer", "quantity.() -> bool")]),
        (
            "add",
            add,
            &[("quantity_add", "quantity.(quantity) -> quantity"), ("quantity_add_int", "quantity.(int) -> quantity")],
        ),
        (
            "sub",
            sub,
            &[("quantity_sub", "quantity.(quantity) -> quantity"), ("quantity_sub_int", "quantity.(int) -> quantity")],
        ),
    ],
};

const NANO: i128 = 1_000_000_000;

/// A quantity in units of 10⁻⁹, within ±2⁶³ units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quantity(i128);

impl Quantity {
    fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let (binary, decimal): (u32, i32) = match suffix {
            "" => (0, 0),
            "n" => (0, -9),
            "u" => (0, -6),
            "m" => (0, -3),
            "k" => (0, 3),
            "M" => (0, 6),
            "G" => (0, 9),
            "T" => (0, 12),
            "P" => (0, 15),
            "E" => (0, 18),
            "Ki" => (10, 0),
            "Mi" => (20, 0),
            "Gi" => (30, 0),
            "Ti" => (40, 0),
            "Pi" => (50, 0),
            "Ei" => (60, 0),
            _ => (0, suffix.strip_prefix(['e', 'E'])?.parse::<i16>().ok()?.into()),
        };
        let digits: String = [whole, fraction].concat();
        let digits = digits.trim_start_matches('0');
        let mut exponent = decimal - i32::try_from(fraction.len()).ok()? + 9;
        // Beyond these the value is zero, or more than the largest.
        let limit = i128::from(i64::MAX) * NANO;
        let mut value: i128 = if digits.len() > 36 {
            exponent += i32::try_from(digits.len() - 36).ok()?;
            digits.get(..36)?.parse().ok()?
        } else if digits.is_empty() {
            0
        } else {
            digits.parse().ok()?
        };
        if binary > 0 {
            value = value.checked_mul(1 << binary).unwrap_or(i128::MAX / 10);
        }
        let mut inexact = false;
        while exponent > 0 && value != 0 && value <= limit {
            value = value.saturating_mul(10);
            exponent -= 1;
        }
        while exponent < 0 && value != 0 {
            inexact |= value % 10 != 0;
            value /= 10;
            exponent += 1;
        }
        // Values below the smallest unit are rounded up.
        let value = (value + i128::from(inexact)).min(limit);
        Some(Quantity(if negative { -value } else { value }))
    }

    fn as_integer(self) -> Option<i64> {
        (self.0 % NANO == 0).then(|| i64::try_from(self.0 / NANO).ok()).flatten()
    }
}

fn quantity<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::String(text)] = args else { return Err(no_overload("quantity", args)) };
    Quantity::parse(text).map(|value| Value::opaque(Opaque::Quantity(value))).ok_or_else(|| {
        EvalError::failed("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    })
}

fn is_quantity<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(Quantity::parse(text).is_some())),
        _ => Err(no_overload("isQuantity", args)),
    }
}

fn receiver(function: &str, args: &[Value<'_>]) -> Result<Quantity, EvalError> {
    match args.first() {
        Some(Value::Opaque(value)) => match &**value {
            Opaque::Quantity(quantity) => Ok(*quantity),
            _ => Err(no_overload(function, args)),
        },
        _ => Err(no_overload(function, args)),
    }
}

fn sign<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Int(receiver("sign", args)?.0.signum() as i64))
}

fn order(function: &str, args: &[Value<'_>]) -> Result<Ordering, EvalError> {
    let [Value::Opaque(a), Value::Opaque(b)] = args else { return Err(no_overload(function, args)) };
    match (&**a, &**b) {
        (Opaque::Quantity(a), Opaque::Quantity(b)) => Ok(a.cmp(b)),
        (Opaque::Semver(a), Opaque::Semver(b)) => Ok(a.cmp(b)),
        _ => Err(no_overload(function, args)),
    }
}

fn is_greater<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(order("isGreaterThan", args)?.is_gt()))
}

fn is_less<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(order("isLessThan", args)?.is_lt()))
}

fn compare_to<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Int(order("compareTo", args)? as i64))
}

fn as_float<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Double(receiver("asApproximateFloat", args)?.0 as f64 / NANO as f64))
}

fn as_integer<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let value = receiver("asInteger", args)?;
    value.as_integer().map(Value::Int).ok_or_else(|| EvalError::failed("cannot convert value to integer"))
}

fn is_integer<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(receiver("isInteger", args)?.as_integer().is_some()))
}

fn combined<'a>(function: &str, args: &[Value<'a>], factor: i128) -> Evaluated<'a> {
    let left = receiver(function, args)?;
    let right = match args.get(1) {
        Some(Value::Int(value)) => i128::from(*value) * NANO,
        Some(Value::Opaque(value)) => match &**value {
            Opaque::Quantity(value) => value.0,
            _ => return Err(no_overload(function, args)),
        },
        _ => return Err(no_overload(function, args)),
    };
    Ok(Value::opaque(Opaque::Quantity(Quantity(left.0.saturating_add(factor * right)))))
}

fn add<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    combined("add", args, 1)
}

fn sub<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    combined("sub", args, -1)
}
