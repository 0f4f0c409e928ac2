//! Fault injection: rules that make the server fail like real servers, proxies and networks.
//!
//! This module only decides; it does no I/O and reads no clock. The listener gets a [`Plan`] per request and executes
//! it, and passes the frames of every watch through a [`Chain`](stages::Chain).

mod clock;
pub(crate) mod framing;
mod rule;
mod spec;
pub(crate) mod stages;
pub(crate) mod subject;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use evenkeel_core::{Reason, Status, StatusDetails};
use jiff::SignedDuration;

pub(crate) use clock::Clock;
pub use rule::{Action, ExpireForm, Rule, WatchAction};
pub use spec::FaultSpecError;
use subject::Subject;

/// Injects faults into a running server.
///
/// A cheap handle: clones control the same server. Rules are tried in the order in which they were added. Delays add
/// up; the first rule that decides a request's outcome (an error, a drop, a hang) ends the search; watch faults chain.
/// A rule takes effect with the next request, and for an open watch with its next event.
///
/// Every injected fault is logged and counted: see [`Faults::report`] and [`Faults::counts`].
///
/// ```
/// # use evenkeel_apiserver::{Action, Faults, Rule, WatchAction};
/// # fn show(faults: &Faults) -> Result<(), evenkeel_apiserver::FaultSpecError> {
/// faults.fail_next(2, 429, Some(1));
/// faults.add(Rule::watch(WatchAction::CloseAfterEvents(3)).resource("pods"));
/// faults.add(Faults::parse("delay:ms=100,verb=list,probability=0.5")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Faults {
    shared: Arc<FaultsShared>,
}

struct FaultsShared {
    rules: Mutex<Rules>,
    /// The id of the newest rule. Open watches compare it without a lock to see whether rules were added.
    newest: AtomicU64,
    refusing: AtomicBool,
    /// Incremented to cut all connections.
    cuts: AtomicU64,
    listeners: Mutex<Vec<Waker>>,
    store: Option<Arc<dyn StoreControl>>,
    clock: Option<Arc<Clock>>,
}

#[derive(Default)]
struct Rules {
    active: Vec<Active>,
    counts: BTreeMap<&'static str, u64>,
}

struct Active {
    id: RuleId,
    rule: Rule,
    matched: u64,
    fired: u64,
}

/// The id of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(u64);

impl RuleId {
    /// Returns the rule's number in the fault endpoint.
    pub fn number(self) -> u64 {
        self.0
    }

    pub(crate) fn from_number(number: u64) -> Self {
        RuleId(number)
    }
}

/// The counts of a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleReport {
    /// The rule's id.
    pub id: RuleId,
    /// The name of its action.
    pub action: &'static str,
    /// The number of requests that it matched.
    pub matched: u64,
    /// The number of injected faults.
    pub fired: u64,
}

/// The faults of the store (FLT-5).
pub(crate) trait StoreControl: Send + Sync + 'static {
    /// Discards all history.
    fn compact_now(&self);
    /// Discards the history before this revision.
    fn compact(&self, revision: u64);
    /// Makes watches, and reads that tolerate staleness, lag by this many revisions.
    fn lag_replica(&self, revisions: u64);
    /// Keeps watches, and reads that tolerate staleness, at this revision.
    fn freeze_replica(&self, revision: Option<u64>);
    /// Empties the watch history, as a restart of the server would.
    fn reset_history(&self);
}

/// The faults of one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub(crate) delay: Duration,
    pub(crate) outcome: RequestOutcome,
    pub(crate) reset_after: Option<u64>,
    pub(crate) watch: Vec<WatchAction>,
    /// The object that the list of the response misses.
    pub(crate) omit_item: Option<u64>,
    /// The newest rule that was considered.
    pub(crate) seen: u64,
}

impl Plan {
    /// Adds a fault. What concerns more than this request goes to `others`.
    fn add(&mut self, action: &Action, others: &mut Vec<Action>) {
        match action {
            Action::Delay(delay) => self.delay = self.delay.saturating_add(*delay),
            Action::Reset { after_bytes } => {
                let least = self.reset_after.map_or(*after_bytes, |bytes| bytes.min(*after_bytes));
                self.reset_after = Some(least);
            }
            Action::Watch(WatchAction::Expire { form: ExpireForm::Http, .. }) => {
                self.outcome = RequestOutcome::Respond(Box::new(stages::expired()))
            }
            Action::Watch(action) => self.watch.push(action.clone()),
            Action::OmitItem { item } => self.omit_item = Some(*item),
            Action::Status(status) => self.outcome = RequestOutcome::Respond(status.clone()),
            Action::Drop => self.outcome = RequestOutcome::Drop,
            Action::Hang => self.outcome = RequestOutcome::Hang,
            Action::CommitThenDrop => self.outcome = RequestOutcome::HandleThenDrop,
            Action::DropBeforeCommit => self.outcome = RequestOutcome::ReadThenDrop,
            Action::Refuse => {
                self.outcome = RequestOutcome::Drop;
                others.push(Action::Refuse);
            }
            Action::Compact | Action::LagReplica { .. } | Action::ResetHistory => others.push(action.clone()),
        }
    }
}

/// The outcome of a [`Plan`], of which there is only one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum RequestOutcome {
    #[default]
    Handle,
    Respond(Box<Status>),
    Drop,
    Hang,
    HandleThenDrop,
    ReadThenDrop,
}

impl Faults {
    pub(crate) fn new(store: Option<Arc<dyn StoreControl>>, clock: Option<Arc<Clock>>) -> Self {
        Faults {
            shared: Arc::new(FaultsShared {
                rules: Mutex::default(),
                newest: AtomicU64::new(0),
                refusing: AtomicBool::new(false),
                cuts: AtomicU64::new(0),
                listeners: Mutex::default(),
                store,
                clock,
            }),
        }
    }

    /// Adds a rule after all others.
    pub fn add(&self, rule: Rule) -> RuleId {
        let mut rules = self.rules();
        let id = RuleId(self.shared.newest.load(Ordering::Relaxed) + 1);
        rules.active.push(Active { id, rule, matched: 0, fired: 0 });
        self.shared.newest.store(id.0, Ordering::Release);
        id
    }

    /// Removes a rule and returns whether it existed. Watches that it already matched keep their fault.
    pub fn remove(&self, id: RuleId) -> bool {
        let mut rules = self.rules();
        let before = rules.active.len();
        rules.active.retain(|active| active.id != id);
        rules.active.len() < before
    }

    /// Removes all rules and accepts connections again. The counts are kept.
    pub fn clear(&self) {
        self.rules().active.clear();
        self.refuse_connections(false);
    }

    /// Parses a rule such as `drop-watch:events=3` or `status:code=429,retry-after=1,times=5,resource=pods`.
    ///
    /// The text is an action, and after a colon its parameters and the rule's conditions, in any order:
    ///
    /// | action | parameters |
    /// |---|---|
    /// | `status` | `code`, `retry-after` (seconds), `reason`, `message` |
    /// | `delay` | `ms` |
    /// | `drop`, `hang`, `refuse`, `commit-then-drop`, `drop-before-commit` | |
    /// | `reset` | `bytes` |
    /// | `compact`, `reset-history` | |
    /// | `lag-replica` | `revisions` |
    /// | `drop-watch` | `events` |
    /// | `drop-watch-bytes` | `bytes` |
    /// | `cut-frame`, `truncate-frame`, `corrupt-frame` | `event` (0), `byte` (10) |
    /// | `split-frames` | `sizes` (`1`; several with `/`, as in `1/5/100`) |
    /// | `coalesce-frames` | `events` (2), `ms` (100) |
    /// | `duplicate-event`, `skip-event`, `unknown-event`, `wrong-kind` | `event` (0) |
    /// | `reorder-events` | `first` (0), `second` (1) |
    /// | `expire` | `event` (0), `as` (`event` or `http`) |
    /// | `omit-item` | `item` (0) |
    /// | `bookmarks-only`, `no-bookmarks`, `early-initial-end` | |
    /// | `stall` | `event` (0), `ms` |
    /// | `error-event` | `event` (0), `code`, `retry-after`, `reason`, `message` |
    ///
    /// Conditions: `verb`, `group`, `resource`, `namespace`, `name`, `user`, `user-agent`, `watches` (`true` or
    /// `false`), `skip`, `times`, `probability`, `from-ms` and `until-ms`.
    ///
    /// # Errors
    /// When the text does not follow this grammar; the error names the invalid part.
    pub fn parse(spec: &str) -> Result<Rule, FaultSpecError> {
        spec::parse(spec)
    }

    /// Ends every watch, open now or later, cleanly after this many more events, until the rule is removed.
    pub fn drop_watch_after(&self, events: u64) -> RuleId {
        self.add(Rule::watch(WatchAction::CloseAfterEvents(events)))
    }

    /// Breaks the connection of the next watch that sends an event, in the middle of that event.
    pub fn cut_frame(&self) -> RuleId {
        self.add(Rule::watch(WatchAction::CloseMidFrame { event: 0, byte: 10 }).times(1))
    }

    /// Fails the next `requests` requests with this code and, if given and not 0, a `Retry-After` in seconds: a Status
    /// cannot express 0.
    pub fn fail_next(&self, requests: u64, code: u16, retry_after: Option<u32>) -> RuleId {
        self.add(Rule::new(Action::Status(Box::new(failure(code, retry_after)))).times(requests))
    }

    /// Delays every request that is not a watch, until the rule is removed.
    pub fn delay(&self, delay: Duration) -> RuleId {
        self.add(Rule::new(Action::Delay(delay)).watches(false))
    }

    /// While true, the port stays reserved but refuses connections. Open connections are kept; see
    /// [`Faults::cut_connections`].
    pub fn refuse_connections(&self, refuse: bool) {
        if self.shared.refusing.swap(refuse, Ordering::AcqRel) != refuse {
            if refuse {
                self.count("refuse");
            }
            self.wake_listeners();
        }
    }

    /// Breaks every open connection.
    pub fn cut_connections(&self) {
        self.count("cut-connections");
        self.shared.cuts.fetch_add(1, Ordering::AcqRel);
        self.wake_listeners();
    }

    /// Discards all history: every read at an older resource version, and every watch from one, expires.
    pub fn compact_now(&self) {
        self.on_store("compact", |store| store.compact_now());
    }

    /// Discards the history before this revision.
    pub fn compact(&self, revision: u64) {
        self.on_store("compact", |store| store.compact(revision));
    }

    /// Makes watches, and reads that tolerate staleness, lag by this many revisions; 0 ends the lag.
    pub fn lag_replica(&self, revisions: u64) {
        self.on_store("lag-replica", |store| store.lag_replica(revisions));
    }

    /// Keeps watches, and reads that tolerate staleness, at this revision, as a replica that has lost its connection to etcd does;
    /// `None` lets them follow again. Watches that have seen more send nothing meanwhile.
    pub fn freeze_replica(&self, revision: Option<u64>) {
        self.on_store("freeze-replica", |store| store.freeze_replica(revision));
    }

    /// Empties the watch history, as a restart of the server would: watches from older versions expire.
    pub fn reset_history(&self) {
        self.on_store("reset-history", |store| store.reset_history());
    }

    /// Moves the server's wall clock forward, or back. Timers are not affected.
    pub fn jump_wall(&self, by: SignedDuration) {
        if let Some(clock) = &self.shared.clock {
            self.count("jump-wall");
            clock.jump(by);
        }
    }

    /// Makes the server's clocks run too fast by this many parts per million (too slow if negative), at most by half.
    /// 0 ends the skew, but keeps the accumulated drift.
    pub fn skew(&self, millionths: i32) {
        if let Some(clock) = &self.shared.clock {
            self.count("skew");
            clock.skew(millionths);
        }
    }

    /// Returns the counts of each rule, in their order.
    pub fn report(&self) -> Vec<RuleReport> {
        let rules = self.rules();
        rules
            .active
            .iter()
            .map(|active| RuleReport {
                id: active.id,
                action: active.rule.action.name(),
                matched: active.matched,
                fired: active.fired,
            })
            .collect()
    }

    /// Returns the number of injected faults by action since the start, removed rules included.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.rules().counts.clone()
    }

    /// Returns whether there are rules at all: if not, callers need not parse the subject of a request.
    pub(crate) fn any(&self) -> bool {
        self.newest() > 0 && !self.rules().active.is_empty()
    }

    /// Returns the number of the newest rule.
    pub(crate) fn newest(&self) -> u64 {
        self.shared.newest.load(Ordering::Acquire)
    }

    /// Returns the faults of this request: those of the matching rules, then `injected`. `now` counts from the server's start.
    pub(crate) fn plan(
        &self,
        subject: &Subject,
        injected: &[Action],
        now: Duration,
        random: &mut dyn FnMut() -> u64,
    ) -> Plan {
        let mut plan = Plan::default();
        let mut others = Vec::new();
        let mut rules = self.rules();
        plan.seen = self.newest();
        let Rules { active, counts } = &mut *rules;
        for active in active {
            if !active.fires(subject, now, random) {
                continue;
            }
            record(active, subject, counts);
            plan.add(&active.rule.action, &mut others);
            if plan.outcome != RequestOutcome::Handle {
                break;
            }
        }
        if plan.outcome == RequestOutcome::Handle {
            for action in injected {
                *counts.entry(action.name()).or_default() += 1;
                plan.add(action, &mut others);
            }
        }
        drop(rules);
        for action in others {
            match (action, &self.shared.store) {
                (Action::Refuse, _) if !self.shared.refusing.swap(true, Ordering::AcqRel) => self.wake_listeners(),
                (Action::Compact, Some(store)) => store.compact_now(),
                (Action::LagReplica { revisions }, Some(store)) => store.lag_replica(revisions),
                (Action::ResetHistory, Some(store)) => store.reset_history(),
                _ => {}
            }
        }
        plan
    }

    /// Returns the watch faults of rules newer than `seen` that match an open watch.
    pub(crate) fn newer_watch_faults(
        &self,
        subject: &Subject,
        seen: u64,
        now: Duration,
        random: &mut dyn FnMut() -> u64,
    ) -> Vec<WatchAction> {
        let mut rules = self.rules();
        let Rules { active, counts } = &mut *rules;
        let mut found = Vec::new();
        for active in active.iter_mut().filter(|active| active.id.0 > seen) {
            let Action::Watch(action) = &active.rule.action else {
                continue;
            };
            // The status line of this watch is already sent.
            if matches!(action, WatchAction::Expire { form: ExpireForm::Http, .. }) {
                continue;
            }
            let action = action.clone();
            if active.fires(subject, now, random) {
                record(active, subject, counts);
                found.push(action);
            }
        }
        found
    }

    /// Ready when the listener's orders differ from `known`.
    pub(crate) fn poll_orders(&self, known: Orders, cx: &mut Context<'_>) -> Poll<Orders> {
        let mut listeners = lock(&self.shared.listeners);
        let orders = self.orders();
        if orders != known {
            return Poll::Ready(orders);
        }
        if !listeners.iter().any(|waker| waker.will_wake(cx.waker())) {
            listeners.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Returns the listener's current orders.
    pub(crate) fn orders(&self) -> Orders {
        Orders { refuse: self.shared.refusing.load(Ordering::Acquire), cuts: self.shared.cuts.load(Ordering::Acquire) }
    }

    fn on_store(&self, name: &'static str, act: impl FnOnce(&dyn StoreControl)) {
        if let Some(store) = &self.shared.store {
            self.count(name);
            act(store.as_ref());
        }
    }

    fn count(&self, name: &'static str) {
        tracing::info!(fault = name, "fault injected");
        *self.rules().counts.entry(name).or_default() += 1;
    }

    fn wake_listeners(&self) {
        let wakers = std::mem::take(&mut *lock(&self.shared.listeners));
        for waker in wakers {
            waker.wake();
        }
    }

    fn rules(&self) -> MutexGuard<'_, Rules> {
        lock(&self.shared.rules)
    }
}

/// The listener's orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Orders {
    /// Refuse connections.
    pub(crate) refuse: bool,
    /// Incremented to cut all connections.
    pub(crate) cuts: u64,
}

impl Active {
    fn fires(&mut self, subject: &Subject, now: Duration, random: &mut dyn FnMut() -> u64) -> bool {
        if !self.rule.matches(subject, now) {
            return false;
        }
        self.matched += 1;
        if self.matched <= self.rule.skip || self.rule.times.is_some_and(|times| self.fired >= times) {
            return false;
        }
        // 53 random bits make a fraction in [0, 1).
        let drawn =
            self.rule.probability >= 1.0 || (random() >> 11) as f64 / ((1u64 << 53) as f64) < self.rule.probability;
        if drawn {
            self.fired += 1;
        }
        drawn
    }
}

fn record(active: &Active, subject: &Subject, counts: &mut BTreeMap<&'static str, u64>) {
    let name = active.rule.action.name();
    *counts.entry(name).or_default() += 1;
    tracing::info!(
        fault = name,
        rule = active.id.0,
        verb = subject.verb,
        resource = subject.resource,
        namespace = subject.namespace,
        name = subject.name,
        "fault injected"
    );
}

/// Returns the Status that kube-apiserver sends with this code.
fn failure(code: u16, retry_after: Option<u32>) -> Status {
    let (reason, message) = match code {
        400 => (Reason::BAD_REQUEST, "the server rejected our request for an unknown reason"),
        401 => (Reason::UNAUTHORIZED, "Unauthorized"),
        403 => (Reason::FORBIDDEN, "forbidden by an injected fault"),
        404 => (Reason::NOT_FOUND, "the server could not find the requested resource"),
        409 => (Reason::CONFLICT, "Operation cannot be fulfilled: conflict injected by a fault"),
        410 => (Reason::EXPIRED, "too old resource version: 1 (2)"),
        429 => (Reason::TOO_MANY_REQUESTS, "Too many requests, please try again later."),
        500 => (Reason::INTERNAL_ERROR, "Internal error occurred: injected by a fault"),
        503 => (Reason::SERVICE_UNAVAILABLE, "the server is currently unable to handle the request"),
        504 => (Reason::TIMEOUT, "Timeout: request did not complete within the allotted timeout"),
        _ => (Reason::default(), "injected by a fault"),
    };
    let status = Status::failure(code, reason, message);
    match retry_after {
        Some(retry_after_seconds) => {
            status.with_details(StatusDetails { retry_after_seconds, ..StatusDetails::default() })
        }
        None => status,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Faults").field("rules", &self.report()).finish_non_exhaustive()
    }
}
