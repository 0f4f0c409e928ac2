//! The elector as a whole, in virtual time, over a lock that a test can break.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio::time::{Instant, sleep, timeout};

use crate::election::*;

/// A lock in memory.
#[derive(Clone, Default)]
pub(in crate::election) struct FakeLock(Arc<Mutex<Fake>>);

#[derive(Default)]
pub(in crate::election) struct Fake {
    held: Option<VersionedRecord>,
    version: u64,
    calls: Vec<(&'static str, Instant)>,
    /// How long each of the next requests takes, and whether it then fails without effect.
    script: VecDeque<(Duration, bool)>,
    /// Every request fails.
    pub(in crate::election) down: bool,
}

impl FakeLock {
    pub(in crate::election) fn state(&self) -> std::sync::MutexGuard<'_, Fake> {
        self.0.lock().unwrap()
    }

    fn record(&self) -> Record {
        self.state().held.clone().unwrap().record
    }

    pub(in crate::election) fn holder(&self) -> String {
        self.state().held.as_ref().map(|held| held.record.holder.clone()).unwrap_or_default()
    }

    fn put(&self, record: Record) {
        let mut state = self.state();
        state.version += 1;
        let version = state.version.to_string();
        state.held = Some(VersionedRecord { record, version });
    }

    fn trace(&self) -> String {
        let calls = std::mem::take(&mut self.state().calls);
        calls.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(",")
    }

    async fn call(&self, name: &'static str) -> Result<(), LockError> {
        let (delay, fails) = {
            let mut state = self.state();
            state.calls.push((name, Instant::now()));
            let down = state.down;
            state.script.pop_front().unwrap_or((Duration::ZERO, down))
        };
        if !delay.is_zero() {
            sleep(delay).await;
        }
        match fails {
            true => Err(LockError::Other { problem: "down".into() }),
            false => Ok(()),
        }
    }

    fn write(&self, record: Record, version: Option<String>) -> Result<VersionedRecord, LockError> {
        if self.state().held.as_ref().map(|held| held.version.clone()) != version {
            return Err(LockError::Conflict { lock: self.describe() });
        }
        self.put(record);
        Ok(self.state().held.clone().unwrap())
    }
}

impl Lock for FakeLock {
    fn get(&self) -> LockFuture<'_, Option<VersionedRecord>> {
        Box::pin(async move {
            self.call("get").await?;
            Ok(self.state().held.clone())
        })
    }

    fn create(&self, record: Record) -> LockFuture<'_, VersionedRecord> {
        Box::pin(async move {
            self.call("create").await?;
            self.write(record, None)
        })
    }

    fn update(&self, record: Record, version: String) -> LockFuture<'_, VersionedRecord> {
        Box::pin(async move {
            self.call("update").await?;
            self.write(record, Some(version))
        })
    }

    fn describe(&self) -> String {
        "ns/fake".into()
    }
}

pub(in crate::election) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(in crate::election) fn elector(lock: &FakeLock) -> LeaderElector {
    LeaderElector::with_lock(lock.clone(), "test").identity("me")
}

fn held_by(holder: &str) -> Record {
    Record {
        holder: holder.into(),
        lease_seconds: 15,
        acquire_time: Some(Timestamp::UNIX_EPOCH),
        renew_time: Some(Timestamp::UNIX_EPOCH),
        transitions: 3,
        ..Record::default()
    }
}

/// A log of what happened, with seconds since the log was created.
#[derive(Clone)]
pub(in crate::election) struct Notes(Arc<Mutex<Vec<String>>>, Instant);

impl Notes {
    pub(in crate::election) fn new() -> Self {
        Notes(Arc::default(), Instant::now())
    }

    pub(in crate::election) fn write(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(format!("{} {}", self.1.elapsed().as_secs_f64(), what.into()));
    }

    pub(in crate::election) fn read(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// The output of work that succeeds with a value.
fn done<T>(value: T) -> Result<T, Infallible> {
    Ok(value)
}

pub(in crate::election) fn unreachable_work() {
    unreachable!("the work runs only in a leader")
}

fn panicking_work() {
    panic!("ouch")
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_work_is_the_error_of_the_run() {
    let lock = FakeLock::default();
    let one_liner = async || -> Result<(), ElectionError> {
        elector(&lock).run(|_| async { Err::<(), _>("the controller failed") }).await?;
        Ok(())
    };
    let error = one_liner().await.unwrap_err();
    let source = std::error::Error::source(&error).map(ToString::to_string);
    assert_eq!(source.as_deref(), Some("the controller failed"), "{error}");
    assert_eq!(error.to_string(), "the work of leader me failed");
    assert_eq!(lock.holder(), "", "the lease is released");
}

#[tokio::test(start_paused = true)]
async fn le_016_became_leader_is_reported_before_the_work_starts() {
    let (lock, notes) = (FakeLock::default(), Notes::new());
    let events = notes.clone();
    let elector = elector(&lock).on_event(move |event| events.write(event.message));
    let work = notes.clone();
    let ended = elector.run(|lease| async move { work.write(format!("work in term {}", lease.fencing_token())) }).await;
    assert_eq!(ended.unwrap(), Ended { led: true, output: Some(()) });
    assert_eq!(notes.read(), ["0 me became leader", "0 work in term 0", "0 me stopped leading"]);
    assert_eq!(lock.trace(), "get,create,get,update");
    assert_eq!(lock.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn le_017_a_leader_that_cannot_renew_is_stopped_in_time_and_dropped_after_its_grace() {
    let (lock, notes) = (FakeLock::default(), Notes::new());
    struct Dropped(Notes);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.write("dropped");
        }
    }
    let (down, work) = (lock.clone(), notes.clone());
    let ended = elector(&lock)
        .run(|lease| async move {
            let _noted = Dropped(work.clone());
            sleep(secs(5)).await;
            down.state().down = true;
            lease.lost().await;
            work.write(format!("lost, valid: {}", lease.is_valid()));
            lease.lost().await;
            std::future::pending::<()>().await;
        })
        .await;
    assert!(matches!(ended, Err(ElectionError::Lost { why: LostReason::Expired, .. })), "{ended:?}");
    assert_eq!(notes.read(), ["14 lost, valid: false", "16 dropped"], "the last renewal was sent at 4 s");
}

#[tokio::test(start_paused = true)]
async fn le_018_new_leaders_are_reported_in_order() {
    let (lock, notes) = (FakeLock::default(), Notes::new());
    lock.put(held_by("first"));
    let leaders = notes.clone();
    let elector = elector(&lock).on_new_leader(move |leader| leaders.write(format!("{leader:?}")));
    let handle = elector.handle();
    let others = async {
        sleep(secs(10)).await;
        lock.put(held_by("second"));
        sleep(secs(10)).await;
        lock.put(held_by(""));
        sleep(secs(10)).await;
        assert_eq!(handle.leader().as_deref(), Some("me"));
        assert!(handle.is_leader());
        handle.stop();
    };
    let (ended, ()) = tokio::join!(elector.run(|lease| async move { lease.lost().await }), others);
    assert!(ended.unwrap().led);
    let reported = notes.read();
    let names: Vec<_> = reported.iter().map(|note| note.split_once(' ').unwrap().1).collect();
    assert_eq!(names, ["Some(\"first\")", "Some(\"second\")", "None", "Some(\"me\")", "None"]);
    assert_eq!(handle.leader(), None);
    assert!(!handle.is_leader());
}

#[tokio::test(start_paused = true)]
async fn le_018_a_callback_that_panics_does_not_end_the_election() {
    let lock = FakeLock::default();
    let elector = elector(&lock).on_new_leader(|_| panic!("ouch")).on_event(|_| panic!("ouch"));
    let ended = elector.run(|lease| async move { done(lease.is_valid()) }).await;
    assert_eq!(ended.unwrap().output, Some(true));
}

#[tokio::test(start_paused = true)]
async fn le_019_a_run_returns_whether_it_led() {
    let lock = FakeLock::default();
    lock.put(held_by("other"));
    let elector = elector(&lock);
    elector.handle().stop();
    let ended = elector.run(|_| async { unreachable_work() }).await;
    assert_eq!(ended.unwrap(), Ended::<()> { led: false, output: None });
}

#[tokio::test(start_paused = true)]
async fn le_020_a_stop_notifies_the_work_and_renews_until_it_has_ended() {
    let (lock, notes) = (FakeLock::default(), Notes::new());
    let elector = elector(&lock);
    let handle = elector.handle();
    let stop = async {
        sleep(secs(3)).await;
        handle.stop();
    };
    let work = |lease: Lease| {
        let notes = notes.clone();
        async move {
            lease.lost().await;
            notes.write("lost");
            for _ in 0..20 {
                sleep(secs(1)).await;
                assert!(lease.is_valid());
            }
            notes.write("done");
            done("tidy")
        }
    };
    let (ended, ()) = tokio::join!(elector.run(work), stop);
    assert_eq!(ended.unwrap(), Ended { led: true, output: Some("tidy") });
    assert_eq!(notes.read(), ["3 lost", "23 done"]);
    assert_eq!(lock.holder(), "");
    assert!(!elector.run(|_| async {}).await.unwrap().led, "stopped is stopped");
}

#[tokio::test(start_paused = true)]
async fn le_020_work_that_does_not_end_when_stopped_is_dropped() {
    let lock = FakeLock::default();
    let endless = elector(&lock).stop_grace(Duration::MAX);
    let handle = endless.handle();
    let run = endless.run(|_| async move {
        handle.stop();
        std::future::pending::<()>().await;
    });
    assert!(timeout(secs(1_000), run).await.is_err(), "for the configured time");
    let elector = elector(&lock).stop_grace(secs(4));
    let handle = elector.handle();
    let started = Instant::now();
    let ended = elector
        .run(|_| async move {
            handle.stop();
            std::future::pending::<()>().await;
        })
        .await;
    assert_eq!(ended.unwrap(), Ended { led: true, output: None });
    assert_eq!(started.elapsed(), secs(4));
    assert_eq!(lock.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn le_020_dropping_a_run_drops_the_work_and_releases_the_lease() {
    let lock = FakeLock::default();
    let elector = elector(&lock);
    let working = Arc::new(AtomicBool::new(false));
    struct Works(Arc<AtomicBool>);
    impl Drop for Works {
        fn drop(&mut self) {
            self.0.store(false, Ordering::SeqCst);
        }
    }
    let mut kept = None;
    let run = elector.run(|lease| {
        kept = Some(lease);
        let works = Works(Arc::clone(&working));
        async move {
            works.0.store(true, Ordering::SeqCst);
            std::future::pending::<()>().await;
        }
    });
    assert!(timeout(secs(3), run).await.is_err());
    assert!(!working.load(Ordering::SeqCst));
    let lease = kept.unwrap();
    assert!(!lease.is_valid(), "also for who has kept it");
    lease.lost().await;
    sleep(secs(1)).await;
    assert_eq!(lock.holder(), "");
    let again = elector.run(|lease| async move { done(lease.fencing_token()) }).await;
    assert_eq!(again.unwrap().output, Some(1));
}

#[tokio::test(start_paused = true)]
async fn le_021_and_qhc_16_the_work_ends_before_the_release() {
    let (lock, notes) = (FakeLock::default(), Notes::new());
    let ended = elector(&lock)
        .run(|lease| {
            let (lock, notes) = (lock.clone(), notes.clone());
            async move {
                lock.state().down = true;
                lease.lost().await;
                notes.write("lost");
                sleep(secs(1)).await;
                notes.write("over");
                let mut state = lock.state();
                state.down = false;
                state.calls.clear();
                state.script = [(secs(5), false)].into();
            }
        })
        .await;
    assert!(ended.is_err());
    assert_eq!(notes.read(), ["10 lost", "11 over"]);
    let calls = lock.state().calls.clone();
    assert_eq!(calls[0], ("get", notes.1 + secs(11)), "released when the work was over");
    // The get took until 16 s, longer than the request timeout.
    assert_eq!(calls.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn le_022_without_release_on_cancel_the_lease_is_left_to_expire() {
    let lock = FakeLock::default();
    elector(&lock).release_on_cancel(false).run(|_| async {}).await.unwrap();
    assert_eq!(lock.holder(), "me");
    assert_eq!(lock.trace(), "get,create");
}

#[tokio::test(start_paused = true)]
async fn le_024_stopping_during_an_update_releases() {
    let lock = FakeLock::default();
    let elector = elector(&lock);
    let handle = elector.handle();
    lock.state().script = [(Duration::ZERO, false), (Duration::ZERO, false), (secs(4), false)].into();
    let stop = async {
        sleep(secs(3)).await;
        handle.stop();
    };
    let (ended, ()) = tokio::join!(elector.run(|lease| async move { lease.lost().await }), stop);
    assert!(ended.unwrap().led);
    assert_eq!(lock.trace(), "get,create,update,get,update");
    assert_eq!(lock.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn qhc_15_a_release_does_not_evict_a_successor() {
    let lock = FakeLock::default();
    let ended = elector(&lock)
        .run(|lease| {
            let lock = lock.clone();
            async move {
                lock.state().down = true;
                lease.lost().await;
                lock.put(held_by("other"));
                let mut state = lock.state();
                state.down = false;
                state.calls.clear();
            }
        })
        .await;
    assert!(ended.is_err());
    assert_eq!(lock.trace(), "get");
    assert_eq!(lock.record(), held_by("other"));
}

#[tokio::test(start_paused = true)]
async fn qhc_17_the_end_of_a_coordinated_term_ends_the_run_once() {
    let lock = FakeLock::default();
    lock.put(held_by("me"));
    let ended = elector(&lock)
        .coordinated()
        .run(|lease| {
            let lock = lock.clone();
            async move {
                let record = lock.record();
                lock.put(Record { preferred_holder: "younger".into(), ..record });
                lock.trace();
                lease.lost().await;
                assert_eq!(lock.trace(), "get", "no update");
            }
        })
        .await;
    let why = LostReason::EndOfTerm { preferred: "younger".into() };
    assert!(matches!(&ended, Err(ElectionError::Lost { why: lost, .. }) if *lost == why), "{ended:?}");
}

fn metric(recorder: &DebuggingRecorder, name: &str) -> Option<(Vec<String>, f64)> {
    recorder.snapshotter().snapshot().into_vec().into_iter().find(|(key, ..)| key.key().name() == name).map(
        |(key, _, _, value)| {
            let labels = key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            let value = match value {
                DebugValue::Gauge(value) => value.into_inner(),
                DebugValue::Counter(value) => value as f64,
                DebugValue::Histogram(_) => f64::NAN,
            };
            (labels, value)
        },
    )
}

#[test]
fn le_002_and_le_026_and_le_031_the_gauge_exists_from_the_start_and_is_always_reset() {
    let recorder = DebuggingRecorder::new();
    let labels = vec!["name=test".to_owned()];
    ::metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let lock = FakeLock::default();
            let elector = elector(&lock);
            let shown = || metric(&recorder, "leader_election_master_status");
            assert_eq!(shown(), Some((labels.clone(), 0.0)));
            // Cancelled between two renewals.
            let run = elector.run(|_| async {
                assert_eq!(shown(), Some((labels.clone(), 1.0)));
                std::future::pending::<()>().await;
            });
            assert!(timeout(secs(3), run).await.is_err());
            sleep(secs(1)).await;
            assert_eq!(shown(), Some((labels.clone(), 0.0)));

            let ended = elector
                .run(|lease| {
                    let lock = lock.clone();
                    async move {
                        lock.put(lock.record());
                        sleep(secs(3)).await;
                        lock.state().down = true;
                        lease.lost().await;
                    }
                })
                .await;
            assert!(ended.is_err());
            // One conflict, and the renewals that failed. Reading the counter resets it, so it is read first.
            let slow = metric(&recorder, "leader_election_slowpath_total").unwrap();
            assert_eq!(slow.0, labels);
            assert!(slow.1 >= 2.0, "{slow:?}");
            assert_eq!(shown(), Some((labels.clone(), 0.0)));
        });
    });
}

#[tokio::test(start_paused = true)]
async fn le_027_and_le_003_is_valid_follows_the_clock() {
    let lock = FakeLock::default();
    let ended = elector(&lock)
        .run(|lease| {
            let lock = lock.clone();
            async move {
                assert_eq!(lease.remaining(), secs(10));
                lock.state().down = true;
                // Time passes without any task being polled.
                tokio::time::advance(secs(10)).await;
                assert!(!lease.is_valid());
                assert_eq!(lease.remaining(), Duration::ZERO);
            }
        })
        .await;
    drop(ended);
}

#[tokio::test(start_paused = true)]
async fn le_028_a_leader_that_outlives_its_lease_is_unhealthy() {
    let lock = FakeLock::default();
    let health = ElectionHealth::new(secs(1));
    let elector = elector(&lock).health(&health);
    let ended = elector
        .run(|lease| {
            let (lock, health) = (lock.clone(), health.clone());
            async move {
                lock.state().down = true;
                lease.lost().await;
                assert_eq!(health.check(), Ok(()));
                // As if the work blocked its thread.
                tokio::time::advance(secs(6)).await;
                assert_eq!(health.check(), Ok(()), "16 s, with a tolerance of 1 s");
                tokio::time::advance(Duration::from_millis(1)).await;
                let ill = health.check().unwrap_err();
                assert_eq!(ill.to_string(), "failed election to renew leadership on lease ns/fake");
            }
        })
        .await;
    drop(ended);
    assert_eq!(health.check(), Ok(()), "it has ended after all");
}

#[tokio::test(start_paused = true)]
async fn le_029_the_health_check_succeeds_without_an_elector_and_for_non_leaders() {
    let health = ElectionHealth::new(secs(1));
    assert_eq!(health.name(), "leaderElection");
    assert_eq!(health.check(), Ok(()));
    let lock = FakeLock::default();
    let elector = elector(&lock).health(&health);
    lock.put(held_by("other"));
    lock.state().down = true;
    let run = elector.run(|_| async {});
    assert!(timeout(secs(100), run).await.is_err());
    assert_eq!(health.check(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn le_030_the_health_check_is_attached_before_anything_runs() {
    let health = ElectionHealth::new(secs(0));
    let lock = FakeLock::default();
    let elector = elector(&lock).health(&health);
    elector
        .run(|lease| {
            let health = health.clone();
            async move {
                sleep(secs(60)).await;
                assert!(lease.is_valid());
                assert_eq!(health.check(), Ok(()), "renewed all the time");
            }
        })
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn lk_007_events_name_identity_and_transition_even_before_a_lease_was_read() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let (lock, noted) = (FakeLock::default(), Arc::clone(&events));
    let elector = elector(&lock).on_event(move |event| noted.lock().unwrap().push(event));
    elector.run(|_| async {}).await.unwrap();
    let events = events.lock().unwrap();
    let texts: Vec<_> = events.iter().map(|event| (event.kind, event.reason, event.message.as_str())).collect();
    let expected = ["me became leader", "me stopped leading"].map(|text| ("Normal", "LeaderElection", text));
    assert_eq!(texts, expected);
}

#[tokio::test(start_paused = true)]
async fn lk_009_a_slow_call_times_out() {
    let lock = FakeLock::default();
    lock.state().script = [(secs(100), false)].into();
    let started = Instant::now();
    elector(&lock).run(|_| async {}).await.unwrap();
    let waited = started.elapsed();
    assert!(waited >= secs(7) && waited < secs(10), "5 s, then a jittered period: {waited:?}");
    let calls = lock.state().calls.clone();
    assert_eq!(calls[1].0, "get");
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_work_ends_the_term_and_releases_the_lease() {
    let lock = FakeLock::default();
    let elector = Arc::new(elector(&lock));
    let running = Arc::clone(&elector);
    let run = tokio::spawn(async move { running.run(|_| async { panicking_work() }).await.map(|_: Ended<()>| ()) });
    assert!(run.await.unwrap_err().is_panic());
    sleep(secs(1)).await;
    assert_eq!(lock.holder(), "");
    assert!(!elector.handle().is_leader());
}

#[tokio::test(start_paused = true)]
async fn runs_at_the_same_time_are_served_one_after_another() {
    let lock = FakeLock::default();
    let elector = elector(&lock);
    let busy = AtomicBool::new(false);
    let work = |lease: Lease| {
        let busy = &busy;
        async move {
            assert!(!busy.swap(true, Ordering::SeqCst));
            sleep(secs(30)).await;
            assert!(lease.is_valid());
            busy.store(false, Ordering::SeqCst);
            done(lease.fencing_token())
        }
    };
    let (first, second) = tokio::join!(elector.run(work), elector.run(work));
    assert_eq!((first.unwrap().output, second.unwrap().output), (Some(0), Some(1)));
}

#[tokio::test(start_paused = true)]
async fn a_second_elector_takes_over_after_a_release_with_a_higher_number() {
    let lock = FakeLock::default();
    let (first, second) = (elector(&lock), LeaderElector::with_lock(lock.clone(), "test").identity("you"));
    let waiting = async {
        sleep(secs(1)).await;
        second.run(|lease| async move { done((lease.fencing_token(), Instant::now())) }).await
    };
    let working = first.run(|_| async { sleep(secs(20)).await });
    let (first, second) = tokio::join!(working, waiting);
    first.unwrap();
    assert_eq!(second.unwrap().output.unwrap().0, 1);
}
