//! What goes wrong, and when.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_apiserver::{Action, ApiServer, ExpireForm, Rule, Snapshot, WatchAction};
use evenkeel_client::Patch;
use evenkeel_core::{Reason, Status, StatusDetails};
use k8s_openapi::api::core::v1::Namespace;
use serde_json::json;
use tokio::sync::RwLock;
use tokio::time::sleep;

use crate::net::{Net, Weather};
use crate::truth::Truth;

/// What the informer's client calls itself, so that faults befall nobody else.
pub(crate) const AGENT: &str = "chaos-informer";

/// Makes things go wrong.
pub(crate) struct Misfortune {
    pub(crate) server: Arc<ApiServer>,
    pub(crate) net: Net,
    pub(crate) random: fastrand::Rng,
    pub(crate) truth: Arc<Mutex<Truth>>,
    /// Has those who write pause.
    pub(crate) gate: Arc<RwLock<()>>,
    /// What the server goes back to, once.
    pub(crate) backup: Option<Snapshot>,
}

impl Misfortune {
    /// Strikes so many times, then lets everything be well.
    pub(crate) async fn strike(mut self, times: usize) {
        let backup_at = self.random.usize(times / 2..times);
        for time in 0..times {
            let weather = if self.random.u8(..10) < 7 { Weather::Stormy } else { Weather::Calm };
            self.net.set(weather);
            if self.random.bool() {
                self.net.lose_connections();
            }
            sleep(Duration::from_millis(self.random.u64(100..20_000))).await;
            match self.backup.take_if(|_| time == backup_at) {
                Some(backup) => self.go_back(&backup).await,
                None => self.strike_once().await,
            }
        }
        self.net.set(Weather::Calm);
        self.server.faults().clear();
        self.server.faults().lag_replica(0);
    }

    async fn strike_once(&mut self) {
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
                self.befall(Rule::new(Action::Status(Box::new(failure))), 4);
                self.net.lose_connections();
            }
            8 => {
                let code = *random.choice(&[410, 500, 503, 504]).unwrap_or(&500);
                let failure = Status::failure(code, Reason::default(), "out of order");
                self.befall(Rule::new(Action::Status(Box::new(failure))), 3);
                self.net.lose_connections();
            }
            9 => {
                let action = *random.choice(&[0, 1]).unwrap_or(&0);
                let rule = match action {
                    0 => Rule::new(Action::Drop),
                    _ => Rule::new(Action::Delay(Duration::from_millis(random.u64(1..5000)))).watches(false),
                };
                self.befall(rule, 3);
            }
            10 => {
                // A list that is never answered would have to be ended by a time limit of the client.
                self.befall(Rule::new(Action::Hang).watches(true), 1);
            }
            _ => {
                let action = watch_fault(random);
                self.befall(Rule::watch(action), 2);
            }
        }
    }

    /// The next requests of the informer fare like this.
    fn befall(&mut self, rule: Rule, most: u64) {
        let times = self.random.u64(1..=most);
        self.server.faults().add(rule.user_agent(AGENT).times(times));
    }

    /// The server is gone for a while. When it comes back it may have forgotten what happened before.
    async fn outage(&mut self) {
        self.net.set(Weather::Refusing);
        self.net.lose_connections();
        sleep(Duration::from_millis(self.random.u64(10..40_000))).await;
        match self.random.u8(..3) {
            0 => self.server.restore(&self.server.snapshot()),
            1 => self.server.faults().reset_history(),
            _ => {}
        }
        self.net.set(if self.random.bool() { Weather::Stormy } else { Weather::Calm });
    }

    /// The server goes back to a backup. Its operator does as one has to: nobody is let in before versions are beyond all
    /// that were ever given out, and those before it count as too old.
    async fn go_back(&mut self, backup: &Snapshot) {
        self.net.set(Weather::Refusing);
        self.net.lose_connections();
        let gate = Arc::clone(&self.gate);
        let _closed = gate.write().await;
        let reached = self.server.stats().revision;
        self.truth.lock().unwrap().backup();
        self.server.restore(backup);
        let namespaces = self.server.client().api::<Namespace>();
        let mut round = 0;
        while self.server.stats().revision <= reached {
            round += 1;
            let patch = Patch::merge(&json!({"metadata": {"annotations": {"round": round.to_string()}}}));
            namespaces.patch("default", &patch).await.unwrap();
        }
        self.server.faults().compact_now();
        self.net.set(Weather::Calm);
    }
}

fn busy(retry_after_seconds: u32) -> Status {
    let details = StatusDetails { retry_after_seconds, ..StatusDetails::default() };
    Status::failure(429, Reason::TOO_MANY_REQUESTS, "too many requests").with_details(details)
}

/// Something that a server or a network does to a watch, and that is not a lie.
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
