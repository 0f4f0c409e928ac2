mod go;
mod properties;

use std::collections::HashSet;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Value, json};

use super::*;

fn of(text: &str) -> ExactQuantity {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Checks the canonical form of each text.
fn canonical<const N: usize>(cases: [(&str, &str); N]) {
    for (text, expected) in cases {
        assert_eq!(of(text).to_string(), expected, "{text}");
    }
}

fn refused(error: QuantityError, texts: &[&str]) {
    for text in texts {
        assert_eq!(text.parse::<ExactQuantity>(), Err(error), "{text}");
    }
}

#[test]
fn qty_001_signs_dots_suffixes_and_exponents_parse() {
    canonical([("1.", "1"), (".5", "500m"), ("1.G", "1G"), ("+1.5Gi", "1536Mi"), ("-2e-3", "-2e-3")]);
    for (index, suffix) in ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"].iter().enumerate() {
        assert_eq!(of(&format!("7{suffix}")).nanos, Nanos::Small(7 * 1000i128.pow(index as u32)), "{suffix}");
    }
    for (index, suffix) in ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().enumerate() {
        assert_eq!(of(&format!("7{suffix}")).value(), Some(7 << (10 * index)), "{suffix}");
    }
    assert_eq!(of("1E").value(), Some(1_000_000_000_000_000_000));
    assert_eq!(of("1E3").value(), Some(1000));
}

#[test]
fn qty_002_errors_have_the_texts_of_kubernetes() {
    refused(QuantityError::Format, &["", "1.1.M", "1+1.0M", " 1", "1 ", "1 Gi", "x", "1x", "١"]);
    refused(QuantityError::Suffix, &["0.1mi", ".5i", "1i", "-3.01e-", "1K", "1Kim", "1e", "1ee3"]);
    refused(QuantityError::Number, &["1".repeat(1025).as_str(), &format!("1{}e1000", "0".repeat(1001))]);
    assert_eq!(
        [QuantityError::Format, QuantityError::Suffix, QuantityError::Number].map(|error| error.to_string()),
        [
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            "unable to parse quantity's suffix",
            "unable to parse numeric part of quantity",
        ]
    );
}

#[test]
fn qty_003_a_text_without_digits_is_an_error() {
    refused(QuantityError::Format, &["+", "-", ".", "-.", "Ki", ".m", "e3", "--1"]);
}

#[test]
fn qty_004_exponents_are_bounded() {
    refused(QuantityError::Suffix, &["1e4294967296", "1e1001", "1e-1001", "1e99999999999999999999", "0e1001"]);
    assert_eq!(of("1e1000").to_string(), "10e999");
    assert_eq!(of("1e-1000").to_string(), "1e-9");
    assert!(of("1e999") < of("1e1000"));
}

#[test]
fn qty_005_the_format_is_kept() {
    canonical([("1000k", "1M"), ("2048Ki", "2Mi"), ("1000e3", "1e6"), ("1e3", "1e3")]);
    assert_eq!(
        ["1", "1Ki", "1e0"].map(|text| of(text).format()),
        [QuantityFormat::DecimalSi, QuantityFormat::BinarySi, QuantityFormat::DecimalExponent]
    );
    assert_eq!(of("2Ki").with_format(QuantityFormat::DecimalExponent).to_string(), "2048");
    assert_eq!(ExactQuantity::from_milli(1500, QuantityFormat::DecimalSi), of("1.5"));
}

#[test]
fn qty_006_finer_than_nano_rounds_away_from_zero() {
    canonical([("0.1n", "1n"), ("3.001n", "4n"), ("0.00000012345", "124n"), ("-0.1n", "-1n"), ("1e-1000", "1e-9")]);
}

#[test]
fn qty_007_binary_quantities_are_capped() {
    canonical([
        ("9Ei", "9223372036854775807"),
        ("-9Ei", "-9223372036854775807"),
        ("99999999999999999999999999999999999999999Ei", "9223372036854775807"),
        ("12E", "12E"),
        ("0.0000000000000000000000000000000000000000001Ei", "1n"),
    ]);
}

#[test]
fn qty_008_canonical_forms_have_no_fraction_and_the_largest_suffix() {
    canonical([
        ("1.5", "1500m"),
        ("1000M", "1G"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Mi", "512Ki"),
        ("1234567M", "1234567M"),
        ("12e5", "1200e3"),
        ("0Ki", "0"),
        ("0e5", "0"),
        ("-0", "0"),
    ]);
}

#[test]
fn qty_009_small_and_fractional_binary_quantities_are_written_in_decimal() {
    canonical([
        ("1023", "1023"),
        (".001Ki", "1024m"),
        ("1025", "1025"),
        ("1.1Ki", "1126400m"),
        ("0.9Ki", "921600m"),
        ("-0.5Ki", "-512"),
    ]);
    assert_eq!(of("0.0001Ki").format(), QuantityFormat::DecimalSi);
    assert_eq!(of("1023Ki").format(), QuantityFormat::BinarySi);
}

#[test]
fn qty_010_large_values_keep_their_exponent() {
    canonical([("1000E", "1e21"), ("999E", "999E"), ("1500E", "1500E"), ("-1000000E", "-1e24")]);
    let mut large = of("4Ei");
    assert!(!large.multiply(2));
    assert_eq!(large.to_string(), "9223372036854775808", "as 8Ei it would be read back as one less");
    assert!(!large.multiply(1 << 7));
    assert_eq!(of(&large.to_string()), large);
}

#[test]
fn qty_011_one_value_has_one_text() {
    canonical([("+1", "1"), ("01", "1"), ("1.441", "1441m"), ("1.000", "1")]);
}

#[test]
fn qty_012_comparison_is_by_value() {
    let equal: HashSet<ExactQuantity> = ["1", "1000m", "1e0", "0.001k"].map(of).into();
    assert_eq!(equal.len(), 1);
    assert!(of("1Ki") > of("1k"));
    assert!(of("-1e40") < of("-1") && of("1") < of("1e40") && of("1e40") < of("1e41"));
}

#[test]
fn qty_013_sums_are_exact_and_take_the_left_format() {
    for (left, right, sum, difference) in [
        ("1Gi", "1G", "2073741824", "73741824"),
        ("1k", "1Ki", "2024", "-24"),
        ("0", "1Ki", "1Ki", "-1Ki"),
        ("0Ki", "1e3", "1e3", "-1e3"),
        (
            "1e40",
            "1n",
            "10000000000000000000000000000000000000000000000001e-9",
            "9999999999999999999999999999999999999999999999999e-9",
        ),
        (
            "170141183460469231731687303715.884105727",
            "1n",
            "170141183460469231731687303715884105728n",
            "170141183460469231731687303715884105726n",
        ),
    ] {
        assert_eq!((of(left) + of(right)).to_string(), sum, "{left} + {right}");
        assert_eq!((of(left) - of(right)).to_string(), difference, "{left} - {right}");
    }
    let mut quantity = of("5E");
    assert!(quantity.multiply(-1));
    assert!(!quantity.multiply(-2));
    assert_eq!(quantity, of("10E"));
    assert!(!quantity.multiply(i64::MAX) && !quantity.multiply(i64::MIN) && quantity < of("0"));
}

#[test]
fn qty_014_values_that_do_not_fit_are_none() {
    for (text, value, milli) in [
        ("1.441", Some(2), Some(1441)),
        ("100u", Some(1), Some(1)),
        ("9223372036854775807", Some(i64::MAX), None),
        ("9223372036854775807.1", None, None),
        ("-9223372036854775808", Some(i64::MIN), None),
        ("1e40", None, None),
    ] {
        assert_eq!((of(text).value(), of(text).milli_value()), (value, milli), "{text}");
    }
}

#[test]
fn qty_015_negative_values_round_away_from_zero() {
    assert_eq!(of("-1.5").value(), Some(-2));
    assert_eq!(of("-1.5000000001").value(), Some(-2));
    assert_eq!(of("-1.0001").milli_value(), Some(-1001));
}

#[test]
fn qty_016_round_up_says_whether_it_was_exact() {
    for (text, scale, expected, exact) in [
        ("9.01", -1, "9100m", false),
        ("9.01", 0, "10", false),
        ("9.01", 2, "100", false),
        ("-9.01", 0, "-10", false),
        ("9.01", -2, "9010m", true),
        ("9.01", -128, "9010m", true),
        ("100", 2, "100", true),
        ("1e40", 39, "10e39", true),
        ("11e39", 40, "20e39", false),
        ("1n", 127, "10e126", false),
        ("0", 127, "0", true),
    ] {
        let mut quantity =
            of(text).with_format(if scale > 38 { QuantityFormat::DecimalExponent } else { of(text).format() });
        assert_eq!((quantity.round_up(scale), quantity.to_string().as_str()), (exact, expected), "{text} {scale}");
    }
}

#[test]
fn qty_017_json_and_openapi_keep_the_value() {
    for (value, text) in [
        (json!("100m"), "100m"),
        (json!(" 1Gi\t"), "1Gi"),
        (json!(2), "2"),
        (json!(-2), "-2"),
        (json!(u64::MAX), "18446744073709551615"),
        (json!(0.1), "100m"),
        (json!(1e21), "1e21"),
        (Value::Null, "0"),
    ] {
        let quantity: ExactQuantity = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(&quantity).unwrap(), text, "{value}");
    }
    for value in [json!(true), json!({}), json!("x"), json!([1])] {
        assert!(serde_json::from_value::<ExactQuantity>(value.clone()).is_err(), "{value}");
    }
    let optional: Option<ExactQuantity> = serde_json::from_str("\"1Ki\"").unwrap();
    let text = Quantity::from(optional.as_ref().unwrap());
    assert_eq!(text, Quantity("1Ki".into()));
    assert_eq!(ExactQuantity::try_from(text).ok(), optional);
    assert_eq!(ExactQuantity::try_from(Quantity("1K".into())), Err(QuantityError::Suffix));
}
