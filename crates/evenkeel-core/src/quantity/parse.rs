//! From text to quantity.

use num_bigint::BigInt;

use super::nanos::Nanos;
use super::{ExactQuantity, MAX_EXPONENT, MAX_LENGTH, MAX_MAGNITUDE, QuantityError, QuantityFormat};

/// 2⁶³−1 units: parsed binary quantities are not larger.
const BINARY_CAP: i128 = i64::MAX as i128 * 1_000_000_000;
/// Numbers with at most this many digits fit 128 bits.
const SMALL_DIGITS: usize = 38;

/// What the suffix multiplies by.
enum Suffix {
    Ten(i64, QuantityFormat),
    /// Two to this power.
    Two(u32),
}

pub(super) fn parse(text: &str) -> Result<ExactQuantity, QuantityError> {
    if text.len() > MAX_LENGTH {
        return Err(QuantityError::Number);
    }
    let (negative, unsigned) = match text.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        all => (false, all),
    };
    let (whole, rest) = digits(unsigned);
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => digits(rest),
        rest => (&[][..], rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(QuantityError::Format);
    }
    let suffix = parse_suffix(rest)?;
    let (magnitude, format) = magnitude(whole, fraction, &suffix)?;
    Ok(ExactQuantity { nanos: if negative { magnitude.negated() } else { magnitude }, format })
}

/// Splits off the leading digits.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, &[]))
}

fn parse_suffix(suffix: &[u8]) -> Result<Suffix, QuantityError> {
    let decimal = |power| Ok(Suffix::Ten(power, QuantityFormat::DecimalSi));
    match suffix {
        b"" => decimal(0),
        b"n" => decimal(-9),
        b"u" => decimal(-6),
        b"m" => decimal(-3),
        b"k" => decimal(3),
        b"M" => decimal(6),
        b"G" => decimal(9),
        b"T" => decimal(12),
        b"P" => decimal(15),
        b"E" => decimal(18),
        b"Ki" => Ok(Suffix::Two(10)),
        b"Mi" => Ok(Suffix::Two(20)),
        b"Gi" => Ok(Suffix::Two(30)),
        b"Ti" => Ok(Suffix::Two(40)),
        b"Pi" => Ok(Suffix::Two(50)),
        b"Ei" => Ok(Suffix::Two(60)),
        other => exponent(other).ok_or_else(|| unknown_suffix(other)),
    }
}

fn exponent(suffix: &[u8]) -> Option<Suffix> {
    let [b'e' | b'E', number @ ..] = suffix else { return None };
    let power: i64 = std::str::from_utf8(number).ok()?.parse().ok()?;
    (-MAX_EXPONENT..=MAX_EXPONENT).contains(&power).then_some(Suffix::Ten(power, QuantityFormat::DecimalExponent))
}

/// A suffix is letters, a sign and digits, as the regular expression of the error has it.
fn unknown_suffix(suffix: &[u8]) -> QuantityError {
    let letters = suffix.iter().take_while(|byte| b"eEinumkKMGTP".contains(byte)).count();
    let rest = suffix.get(letters..).unwrap_or_default();
    let number = rest.strip_prefix(b"-").or_else(|| rest.strip_prefix(b"+")).unwrap_or(rest);
    if number.iter().all(u8::is_ascii_digit) { QuantityError::Suffix } else { QuantityError::Format }
}

fn magnitude(whole: &[u8], fraction: &[u8], suffix: &Suffix) -> Result<(Nanos, QuantityFormat), QuantityError> {
    let zeros = whole.iter().take_while(|digit| **digit == b'0').count();
    let whole = whole.get(zeros..).unwrap_or_default();
    // Both lengths are at most `MAX_LENGTH`.
    let shift = fraction.len() as i64;
    let is_small = whole.len() + fraction.len() <= SMALL_DIGITS;
    match *suffix {
        Suffix::Ten(power, format) => {
            if whole.len() as i64 + power > MAX_MAGNITUDE {
                return Err(QuantityError::Number);
            }
            let number = if is_small { Nanos::Small(small(whole, fraction)) } else { big(whole, fraction) };
            Ok((scaled(&number, power - shift + 9), format))
        }
        Suffix::Two(power) => {
            let product = if is_small { small(whole, fraction).checked_mul(1 << power) } else { None };
            let product = product.map_or_else(|| Nanos::of_big(big(whole, fraction).to_big() << power), Nanos::Small);
            let capped = scaled(&product, 9 - shift).min(Nanos::Small(BINARY_CAP));
            let below_one = matches!(capped, Nanos::Small(1..1_000_000_000));
            Ok((capped, if below_one { QuantityFormat::DecimalSi } else { QuantityFormat::BinarySi }))
        }
    }
}

/// Returns the number that the digits spell; they are at most [`SMALL_DIGITS`].
fn small(whole: &[u8], fraction: &[u8]) -> i128 {
    let value = |digit: &u8| digit - b'0';
    if whole.len() + fraction.len() < 19 {
        return whole.iter().chain(fraction).fold(0u64, |sum, digit| sum * 10 + u64::from(value(digit))).into();
    }
    whole.iter().chain(fraction).fold(0, |sum, digit| sum * 10 + i128::from(value(digit)))
}

/// As [`small`], for any number of digits.
fn big(whole: &[u8], fraction: &[u8]) -> Nanos {
    Nanos::of_big(BigInt::parse_bytes(&[whole, fraction].concat(), 10).unwrap_or_default())
}

fn scaled(number: &Nanos, power: i64) -> Nanos {
    // The power is within `MAX_EXPONENT` and `MAX_LENGTH`.
    let size = power.unsigned_abs() as u32;
    if power < 0 { number.divided(size) } else { number.multiplied(size) }
}
