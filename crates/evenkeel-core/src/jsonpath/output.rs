//! From results to text.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

use super::MAX_OUTPUT;
use super::error::JsonPathError;

/// Bytes up to the limit.
struct LimitedOutput(Vec<u8>);

impl Write for LimitedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn text(results: &[Vec<&Value>]) -> Result<String, JsonPathError> {
    render(|out| {
        for values in results {
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    out.write_all(b" ")?;
                }
                write_text(value, out)?;
            }
        }
        Ok(())
    })
}

pub(super) fn json(results: &[Vec<&Value>]) -> Result<String, JsonPathError> {
    render(|out| {
        for values in results {
            values.serialize(&mut Serializer::with_formatter(&mut *out, PrettyFormatter::with_indent(b"    ")))?;
            out.write_all(b"\n")?;
        }
        Ok(())
    })
}

/// Only the limit makes writing fail.
fn render(write: impl FnOnce(&mut LimitedOutput) -> io::Result<()>) -> Result<String, JsonPathError> {
    let mut out = LimitedOutput(Vec::new());
    let too_large = JsonPathError::OutputTooLarge { limit: MAX_OUTPUT };
    match write(&mut out) {
        Ok(()) => String::from_utf8(out.0).map_err(|_| too_large),
        Err(_) => Err(too_large),
    }
}

fn write_text(value: &Value, out: &mut LimitedOutput) -> io::Result<()> {
    match value {
        Value::String(text) => out.write_all(text.as_bytes()),
        Value::Number(number) if number.is_f64() => {
            out.write_all(go_float(number.as_f64().unwrap_or_default()).as_bytes())
        }
        other => Ok(serde_json::to_writer(out, other)?),
    }
}

/// Writes a fraction as Go does: in exponent form from a million on and below 0.0001.
fn go_float(number: f64) -> String {
    let shortest = format!("{number:e}");
    let parts = shortest.split_once('e').and_then(|(mantissa, power)| Some((mantissa, power.parse::<i32>().ok()?)));
    match parts {
        Some((mantissa, power)) if !(-4..6).contains(&power) => {
            let sign = if power < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", power.unsigned_abs())
        }
        _ => number.to_string(),
    }
}
