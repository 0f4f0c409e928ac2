use super::super::EventKey;
use super::*;

const LIMITS: Limits = Limits { jobs: 3, out: 2, attempts: 12 };
const TEN: Duration = Duration::from_secs(10);

fn id(name: &str) -> EventKey {
    EventKey::of([name])
}

fn push(delivery: &mut Delivery<String>, name: &str, write: &str) {
    delivery.push(id(name), write.to_owned(), |earlier, later| format!("{earlier}+{later}"));
}

fn take(delivery: &mut Delivery<String>, now: Instant) -> Option<String> {
    delivery.take(now).map(|(id, write)| format!("{id:?} {write}"))
}

fn retry(write: &str) -> Verdict<String> {
    Verdict::Retry(write.to_owned(), TEN)
}

#[tokio::test(start_paused = true)]
async fn ev_009_a_stuck_write_delays_no_other() {
    let (mut delivery, now) = (Delivery::new(LIMITS), Instant::now());
    push(&mut delivery, "stuck", "1");
    assert_eq!(take(&mut delivery, now).as_deref(), Some(r#"["stuck"] 1"#));
    push(&mut delivery, "stuck", "2");
    push(&mut delivery, "stuck", "3");
    push(&mut delivery, "other", "1");
    assert_eq!(take(&mut delivery, now).as_deref(), Some(r#"["other"] 1"#), "its next waits for it, others do not");
    assert_eq!(take(&mut delivery, now), None);
    assert_eq!(delivery.done(&id("stuck"), retry("1"), now), Outcome::Again);
    assert_eq!(delivery.next_due(), Some(now + TEN));
    push(&mut delivery, "third", "1");
    assert_eq!(take(&mut delivery, now).as_deref(), Some(r#"["third"] 1"#), "while it pauses, its place is free");
    for name in ["other", "third"] {
        assert_eq!(delivery.done(&id(name), Verdict::Done, now), Outcome::Over);
    }
    assert_eq!(take(&mut delivery, now + TEN).as_deref(), Some(r#"["stuck"] 1"#));
    assert_eq!(delivery.done(&id("stuck"), Verdict::Done, now), Outcome::Over);
    assert_eq!(take(&mut delivery, now).as_deref(), Some(r#"["stuck"] 2+3"#), "the later says what the earlier said");
    assert_eq!(delivery.done(&id("stuck"), Verdict::Done, now), Outcome::Over);
    assert!(delivery.is_empty());
}

#[tokio::test(start_paused = true)]
async fn ev_009_concurrent_and_queued_writes_are_bounded() {
    let (mut delivery, now) = (Delivery::new(LIMITS), Instant::now());
    for name in ["a", "b"] {
        push(&mut delivery, name, "1");
        assert!(delivery.has_room());
    }
    push(&mut delivery, "c", "1");
    assert!(!delivery.has_room());
    assert!(take(&mut delivery, now).is_some() && take(&mut delivery, now).is_some());
    assert_eq!(take(&mut delivery, now), None, "two are out");
    delivery.done(&id("a"), Verdict::Done, now);
    assert!(delivery.has_room());
    assert_eq!(take(&mut delivery, now).as_deref(), Some(r#"["c"] 1"#));
}

#[tokio::test(start_paused = true)]
async fn ev_008_there_are_twelve_attempts() {
    let (mut delivery, mut now) = (Delivery::new(LIMITS), Instant::now());
    push(&mut delivery, "a", "1");
    for attempt in 0..11 {
        assert!(take(&mut delivery, now).is_some(), "{attempt}");
        assert_eq!(delivery.attempts(&id("a")), attempt);
        assert_eq!(delivery.done(&id("a"), retry("1"), now), Outcome::Again);
        assert!(take(&mut delivery, now).is_none());
        now += TEN;
    }
    assert!(take(&mut delivery, now).is_some());
    push(&mut delivery, "a", "2");
    assert_eq!(delivery.done(&id("a"), retry("1"), now), Outcome::Exhausted("1".into()));
    assert_eq!((delivery.attempts(&id("a")), delivery.is_empty()), (0, false), "what comes after it starts anew");
    assert_eq!(take(&mut delivery, now).as_deref(), Some(r#"["a"] 2"#));
}

#[tokio::test(start_paused = true)]
async fn ev_010_at_shutdown_each_write_has_one_attempt_without_delay() {
    let (mut delivery, now) = (Delivery::new(LIMITS), Instant::now());
    push(&mut delivery, "waits", "1");
    take(&mut delivery, now);
    delivery.done(&id("waits"), retry("1"), now);
    push(&mut delivery, "out", "1");
    assert_eq!(take(&mut delivery, now).as_deref(), Some(r#"["out"] 1"#));
    delivery.close();
    assert_eq!(delivery.next_due(), None);
    assert_eq!(take(&mut delivery, now).as_deref(), Some(r#"["waits"] 1"#));
    for name in ["out", "waits"] {
        assert_eq!(delivery.done(&id(name), retry("1"), now), Outcome::OutOfTime("1".into()));
    }
    push(&mut delivery, "new", "1");
    assert!(take(&mut delivery, now).is_some());
    assert_eq!(delivery.done(&id("new"), Verdict::Done, now), Outcome::Over);
    assert!(delivery.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_infinite_wait_does_not_panic() {
    let (mut delivery, now) = (Delivery::new(LIMITS), Instant::now());
    push(&mut delivery, "a", "1");
    take(&mut delivery, now);
    assert_eq!(delivery.done(&id("a"), Verdict::Retry("1".into(), Duration::MAX), now), Outcome::Again);
    assert!(delivery.next_due().is_some());
}

#[tokio::test(start_paused = true)]
async fn ev_009_events_during_a_retry_do_not_overtake_it() {
    let (mut delivery, now) = (Delivery::new(LIMITS), Instant::now());
    push(&mut delivery, "a", "1");
    take(&mut delivery, now);
    push(&mut delivery, "a", "2");
    assert_eq!(delivery.done(&id("a"), retry("1"), now), Outcome::Again);
    push(&mut delivery, "a", "3");
    assert_eq!(take(&mut delivery, now + TEN).as_deref(), Some(r#"["a"] 1"#));
    assert_eq!(delivery.done(&id("a"), Verdict::Done, now + TEN), Outcome::Over);
    assert_eq!(take(&mut delivery, now + TEN).as_deref(), Some(r#"["a"] 2+3"#), "the count never goes back");
    assert_eq!(delivery.done(&id("a"), Verdict::Done, now + TEN), Outcome::Over);
    assert!(delivery.is_empty());
}
