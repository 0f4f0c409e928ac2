//! Runs that are late, dropped or broken, in virtual time.

use std::pin::Pin;
use std::task::Poll;

use tokio::time::sleep;

use crate::election::driver::tests::{FakeLock, Notes, elector, secs, unreachable_work};
use crate::election::*;

/// Polls once, then yields to other tasks.
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
async fn a_run_dropped_before_the_acquisition_leaves_no_term() {
    let lock = FakeLock::default();
    let check = ElectionHealth::new(secs(1));
    let elector = elector(&lock).health(&check);
    let mut run = Box::pin(elector.run(async |_| unreachable_work()));
    begin(&mut run).await;
    assert!(elector.handle().is_leader(), "the driver leads, and the run has not looked yet");
    drop(run);
    sleep(secs(1)).await;
    assert_eq!((lock.holder().as_str(), elector.handle().is_leader()), ("", false));
    sleep(secs(60)).await;
    assert_eq!(check.check(), Ok(()), "a term without work has ended");
}

#[tokio::test(start_paused = true)]
async fn inv_9_work_does_not_start_on_a_lost_lease() {
    let lock = FakeLock::default();
    let elector = elector(&lock);
    let mut run = Box::pin(elector.run(async |_| unreachable_work()));
    begin(&mut run).await;
    lock.state().down = true;
    sleep(secs(20)).await;
    let lost = run.await.unwrap_err();
    assert!(matches!(lost, ElectionError::Lost { why: LostReason::Expired, .. }), "{lost}");
}

#[tokio::test(start_paused = true)]
async fn inv_9_work_is_not_polled_again_after_its_lease_expired() {
    let (lock, notes) = (FakeLock::default(), Notes::new());
    let (wake, woken) = tokio::sync::oneshot::channel::<()>();
    let run = tokio::spawn({
        let (elector, notes) = (elector(&lock), notes.clone());
        async move {
            let work = async |_| {
                notes.write("begins");
                let _ = woken.await;
                notes.write("goes on");
            };
            elector.run(work).await
        }
    });
    sleep(secs(1)).await;
    lock.state().down = true;
    // The work is woken, and then the process is suspended for longer than candidates wait.
    wake.send(()).unwrap();
    tokio::time::advance(secs(20)).await;
    assert!(run.await.unwrap().is_err());
    assert_eq!(notes.read(), ["0 begins"]);
}

#[tokio::test(start_paused = true)]
async fn a_panicking_lock_is_not_a_requested_end() {
    struct Broken;
    impl Lock for Broken {
        fn get(&self) -> LockFuture<'_, Option<VersionedRecord>> {
            Box::pin(async { panic!("the lock is broken") })
        }

        fn create(&self, _: Record) -> LockFuture<'_, VersionedRecord> {
            unreachable!("nothing was read")
        }

        fn update(&self, _: Record, _: String) -> LockFuture<'_, VersionedRecord> {
            unreachable!("nothing was read")
        }

        fn describe(&self) -> String {
            "ns/broken".into()
        }
    }
    let run = tokio::spawn(async { LeaderElector::with_lock(Broken, "test").run(async |_| ()).await });
    assert!(run.await.unwrap_err().is_panic());
}
