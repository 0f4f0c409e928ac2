//! [`LeaderElector`]: one leader among many replicas.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use evenkeel_client::Client;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::config::{ConfigError, STOP_GRACE, Timing};
use super::core::{Core, LostReason};
use super::driver::{ElectionEvent, Keeper, OnEvent, OnNewLeader};
use super::health::{ElectionHealth, NotRenewed};
use super::identity::default_identity;
use super::leadership::{Ending, Lease};
use super::lock::{LeaseLock, Lock};
use super::metrics::Metrics;
use super::work::TermOutput;

/// Takes part in an election, and runs something while it leads.
///
/// ```no_run
/// use evenkeel_client::Client;
/// use evenkeel_runtime::election::{ElectionError, LeaderElector};
///
/// # async fn work(_: impl Future<Output = ()>) {}
/// # async fn example(client: Client, pod_name: String) -> Result<(), ElectionError> {
/// let elector = LeaderElector::new(&client, "my-controller").identity(pod_name);
/// elector.run(|lease| async move { work(lease.lost()).await }).await?;
/// # Ok(())
/// # }
/// ```
///
/// # What may be assumed
///
/// - Work runs only while this process leads, and no two processes lead at once, however long calls take, whatever gets lost and
///   whatever the clocks say, as long as no clock *runs* faster than another by more than lease duration to renew deadline plus
///   grace (5 : 4 unless told otherwise).
/// - Work that is told to end (see [`Lease::lost`]) and does not is dropped before anybody else can lead.
/// - The lease is given back after the work is over, never before, and only if it is still ours.
/// - Each term has a higher [number](Lease::fencing_token) than the one before.
///
/// # What is not promised
///
/// - That work ends which never comes to an `await`. It cannot be dropped; it can ask [`Lease::is_valid`].
/// - Anything about tasks and threads that the work started and left behind.
/// - That a machine which was asleep notices. On Linux the clock that the runtime uses stands still meanwhile. The number of the term
///   is for that.
/// - That somebody leads while the Lease cannot be reached.
pub struct LeaderElector {
    place: Place,
    identity: String,
    timing: Timing,
    stop_grace: Duration,
    release_on_cancel: bool,
    coordinated: bool,
    on_new_leader: Option<OnNewLeader>,
    on_event: Option<OnEvent>,
    metrics: Metrics,
    shared: Arc<Shared>,
    /// Of one run at a time, and kept between runs: what it has seen is still so.
    core: Arc<tokio::sync::Mutex<Option<Core>>>,
}

enum Place {
    Lease { client: Client, namespace: String, name: String, labels: Vec<(String, String)> },
    Lock(Arc<dyn Lock>),
}

/// How a [run](LeaderElector::run) ended that was not ended by the loss of the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended<T> {
    /// Whether this process led at all. It did not if it was stopped before it was its turn.
    pub led: bool,
    /// What the work returned. `None` if there was none, or if it was dropped.
    pub output: Option<T>,
}

/// Why a [run](LeaderElector::run) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ElectionError {
    /// What was asked for cannot work. Nothing was sent.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The lease was lost. The work was told, and has ended or was dropped. Running the elector again campaigns again.
    #[error("leader election lost: the lease {lease} of {identity} {}", describe(.why))]
    Lost {
        /// Which lease.
        lease: String,
        /// Whose it was.
        identity: String,
        /// How it was lost.
        why: LostReason,
    },
    /// The work returned an error while this process was leader. The lease has been released.
    #[error("the work of leader {identity} failed")]
    Work {
        /// The identity of the candidate.
        identity: String,
        /// The error that the work returned.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

fn describe(why: &LostReason) -> String {
    match why {
        LostReason::Expired => "was not renewed in time".to_owned(),
        LostReason::Taken { by } if by.is_empty() => "was cleared by somebody else".to_owned(),
        LostReason::Taken { by } => format!("was taken by {by:?}"),
        LostReason::EndOfTerm { preferred } => format!("goes to {preferred:?}, whom the election prefers"),
    }
}

/// What an elector shows to others while it runs.
#[derive(Debug)]
pub(super) struct Shared {
    identity: Mutex<String>,
    view: Mutex<View>,
    stop: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct View {
    leader: Option<String>,
    lease: Option<Lease>,
    lease_name: String,
    lease_duration: Duration,
}

/// A handle on an elector, for those who do not run it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ElectorHandle {
    shared: Arc<Shared>,
}

impl LeaderElector {
    /// A candidate for the Lease of this name, in the namespace that the client's configuration names: inside a cluster, the one that
    /// the program runs in. It calls itself by its host's name and something that nobody else has.
    pub fn new(client: &Client, name: impl Into<String>) -> Self {
        let (name, namespace) = (name.into(), client.config().namespace.clone());
        let metrics = Metrics::new(&name);
        LeaderElector::at(Place::Lease { client: client.clone(), namespace, name, labels: Vec::new() }, metrics)
    }

    /// A candidate for a lock of one's own making. `name` is for metrics.
    pub fn with_lock(lock: impl Lock, name: &str) -> Self {
        LeaderElector::at(Place::Lock(Arc::new(lock)), Metrics::new(name))
    }

    fn at(place: Place, metrics: Metrics) -> Self {
        let identity = default_identity();
        let shared = Arc::new(Shared {
            identity: Mutex::new(identity.clone()),
            view: Mutex::default(),
            stop: watch::Sender::new(false),
        });
        LeaderElector {
            place,
            identity,
            timing: Timing::default(),
            stop_grace: STOP_GRACE,
            release_on_cancel: true,
            coordinated: false,
            on_new_leader: None,
            on_event: None,
            metrics,
            shared,
            core: Arc::default(),
        }
    }

    /// What this candidate calls itself. Must not be empty, and should be nobody else's: two that have one name never lead together,
    /// but nobody can tell them apart. In a [coordinated](Self::coordinated) election they do: there it is the name that counts.
    #[must_use]
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = identity.into();
        self.shared.identity.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&self.identity);
        self.changed()
    }

    /// The namespace of the Lease. Means nothing to a lock of one's own.
    #[must_use]
    pub fn namespace(mut self, new: impl Into<String>) -> Self {
        if let Place::Lease { namespace, .. } = &mut self.place {
            *namespace = new.into();
        }
        self.changed()
    }

    /// Labels for the Lease, which keeps those that others gave it. Means nothing to a lock of one's own.
    #[must_use]
    pub fn labels(mut self, new: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>) -> Self {
        if let Place::Lease { labels, .. } = &mut self.place {
            labels.extend(new.into_iter().map(|(key, value)| (key.into(), value.into())));
        }
        self
    }

    /// The value of the label `name` in metrics, which is the name of the Lease unless told otherwise.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.metrics = Metrics::new(name);
        self
    }

    /// How long others leave the lease alone after they saw it change: the time after which somebody else leads if this process
    /// dies. 15 seconds unless told otherwise. Written in whole seconds, fractions are cut off.
    #[must_use]
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.timing.lease_duration = duration;
        self.changed()
    }

    /// How long this process leads after it sent the last renewal that succeeded. 10 seconds unless told otherwise.
    #[must_use]
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.timing.renew_deadline = deadline;
        self.changed()
    }

    /// The time between two attempts: of a leader to renew, and, with up to 120 % more, of others to become one. 2 seconds unless
    /// told otherwise.
    #[must_use]
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.timing.retry_period = period;
        self.changed()
    }

    /// How long work may take to end after the lease was lost, before it is dropped. Must fit between the renew deadline and the
    /// lease duration. Unless told otherwise, the retry period, or half of that room if it is less.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.timing.grace = Some(grace);
        self.changed()
    }

    /// How long work may take to end after the elector was [stopped](ElectorHandle::stop), before it is dropped. The lease is renewed
    /// meanwhile. 30 seconds unless told otherwise.
    #[must_use]
    pub fn stop_grace(mut self, grace: Duration) -> Self {
        self.stop_grace = grace;
        self
    }

    /// The time for one call. Half of the renew deadline, at least a second, unless told otherwise.
    #[must_use]
    pub fn call_timeout(mut self, limit: Duration) -> Self {
        self.timing.call_timeout = Some(limit);
        self.changed()
    }

    /// Whether to give the lease back when the work is over, so that others need not wait. On unless told otherwise.
    #[must_use]
    pub fn release_on_cancel(mut self, release: bool) -> Self {
        self.release_on_cancel = release;
        self.changed()
    }

    /// Takes part in a coordinated election: the API server chooses among [candidates](super::LeaseCandidate) and writes the name of
    /// the chosen one into the lease. The elector never makes the lease nor takes it over; it leads while its name is in it.
    #[must_use]
    pub fn coordinated(mut self) -> Self {
        self.coordinated = true;
        self.changed()
    }

    /// Is told who leads, whenever that changes, in order, one call at a time; `None` if nobody does. It must not block: no renewal
    /// happens meanwhile.
    #[must_use]
    pub fn on_new_leader(mut self, callback: impl FnMut(Option<&str>) + Send + 'static) -> Self {
        self.on_new_leader = Some(Arc::new(Mutex::new(callback)));
        self
    }

    /// Is told what an event recorder should know. It must not block.
    #[must_use]
    pub fn on_event(mut self, callback: impl FnMut(ElectionEvent) + Send + 'static) -> Self {
        self.on_event = Some(Arc::new(Mutex::new(callback)));
        self
    }

    /// Lets a health check watch this elector.
    #[must_use]
    pub fn health(self, check: &ElectionHealth) -> Self {
        check.attach(&self.shared);
        self
    }

    /// A handle for those who want to know who leads, or to stop the elector.
    pub fn handle(&self) -> ElectorHandle {
        ElectorHandle { shared: Arc::clone(&self.shared) }
    }

    /// Who takes part now has seen nothing yet.
    fn changed(mut self) -> Self {
        self.core = Arc::default();
        self
    }

    /// Whether the elector can be run as it is. [`run`](Self::run) asks this first.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.timing.check()?;
        match &self.place {
            Place::Lease { name, .. } if name.is_empty() => return Err(ConfigError::NoName),
            _ => {}
        }
        if self.identity.is_empty() {
            return Err(ConfigError::NoIdentity);
        }
        Ok(())
    }

    /// Campaigns until this process leads, runs the work while it does, and returns when both are over and the lease was given
    /// back. May be called again.
    ///
    /// Work that ends by itself ends the term. Work that is told to end, because the lease is lost or the elector is stopped, has
    /// some [grace](Self::grace) for it. Dropping the future drops the work and gives the lease back in the background.
    ///
    /// Calls at the same time are served one after another.
    ///
    /// # Errors
    /// Returns [`ElectionError::Lost`] if the lease was lost, and [`ElectionError::Work`] if the work returned an error: see
    /// [`TermOutput`]. If both happened, returns `Lost` and logs the error of the work.
    ///
    /// # Panics
    /// If the work does, or a [`Lock`] of one's own.
    pub async fn run<W, F>(&self, work: W) -> Result<Ended<<F::Output as TermOutput>::Value>, ElectionError>
    where
        W: FnOnce(Lease) -> F,
        F: Future<Output: TermOutput>,
    {
        self.validate()?;
        let lock: Arc<dyn Lock> = match &self.place {
            Place::Lock(lock) => Arc::clone(lock),
            Place::Lease { client, namespace, name, labels } => {
                Arc::new(LeaseLock::new(client, namespace, name).labels(labels.iter().cloned()))
            }
        };
        let name = lock.describe();
        let mut core = Arc::clone(&self.core).lock_owned().await;
        // The keeper takes the core out and puts it back. Should it have been torn off, we have seen nothing yet.
        core.get_or_insert_with(|| {
            Core::new(self.timing, self.identity.clone(), self.coordinated, self.release_on_cancel)
        });
        self.shared.campaigns(&name, self.timing.lease_duration);
        let (leave, left) = oneshot::channel();
        let (lead, led) = oneshot::channel();
        let keeper = Keeper {
            core,
            lock,
            identity: self.identity.clone(),
            shared: Arc::clone(&self.shared),
            metrics: self.metrics.clone(),
            on_new_leader: self.on_new_leader.clone(),
            on_event: self.on_event.clone(),
            lead: Some(lead),
            left,
            stop: self.shared.stop.subscribe(),
        };
        // It ends by itself when `leave` is gone, which is after everything that is declared below.
        let keeper = tokio::spawn(keeper.keep());
        let Ok(lease) = led.await else {
            over(keeper).await;
            return Ok(Ended { led: false, output: None });
        };
        let output = {
            let _term = Over(lease.clone());
            // The lease may have been lost while nobody has had the time to look at it.
            match lease.is_valid() {
                true => self.run_until_over(pin!(work(lease.clone())), &lease).await,
                false => None,
            }
        };
        drop(leave);
        let lost = over(keeper).await;
        let identity = self.identity.clone();
        match (lost, output.map(TermOutput::into_result).transpose()) {
            (None, Ok(output)) => Ok(Ended { led: true, output }),
            (None, Err(source)) => Err(ElectionError::Work { identity, source }),
            (Some(why), outcome) => {
                if let Err(error) = outcome {
                    tracing::warn!(lease = name, identity, error, "work failed while the lease was lost");
                }
                Err(ElectionError::Lost { lease: name, identity, why })
            }
        }
    }

    /// Runs the work until it ends or its time is over. After that it is not polled once more, even if this process was stopped
    /// meanwhile and something has woken it: somebody else may lead.
    async fn run_until_over<F: Future>(&self, mut work: std::pin::Pin<&mut F>, lease: &Lease) -> Option<F::Output> {
        let mut changes = lease.changes();
        loop {
            let state = changes.borrow_and_update().clone();
            let grace = self.timing.grace();
            let end = state.valid_until + grace;
            let end = match state.ending {
                Some(Ending::Asked { at }) => at.checked_add(self.stop_grace).map_or(end, |stop| stop.min(end)),
                Some(Ending::Lost { at, why: LostReason::Taken { .. } }) => end.min(at + grace),
                _ => end,
            };
            let mut work_in_time = pin!(poll_fn(|context| match Instant::now() < end {
                true => work.as_mut().poll(context).map(Some),
                false => Poll::Ready(None),
            }));
            tokio::select! {
                biased;
                output = &mut work_in_time => return output,
                () = sleep_until(end) => return None,
                // There are changes for as long as there is the lease.
                _ = changes.changed() => {}
            }
        }
    }
}

/// Waits for the keeper of a lease. Says why it was lost, if it was.
///
/// The keeper is gone without a word if the runtime is shutting down: then the lease was not given back, and nobody is there to
/// hear of it. If it panicked, which is to say that a lock did, so do we.
async fn over(keeper: JoinHandle<Option<LostReason>>) -> Option<LostReason> {
    match keeper.await {
        Ok(lost) => lost,
        Err(error) => error.try_into_panic().map_or(None, |panic| resume_unwind(panic)),
    }
}

/// Ends a term when the work is over, however it ends.
struct Over(Lease);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.end(Ending::Over);
    }
}

impl Shared {
    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn campaigns(&self, lease_name: &str, lease_duration: Duration) {
        let mut view = self.view();
        lease_name.clone_into(&mut view.lease_name);
        view.lease_duration = lease_duration;
    }

    pub(super) fn leads(&self, lease: &Lease) {
        self.view().lease = Some(lease.clone());
    }

    pub(super) fn observed(&self, leader: Option<String>) {
        self.view().leader = leader;
    }

    /// Whether a term goes on that should be over.
    pub(super) fn check(&self, tolerance: Duration) -> Result<(), NotRenewed> {
        let view = self.view();
        let Some(lease) = &view.lease else { return Ok(()) };
        let state = lease.state();
        let age = Instant::now().saturating_duration_since(state.renewed);
        match state.ending != Some(Ending::Over) && age > view.lease_duration.saturating_add(tolerance) {
            true => Err(NotRenewed { lease: view.lease_name.clone(), age }),
            false => Ok(()),
        }
    }
}

impl ElectorHandle {
    /// Asks the elector to stop: work is told to end, then the lease is given back and [`run`](LeaderElector::run) returns. Later runs
    /// return at once.
    pub fn stop(&self) {
        self.shared.stop.send_replace(true);
    }

    /// Who leads, as far as this elector has seen. `None` if nobody does, or it has not looked yet.
    pub fn leader(&self) -> Option<String> {
        self.shared.view().leader.clone()
    }

    /// Whether this process leads right now.
    pub fn is_leader(&self) -> bool {
        self.shared.view().lease.as_ref().is_some_and(Lease::is_valid)
    }

    /// What this candidate calls itself.
    pub fn identity(&self) -> String {
        self.shared.identity.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for LeaderElector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderElector")
            .field("identity", &self.identity)
            .field("timing", &self.timing)
            .field("coordinated", &self.coordinated)
            .finish_non_exhaustive()
    }
}
