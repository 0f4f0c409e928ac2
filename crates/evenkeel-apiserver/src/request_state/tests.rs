use std::sync::atomic::{AtomicU64, Ordering};

use std::time::Duration;

use super::*;
use crate::env::uuid;

/// Every reading differs from the one before.
#[derive(Default)]
struct CountingEnv(AtomicU64);

impl Env for CountingEnv {
    fn wall(&self) -> Timestamp {
        Timestamp::from_second(self.random().cast_signed()).unwrap()
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn random(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

#[test]
fn every_run_of_a_request_draws_the_same() {
    let (env, state) = (CountingEnv::default(), RequestState::default());
    let run = || {
        state.start_run();
        let env = RequestEnv::new(&env, Some(&state));
        (env.wall(), uuid(|| env.random()), env.random())
    };
    let first = run();
    assert_eq!(run(), first);
    let env = RequestEnv::new(&env, Some(&state));
    assert_ne!(env.random(), first.2, "a run that draws more gets new numbers");
}

#[test]
fn the_server_itself_draws_anew() {
    let env = CountingEnv::default();
    let env = RequestEnv::new(&env, None);
    assert_ne!(env.random(), env.random());
    assert_ne!(env.wall(), env.wall());
}
