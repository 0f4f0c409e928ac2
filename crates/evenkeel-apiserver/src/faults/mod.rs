//! Faults on demand: rules that make the server fail the way real servers, proxies and networks do.
//!
//! This module decides; it does no I/O and reads no clock. The fronts ask for a [`Plan`] per request and carry it out,
//! and feed the frames of every watch through a [`Chain`](stages::Chain).

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

/// Makes a running server misbehave.
///
/// A cheap handle: clones act on the same server. Rules are tried in the order in which they were added. Delays add up;
/// the first rule that decides a request's fate (an error, a drop, a hang) ends the search; watch faults chain. A rule
/// takes effect with the next request, and for a watch that is already open with its next event.
///
/// Every fault is logged when it happens and counted: see [`Faults::report`] and [`Faults::counts`].
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
    shared: Arc<Shared>,
}

struct Shared {
    rules: Mutex<Rules>,
    /// Moves whenever rules are added, so that open watches need no lock to see that nothing is new. Ids are taken
    /// from it: the newest rule's id is this number.
    newest: AtomicU64,
    refusing: AtomicBool,
    /// Moves whenever all connections are to be cut.
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

/// Names a rule that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(u64);

impl RuleId {
    /// The number by which the fault endpoint knows the rule.
    pub fn number(self) -> u64 {
        self.0
    }

    pub(crate) fn from_number(number: u64) -> Self {
        RuleId(number)
    }
}

/// How a rule has fared.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleReport {
    /// The rule's id.
    pub id: RuleId,
    /// What it does.
    pub action: &'static str,
    /// How many requests it matched.
    pub matched: u64,
    /// How many times the fault happened.
    pub fired: u64,
}

/// What the store can be made to do (FLT-5).
pub(crate) trait StoreControl: Send + Sync + 'static {
    /// Forgets all history.
    fn compact_now(&self);
    /// Forgets the history before this revision.
    fn compact(&self, revision: u64);
    /// Makes reads that tolerate staleness, and watches, lag this many revisions behind.
    fn lag_replica(&self, revisions: u64);
    /// Empties the watch history, as a restart of the server would.
    fn reset_history(&self);
}

/// What is to become of one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub(crate) delay: Duration,
    pub(crate) fate: Fate,
    pub(crate) reset_after: Option<u64>,
    pub(crate) watch: Vec<WatchAction>,
    /// The newest rule that was considered.
    pub(crate) seen: u64,
}

/// The part of a [`Plan`] of which there can be only one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Fate {
    #[default]
    Handle,
    Answer(Box<Status>),
    Drop,
    Hang,
    HandleThenDrop,
    ReadThenDrop,
}

impl Faults {
    pub(crate) fn new(store: Option<Arc<dyn StoreControl>>, clock: Option<Arc<Clock>>) -> Self {
        Faults {
            shared: Arc::new(Shared {
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

    /// Removes a rule; says whether it was there. Watches that it already befell keep their fault.
    pub fn remove(&self, id: RuleId) -> bool {
        let mut rules = self.rules();
        let before = rules.active.len();
        rules.active.retain(|active| active.id != id);
        rules.active.len() < before
    }

    /// Removes all rules and accepts connections again. The counts stay.
    pub fn clear(&self) {
        self.rules().active.clear();
        self.refuse_connections(false);
    }

    /// Reads a rule from text such as `drop-watch:events=3` or `status:code=429,retry-after=1,times=5,resource=pods`.
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
    /// | `bookmarks-only`, `no-bookmarks` | |
    /// | `stall` | `event` (0), `ms` |
    /// | `error-event` | `event` (0), `code`, `retry-after`, `reason`, `message` |
    ///
    /// Conditions: `verb`, `group`, `resource`, `namespace`, `name`, `user`, `user-agent`, `watches` (`true` or
    /// `false`), `skip`, `times`, `probability`, `from-ms` and `until-ms`.
    ///
    /// # Errors
    /// When the text does not follow this grammar; the error names the part that does not.
    pub fn parse(spec: &str) -> Result<Rule, FaultSpecError> {
        spec::parse(spec)
    }

    /// Every watch, open now or later, ends cleanly after this many more events, until the rule is removed.
    pub fn drop_watch_after(&self, events: u64) -> RuleId {
        self.add(Rule::watch(WatchAction::CloseAfterEvents(events)))
    }

    /// The connection of the next watch that has an event to send breaks in the middle of it.
    pub fn cut_frame(&self) -> RuleId {
        self.add(Rule::watch(WatchAction::CloseMidFrame { event: 0, byte: 10 }).times(1))
    }

    /// The next `requests` requests fail with this code and, if given and not 0, a `Retry-After` in seconds: a Status has no
    /// word for 0.
    pub fn fail_next(&self, requests: u64, code: u16, retry_after: Option<u32>) -> RuleId {
        self.add(Rule::new(Action::Status(Box::new(failure(code, retry_after)))).times(requests))
    }

    /// Every request that is not a watch is handled only after this time, until the rule is removed.
    pub fn delay(&self, delay: Duration) -> RuleId {
        self.add(Rule::new(Action::Delay(delay)).watches(false))
    }

    /// While true, the port stays reserved but refuses connections. Connections that are open stay open; see
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

    /// Forgets all history: every read at an older resource version, and every watch from one, expires.
    pub fn compact_now(&self) {
        self.on_store("compact", |store| store.compact_now());
    }

    /// Forgets the history before this revision.
    pub fn compact(&self, revision: u64) {
        self.on_store("compact", |store| store.compact(revision));
    }

    /// Watches, and reads that tolerate staleness, see the store this many revisions ago; 0 ends it.
    pub fn lag_replica(&self, revisions: u64) {
        self.on_store("lag-replica", |store| store.lag_replica(revisions));
    }

    /// Empties the watch history, as a restart of the server would: watches from older versions expire.
    pub fn reset_history(&self) {
        self.on_store("reset-history", |store| store.reset_history());
    }

    /// Puts the server's time of day forward, or back. Timers do not notice.
    pub fn jump_wall(&self, by: SignedDuration) {
        if let Some(clock) = &self.shared.clock {
            self.count("jump-wall");
            clock.jump(by);
        }
    }

    /// Makes the server's clocks run too fast by this many millionths (too slow if negative), at most by half; 0 ends
    /// it, but does not put right what went wrong.
    pub fn skew(&self, millionths: i32) {
        if let Some(clock) = &self.shared.clock {
            self.count("skew");
            clock.skew(millionths);
        }
    }

    /// How each rule has fared, in their order.
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

    /// How many times each kind of fault has happened since the start, removed rules included.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.rules().counts.clone()
    }

    /// Whether there are rules at all: if not, requests need not be classified.
    pub(crate) fn any(&self) -> bool {
        self.newest() > 0 && !self.rules().active.is_empty()
    }

    /// The number of the newest rule.
    pub(crate) fn newest(&self) -> u64 {
        self.shared.newest.load(Ordering::Acquire)
    }

    /// What is to become of this request. `now` counts from the server's start.
    pub(crate) fn plan(&self, subject: &Subject, now: Duration, random: &mut dyn FnMut() -> u64) -> Plan {
        let mut plan = Plan::default();
        let mut refuse = false;
        let mut store_faults = Vec::new();
        let mut rules = self.rules();
        plan.seen = self.newest();
        let Rules { active, counts } = &mut *rules;
        for active in active {
            if !active.fires(subject, now, random) {
                continue;
            }
            record(active, subject, counts);
            match &active.rule.action {
                Action::Delay(delay) => plan.delay = plan.delay.saturating_add(*delay),
                Action::Reset { after_bytes } => {
                    let least = plan.reset_after.map_or(*after_bytes, |bytes| bytes.min(*after_bytes));
                    plan.reset_after = Some(least);
                }
                Action::Watch(WatchAction::Expire { form: ExpireForm::Http, .. }) => {
                    plan.fate = Fate::Answer(Box::new(stages::expired()))
                }
                Action::Watch(action) => plan.watch.push(action.clone()),
                Action::Status(status) => plan.fate = Fate::Answer(status.clone()),
                Action::Drop => plan.fate = Fate::Drop,
                Action::Hang => plan.fate = Fate::Hang,
                Action::CommitThenDrop => plan.fate = Fate::HandleThenDrop,
                Action::DropBeforeCommit => plan.fate = Fate::ReadThenDrop,
                Action::Refuse => {
                    refuse = true;
                    plan.fate = Fate::Drop;
                }
                Action::Compact | Action::LagReplica { .. } | Action::ResetHistory => {
                    store_faults.push(active.rule.action.clone());
                }
            }
            if plan.fate != Fate::Handle {
                break;
            }
        }
        drop(rules);
        if let Some(store) = &self.shared.store {
            for action in store_faults {
                match action {
                    Action::Compact => store.compact_now(),
                    Action::LagReplica { revisions } => store.lag_replica(revisions),
                    _ => store.reset_history(),
                }
            }
        }
        if refuse && !self.shared.refusing.swap(true, Ordering::AcqRel) {
            self.wake_listeners();
        }
        plan
    }

    /// The watch faults of rules newer than `seen` that befall a watch which is already open.
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
            // Too late for an HTTP status: this watch has been answered.
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

    /// Ready when the listener's orders differ from those it knows.
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

    /// What the listener is to do now.
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

/// What [`Faults`] wants of a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Orders {
    /// Refuse connections.
    pub(crate) refuse: bool,
    /// Grows with every call to cut all connections.
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
        let lucky =
            self.rule.probability >= 1.0 || (random() >> 11) as f64 / ((1u64 << 53) as f64) < self.rule.probability;
        if lucky {
            self.fired += 1;
        }
        lucky
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

/// The failure that a server sends with this code.
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
