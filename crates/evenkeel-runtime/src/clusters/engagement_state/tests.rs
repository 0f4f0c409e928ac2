use super::*;

fn failed(state: &mut EngagementState, at: Instant) -> Duration {
    state.start();
    state.failed(ClusterFailure::new("no connection", at)) - at
}

#[tokio::test(start_paused = true)]
async fn mcl_005_the_backoff_doubles_from_one_second_to_five_minutes() {
    let (mut state, now) = (EngagementState::new(), Instant::now());
    let waits: Vec<u64> = (0..11).map(|_| failed(&mut state, now).as_secs()).collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    assert_eq!(state.phase(), EngagementPhase::Waiting { until: now + Duration::from_secs(300) });
    assert_eq!((state.failures(), &*state.last_failure().unwrap().message), (11, "no connection"));
}

#[tokio::test(start_paused = true)]
async fn mcl_005_a_sync_resets_the_backoff_and_keeps_the_last_error() {
    let (mut state, now) = (EngagementState::new(), Instant::now());
    assert_eq!((failed(&mut state, now).as_secs(), failed(&mut state, now).as_secs()), (1, 2));
    state.start();
    state.synced();
    assert_eq!(state.phase(), EngagementPhase::Synced);
    assert!(state.last_failure().is_some(), "the status still says what failed last");
    assert_eq!(failed(&mut state, now).as_secs(), 1);
}
