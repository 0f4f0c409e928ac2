//! Runs that are late, dropped or broken, in virtual time.

use std::pin::Pin;
use std::task::Poll;

use tokio::time::sleep;

use super::driver_tests::{FakeLock, elector, secs};
use super::*;

/// Polls once, and lets others run for a while.
async fn begin<F: Future>(run: &mut Pin<Box<F>>) {
    std::future::poll_fn(|context| {
        assert!(run.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_before_it_takes_the_lease_leaves_no_term_behind() {
    let lock = FakeLock::default();
    let check = ElectionHealth::new(secs(1));
    let elector = elector(&lock).health(&check);
    let mut run = Box::pin(elector.run(async |_| panic!("nobody works")));
    begin(&mut run).await;
    assert!(elector.handle().is_leader(), "the keeper leads, and the run has not looked yet");
    drop(run);
    sleep(secs(1)).await;
    assert_eq!((lock.holder().as_str(), elector.handle().is_leader()), ("", false));
    sleep(secs(60)).await;
    assert_eq!(check.check(), Ok(()), "a term that nobody served is no term that goes on");
}
