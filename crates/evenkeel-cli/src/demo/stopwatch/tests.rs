use super::*;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[test]
fn a_foo_has_converged_when_a_reading_that_began_after_the_write_finds_nothing_wrong() {
    let mut watch = Stopwatch::default();
    watch.wrote("a", ms(10));
    watch.wrote("b", ms(20));
    // This one may have seen b as it was before.
    watch.looked(ms(15), ms(30), &Gaps::new());
    assert_eq!(watch.progress(), (1, 2));
    watch.looked(ms(40), ms(50), &Gaps::from([("b".into(), "wrong".into())]));
    assert_eq!(watch.progress(), (1, 2));
    watch.looked(ms(60), ms(120), &Gaps::new());
    assert_eq!(watch.times(), Times { settled: 2, median: ms(20), longest: ms(100) });
}

#[test]
fn of_several_writes_the_last_counts() {
    let mut watch = Stopwatch::default();
    watch.wrote("a", ms(10));
    watch.looked(ms(20), ms(30), &Gaps::new());
    watch.wrote("a", ms(100));
    assert_eq!(watch.progress(), (0, 1));
    watch.looked(ms(100), ms(105), &Gaps::new());
    assert_eq!(watch.times(), Times { settled: 1, median: ms(5), longest: ms(5) });
}

#[test]
fn where_nothing_was_written_nothing_took_long() {
    assert_eq!(Stopwatch::default().times(), Times::default());
}
