//! `"...".format([...])`.

use super::conversions::{display, format_double};
use super::operators::{MAX_COMPUTED, bounded};
use super::{Evaluated, no_overload};
use crate::error::EvalError;
use crate::time;
use crate::value::Value;

/// The limit of digits that a clause may ask for.
const MAX_PRECISION: usize = 1000;

pub(super) fn format<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::String(text), Value::List(list)] = args else { return Err(no_overload("format", args)) };
    let mut out = String::new();
    let (mut rest, mut next) = (&**text, 0);
    while let Some(at) = rest.find('%') {
        out.push_str(rest.get(..at).unwrap_or(""));
        rest = rest.get(at + 1..).unwrap_or("");
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let mut precision = None;
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            let digits: usize = after.get(..end).and_then(|digits| digits.parse().ok()).unwrap_or(usize::MAX);
            if digits > MAX_PRECISION {
                return Err(EvalError::failed("could not parse formatting clause: precision is invalid"));
            }
            precision = Some(digits);
            rest = after.get(end..).unwrap_or("");
        }
        let Some(verb) = rest.chars().next() else {
            return Err(EvalError::failed("unexpected end of string"));
        };
        rest = rest.get(verb.len_utf8()..).unwrap_or("");
        let Some(arg) = list.get(next) else {
            return Err(EvalError::failed(format!("index {next} out of range")));
        };
        next += 1;
        let clause = match verb {
            's' if arg.fits_within(MAX_COMPUTED) => string_form(&arg),
            's' => return bounded(usize::MAX).map(|()| Value::Null),
            'd' => decimal(&arg)?,
            'f' => fixed(&arg, precision.unwrap_or(6), false)?,
            'e' => fixed(&arg, precision.unwrap_or(6), true)?,
            'b' => radix(&arg, verb)?,
            'o' => radix(&arg, verb)?,
            'x' | 'X' => radix(&arg, verb)?,
            other => {
                let message = format!("could not parse formatting clause: unrecognized formatting clause {other:?}");
                return Err(EvalError::failed(message.replace('\'', "\"")));
            }
        };
        out.push_str(&clause);
        bounded(out.len())?;
    }
    out.push_str(rest);
    bounded(out.len())?;
    Ok(Value::text(out))
}

/// Returns the text of any value: lists and maps with their items.
fn string_form(value: &Value<'_>) -> String {
    match value {
        Value::List(list) => {
            let items: Vec<String> = list.iter().map(|item| string_form(&item)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let mut items: Vec<String> = map
                .entries()
                .map(|(key, value)| format!("{}: {}", string_form(&key.to_value()), string_form(&value)))
                .collect();
            items.sort_unstable();
            format!("{{{}}}", items.join(", "))
        }
        Value::Double(value) => format_double(*value),
        Value::Duration(nanos) => time::format_duration(*nanos),
        other => display(other),
    }
}

fn mismatch(clause: &str, value: &Value<'_>) -> EvalError {
    let name = value.type_of().runtime_name().to_owned();
    EvalError::failed(format!("error during formatting: {clause}, was given {name}"))
}

fn decimal(value: &Value<'_>) -> Result<String, EvalError> {
    match value {
        Value::Int(value) => Ok(value.to_string()),
        Value::Uint(value) => Ok(value.to_string()),
        Value::Double(value) if !value.is_finite() => Ok(format_double(*value)),
        other => Err(mismatch("decimal clause can only be used on integers", other)),
    }
}

fn fixed(value: &Value<'_>, precision: usize, scientific: bool) -> Result<String, EvalError> {
    let number = match value {
        Value::Double(value) => *value,
        Value::Int(value) => *value as f64,
        Value::Uint(value) => *value as f64,
        other if scientific => return Err(mismatch("scientific clause can only be used on doubles", other)),
        other => return Err(mismatch("fixed-point clause can only be used on doubles", other)),
    };
    if !number.is_finite() {
        return Ok(format_double(number));
    }
    if !scientific {
        return Ok(format!("{number:.precision$}"));
    }
    let text = format!("{number:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    Ok(format!("{mantissa}e{sign}{digits:0>2}"))
}

fn radix(value: &Value<'_>, verb: char) -> Result<String, EvalError> {
    let (sign, magnitude) = match value {
        Value::Int(value) => (if *value < 0 { "-" } else { "" }, value.unsigned_abs()),
        Value::Uint(value) => ("", *value),
        Value::Bool(value) if verb == 'b' => ("", u64::from(*value)),
        Value::String(text) if matches!(verb, 'x' | 'X') => return Ok(hex(text.as_bytes(), verb)),
        Value::Bytes(bytes) if matches!(verb, 'x' | 'X') => return Ok(hex(bytes, verb)),
        other => {
            let clause = match verb {
                'b' => "only integers and bools can be formatted as binary",
                'o' => "octal clause can only be used on integers",
                _ => "only integers, byte buffers, and strings can be formatted as hex",
            };
            return Err(mismatch(clause, other));
        }
    };
    Ok(match verb {
        'b' => format!("{sign}{magnitude:b}"),
        'o' => format!("{sign}{magnitude:o}"),
        'X' => format!("{sign}{magnitude:X}"),
        _ => format!("{sign}{magnitude:x}"),
    })
}

fn hex(bytes: &[u8], verb: char) -> String {
    bytes.iter().map(|byte| if verb == 'X' { format!("{byte:02X}") } else { format!("{byte:02x}") }).collect()
}
