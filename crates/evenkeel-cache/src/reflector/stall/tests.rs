use super::*;

#[tokio::test(start_paused = true)]
async fn reports_are_due_after_ten_seconds_and_then_ever_more_rarely() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut clock = StallClock::new(start);
    assert_eq!((clock.due(at(9)), clock.report_at()), (None, at(10)));
    let due: Vec<u64> = (10..=200).filter(|second| clock.due(at(*second)).is_some()).collect();
    assert_eq!(due, [10, 30, 70, 150]);
    assert_eq!(clock.waited(at(200)), Duration::from_secs(200));
    clock.progress(at(200));
    assert_eq!((clock.due(at(209)), clock.due(at(210))), (None, Some(Duration::from_secs(10))));
    assert_eq!(clock.after(Duration::from_secs(30)), at(230));
}
