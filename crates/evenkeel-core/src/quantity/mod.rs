//! Resource quantities (`500m`, `1.5Gi`, `2e3`) that compute: [`ExactQuantity`].
//!
//! k8s-openapi's `Quantity` is the text that a server sent. [`ExactQuantity`] is the number in it, with the grammar, the error texts
//! and the canonical form of Kubernetes' `resource.Quantity`.
//!
//! ```
//! use evenkeel_core::quantity::ExactQuantity;
//!
//! let requested: ExactQuantity = ["500m", "1.5", "2"].iter().map(|text| text.parse::<ExactQuantity>().unwrap()).sum();
//! let limit: ExactQuantity = "4000m".parse()?;
//! assert_eq!(limit, ExactQuantity::from(4)); // equality and order are by value
//! assert!(requested <= limit);
//! assert_eq!((limit - requested).to_string(), "0");
//! # Ok::<(), evenkeel_core::quantity::QuantityError>(())
//! ```

mod canonical;
mod convert;
mod nanos;
mod parse;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};
use std::str::FromStr;

use nanos::Nanos;

/// The largest length of a quantity's text, in bytes.
const MAX_LENGTH: usize = 1024;
/// The largest exponent, of both signs.
const MAX_EXPONENT: i64 = 1000;
/// Texts of values from 10 to this power on are rejected, so that every text that is accepted has a canonical form within
/// [`MAX_LENGTH`].
const MAX_MAGNITUDE: i64 = 2000;

/// How a quantity is written. Arithmetic keeps the format of its left side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QuantityFormat {
    /// Powers of a thousand by suffix: `500m`, `2G`.
    #[default]
    DecimalSi,
    /// Powers of 1,024 by suffix: `64Mi`, `2Gi`.
    BinarySi,
    /// Powers of ten by exponent: `5e-3`, `2e9`.
    DecimalExponent,
}

/// An exact number of some resource, and the format to write it in.
///
/// # Guarantees
/// - `Eq`, `Ord` and `Hash` follow the value: `1`, `1000m` and `1e0` are equal.
/// - Sums, differences and products are exact, without a limit of size: one beyond 10¹⁰⁰⁰ has a text that is not parsed again. Values up to
///   1.7 × 10²⁹ take no allocation.
/// - One value has one text in each format, and parsing that text returns an equal value. Only results of arithmetic
///   from 10²⁰⁰⁰ on have a text that is too long to be parsed.
///
/// # Precision
/// The smallest unit is 10⁻⁹. Parsing rounds anything finer away from zero, so that a small request is never none. Parsing cuts
/// binary quantities to 2⁶³−1, as Kubernetes does.
#[derive(Clone, Debug, Default)]
pub struct ExactQuantity {
    nanos: Nanos,
    format: QuantityFormat,
}

/// Why a text is not a quantity. The texts are those of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// The text has no digits, or characters that no quantity has.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The suffix is unknown, or an exponent beyond ±1,000.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// The text has more than 1,024 characters, or a value of 10²⁰⁰⁰ or more.
    #[error("unable to parse numeric part of quantity")]
    Number,
}

impl ExactQuantity {
    /// Returns this number of whole units.
    pub fn new(value: i64, format: QuantityFormat) -> Self {
        ExactQuantity { nanos: Nanos::scaled(value, 9), format }
    }

    /// Returns this number of thousandths.
    pub fn from_milli(value: i64, format: QuantityFormat) -> Self {
        ExactQuantity { nanos: Nanos::scaled(value, 6), format }
    }

    /// Returns the format in which the quantity is written.
    pub fn format(&self) -> QuantityFormat {
        self.format
    }

    /// Returns the same value in another format.
    #[must_use]
    pub fn with_format(self, format: QuantityFormat) -> Self {
        ExactQuantity { format, ..self }
    }

    /// Returns the value, rounded away from zero to a whole number; `None` if that exceeds 64 bits.
    pub fn value(&self) -> Option<i64> {
        self.nanos.divided(9).to_i64()
    }

    /// Returns the value in thousandths, rounded away from zero; `None` if that exceeds 64 bits.
    pub fn milli_value(&self) -> Option<i64> {
        self.nanos.divided(6).to_i64()
    }

    /// Returns whether the value is zero.
    pub fn is_zero(&self) -> bool {
        self.signum() == Ordering::Equal
    }

    /// Compares the value with zero.
    pub fn signum(&self) -> Ordering {
        self.nanos.sign()
    }

    /// Rounds away from zero to a multiple of 10 to the power of `scale`, and returns whether the value was one already.
    ///
    /// ```
    /// use evenkeel_core::quantity::ExactQuantity;
    ///
    /// let mut quantity: ExactQuantity = "9.01".parse()?;
    /// assert!(!quantity.round_up(-1));
    /// assert_eq!(quantity.to_string(), "9100m");
    /// # Ok::<(), evenkeel_core::quantity::QuantityError>(())
    /// ```
    pub fn round_up(&mut self, scale: i8) -> bool {
        let Ok(power @ 1..) = u32::try_from(i32::from(scale) + 9) else { return true };
        let rounded = self.nanos.divided(power).multiplied(power);
        let exact = rounded == self.nanos;
        self.nanos = rounded;
        exact
    }

    /// Multiplies by a whole number, and returns whether [`value`](Self::value) of the product fits 64 bits. The product is
    /// exact in either case.
    pub fn multiply(&mut self, factor: i64) -> bool {
        self.nanos = self.nanos.times(factor);
        self.value().is_some()
    }

    /// A sum takes the format of its left side, unless that is zero.
    fn format_with(&self, right: &Self) -> QuantityFormat {
        if self.is_zero() { right.format } else { self.format }
    }
}

impl From<i64> for ExactQuantity {
    fn from(value: i64) -> Self {
        ExactQuantity::new(value, QuantityFormat::DecimalSi)
    }
}

impl FromStr for ExactQuantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        parse::parse(text)
    }
}

impl PartialEq for ExactQuantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for ExactQuantity {}

impl PartialOrd for ExactQuantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ExactQuantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Hash for ExactQuantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

impl AddAssign<&ExactQuantity> for ExactQuantity {
    fn add_assign(&mut self, right: &ExactQuantity) {
        self.format = self.format_with(right);
        self.nanos = self.nanos.plus(&right.nanos);
    }
}

impl SubAssign<&ExactQuantity> for ExactQuantity {
    fn sub_assign(&mut self, right: &ExactQuantity) {
        self.format = self.format_with(right);
        self.nanos = self.nanos.plus(&right.nanos.negated());
    }
}

impl Add<&ExactQuantity> for ExactQuantity {
    type Output = ExactQuantity;

    fn add(mut self, right: &ExactQuantity) -> ExactQuantity {
        self += right;
        self
    }
}

impl Add for ExactQuantity {
    type Output = ExactQuantity;

    fn add(self, right: ExactQuantity) -> ExactQuantity {
        self + &right
    }
}

impl Sub<&ExactQuantity> for ExactQuantity {
    type Output = ExactQuantity;

    fn sub(mut self, right: &ExactQuantity) -> ExactQuantity {
        self -= right;
        self
    }
}

impl Sub for ExactQuantity {
    type Output = ExactQuantity;

    fn sub(self, right: ExactQuantity) -> ExactQuantity {
        self - &right
    }
}

impl Neg for ExactQuantity {
    type Output = ExactQuantity;

    fn neg(self) -> ExactQuantity {
        ExactQuantity { nanos: self.nanos.negated(), ..self }
    }
}

impl Sum for ExactQuantity {
    fn sum<I: Iterator<Item = ExactQuantity>>(quantities: I) -> ExactQuantity {
        quantities.fold(ExactQuantity::default(), Add::add)
    }
}

impl<'a> Sum<&'a ExactQuantity> for ExactQuantity {
    fn sum<I: Iterator<Item = &'a ExactQuantity>>(quantities: I) -> ExactQuantity {
        quantities.fold(ExactQuantity::default(), Add::add)
    }
}
