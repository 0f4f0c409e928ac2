use proptest::prelude::*;

use super::*;

#[test]
fn the_durations_of_go_are_parsed() {
    for (text, nanos) in [
        ("0", 0),
        ("-0", 0),
        ("+5s", 5_000_000_000),
        ("1.5h", 5_400_000_000_000),
        (".5s", 500_000_000),
        ("1h0m0s", 3_600_000_000_000),
        ("10µs", 10_000),
        ("1.0000000000000000001s", 1_000_000_000),
        ("9223372036854775807ns", i64::MAX as u64),
    ] {
        assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)), "{text}");
    }
    for text in
        ["", "+", "-", "1", "s", "1x", "1s2", "..s", ".s", "1e4h", "9223372036854775808ns", "99999999999999999999h"]
    {
        assert_eq!(parse(text), Err(DurationError::Invalid), "{text}");
    }
    assert_eq!(parse("-1s"), Err(DurationError::Negative));
}

proptest! {
    #[test]
    fn formatted_durations_parse_back(nanos in 0..=i64::MAX as u64) {
        let duration = Duration::from_nanos(nanos);
        prop_assert_eq!(parse(&to_text(duration)), Ok(duration));
    }

    #[test]
    fn no_text_causes_a_panic(text in "\\PC*") {
        let _ = parse(&text);
    }
}
