use super::*;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// `timeout COMMAND` signals the process and then its group.
#[test]
fn co_032_a_duplicate_of_the_first_signal_is_ignored() {
    let (mut counter, first) = (SignalCounter::default(), Instant::now());
    assert_eq!(counter.receive(first), SignalAction::Drain);
    assert_eq!(counter.receive(first), SignalAction::Ignore);
    assert_eq!(counter.receive(first + ms(99)), SignalAction::Ignore);
    assert_eq!(counter.receive(first + ms(100)), SignalAction::ForceExit);
}

#[test]
fn co_032_a_later_second_signal_forces_the_exit() {
    let (mut counter, first) = (SignalCounter::default(), Instant::now());
    assert_eq!(counter.receive(first), SignalAction::Drain);
    assert_eq!(counter.receive(first + ms(5_000)), SignalAction::ForceExit);
}
