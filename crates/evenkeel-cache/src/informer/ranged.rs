//! [`RangedShared`]: which places the store of an informer with a [`ShardScope`] covers, and the reports of its reflectors.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel_core::shard::ShardRanges;
use tokio::sync::watch;

use super::scopes::sum_of;
use super::shared::{InformerPhase, InformerShared};
use crate::ShardScope;
use crate::reflector::{LastError, ReflectorPhase, ReflectorReport, ReflectorStatus};

/// The part of an informer's shared state that only one with a scope of places has.
pub(super) struct RangedShared {
    covered: watch::Sender<ShardRanges>,
    reports: Mutex<RangedReports>,
    /// Keeps the sender of the wanted places.
    _scope: ShardScope,
}

/// The reports of the reflectors.
#[derive(Default)]
struct RangedReports {
    running: BTreeMap<u64, ReflectorStatus>,
    /// The sums of those that have ended.
    ended: ReflectorReport,
}

impl RangedShared {
    pub(super) fn new(scope: &ShardScope) -> Self {
        let covered = watch::Sender::new(ShardRanges::empty());
        RangedShared { covered, reports: Mutex::default(), _scope: scope.clone() }
    }

    /// Sets the places that the store covers.
    pub(super) fn set_covered(&self, ranges: ShardRanges) {
        self.covered.send_if_modified(|covered| {
            let is_changed = *covered != ranges;
            *covered = ranges;
            is_changed
        });
    }

    pub(super) fn reflector_started(&self, id: u64, status: ReflectorStatus) {
        self.lock().running.insert(id, status);
    }

    pub(super) fn reflector_ended(&self, id: u64) {
        let mut reports = self.lock();
        let Some(status) = reports.running.remove(&id) else { return };
        let (ended, last) = (std::mem::take(&mut reports.ended), status.report());
        let error = last_error([&ended, &last].into_iter());
        let total = sum_of([&ended, &last].into_iter(), String::new(), error);
        let (phase, listed, last_received) = (ReflectorPhase::Idle, 0, None);
        reports.ended = ReflectorReport { phase, listed, last_received, is_watch_list_unavailable: false, ..total };
    }

    /// Returns the sum of the reports.
    pub(super) fn report(&self, version: String) -> ReflectorReport {
        let reports = self.lock();
        let mut all: Vec<ReflectorReport> = reports.running.values().map(ReflectorStatus::report).collect();
        all.push(reports.ended.clone());
        sum_of(all.iter(), version, last_error(all.iter()))
    }

    fn lock(&self) -> MutexGuard<'_, RangedReports> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn last_error<'a>(reports: impl Iterator<Item = &'a ReflectorReport>) -> Option<LastError> {
    reports.filter_map(|report| report.last_error.as_ref()).max_by_key(|error| error.at).cloned()
}

impl InformerShared {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the places whose objects are all in the store. An informer that does not run covers none.
    pub(crate) fn covered(&self) -> ShardRanges {
        let lifecycle = self.lifecycle();
        match &self.ranged {
            _ if lifecycle.phase != InformerPhase::Running => ShardRanges::empty(),
            Some(ranged) => ranged.covered.borrow().clone(),
            None if lifecycle.synced => self.selected.clone(),
            None => ShardRanges::empty(),
        }
    }

    /// Waits until the store covers these places. Returns false if the informer stops before.
    pub(crate) async fn wait_until_covered(&self, ranges: &ShardRanges) -> bool {
        let mut lifecycle = self.watch_lifecycle();
        let covered = async {
            // The senders are fields of `self`, so neither wait fails.
            let mut started = self.watch_lifecycle();
            let _ = started.wait_for(|lifecycle| lifecycle.phase != InformerPhase::Created).await;
            match &self.ranged {
                Some(ranged) => {
                    let _ = ranged.covered.subscribe().wait_for(|covered| covered.covers(ranges)).await;
                }
                None if self.selected.covers(ranges) => {
                    let _ = started.wait_for(|lifecycle| lifecycle.synced).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = lifecycle.wait_for(|lifecycle| lifecycle.phase == InformerPhase::Stopped) => false,
            () = covered => true,
        }
    }
}
