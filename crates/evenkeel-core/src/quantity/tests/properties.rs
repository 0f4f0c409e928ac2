//! OHC-023: laws that hold for all quantities.

use num_bigint::BigInt;
use proptest::prelude::*;

use super::*;

/// Texts of all sizes and formats; some are no quantities.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[-+]?[0-9]{0,5}[.]?[0-9]{0,12}(e-?[0-9]{1,3}|[numkKMGTPE]i?)?",
        "[-+]?[0-9]{1,60}[.]?[0-9]{0,60}([KMGTPE]i|e-?[0-9]{1,4}|[numkMGTPE])?",
        "[-+.0-9eEinumkKMGTP]{0,8}",
    ]
}

fn quantities() -> impl Strategy<Value = ExactQuantity> {
    texts().prop_filter_map("a quantity", |text| text.parse().ok())
}

proptest! {
    #[test]
    fn ohc_023_parse_of_write_is_the_same_value(quantity in quantities()) {
        let text = quantity.to_string();
        let again: ExactQuantity = text.parse().unwrap();
        prop_assert_eq!(&again, &quantity);
        prop_assert_eq!(again.to_string(), text);
    }

    #[test]
    fn ohc_023_order_is_that_of_the_numbers(left in quantities(), right in quantities()) {
        prop_assert_eq!(left.cmp(&right), left.nanos.to_big().cmp(&right.nanos.to_big()));
        prop_assert_eq!(left == right, left.cmp(&right).is_eq());
    }

    #[test]
    fn ohc_023_sums_commute_and_are_undone(left in quantities(), right in quantities(), third in quantities()) {
        let sum = left.clone() + &right;
        prop_assert_eq!(&sum, &(right.clone() + &left));
        prop_assert_eq!(&(sum.clone() - &right), &left);
        prop_assert_eq!(sum.nanos.to_big(), left.nanos.to_big() + right.nanos.to_big());
        prop_assert_eq!(sum.clone() + &third, (right + &third) + &left);
        match sum.to_string().parse::<ExactQuantity>() {
            Ok(parsed) => prop_assert_eq!(parsed, sum),
            // A sum of the largest quantities may be larger than what is parsed.
            Err(error) => prop_assert!(sum.nanos.to_big().bits() > 3_300, "{}: {}", sum, error),
        }
    }

    #[test]
    fn ohc_023_rounding_is_to_the_next_multiple(quantity in quantities(), scale in any::<i8>()) {
        let mut rounded = quantity.clone();
        let exact = rounded.round_up(scale);
        prop_assert_eq!(exact, rounded == quantity);
        prop_assert!(rounded.round_up(scale));
        let step = BigInt::from(10).pow(u32::try_from(i32::from(scale) + 9).unwrap_or(0));
        let (from, to) = (quantity.nanos.to_big(), rounded.nanos.to_big());
        let distance = if from.sign() == num_bigint::Sign::Minus { &from - &to } else { &to - &from };
        prop_assert!(distance >= BigInt::ZERO && distance < step);
        prop_assert_eq!(to % step, BigInt::ZERO);
    }

    #[test]
    fn ohc_023_products_are_sums(quantity in quantities(), factor in -20i64..20) {
        let mut product = quantity.clone();
        product.multiply(factor);
        let term = if factor < 0 { -quantity } else { quantity };
        let sum: ExactQuantity = std::iter::repeat_n(&term, factor.unsigned_abs() as usize).sum();
        prop_assert_eq!(product, sum);
    }
}
