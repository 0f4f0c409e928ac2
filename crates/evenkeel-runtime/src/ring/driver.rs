//! Timers, requests and watches around the machines: one life of a member.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_base::task::scheduled;
use evenkeel_cache::RunningInformers;
use evenkeel_core::shard::{ShardRange, ShardRanges};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, info, warn};

use super::assigner::{AssignerAction, AssignerOperation, AssignerRequest, AssignerResponse};
use super::candidacy::{Candidacy, CandidateRule};
use super::clock::wall_micros;
use super::inbox::{Inbox, LeaseChange};
use super::lease_store::{LeaseStore, RingLease, UnorderedVersion, version_of};
use super::member::{MemberAction, MemberEnd, MemberEvent, MemberMachine, MemberRequest, MemberResponse};
use super::member_record::WrittenVersions;
use super::metrics::Metrics;
use super::settings::RingSettings;
use super::shared::{RingShared, RingView, WorkRange};
use super::slices::{Drain, Grant, SliceEvent, cancel_time};
use super::table::TableError;
use crate::election::LeaderElector;

/// Why a life ended.
pub(super) enum LifeEnd {
    Member(MemberEnd),
    /// The server's versions have no order.
    Versions(String),
    /// The ring could not be left in time.
    LeaveTimeout,
}

/// The slices and futures that were dropped at the drain limit of a leave.
#[derive(Debug, Default)]
pub(super) struct Undrained {
    pub(super) slices: usize,
    pub(super) running: usize,
}

enum Answered {
    Member(u64, MemberResponse),
    Assigner(u64, AssignerResponse),
    /// The version of the election's Lease.
    Election(Option<u64>),
    Failed,
}

type Request = Result<Answered, UnorderedVersion>;

/// A range that is being released.
struct OpenDrain {
    range: ShardRange,
    began: Instant,
    deadline: Instant,
    /// What the user reported when it dropped its guard.
    released: Option<WrittenVersions>,
    is_closed: bool,
}

pub(super) struct Life<'r> {
    parts: LifeParts<'r>,
    member: MemberMachine,
    inbox: Arc<Inbox>,
    candidacy: Option<Candidacy>,
    rule: CandidateRule,
    started: Instant,
    requests: JoinSet<Request>,
    drains: BTreeMap<u64, OpenDrain>,
    last_number: u64,
    work: Vec<WorkRange>,
    is_leaving: bool,
    leave_by: Option<Instant>,
    _table: RunningInformers,
}

/// What a life needs, besides the machine.
pub(super) struct LifeParts<'r> {
    pub(super) shared: &'r Arc<RingShared>,
    pub(super) settings: &'r RingSettings,
    pub(super) store: &'r LeaseStore,
    pub(super) covers_itself: bool,
    pub(super) metrics: &'r mut Metrics,
    pub(super) undrained: &'r mut Undrained,
    pub(super) elector: &'r (dyn Fn() -> LeaderElector + Sync),
}

impl<'r> Life<'r> {
    pub(super) fn new(parts: LifeParts<'r>, member: MemberMachine) -> Self {
        let inbox = Arc::new(Inbox::default());
        Life {
            rule: CandidateRule::new(parts.settings.lease_duration, Duration::ZERO),
            _table: inbox.watch_table(parts.store),
            parts,
            member,
            inbox,
            candidacy: None,
            started: Instant::now(),
            requests: JoinSet::new(),
            drains: BTreeMap::new(),
            last_number: 0,
            work: Vec::new(),
            is_leaving: false,
            leave_by: None,
        }
    }

    /// The monotonic time that an assigner counts with.
    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    /// Runs until the life is over. `shutdown` is polled no more once it has completed.
    pub(super) async fn run(
        mut self,
        mut shutdown: Pin<&mut (impl Future<Output = ()> + ?Sized)>,
        was_shut_down: &mut bool,
    ) -> LifeEnd {
        if *was_shut_down {
            return LifeEnd::Member(MemberEnd::Left);
        }
        loop {
            if let Some(end) = self.take_inbox() {
                return self.over(end);
            }
            self.take_reports();
            self.follow_drains();
            let member_wake = match self.member.poll(self.parts.shared.clock.now(), wall_micros()) {
                MemberAction::Send(request) => {
                    self.send_member(request);
                    continue;
                }
                MemberAction::Event(event) => {
                    self.event(event);
                    continue;
                }
                MemberAction::Over(end) => return self.over(LifeEnd::Member(end)),
                MemberAction::Wait(until) => until,
            };
            if self.parts.covers_itself {
                self.member.cover(self.member.wanted());
            }
            self.follow_candidacy();
            let Some(assigner_wake) = self.poll_assigner() else { continue };
            self.publish();
            if self.leave_by.is_some_and(|by| Instant::now() >= by) {
                return self.over(LifeEnd::LeaveTimeout);
            }
            let wake = self.wake_time(member_wake, assigner_wake);
            let elected = self.candidacy.as_mut().map(|candidacy| &mut candidacy.elected);
            tokio::select! {
                biased;
                () = &mut shutdown, if !self.is_leaving => {
                    *was_shut_down = true;
                    self.is_leaving = true;
                    self.leave_by = Some(Instant::now() + self.parts.settings.drain_limit + self.parts.settings.lease_duration);
                    info!(ring = %self.parts.shared.ring, member = %self.member.name(), "leaving the ring");
                    self.member.leave();
                }
                Some(answer) = self.requests.join_next(), if !self.requests.is_empty() => {
                    match answer {
                        Ok(Ok(answer)) => self.answered(answer),
                        Ok(Err(UnorderedVersion(version))) => return self.over(LifeEnd::Versions(version)),
                        // The request's task was aborted with the runtime.
                        Err(_) => {}
                    }
                }
                () = self.inbox.arrived.notified() => {}
                () = self.parts.shared.reported.notified() => {}
                () = changed(elected) => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    fn wake_time(&self, member: Option<Duration>, assigner: Option<Duration>) -> Instant {
        let now = Instant::now();
        let member = member.map(|at| now + at.saturating_sub(self.parts.shared.clock.now()));
        let monotonic = self.monotonic();
        let election = self.candidacy.is_none().then(|| self.rule.read_at());
        let assigner = assigner.into_iter().chain(election).map(|at| now + at.saturating_sub(monotonic)).min();
        let drain = self.drains.values().filter(|drain| !drain.is_closed).map(|drain| drain.deadline).min();
        let far = now + self.parts.settings.lease_duration;
        [member, assigner, drain, self.leave_by].into_iter().flatten().fold(far, Instant::min)
    }

    fn send_member(&mut self, request: MemberRequest) {
        let (store, name) = (self.parts.store.clone(), self.member.name().clone());
        let limit = request.give_up.saturating_sub(self.parts.shared.clock.now());
        self.requests.spawn(scheduled(async move {
            match timeout(limit, store.member(&name, request.operation)).await {
                Ok(response) => Ok(Answered::Member(request.id, response?)),
                Err(_) => Ok(Answered::Failed),
            }
        }));
    }

    fn send_assigner(&mut self, request: AssignerRequest) {
        let store = self.parts.store.clone();
        let limit = request.give_up.saturating_sub(self.monotonic());
        if let AssignerOperation::Fence(member, _, cause) = &request.operation {
            warn!(ring = %self.parts.shared.ring, %member, %cause, "fencing a member of the ring");
        }
        self.requests.spawn(scheduled(async move {
            match timeout(limit, store.assigner(request.operation)).await {
                Ok(response) => Ok(Answered::Assigner(request.id, response?)),
                Err(_) => Ok(Answered::Failed),
            }
        }));
    }

    fn answered(&mut self, answer: Answered) {
        let monotonic = self.monotonic();
        match answer {
            Answered::Member(id, response) => {
                let before = self.member.valid_until();
                self.member.respond(self.parts.shared.clock.now(), id, response);
                if let Some(candidacy) = &mut self.candidacy
                    && self.member.valid_until() > before
                {
                    candidacy.assigner.note_write(monotonic);
                }
            }
            Answered::Assigner(id, response) => {
                if let Some(candidacy) = &mut self.candidacy
                    && let Some(cause) = candidacy.assigner.respond(monotonic, id, response)
                {
                    self.parts.metrics.fenced(cause);
                }
            }
            Answered::Election(version) => self.rule.observe(monotonic, version),
            // The machines abandon requests by themselves.
            Answered::Failed => {}
        }
    }

    /// Passes what watches delivered to the machines.
    fn take_inbox(&mut self) -> Option<LifeEnd> {
        let monotonic = self.monotonic();
        for (name, change) in self.inbox.take() {
            let is_table = name == self.parts.store.table_name();
            let member = name.strip_prefix(&*self.parts.store.ring).and_then(|rest| rest.strip_prefix('-'));
            let assigner = self.candidacy.as_mut().map(|candidacy| &mut candidacy.assigner);
            match change {
                LeaseChange::Present(lease) => match self.parts.store.read(&lease) {
                    Err(UnorderedVersion(version)) => return Some(LifeEnd::Versions(version)),
                    Ok(RingLease::Table((version, table))) => {
                        self.member.observe_table(self.parts.shared.clock.now(), table.clone());
                        if let Some(assigner) = assigner {
                            assigner.observe_table(monotonic, (version, table));
                        }
                    }
                    Ok(RingLease::Member(name, version, lease)) => {
                        if let Some(assigner) = assigner {
                            assigner.observe_member(monotonic, &name, version, lease);
                        }
                    }
                    Ok(RingLease::Other) => {}
                },
                LeaseChange::Deleted(lease) => match (assigner, version_of(&lease), member) {
                    (Some(assigner), Ok(version), _) if is_table => assigner.observe_deleted_table(monotonic, version),
                    (Some(assigner), Ok(_), Some(member)) => assigner.observe_deleted_member(monotonic, &member.into()),
                    _ => {}
                },
                LeaseChange::Missed => match (assigner, member) {
                    (Some(assigner), _) if is_table => assigner.observe_missing_table(monotonic),
                    (Some(assigner), Some(member)) => assigner.observe_missing_member(monotonic, &member.into()),
                    _ => {}
                },
            }
        }
        None
    }

    fn take_reports(&mut self) {
        let reports = self.parts.shared.take_reports();
        if let Some(covered) = reports.covered {
            self.member.cover(covered);
        }
        if let Some(load) = reports.load {
            self.member.set_load(load);
        }
        for (number, written) in reports.released {
            if let Some(drain) = self.drains.get_mut(&number) {
                drain.released = Some(written);
            }
        }
    }

    /// Releases ranges whose work has ended, and closes those that are at the drain limit.
    fn follow_drains(&mut self) {
        let now = Instant::now();
        let mut ended = Vec::new();
        for (number, drain) in &mut self.drains {
            let running = self.parts.shared.running_in(drain.range);
            if now >= drain.deadline && !std::mem::replace(&mut drain.is_closed, now >= drain.deadline) {
                warn!(ring = %self.parts.shared.ring, range = %drain.range, running, "work is dropped at the drain limit");
                for work in self.work.iter_mut().filter(|work| work.range.intersection(drain.range).is_some()) {
                    work.is_closed = true;
                }
                if running > 0 && self.is_leaving {
                    self.parts.undrained.slices += 1;
                    self.parts.undrained.running += running;
                }
                let range = drain.range;
                let dropped = WrittenVersions { range, versions: BTreeMap::new(), loose: true };
                drain.released.get_or_insert(dropped);
            }
            if drain.released.is_some() && running == 0 {
                ended.push(*number);
            }
        }
        for number in ended {
            let Some(drain) = self.drains.remove(&number) else { continue };
            let Some(mut written) = drain.released else { continue };
            written.loose |= drain.is_closed;
            self.parts.metrics.drained(drain.began.elapsed());
            self.remove_work(drain.range);
            // Nothing is polled any more when the release is made.
            self.publish();
            self.member.drained(self.parts.shared.clock.now(), written);
            self.parts.shared.emit(SliceEvent::Lost { range: drain.range });
        }
        if self.drains.values().any(|drain| drain.is_closed) {
            self.publish();
        }
    }

    fn event(&mut self, event: MemberEvent) {
        match event {
            MemberEvent::Granted { range, epoch, predecessor, is_prepared } => {
                self.last_number += 1;
                info!(ring = %self.parts.shared.ring, member = %self.member.name(), %range, epoch, "slice granted");
                let work = WorkRange { range, epoch, grant: self.last_number, is_draining: false, is_closed: false };
                self.work.push(work);
                self.publish();
                let store = self.parts.store.clone();
                self.parts.shared.emit(SliceEvent::Granted(Grant { range, epoch, predecessor, is_prepared, store }));
            }
            MemberEvent::Drain { range } => self.drain(range),
            MemberEvent::Lost { range } => {
                warn!(ring = %self.parts.shared.ring, member = %self.member.name(), %range, "slice lost");
                self.remove_work(range);
                self.drains.retain(|_, drain| drain.range.intersection(range).is_none());
                self.publish();
                self.parts.shared.emit(SliceEvent::Lost { range });
            }
            MemberEvent::Lapsed => {
                warn!(ring = %self.parts.shared.ring, "the member's lease was not renewed in time; work stops until it is");
            }
            MemberEvent::Resumed => {
                info!(ring = %self.parts.shared.ring, "the member's lease is valid again; work resumes")
            }
            MemberEvent::Unreadable(TableError::Missing) => {
                debug!(ring = %self.parts.shared.ring, "the ring has no table")
            }
            MemberEvent::Unreadable(error) => {
                warn!(ring = %self.parts.shared.ring, %error, "the table of the ring cannot be read; nothing starts");
            }
        }
    }

    fn drain(&mut self, range: ShardRange) {
        self.last_number += 1;
        let number = self.last_number;
        debug!(ring = %self.parts.shared.ring, %range, "slice drains");
        let began = Instant::now();
        let deadline = began + self.parts.settings.drain_limit;
        self.drains.insert(number, OpenDrain { range, began, deadline, released: None, is_closed: false });
        self.split_work(range);
        for work in self.work.iter_mut().filter(|work| work.range.intersection(range).is_some()) {
            work.is_draining = true;
        }
        self.publish();
        let written = WrittenVersions { range, versions: BTreeMap::new(), loose: false };
        let cancel_at = cancel_time(self.parts.settings.drain_limit, self.parts.settings.cancel_on_move);
        let shared = Arc::clone(self.parts.shared);
        self.parts.shared.emit(SliceEvent::Draining(Drain { number, written, shared, cancel_at }));
    }

    /// Cuts ranges of work at the bounds of a range.
    fn split_work(&mut self, range: ShardRange) {
        let parts = |work: WorkRange| {
            let whole = ShardRanges::from(work.range);
            let inside = whole.intersection(&range.into());
            let outside = whole.difference(&range.into());
            let parts: Vec<ShardRange> = inside.iter().chain(outside.iter()).collect();
            parts.into_iter().map(move |range| WorkRange { range, ..work.clone() })
        };
        self.work = std::mem::take(&mut self.work).into_iter().flat_map(parts).collect();
    }

    fn remove_work(&mut self, range: ShardRange) {
        self.split_work(range);
        self.work.retain(|work| work.range.intersection(range).is_none());
    }

    /// Becomes a candidate, or stops being one.
    fn follow_candidacy(&mut self) {
        let now = self.monotonic();
        let is_candidate = self.rule.is_candidate(self.member.name(), self.member.table(), now);
        let is_active = self.candidacy.as_ref().is_some_and(|candidacy| candidacy.assigner.is_active());
        if is_candidate && self.candidacy.is_none() && self.member.valid_until().is_some() {
            self.candidacy =
                Some(Candidacy::new((self.parts.elector)(), self.parts.settings, self.parts.store, &self.inbox, now));
        } else if !is_candidate && !is_active {
            self.candidacy = None;
        }
        if self.candidacy.is_none() && now >= self.rule.read_at() {
            self.rule.reads(now);
            let store = self.parts.store.clone();
            self.requests.spawn(scheduled(async move {
                match store.election_version().await {
                    Ok(version) => Ok(Answered::Election(version?)),
                    Err(_) => Ok(Answered::Failed),
                }
            }));
        }
    }

    /// Polls the assigner. Returns when to poll it again; `None`: at once.
    fn poll_assigner(&mut self) -> Option<Option<Duration>> {
        let (now, is_valid) = (self.monotonic(), self.member.is_valid(self.parts.shared.clock.now()));
        let Some(candidacy) = &mut self.candidacy else { return Some(None) };
        let elected = *candidacy.elected.borrow_and_update();
        match (elected, candidacy.assigner.is_active()) {
            (Some(term), false) => candidacy.assigner.activate(term),
            (None, true) => candidacy.assigner.deactivate(),
            _ => {}
        }
        if !is_valid {
            return Some(None);
        }
        match candidacy.assigner.poll(now, wall_micros()) {
            AssignerAction::Send(request) => {
                self.send_assigner(request);
                None
            }
            AssignerAction::Wait(until) => {
                if candidacy.assigner.is_active() {
                    self.parts.metrics.assigner(now, &candidacy.assigner);
                }
                Some(until)
            }
            AssignerAction::StandDown => {
                candidacy.stand_down();
                Some(None)
            }
        }
    }

    /// Publishes the state for handles and guards.
    fn publish(&mut self) {
        for held in self.member.holdings() {
            for work in self.work.iter_mut().filter(|work| work.range.intersection(held.range).is_some()) {
                work.epoch = work.epoch.max(held.epoch);
            }
        }
        let valid_until = self.member.valid_until();
        let table = self.member.table();
        self.parts.shared.view.send_if_modified(|view| {
            let same_table = match (&view.table, table) {
                (Some(old), Some(new)) => Arc::ptr_eq(old, new),
                (old, new) => old.is_none() && new.is_none(),
            };
            let is_same = same_table
                && view.valid_until == valid_until
                && view.work == self.work
                && view.member.as_ref() == Some(self.member.name());
            if !is_same {
                let member = Some(self.member.name().clone());
                *view = RingView { member, valid_until, work: self.work.clone(), table: table.cloned() };
            }
            !is_same
        });
        let wanted = self.member.wanted();
        self.parts.shared.wanted.send_if_modified(|known| {
            let changes = *known != wanted;
            if changes {
                *known = wanted;
            }
            changes
        });
        let owned: ShardRanges = self.work.iter().map(|work| work.range).collect();
        let valid_for = valid_until.map_or(Duration::ZERO, |until| until.saturating_sub(self.parts.shared.clock.now()));
        self.parts.metrics.member(&owned, valid_for, self.member.lapses());
        if let Some(table) = self.member.table() {
            self.parts.metrics.table(table);
        }
    }

    /// Ends the life: nothing of its work is polled any more.
    fn over(mut self, end: LifeEnd) -> LifeEnd {
        for work in std::mem::take(&mut self.work) {
            self.parts.shared.emit(SliceEvent::Lost { range: work.range });
        }
        self.parts.shared.view.send_replace(RingView::default());
        self.parts.shared.wanted.send_replace(ShardRanges::empty());
        end
    }
}

impl Drop for Life<'_> {
    /// Without a driver, the Lease is not renewed: the work stops at once, and not when its validity ends.
    fn drop(&mut self) {
        self.parts.shared.view.send_replace(RingView::default());
    }
}

async fn changed(elected: Option<&mut tokio::sync::watch::Receiver<Option<u64>>>) {
    match elected {
        // A campaign that panicked does not change any more.
        Some(elected) if elected.has_changed().is_ok() => {
            if elected.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
        _ => std::future::pending().await,
    }
}
