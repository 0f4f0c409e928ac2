//! Hash spreading.

/// 2⁶⁴ divided by the golden ratio, rounded to an odd number. Multiples of it are spread evenly over all 64-bit numbers.
pub const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads the low bits of a value over the high bits (Fibonacci hashing).
pub const fn spread(value: u64) -> u64 {
    value.wrapping_mul(GOLDEN_RATIO)
}

#[cfg(test)]
mod tests;
