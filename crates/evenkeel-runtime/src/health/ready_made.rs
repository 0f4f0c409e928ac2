//! Checks of informers, queues and elections.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_cache::SharedInformer;
use evenkeel_cache::informer::InformerStatus;
use evenkeel_queue::{Key, QueueStats, WorkQueue};
use tokio::time::Instant;

use super::{Check, Reason};
use crate::controller::ControllerHandle;
use crate::election::ElectionHealth;

/// How long keys may wait and run before a queue counts as stuck. See [`Check::queue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// How long a key may be ready before a worker takes it. Default: 10 minutes.
    pub oldest_ready: Duration,
    /// How long a key may be in flight. Default: 15 minutes.
    pub longest_running: Duration,
}

impl Default for QueueLimits {
    fn default() -> Self {
        QueueLimits { oldest_ready: Duration::from_secs(600), longest_running: Duration::from_secs(900) }
    }
}

/// Signals that a task is alive. See [`Check::heartbeat`].
#[derive(Clone, Debug)]
pub struct Heartbeat(Arc<Mutex<Instant>>);

impl Heartbeat {
    /// Signals that the task is alive.
    pub fn beat(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Check {
    /// Returns a check that passes while [`Heartbeat::beat`] is called at least every `limit`, the first time within
    /// `limit` from now. For tasks that must not stall.
    pub fn heartbeat(name: impl Into<String>, limit: Duration) -> (Self, Heartbeat) {
        let heart = Heartbeat(Arc::new(Mutex::new(Instant::now())));
        let watched = heart.clone();
        let check = Check::new(name, move || match watched.last().elapsed() {
            age if age <= limit => Ok(()),
            age => Err(format!("no beat for {}; the limit is {}", seconds(age), seconds(limit)).into()),
        });
        (check, heart)
    }

    /// Returns a check that passes from the informer's sync until it stops. Its name is `informer-{name}-synced`.
    pub fn synced<K: 'static>(informer: &SharedInformer<K>) -> Self {
        let name = format!("informer-{}-synced", plain(informer.name()));
        let informer = informer.clone();
        Check::new(name, move || synced(informer.is_stopped(), informer.has_synced()))
    }

    /// Returns a check that passes while the controller runs and all its sources have synced. Otherwise it names those that have not,
    /// each with the reason, such as `waiting for CustomResourceDefinition foos.example.com`. Its name is `controller-{name}`.
    ///
    /// Sources that [wait](crate::controller::Source::when_installed) for an optional kind fail it too: leave it out for a controller
    /// that is useful without them.
    pub fn controller(controller: &ControllerHandle) -> Self {
        let name = format!("controller-{}", plain(controller.name()));
        let controller = controller.clone();
        Check::new(name, move || match controller.not_ready() {
            reasons if reasons.is_empty() => Ok(()),
            reasons => Err(reasons.join("; ").into()),
        })
    }

    /// Returns a check that passes while all [namespaces](evenkeel_cache::NamespaceSet) of the informer can be read. Otherwise it
    /// names those that are forbidden, each with the reason. Its name is `informer-{name}-namespaces`.
    ///
    /// For informers that continue without them:
    /// [`OnForbidden::Degrade`](evenkeel_cache::informer::OnForbidden::Degrade).
    pub fn namespaces<K: 'static>(informer: &SharedInformer<K>) -> Self {
        let name = format!("informer-{}-namespaces", plain(informer.name()));
        let informer = informer.clone();
        Check::new(name, move || readable(&informer.status()))
    }

    /// Returns a check that passes while the informer has received a list, an event or a bookmark within `limit`. It also
    /// passes before the first of them; [`synced`](Self::synced) covers that. Its name is `informer-{name}-heard`.
    ///
    /// Servers send bookmarks about once a minute, so a few minutes are a good limit: a watch that is silent for longer is
    /// stuck, or there is no connection.
    pub fn heard_within<K: 'static>(informer: &SharedInformer<K>, limit: Duration) -> Self {
        let name = format!("informer-{}-heard", plain(informer.name()));
        let informer = informer.clone();
        Check::new(name, move || heard(informer.status().reflector.last_received, Instant::now(), limit))
    }

    /// Returns a check that fails while this process leads on a lease that expired long ago: see [`ElectionHealth`]. Its name is
    /// `leaderElection`.
    pub fn election(health: &ElectionHealth) -> Self {
        let health = health.clone();
        Check::new(health.name(), move || Ok(health.check()?))
    }

    /// Returns a check that passes while workers take keys from the queue and finish them. Its name is `queue-{name}`.
    ///
    /// A queue without a name keeps no ages, so the check fails.
    pub fn queue<K: Key>(queue: &WorkQueue<K>, limits: QueueLimits) -> Self {
        let name = format!("queue-{}", plain(queue.name().unwrap_or("without-a-name")));
        let queue = queue.clone();
        Check::new(name, move || match queue.name() {
            None => Err("the queue has no name and so keeps no ages".into()),
            Some(_) => progress(&queue.stats(), &limits),
        })
    }
}

pub(super) fn synced(is_stopped: bool, has_synced: bool) -> Result<(), Reason> {
    match (is_stopped, has_synced) {
        (true, _) => Err("the informer has ended".into()),
        (false, false) => Err("the informer has not synced yet".into()),
        (false, true) => Ok(()),
    }
}

pub(super) fn readable(status: &InformerStatus) -> Result<(), Reason> {
    let place = |name: &str| if name.is_empty() { "other namespaces".to_owned() } else { format!("namespace {name}") };
    let text = |(name, message): (&str, &str)| format!("{} is forbidden: {message}", place(name));
    let forbidden: Vec<String> = status.forbidden().map(text).collect();
    if forbidden.is_empty() { Ok(()) } else { Err(forbidden.join("; ").into()) }
}

pub(super) fn heard(last: Option<Instant>, now: Instant, limit: Duration) -> Result<(), Reason> {
    let age = last.map(|last| now.saturating_duration_since(last)).unwrap_or_default();
    if age <= limit {
        return Ok(());
    }
    Err(format!("nothing was heard from the server for {}; the limit is {}", seconds(age), seconds(limit)).into())
}

pub(super) fn progress(stats: &QueueStats, limits: &QueueLimits) -> Result<(), Reason> {
    let over = |age: Option<Duration>, limit| age.filter(|age| *age > limit);
    let mut reasons = Vec::new();
    if let Some(age) = over(stats.oldest_ready, limits.oldest_ready) {
        let (ready, limit) = (stats.ready, limits.oldest_ready);
        reasons.push(format!("a key of {ready} has been ready for {}; the limit is {}", seconds(age), seconds(limit)));
    }
    if let Some(age) = over(stats.longest_running, limits.longest_running) {
        let limit = limits.longest_running;
        reasons.push(format!("a worker has had its key for {}; the limit is {}", seconds(age), seconds(limit)));
    }
    if reasons.is_empty() { Ok(()) } else { Err(reasons.join(", and ").into()) }
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs())
}

/// A name as a check can have it.
fn plain(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    name.chars().map(keep).collect()
}
