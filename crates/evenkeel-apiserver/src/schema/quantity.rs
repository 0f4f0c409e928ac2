//! Quantities of resources: `500m`, `2Gi`, `1e3`.

const FORMAT: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const SUFFIX: &str = "unable to parse quantity's suffix";

/// The suffix family of a quantity, which its canonical form keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    /// `Ki`, `Mi`, …
    Binary,
    /// `m`, `k`, `M`, …
    Decimal,
    /// `e3`
    Exponent,
}

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// From 10⁻⁹ up by thousands.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// Returns the canonical form of a quantity: no fraction, and the largest suffix without loss.
///
/// Anything finer than 10⁻⁹ is rounded away from zero. Numbers too long for 128 bits are returned unchanged.
pub(super) fn canonical(text: &str) -> Result<String, &'static str> {
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..).unwrap_or_default()),
        Some(b'+') => (false, text.get(1..).unwrap_or_default()),
        _ => (false, text),
    };
    let split = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(split);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(FORMAT);
    }
    let (family, exponent) = suffix_of(suffix)?;
    let Some(text) = spell(whole, fraction, family, exponent) else {
        return Ok(text.to_owned());
    };
    Ok(if negative && text != "0" { format!("-{text}") } else { text })
}

/// Returns the family, and the power of 1024 (binary) or of ten (the others).
fn suffix_of(suffix: &str) -> Result<(Family, i32), &'static str> {
    if let Some(at) = BINARY.iter().skip(1).position(|known| *known == suffix) {
        return Ok((Family::Binary, at as i32 + 1));
    }
    if let Some(at) = DECIMAL.iter().position(|known| *known == suffix) {
        return Ok((Family::Decimal, (at as i32 - 3) * 3));
    }
    let digits = suffix
        .strip_prefix(['e', 'E'])
        .ok_or(if suffix.bytes().all(|byte| b"eEinumkKMGTP+-0123456789".contains(&byte)) { SUFFIX } else { FORMAT })?;
    let exponent: i32 = digits.parse().map_err(|_| SUFFIX)?;
    Ok((Family::Exponent, exponent))
}

/// Converts the number to units of 10⁻⁹, then picks the largest suffix; `None` on overflow.
fn spell(whole: &str, fraction: &str, family: Family, exponent: i32) -> Option<String> {
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let mantissa: u128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    if mantissa == 0 {
        return Some("0".to_owned());
    }
    let shift = i32::try_from(fraction.len()).ok()?;
    let nanos = if family == Family::Binary {
        let scaled = mantissa.checked_mul(1024u128.checked_pow(exponent.unsigned_abs())?)?;
        scale(scaled, 9 - shift)?
    } else {
        scale(mantissa, exponent.checked_sub(shift)?.checked_add(9)?)?
    };
    const UNIT: u128 = 1_000_000_000;
    if family == Family::Binary && nanos % UNIT == 0 && nanos / UNIT >= 1024 {
        let (mut value, mut at) = (nanos / UNIT, 0);
        while value % 1024 == 0 && at + 1 < BINARY.len() {
            value /= 1024;
            at += 1;
        }
        return Some(format!("{value}{}", BINARY.get(at)?));
    }
    let (mut value, mut at) = (nanos, 0);
    while value % 1000 == 0 && at + 1 < DECIMAL.len() {
        value /= 1000;
        at += 1;
    }
    Some(match (family, at as i32 * 3 - 9) {
        (Family::Exponent, 0) => value.to_string(),
        (Family::Exponent, power) => format!("{value}e{power}"),
        _ => format!("{value}{}", DECIMAL.get(at)?),
    })
}

/// Returns `value × 10^power`, rounded up.
fn scale(value: u128, power: i32) -> Option<u128> {
    let factor = 10u128.checked_pow(power.unsigned_abs());
    if power >= 0 { value.checked_mul(factor?) } else { Some(factor.map_or(1, |factor| value.div_ceil(factor))) }
}
