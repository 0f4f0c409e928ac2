//! Conversions between types, and `type`, `dyn`.

use std::sync::Arc;

use super::{Evaluated, Library, no_overload};
use crate::error::EvalError;
use crate::time;
use crate::value::Value;

pub(super) const LIBRARY: Library = Library {
    since: 0,
    rows: &[
        ("type", type_of, &[("type", "(A) -> type(A)")]),
        ("dyn", identity, &[("to_dyn", "(A) -> dyn")]),
        ("bool", to_bool, &[("bool_to_bool", "(bool) -> bool"), ("string_to_bool", "(string) -> bool")]),
        ("bytes", to_bytes, &[("bytes_to_bytes", "(bytes) -> bytes"), ("string_to_bytes", "(string) -> bytes")]),
        (
            "double",
            to_double,
            &[
                ("double_to_double", "(double) -> double"),
                ("int64_to_double", "(int) -> double"),
                ("string_to_double", "(string) -> double"),
                ("uint64_to_double", "(uint) -> double"),
            ],
        ),
        (
            "duration",
            to_duration,
            &[
                ("duration_to_duration", "(duration) -> duration"),
                ("int64_to_duration", "(int) -> duration"),
                ("string_to_duration", "(string) -> duration"),
            ],
        ),
        (
            "int",
            to_int,
            &[
                ("int64_to_int64", "(int) -> int"),
                ("double_to_int64", "(double) -> int"),
                ("duration_to_int64", "(duration) -> int"),
                ("string_to_int64", "(string) -> int"),
                ("timestamp_to_int64", "(timestamp) -> int"),
                ("uint64_to_int64", "(uint) -> int"),
            ],
        ),
        (
            "string",
            to_string,
            &[
                ("string_to_string", "(string) -> string"),
                ("bool_to_string", "(bool) -> string"),
                ("bytes_to_string", "(bytes) -> string"),
                ("double_to_string", "(double) -> string"),
                ("duration_to_string", "(duration) -> string"),
                ("int64_to_string", "(int) -> string"),
                ("timestamp_to_string", "(timestamp) -> string"),
                ("uint64_to_string", "(uint) -> string"),
                ("ip_to_string", "(ip) -> string"),
                ("cidr_to_string", "(cidr) -> string"),
            ],
        ),
        (
            "timestamp",
            to_timestamp,
            &[
                ("timestamp_to_timestamp", "(timestamp) -> timestamp"),
                ("int64_to_timestamp", "(int) -> timestamp"),
                ("string_to_timestamp", "(string) -> timestamp"),
            ],
        ),
        (
            "uint",
            to_uint,
            &[
                ("uint64_to_uint64", "(uint) -> uint"),
                ("double_to_uint64", "(double) -> uint"),
                ("int64_to_uint64", "(int) -> uint"),
                ("string_to_uint64", "(string) -> uint"),
            ],
        ),
    ],
};

fn type_of<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [value] => Ok(Value::Type(value.type_of())),
        _ => Err(no_overload("type", args)),
    }
}

fn identity<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    args.first().cloned().ok_or_else(|| no_overload("dyn", args))
}

fn conversion_error(to: &str) -> EvalError {
    EvalError::failed(format!("type conversion error from 'string' to '{to}'"))
}

fn to_bool<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(*value)),
        [Value::String(text)] => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            _ => Err(conversion_error("bool")),
        },
        _ => Err(no_overload("bool", args)),
    }
}

fn to_bytes<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Bytes(bytes)] => Ok(Value::Bytes(Arc::clone(bytes))),
        [Value::String(text)] => Ok(Value::Bytes(text.as_bytes().into())),
        _ => Err(no_overload("bytes", args)),
    }
}

fn to_double<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Double(value)] => Ok(Value::Double(*value)),
        [Value::Int(value)] => Ok(Value::Double(*value as f64)),
        [Value::Uint(value)] => Ok(Value::Double(*value as f64)),
        [Value::String(text)] => text.parse().map(Value::Double).map_err(|_| conversion_error("double")),
        _ => Err(no_overload("double", args)),
    }
}

fn to_duration<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Duration(value)] => Ok(Value::Duration(*value)),
        [Value::Int(value)] => Ok(Value::Duration(*value)),
        [Value::String(text)] => {
            time::parse_duration(text).map(Value::Duration).ok_or_else(|| conversion_error("google.protobuf.Duration"))
        }
        _ => Err(no_overload("duration", args)),
    }
}

fn to_int<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let overflow = || EvalError::failed("integer overflow");
    match args {
        [Value::Int(value)] => Ok(Value::Int(*value)),
        [Value::Uint(value)] => i64::try_from(*value).map(Value::Int).map_err(|_| overflow()),
        [Value::Double(value)]
            if value.is_finite() && *value > -9.223_372_036_854_775e18 && *value < 9.223_372_036_854_775e18 =>
        {
            Ok(Value::Int(*value as i64))
        }
        [Value::Double(_)] => Err(overflow()),
        [Value::Duration(nanos)] => Ok(Value::Int(*nanos)),
        [Value::Timestamp(at)] => Ok(Value::Int(at.as_second())),
        [Value::String(text)] => text.parse().map(Value::Int).map_err(|_| conversion_error("int")),
        _ => Err(no_overload("int", args)),
    }
}

fn to_uint<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let overflow = || EvalError::failed("unsigned integer overflow");
    match args {
        [Value::Uint(value)] => Ok(Value::Uint(*value)),
        [Value::Int(value)] => u64::try_from(*value).map(Value::Uint).map_err(|_| overflow()),
        [Value::Double(value)] if *value >= 0.0 && *value < u64::MAX as f64 => Ok(Value::Uint(*value as u64)),
        [Value::Double(_)] => Err(overflow()),
        [Value::String(text)] => text.parse().map(Value::Uint).map_err(|_| conversion_error("uint")),
        _ => Err(no_overload("uint", args)),
    }
}

fn to_timestamp<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Timestamp(at)] => Ok(Value::Timestamp(*at)),
        [Value::Int(seconds)] => jiff::Timestamp::from_second(*seconds)
            .map(Value::Timestamp)
            .map_err(|_| EvalError::failed("timestamp overflow")),
        [Value::String(text)] => time::parse_timestamp(text)
            .map(Value::Timestamp)
            .ok_or_else(|| conversion_error("google.protobuf.Timestamp")),
        _ => Err(no_overload("timestamp", args)),
    }
}

fn to_string<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::String(text)] => Ok(Value::String(text.clone())),
        [Value::Bytes(bytes)] => String::from_utf8(bytes.to_vec())
            .map(Value::text)
            .map_err(|_| EvalError::failed("invalid UTF-8 in bytes, cannot convert to string")),
        [
            value @ (Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::Duration(_)
            | Value::Timestamp(_)
            | Value::Opaque(_)),
        ] => Ok(Value::text(display(value))),
        _ => Err(no_overload("string", args)),
    }
}

/// Formats a double as Go does with the shortest digits: `1e+21`, `0.1`.
pub(crate) fn format_double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e21).contains(&magnitude) {
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, digits) = match exponent.strip_prefix('-') {
            Some(digits) => ('-', digits),
            None => ('+', exponent),
        };
        return format!("{mantissa}e{sign}{digits:0>2}");
    }
    format!("{value}")
}

/// Returns the text of a scalar, as in messages.
pub(crate) fn display(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => format_double(*value),
        Value::String(text) => text.to_string(),
        Value::Duration(nanos) => time::format_duration(*nanos),
        Value::Timestamp(at) => time::format_timestamp(*at),
        Value::Type(of) => of.runtime_name().to_owned(),
        Value::Opaque(value) => super::net::text_of(value).unwrap_or_else(|| value.type_name().to_owned()),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::List(_) | Value::Map(_) | Value::Optional(_) => value.type_of().runtime_name().to_owned(),
    }
}
