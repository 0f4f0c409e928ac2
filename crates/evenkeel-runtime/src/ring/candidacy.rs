//! [`Candidacy`]: a member that may be elected as the assigner of its ring.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_base::task::scheduled;
use evenkeel_cache::RunningInformers;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::assigner::AssignerMachine;
use super::inbox::Inbox;
use super::lease_store::LeaseStore;
use super::settings::RingSettings;
use super::table::{MemberName, SliceTable};
use crate::election::LeaderElector;

/// How many members are candidates.
const CANDIDATES: usize = 3;

/// The watch, the elector and the machine of a candidate. Dropping it stops all of them, and releases the election.
pub(super) struct Candidacy {
    pub(super) assigner: AssignerMachine,
    /// The term, while this process is elected.
    pub(super) elected: watch::Receiver<Option<u64>>,
    stand_down: Arc<Notify>,
    campaign: JoinHandle<()>,
    _watch: RunningInformers,
}

impl Candidacy {
    pub(super) fn new(
        elector: LeaderElector,
        settings: &RingSettings,
        store: &LeaseStore,
        inbox: &Arc<Inbox>,
        now: Duration,
    ) -> Self {
        let (sender, elected) = watch::channel(None);
        let stand_down = Arc::new(Notify::new());
        let campaign = tokio::spawn(scheduled(campaign(elector, sender, Arc::clone(&stand_down), settings.heartbeat)));
        let assigner = AssignerMachine::new(settings, now);
        Candidacy { assigner, elected, stand_down, campaign, _watch: inbox.watch_ring(store) }
    }

    /// Gives the election up, so that it is held anew.
    pub(super) fn stand_down(&mut self) {
        self.assigner.deactivate();
        self.stand_down.notify_one();
    }
}

impl Drop for Candidacy {
    fn drop(&mut self) {
        self.campaign.abort();
    }
}

async fn campaign(
    elector: LeaderElector,
    elected: watch::Sender<Option<u64>>,
    stand_down: Arc<Notify>,
    pause: Duration,
) {
    loop {
        let (elected, stand_down) = (&elected, &stand_down);
        let term = elector.run(|lease| async move {
            elected.send_replace(Some(lease.fencing_token()));
            tokio::select! {
                biased;
                () = lease.lost() => {}
                () = stand_down.notified() => {}
            }
            elected.send_replace(None);
        });
        if let Err(error) = term.await {
            tracing::debug!(%error, "the election of the assigner was lost; campaigning again");
        }
        elected.send_replace(None);
        tokio::time::sleep(pause).await;
    }
}

/// Decides who is a candidate: the three oldest members, every member while fewer are known, and every member if the election's
/// Lease does not change for twice its duration.
pub(super) struct CandidateRule {
    lease_duration: Duration,
    /// The version of the election's Lease, and since when it is that.
    election: Option<(Option<u64>, Duration)>,
    read_at: Duration,
}

impl CandidateRule {
    pub(super) fn new(lease_duration: Duration, now: Duration) -> Self {
        CandidateRule { lease_duration, election: None, read_at: now + lease_duration }
    }

    pub(super) fn is_candidate(&self, me: &MemberName, table: Option<&Arc<SliceTable>>, now: Duration) -> bool {
        let is_old = table.is_none_or(|table| {
            table.members.len() < CANDIDATES || table.members.iter().take(CANDIDATES).any(|member| member == me)
        });
        is_old || self.election.is_some_and(|(_, since)| now >= since + 2 * self.lease_duration)
    }

    /// Returns when the election's Lease should be read next.
    pub(super) fn read_at(&self) -> Duration {
        self.read_at
    }

    /// Notes that a read was sent.
    pub(super) fn reads(&mut self, now: Duration) {
        self.read_at = now + self.lease_duration;
    }

    /// Takes the version of the election's Lease; `None` if there is none.
    pub(super) fn observe(&mut self, now: Duration, version: Option<u64>) {
        if self.election.is_none_or(|(known, _)| known != version) {
            self.election = Some((version, now));
        }
    }
}
