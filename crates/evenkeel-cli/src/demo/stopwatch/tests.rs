use super::*;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[test]
fn a_foo_has_converged_when_a_check_that_started_after_the_write_finds_no_mismatch() {
    let mut watch = Stopwatch::default();
    watch.wrote("a", ms(10));
    watch.wrote("b", ms(20));
    // This check may have read b before the write.
    watch.checked(ms(15), ms(30), &Mismatches::new());
    assert_eq!(watch.progress(), (1, 2));
    watch.checked(ms(40), ms(50), &Mismatches::from([("b".into(), "wrong".into())]));
    assert_eq!(watch.progress(), (1, 2));
    watch.checked(ms(60), ms(120), &Mismatches::new());
    assert_eq!(watch.times(), Times { settled: 2, median: ms(20), longest: ms(100) });
}

#[test]
fn the_last_of_several_writes_counts() {
    let mut watch = Stopwatch::default();
    watch.wrote("a", ms(10));
    watch.checked(ms(20), ms(30), &Mismatches::new());
    watch.wrote("a", ms(100));
    assert_eq!(watch.progress(), (0, 1));
    watch.checked(ms(100), ms(105), &Mismatches::new());
    assert_eq!(watch.times(), Times { settled: 1, median: ms(5), longest: ms(5) });
}

#[test]
fn without_writes_all_times_are_zero() {
    assert_eq!(Stopwatch::default().times(), Times::default());
}
