//! From quantity to text: no fraction, and the largest suffix without loss.

use std::fmt;

use super::nanos::Nanos;
use super::{ExactQuantity, QuantityFormat};

/// From 10⁻⁹ up by thousands.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// From 1 up by 1,024.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// A larger exponent could not be parsed.
const MAX_THOUSANDS: usize = 336;

impl fmt::Display for ExactQuantity {
    /// Writes the canonical form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Nanos::Small(nanos) = &self.nanos else {
            return self.write_big(f);
        };
        if *nanos == 0 {
            return f.write_str("0");
        }
        if *nanos < 0 {
            f.write_str("-")?;
        }
        let magnitude = nanos.unsigned_abs();
        if self.format == QuantityFormat::BinarySi
            && let Some(value) = binary_value(magnitude)
        {
            let thousands = (value.trailing_zeros() / 10).min(6);
            let suffix = BINARY.get(thousands as usize).copied().unwrap_or_default();
            return write!(f, "{}{suffix}", value >> (10 * thousands));
        }
        let (number, thousands) = strip_thousands(magnitude);
        match u64::try_from(number) {
            Ok(number) => write!(f, "{number}")?,
            Err(_) => write!(f, "{number}")?,
        }
        self.write_suffix(f, thousands)
    }
}

impl ExactQuantity {
    /// Writes a number beyond 128 bits. It is beyond what a binary suffix can be parsed with, so that has no part here.
    #[cold]
    fn write_big(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.nanos.to_big().to_string();
        let zeros = digits.bytes().rev().take_while(|digit| *digit == b'0').count();
        let thousands = (zeros / 3).min(MAX_THOUSANDS);
        f.write_str(digits.get(..digits.len() - 3 * thousands).unwrap_or_default())?;
        self.write_suffix(f, thousands)
    }

    /// Writes the suffix of 10⁻⁹ times this power of a thousand.
    fn write_suffix(&self, f: &mut fmt::Formatter<'_>, thousands: usize) -> fmt::Result {
        match DECIMAL.get(thousands) {
            Some(suffix) if self.format != QuantityFormat::DecimalExponent => f.write_str(suffix),
            Some(&"") => Ok(()),
            _ => write!(f, "e{}", thousands as i64 * 3 - 9),
        }
    }
}

/// Returns the whole number to write with a binary suffix. Numbers below 1,024, fractions, and numbers that parsing would cut are
/// written as decimal ones.
fn binary_value(nanos: u128) -> Option<u64> {
    const UNIT: u128 = 1_000_000_000;
    let value = match u64::try_from(nanos) {
        Ok(nanos) if nanos.is_multiple_of(UNIT as u64) => nanos / UNIT as u64,
        Err(_) if nanos.is_multiple_of(UNIT) => u64::try_from(nanos / UNIT).ok()?,
        _ => return None,
    };
    (1024..=i64::MAX as u64).contains(&value).then_some(value)
}

/// Divides by a thousand while that leaves no fraction; returns the quotient and how often.
fn strip_thousands(number: u128) -> (u128, usize) {
    let (mut number, mut thousands) = (number, 0);
    // Mostly whole units.
    if number.is_multiple_of(1_000_000_000) {
        (number, thousands) = (number / 1_000_000_000, 3);
    }
    while u64::try_from(number).is_err() && number.is_multiple_of(1000) {
        number /= 1000;
        thousands += 1;
    }
    let Ok(mut short) = u64::try_from(number) else {
        return (number, thousands);
    };
    while short.is_multiple_of(1000) {
        short /= 1000;
        thousands += 1;
    }
    (short.into(), thousands)
}
