//! [`Nanos`]: whole numbers of billionths, of any size.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};

/// A number of billionths. Those that fit 128 bits are always `Small`, so that equality and hash can be derived.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Nanos {
    Small(i128),
    Big(Box<BigInt>),
}

impl Default for Nanos {
    fn default() -> Self {
        Nanos::Small(0)
    }
}

impl Nanos {
    /// Returns `value × 10^power`; `power` is at most 9.
    pub(super) fn scaled(value: i64, power: u32) -> Nanos {
        Nanos::Small(i128::from(value) * 10i128.pow(power))
    }

    pub(super) fn of_big(big: BigInt) -> Nanos {
        i128::try_from(&big).map_or_else(|_| Nanos::Big(Box::new(big)), Nanos::Small)
    }

    pub(super) fn to_big(&self) -> BigInt {
        match self {
            Nanos::Small(small) => BigInt::from(*small),
            Nanos::Big(big) => (**big).clone(),
        }
    }

    pub(super) fn sign(&self) -> Ordering {
        match self {
            Nanos::Small(small) => small.cmp(&0),
            Nanos::Big(big) => match big.sign() {
                Sign::Minus => Ordering::Less,
                Sign::NoSign => Ordering::Equal,
                Sign::Plus => Ordering::Greater,
            },
        }
    }

    pub(super) fn to_i64(&self) -> Option<i64> {
        match self {
            Nanos::Small(small) => i64::try_from(*small).ok(),
            Nanos::Big(_) => None,
        }
    }

    pub(super) fn plus(&self, other: &Nanos) -> Nanos {
        if let (Nanos::Small(left), Nanos::Small(right)) = (self, other)
            && let Some(sum) = left.checked_add(*right)
        {
            return Nanos::Small(sum);
        }
        Nanos::of_big(self.to_big() + other.to_big())
    }

    pub(super) fn negated(&self) -> Nanos {
        match self {
            Nanos::Small(small) if *small != i128::MIN => Nanos::Small(-small),
            other => Nanos::of_big(-other.to_big()),
        }
    }

    pub(super) fn times(&self, factor: i64) -> Nanos {
        if let Nanos::Small(small) = self
            && let Some(product) = small.checked_mul(factor.into())
        {
            return Nanos::Small(product);
        }
        Nanos::of_big(self.to_big() * factor)
    }

    /// Returns the number times `10^power`.
    pub(super) fn multiplied(&self, power: u32) -> Nanos {
        if let Nanos::Small(small) = self
            && let Some(product) = 10i128.checked_pow(power).and_then(|factor| small.checked_mul(factor))
        {
            return Nanos::Small(product);
        }
        Nanos::of_big(self.to_big() * BigInt::from(10).pow(power))
    }

    /// Returns the number divided by `10^power`, rounded away from zero.
    pub(super) fn divided(&self, power: u32) -> Nanos {
        if let Nanos::Small(small) = self {
            let Some(divisor) = 10i128.checked_pow(power) else {
                return Nanos::Small(small.signum());
            };
            let remainder = small % divisor;
            return Nanos::Small(small / divisor + remainder.signum());
        }
        let (big, divisor) = (self.to_big(), BigInt::from(10).pow(power));
        let quotient = &big / &divisor;
        let remainder = big - &quotient * divisor;
        Nanos::of_big(quotient + remainder.sign_number())
    }
}

impl Ord for Nanos {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Nanos::Small(left), Nanos::Small(right)) => left.cmp(right),
            (Nanos::Big(left), Nanos::Big(right)) => left.cmp(right),
            // What does not fit is further from zero than what does.
            (Nanos::Small(_), Nanos::Big(_)) => other.sign().reverse(),
            (Nanos::Big(_), Nanos::Small(_)) => self.sign(),
        }
    }
}

impl PartialOrd for Nanos {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The sign of a number as −1, 0 or 1.
trait SignNumber {
    fn sign_number(&self) -> i32;
}

impl SignNumber for BigInt {
    fn sign_number(&self) -> i32 {
        match self.sign() {
            Sign::Minus => -1,
            Sign::NoSign => 0,
            Sign::Plus => 1,
        }
    }
}
