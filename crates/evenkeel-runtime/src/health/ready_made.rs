//! Checks of informers and queues.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_cache::SharedInformer;
use evenkeel_queue::{Key, QueueStats, WorkQueue};
use tokio::time::Instant;

use super::{Check, Reason};

/// How long things may take in a queue before somebody should look. See [`Check::queue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// How long a key may be ready before a worker takes it: 10 minutes unless told otherwise.
    pub oldest_ready: Duration,
    /// How long a worker may have a key: 15 minutes unless told otherwise.
    pub longest_running: Duration,
}

impl Default for QueueLimits {
    fn default() -> Self {
        QueueLimits { oldest_ready: Duration::from_secs(600), longest_running: Duration::from_secs(900) }
    }
}

/// What a task says that it is still there with. See [`Check::heartbeat`].
#[derive(Clone, Debug)]
pub struct Heartbeat(Arc<Mutex<Instant>>);

impl Heartbeat {
    /// The task is there.
    pub fn beat(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Check {
    /// Passes while somebody [beats](Heartbeat::beat) at least every `limit`, the first time within `limit` from now. For tasks
    /// of one's own that must not stand still.
    pub fn heartbeat(name: impl Into<String>, limit: Duration) -> (Self, Heartbeat) {
        let heart = Heartbeat(Arc::new(Mutex::new(Instant::now())));
        let watched = heart.clone();
        let check = Check::new(name, move || match watched.last().elapsed() {
            age if age <= limit => Ok(()),
            age => Err(format!("no beat for {}; the limit is {}", seconds(age), seconds(limit)).into()),
        });
        (check, heart)
    }

    /// Passes once the informer has everything that there was when it began, and until it ends. Its name is
    /// `informer-{name}-synced`.
    ///
    /// The check is a handle of the informer, which runs until it is stopped or all of them are gone.
    pub fn synced<K: 'static>(informer: &SharedInformer<K>) -> Self {
        let name = format!("informer-{}-synced", plain(informer.name()));
        let informer = informer.clone();
        Check::new(name, move || synced(informer.is_stopped(), informer.has_synced()))
    }

    /// Passes while the informer has heard from the server within `limit`: a list, an event or a bookmark. It passes before
    /// the first of them; [`synced`](Self::synced) is for that. Its name is `informer-{name}-heard`.
    ///
    /// Servers send bookmarks about once a minute, so a few minutes are a good limit: a watch that is silent for longer is
    /// stuck, or there is no connection. The check is a handle of the informer, which runs until it is stopped or all of
    /// them are gone.
    pub fn heard_within<K: 'static>(informer: &SharedInformer<K>, limit: Duration) -> Self {
        let name = format!("informer-{}-heard", plain(informer.name()));
        let informer = informer.clone();
        Check::new(name, move || heard(informer.status().reflector.last_heard, Instant::now(), limit))
    }

    /// Passes while keys are taken from the queue and workers get done with them. Its name is `queue-{name}`.
    ///
    /// A queue without a name keeps no time, so it cannot be watched, and the check fails.
    pub fn queue<K: Key>(queue: &WorkQueue<K>, limits: QueueLimits) -> Self {
        let name = format!("queue-{}", plain(queue.name().unwrap_or("without-a-name")));
        let queue = queue.clone();
        Check::new(name, move || match queue.name() {
            None => Err("the queue has no name, and so it does not keep time".into()),
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
