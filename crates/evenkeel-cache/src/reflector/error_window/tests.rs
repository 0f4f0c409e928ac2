use super::*;

fn window(seconds: u64) -> (ErrorWindow, impl Fn(u64) -> Instant) {
    let start = Instant::now();
    let window = ErrorWindow::new(Duration::from_secs(seconds), Duration::from_secs(60));
    (window, move |at| start + Duration::from_secs(at))
}

#[test]
fn rwd_001_a_minute_without_errors_opens_a_new_window() {
    let (mut window, at) = window(30);
    window.failed(at(0));
    window.failed(at(20));
    window.failed(at(80));
    assert!(window.may_retry(at(110)), "the window opened at 80, a minute after the error before");
    window.failed(at(111));
    assert!(!window.may_retry(at(111)), "only 31 seconds after the error before, so it is still that window");
}

#[test]
fn rwd_002_the_end_of_the_window_is_part_of_it() {
    let (mut window, at) = window(30);
    assert!(!window.may_retry(at(0)), "there is nothing to try again");
    window.failed(at(0));
    assert!(window.may_retry(at(30)));
    assert!(!window.may_retry(at(31)));
    assert!(!window.may_retry(at(31)), "it is closed now");
    window.failed(at(32));
    assert!(window.may_retry(at(62)), "the next error opens another");
}

#[test]
fn rwd_002_a_window_of_zero_never_retries() {
    let (mut window, at) = window(0);
    window.failed(at(0));
    assert!(!window.may_retry(at(0)));
}

#[test]
fn rwd_003_other_errors_do_not_close_the_window() {
    let (mut window, at) = window(30);
    window.failed(at(0));
    // Another kind of error at 10 is not recorded.
    window.failed(at(20));
    assert!(window.may_retry(at(30)));
    assert!(!window.may_retry(at(31)), "the window is still the one that opened at 0");
}
