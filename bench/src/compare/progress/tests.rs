use super::*;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn the_remaining_time_is_estimated_from_past_steps() {
    let mut plan = Plan::default();
    for key in ["a", "b", "a", "b"] {
        plan.add(key, seconds(10));
    }
    assert_eq!((plan.len(), plan.left()), (4, seconds(40)));
    plan.done(seconds(50));
    // Five times the estimate: other estimates are doubled.
    assert_eq!(plan.left(), seconds(20) + seconds(50) + seconds(20));
    plan.done(seconds(5));
    assert_eq!(plan.left(), seconds(50) + seconds(5));
    plan.done(seconds(40));
    plan.done(seconds(5));
    assert_eq!(plan.left(), Duration::ZERO);
    plan.done(seconds(1));
    assert_eq!(plan.left(), Duration::ZERO);
}

#[test]
fn the_bar_shows_the_progress() {
    let line = bar(seconds(30), seconds(90), (2, 8), "round 1 of 3: client-go");
    assert_eq!(line, "███████░░░░░░░░░░░░░░░░░░░░░  25 % 30 s, about 90 s left · 2/8 round 1 of 3: client-go");
    assert!(bar(Duration::ZERO, Duration::ZERO, (1, 1), "x").contains("  0 %"));
    assert!(bar(seconds(600), Duration::ZERO, (8, 8), "x").contains("100 % 10 min, about 0 s left"));
}
