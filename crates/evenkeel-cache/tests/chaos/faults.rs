//! [`FaultInjector`]: injects faults into server and network at random times.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_apiserver::{Action, ApiServer, ExpireForm, Rule, Snapshot, WatchAction};
use evenkeel_core::{Reason, Status, StatusDetails};
use tokio::sync::RwLock;
use tokio::time::sleep;

use crate::net::{Net, NetworkState};
use crate::truth::Truth;

/// User agent of the informer's client, so that faults affect no other client.
pub(crate) const AGENT: &str = "chaos-informer";

/// Injects faults into server and network.
pub(crate) struct FaultInjector {
    pub(crate) server: Arc<ApiServer>,
    pub(crate) net: Net,
    pub(crate) random: fastrand::Rng,
    pub(crate) truth: Arc<Mutex<Truth>>,
    /// Pauses the writers.
    pub(crate) gate: Arc<RwLock<()>>,
    /// The backup to restore, once.
    pub(crate) backup: Option<Snapshot>,
}

impl FaultInjector {
    /// Injects this many faults, then clears all of them.
    pub(crate) async fn run(mut self, times: usize) {
        let backup_at = self.random.usize(times / 2..times);
        for time in 0..times {
            let network = if self.random.u8(..10) < 7 { NetworkState::Lossy } else { NetworkState::Healthy };
            self.net.set(network);
            if self.random.bool() {
                self.net.lose_connections();
            }
            sleep(Duration::from_millis(self.random.u64(100..20_000))).await;
            match self.backup.take_if(|_| time == backup_at) {
                Some(backup) => self.restore_backup(&backup).await,
                None => self.inject_one().await,
            }
        }
        self.net.set(NetworkState::Healthy);
        self.server.faults().clear();
        self.server.faults().lag_replica(0);
    }

    async fn inject_one(&mut self) {
        let faults = self.server.faults();
        let random = &mut self.random;
        match random.u8(..16) {
            0..3 => self.outage().await,
            3 => faults.compact_now(),
            4 => faults.reset_history(),
            5 => {
                faults.lag_replica(random.u64(1..40));
                sleep(Duration::from_millis(random.u64(100..10_000))).await;
                faults.lag_replica(0);
            }
            6 | 7 => {
                let failure = busy(random.u32(1..8));
                self.inject(Rule::new(Action::Status(Box::new(failure))), 4);
                self.net.lose_connections();
            }
            8 => {
                let code = *random.choice(&[410, 500, 503, 504]).unwrap_or(&500);
                let failure = Status::failure(code, Reason::default(), "out of order");
                self.inject(Rule::new(Action::Status(Box::new(failure))), 3);
                self.net.lose_connections();
            }
            9 => {
                let action = *random.choice(&[0, 1]).unwrap_or(&0);
                let rule = match action {
                    0 => Rule::new(Action::Drop),
                    _ => Rule::new(Action::Delay(Duration::from_millis(random.u64(1..5000)))).watches(false),
                };
                self.inject(rule, 3);
            }
            10 => {
                // Only a client timeout would end a list without a response.
                self.inject(Rule::new(Action::Hang).watches(true), 1);
            }
            _ => {
                let action = watch_fault(random);
                self.inject(Rule::watch(action), 2);
            }
        }
    }

    /// Applies a rule to the next requests of the informer.
    fn inject(&mut self, rule: Rule, most: u64) {
        let times = self.random.u64(1..=most);
        self.server.faults().add(rule.user_agent(AGENT).times(times));
    }

    /// Refuses connections for a while. Afterwards the server may have lost its watch history.
    async fn outage(&mut self) {
        self.net.set(NetworkState::Refusing);
        self.net.lose_connections();
        sleep(Duration::from_millis(self.random.u64(10..40_000))).await;
        match self.random.u8(..3) {
            0 => self.server.restore(&self.server.snapshot()),
            1 => self.server.faults().reset_history(),
            _ => {}
        }
        self.net.set(if self.random.bool() { NetworkState::Lossy } else { NetworkState::Healthy });
    }

    /// Restores a backup during an outage. The server raises its revision above all that it has issued, so that the informer
    /// relists.
    async fn restore_backup(&mut self, backup: &Snapshot) {
        self.net.set(NetworkState::Refusing);
        self.net.lose_connections();
        let gate = Arc::clone(&self.gate);
        let _closed = gate.write().await;
        let reached = self.server.stats().revision;
        self.truth.lock().unwrap().backup();
        self.server.restore(backup);
        assert!(self.server.stats().revision > reached);
        self.net.set(NetworkState::Healthy);
    }
}

fn busy(retry_after_seconds: u32) -> Status {
    let details = StatusDetails { retry_after_seconds, ..StatusDetails::default() };
    Status::failure(429, Reason::TOO_MANY_REQUESTS, "too many requests").with_details(details)
}

/// Returns a fault that a real server or network can cause in a watch.
fn watch_fault(random: &mut fastrand::Rng) -> WatchAction {
    let (event, byte) = (random.u64(..4), random.usize(..300));
    match random.u8(..16) {
        0 => WatchAction::CloseAfterEvents(event),
        1 => WatchAction::CloseAfterBytes(random.u64(..2000)),
        2 => WatchAction::CloseMidFrame { event, byte },
        3 => WatchAction::TruncateFrame { event, byte },
        4 => WatchAction::CorruptFrame { event, byte },
        5 => WatchAction::SplitFrame { sizes: vec![1, 7, 100] },
        6 => WatchAction::CoalesceFrames { events: 5, wait: Duration::from_secs(2) },
        7 => WatchAction::DuplicateEvent { event },
        8 => WatchAction::Expire { event, form: ExpireForm::Event },
        9 => WatchAction::Expire { event, form: ExpireForm::Http },
        10 => WatchAction::BookmarkOnly,
        11 => WatchAction::NoBookmarks,
        12 => WatchAction::StallFor { event, duration: Duration::from_millis(random.u64(1..30_000)) },
        13 => WatchAction::ErrorEvent { event, status: Box::new(busy(random.u32(1..5))) },
        14 => WatchAction::UnknownEventType { event },
        _ => WatchAction::WrongKindObject { event },
    }
}
