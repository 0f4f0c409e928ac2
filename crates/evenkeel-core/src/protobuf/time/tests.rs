use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn any_time_is_formatted_as_by_jiff(seconds in FIRST..=LAST, nanos in 0..1_000_000_000) {
        let time = Timestamp::new(seconds, nanos).unwrap();
        let mut buffer = [0; 27];
        let expected = jiff::fmt::strtime::format("%Y-%m-%dT%H:%M:%SZ", time).unwrap();
        if seconds >= 0 {
            prop_assert_eq!(text(seconds, nanos, false, &mut buffer).unwrap(), expected);
        }
        let expected = jiff::fmt::strtime::format("%Y-%m-%dT%H:%M:%S.%6fZ", time).unwrap();
        prop_assert_eq!(text(seconds, nanos, true, &mut buffer).unwrap(), expected);
    }

    #[test]
    fn formatted_durations_parse_back(seconds in FIRST..=LAST, micros in 0..1_000_000) {
        let mut buffer = [0; 27];
        let formatted = text(seconds, micros * 1000, true, &mut buffer).unwrap();
        let mut message = Vec::new();
        put(&mut message, formatted, true).unwrap();
        prop_assert_eq!(read(&message).unwrap(), Some((seconds, micros * 1000)).filter(|time| *time != (ZERO, 0)));
    }
}

#[test]
fn years_have_four_digits() {
    let mut buffer = [0; 27];
    assert_eq!(text(ZERO, 0, false, &mut buffer).unwrap(), ZERO_TEXT);
    assert_eq!(text(LAST, 0, false, &mut buffer).unwrap(), "9999-12-31T23:59:59Z");
    for seconds in [i64::MIN, FIRST - 1, LAST + 1, i64::MAX] {
        assert!(text(seconds, 0, false, &mut buffer).is_err());
        assert!(text(seconds, i32::MIN, true, &mut buffer).is_err() || seconds > LAST);
    }
}
