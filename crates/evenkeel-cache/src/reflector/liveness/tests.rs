use super::*;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn silence_counts_once_the_bookmark_interval_is_known() {
    let start = Instant::now();
    let mut liveness = Liveness::new(Some(secs(180)));
    assert_eq!(liveness.longest_silence(), None);
    liveness.bookmark(start);
    assert_eq!(liveness.longest_silence(), None, "one bookmark has no gap");
    liveness.bookmark(start + secs(60));
    assert_eq!(liveness.longest_silence(), Some(secs(240)));
    liveness.pause();
    liveness.bookmark(start + secs(600));
    assert_eq!(liveness.longest_silence(), Some(secs(240)), "the gap between two watches is none");
    liveness.bookmark(start + secs(602));
    assert_eq!(liveness.longest_silence(), Some(secs(182)), "a short gap changes little, (3 * 60 + 2) / 4 * 4");
    liveness.bookmark(start + secs(702));
    assert_eq!(liveness.longest_silence(), Some(secs(400)), "a long one is believed at once");
    liveness.forget();
    assert_eq!(liveness.longest_silence(), None);
}

#[test]
fn the_silence_limit_has_a_minimum() {
    let start = Instant::now();
    let mut liveness = Liveness::new(Some(Duration::ZERO));
    liveness.bookmark(start);
    liveness.bookmark(start);
    assert_eq!(liveness.longest_silence(), Some(secs(10)));
}

#[test]
fn silence_never_counts_if_it_is_disabled() {
    let start = Instant::now();
    let mut liveness = Liveness::new(None);
    liveness.bookmark(start);
    liveness.bookmark(start + secs(60));
    assert_eq!(liveness.longest_silence(), None);
}
