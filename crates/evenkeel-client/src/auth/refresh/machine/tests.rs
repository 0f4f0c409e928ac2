use super::*;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn fetched(lifetime: Option<Duration>) -> Result<Fetched, Arc<CredentialProblem>> {
    Ok(Fetched { authorization: Some(HeaderValue::from_static("Bearer t")), lifetime })
}

fn failure() -> Result<Fetched, Arc<CredentialProblem>> {
    Err(Arc::new(CredentialProblem::InvalidToken))
}

fn name(decision: RefreshDecision) -> &'static str {
    match decision {
        RefreshDecision::Use(_) => "use",
        RefreshDecision::UseAndRefresh(_) => "use and refresh",
        RefreshDecision::Refresh => "refresh",
        RefreshDecision::Wait => "wait",
        RefreshDecision::Fail(_) => "fail",
    }
}

#[test]
fn exe_009_a_credential_is_used_until_after_its_expiry() {
    let (mut state, start) = (RefreshState::default(), Instant::now());
    assert_eq!(name(state.decide(start)), "refresh");
    assert_eq!(name(state.decide(start)), "wait");
    state.finish(fetched(Some(10 * MINUTE)), 0.0, start);
    assert_eq!(name(state.decide(start + 8 * MINUTE)), "use");
    assert_eq!(name(state.decide(start + 9 * MINUTE)), "use and refresh");
    assert_eq!(name(state.decide(start + 10 * MINUTE)), "use", "valid until its expiry has passed");
    assert_eq!(name(state.decide(start + 10 * MINUTE + SECOND)), "wait", "for the refresh in flight");
    state.finish(fetched(None), 0.0, start + 11 * MINUTE);
    assert_eq!(name(state.decide(start + 1000 * MINUTE)), "use", "without an expiry until a 401");
}

#[test]
fn exe_013_a_credential_is_refreshed_ahead_of_its_expiry_with_jitter() {
    for (lifetime, latest, earliest) in
        [(100 * SECOND, 10 * SECOND, 20 * SECOND), (60 * MINUTE, 150 * SECOND, 5 * MINUTE)]
    {
        assert_eq!((ahead(lifetime, 0.0), ahead(lifetime, 1.0)), (latest, earliest));
    }
    let (mut state, start) = (RefreshState::default(), Instant::now());
    state.finish(fetched(Some(100 * SECOND)), 1.0, start);
    assert_eq!(name(state.decide(start + 81 * SECOND)), "use and refresh");
    assert_eq!(name(state.decide(start + 81 * SECOND)), "use", "one refresh is in flight");
    state.finish(failure(), 0.0, start + 82 * SECOND);
    assert_eq!(name(state.decide(start + 82 * SECOND)), "use", "a failure does not cost the valid credential");
    assert_eq!(name(state.decide(start + 83 * SECOND)), "use and refresh", "tried again after a pause");
    state.abort();
    assert_eq!(name(state.decide(start + 83 * SECOND)), "use and refresh", "a cancelled one is started again");
}

#[test]
fn exe_009_a_credential_that_expires_at_once_causes_one_refresh_a_second() {
    for lifetime in [Duration::ZERO, Duration::from_millis(1), SECOND] {
        let (mut state, start) = (RefreshState::default(), Instant::now());
        for refresh in 0..5 {
            let now = start + 2 * SECOND * refresh;
            assert_eq!(name(state.decide(now)), "refresh");
            state.finish(fetched(Some(lifetime)), 1.0, now);
            for millisecond in 0..1000 {
                assert_eq!(name(state.decide(now + Duration::from_millis(millisecond))), "use");
            }
        }
    }
}

#[test]
fn failures_back_off_from_a_second_to_a_minute() {
    let (mut state, mut now) = (RefreshState::default(), Instant::now());
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(name(state.decide(now)), "refresh");
        state.finish(failure(), 0.0, now);
        now += SECOND * seconds;
        assert_eq!(name(state.decide(now - SECOND / 2)), "fail", "{seconds}");
    }
    assert_eq!(name(state.decide(now)), "refresh");
    state.finish(fetched(None), 0.0, now);
    assert!(state.reject(1, now));
    assert_eq!(name(state.decide(now)), "refresh");
    state.finish(failure(), 0.0, now);
    assert_eq!(name(state.decide(now + SECOND)), "refresh", "a success resets the pause");
    assert_eq!(PAUSE.wait(u32::MAX), Duration::from_secs(60));
}

#[test]
fn exe_010_a_rejected_credential_is_refreshed_once_per_generation() {
    let (mut state, now) = (RefreshState::default(), Instant::now());
    assert!(!state.reject(0, now), "there is none");
    state.finish(fetched(None), 0.0, now);
    assert!(state.reject(1, now) && state.reject(1, now), "every rejected request is sent again");
    assert_eq!(name(state.decide(now)), "refresh");
    state.finish(fetched(None), 0.0, now);
    assert!(state.reject(1, now), "it has been replaced since");
    assert_eq!(name(state.decide(now)), "use", "and its successor is not");
}

#[test]
fn a_server_that_rejects_everything_causes_one_refresh_per_pause() {
    let (mut state, mut now) = (RefreshState::default(), Instant::now());
    state.finish(fetched(None), 0.0, now);
    let mut generation = 1;
    for seconds in [0, 1, 2, 4, 8, 16, 32, 60, 60] {
        if seconds > 0 {
            assert!(!state.reject(generation, now + SECOND * seconds - SECOND / 2), "{seconds}");
            assert_eq!(name(state.decide(now)), "use", "the server's error is returned");
        }
        now += SECOND * seconds;
        assert!(state.reject(generation, now), "{seconds}");
        assert_eq!(name(state.decide(now)), "refresh");
        state.finish(fetched(None), 0.0, now);
        generation += 1;
    }
    assert!(state.reject(generation, now + STREAK), "after a long time it is the first one again");
    assert_eq!(name(state.decide(now + STREAK)), "refresh");
}
