use super::*;

#[tokio::test(start_paused = true)]
async fn bc_002_drops_are_logged_at_intervals() {
    let (log, start) = (DropLog::default(), Instant::now());
    assert_eq!(log.dropped(1, start), Some(1));
    assert_eq!(log.dropped(2, start + Duration::from_secs(9)), None);
    assert_eq!(log.dropped(3, start + Duration::from_secs(10)), Some(5));
    assert_eq!(log.dropped(1, start + Duration::from_secs(11)), None);
}
