//! Parses Kubernetes' quantities (`100m`, `1.5Gi`, `2e3`) for comparisons.

use serde_json::Value;

/// The limit above which quantities compare equal; about 10^28, so that sums of many do not overflow.
const CEILING: f64 = 1e28;

/// Returns the quantity in billionths, or `None` if it is invalid. Finer fractions are rounded up, like in Kubernetes.
pub(crate) fn billionths(quantity: &Value) -> Option<i128> {
    match quantity {
        Value::String(text) => parse(text.trim()),
        Value::Number(number) => parse(&number.to_string()),
        _ => None,
    }
}

fn parse(text: &str) -> Option<i128> {
    let end = text.find(|character: char| !matches!(character, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
    let (digits, suffix) = text.split_at_checked(end)?;
    let multiplier = multiplier(suffix)?;
    let (negative, digits) = match digits.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, digits.strip_prefix('+').unwrap_or(digits)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    if !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value: f64 = format!("0{whole}.{fraction}0").parse().ok()?;
    let scaled = value * multiplier;
    let billionths = if let (Some(whole), true) = (whole.parse::<i128>().ok(), fraction.is_empty() && multiplier >= 1e9)
    {
        // Whole numbers stay exact.
        whole.checked_mul(multiplier as i128).unwrap_or(CEILING as i128)
    } else {
        scaled.min(CEILING).ceil() as i128
    };
    Some(if negative { -billionths } else { billionths })
}

/// Returns the billionths of one unit of the suffix.
fn multiplier(suffix: &str) -> Option<f64> {
    const KIBI: f64 = 1024.0;
    Some(
        1e9 * match suffix {
            "n" => 1e-9,
            "u" => 1e-6,
            "m" => 1e-3,
            "" => 1.0,
            "k" => 1e3,
            "M" => 1e6,
            "G" => 1e9,
            "T" => 1e12,
            "P" => 1e15,
            "E" => 1e18,
            "Ki" => KIBI,
            "Mi" => KIBI.powi(2),
            "Gi" => KIBI.powi(3),
            "Ti" => KIBI.powi(4),
            "Pi" => KIBI.powi(5),
            "Ei" => KIBI.powi(6),
            exponent => {
                let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
                10f64.powi(power.clamp(-30, 30))
            }
        },
    )
}

#[cfg(test)]
mod tests;
