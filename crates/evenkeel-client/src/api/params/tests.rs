use super::*;

#[test]
fn times_are_whole_seconds_and_no_time_is_too_long() {
    assert_eq!(whole_seconds(Duration::ZERO), 0);
    assert_eq!(whole_seconds(Duration::from_millis(1)), 1, "nothing is rounded to zero, which means something else");
    assert_eq!(whole_seconds(Duration::from_secs(30)), 30);
    assert_eq!(whole_seconds(Duration::MAX), 2_147_483_647);
}
