use super::*;

#[test]
fn prc_004_a_slow_handler_that_lags_behind_is_logged() {
    assert!(!is_far_behind(1024) && is_far_behind(1025));
    assert!(!is_slow(Duration::from_millis(100)) && is_slow(Duration::from_millis(101)));
}

#[test]
fn the_message_of_a_panic_is_extracted() {
    assert_eq!(crate::panic_message(&"text"), "text");
    assert_eq!(crate::panic_message(&String::from("made up")), "made up");
    assert_eq!(crate::panic_message(&7), "no message");
}
