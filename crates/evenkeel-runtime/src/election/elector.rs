//! [`LeaderElector`]: one leader among many replicas.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use evenkeel_base::planted::{Defect, is_planted};
use evenkeel_base::task::scheduled;
use evenkeel_client::Client;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::config::{ConfigError, STOP_GRACE, Timing};
use super::driver::{ElectionDriver, ElectionEvent, OnEvent, OnNewLeader};
use super::health::{ElectionHealth, NotRenewed};
use super::identity::default_identity;
use super::lease::{Lease, TermEnding};
use super::lock::{LeaseLock, Lock};
use super::machine::{ElectionMachine, LostReason};
use super::metrics::Metrics;
use super::work::TermOutput;

/// Campaigns for a lease and runs a future while it leads.
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
/// # Guarantees
///
/// - Work runs only while this process leads, and no two processes lead at once. This holds for any network delay,
///   lost message or clock offset, as long as no clock *runs* faster than another by more than the ratio of lease
///   duration to renew deadline plus grace (5 : 4 by default).
/// - Work that does not finish after [`Lease::lost`] completes is dropped before another process can lead.
/// - The lease is released after the work has finished, never before, and only if the record still names this
///   candidate.
/// - Each term has a higher [fencing token](Lease::fencing_token) than the one before.
///
/// # Not guaranteed
///
/// - Stopping work that never reaches an `await`. Such work cannot be dropped; it can check [`Lease::is_valid`].
/// - Stopping tasks and threads that the work has spawned.
/// - Detecting that the machine was suspended. On Linux the runtime's clock stops meanwhile. Use the fencing token.
/// - A leader while the Lease cannot be reached.
pub struct LeaderElector {
    target: LockTarget,
    identity: String,
    timing: Timing,
    stop_grace: Duration,
    release_on_cancel: bool,
    coordinated: bool,
    on_new_leader: Option<OnNewLeader>,
    on_event: Option<OnEvent>,
    metrics: Metrics,
    shared: Arc<ElectorShared>,
    /// Locked by one run at a time and kept between runs: what it has observed stays valid.
    machine: Arc<tokio::sync::Mutex<Option<ElectionMachine>>>,
}

enum LockTarget {
    Lease { client: Client, namespace: String, name: String, labels: Vec<(String, String)> },
    Lock(Arc<dyn Lock>),
}

/// The result of a [run](LeaderElector::run) that did not lose the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended<T> {
    /// Whether this process led. False if the elector was stopped before it acquired the lease.
    pub led: bool,
    /// The output of the work. `None` if it did not run or was dropped.
    pub output: Option<T>,
}

/// Why a [run](LeaderElector::run) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ElectionError {
    /// The configuration is invalid. No request was sent.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The lease was lost, and the work has finished or was dropped. Running the elector again campaigns again.
    #[error("leader election lost: the lease {lease} of {identity} {}", describe(.why))]
    Lost {
        /// The lease, `namespace/name`.
        lease: String,
        /// The identity of this candidate.
        identity: String,
        /// Why it was lost.
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
        LostReason::Taken { by } if by.is_empty() => "was cleared by another client".to_owned(),
        LostReason::Taken { by } => format!("was taken by {by:?}"),
        LostReason::EndOfTerm { preferred } => format!("passes to {preferred:?}, which the election prefers"),
    }
}

/// The state of a running elector that handles and health checks read.
#[derive(Debug)]
pub(super) struct ElectorShared {
    identity: Mutex<String>,
    view: Mutex<ElectorView>,
    stop: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct ElectorView {
    leader: Option<String>,
    lease: Option<Lease>,
    lease_name: String,
    lease_duration: Duration,
}

/// A handle to an elector. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ElectorHandle {
    shared: Arc<ElectorShared>,
}

impl LeaderElector {
    /// Returns a candidate for the Lease of this name, in the namespace of the client's configuration (inside a
    /// cluster, the pod's namespace). The default identity is the host name and a random UUID.
    pub fn new(client: &Client, name: impl Into<String>) -> Self {
        let (name, namespace) = (name.into(), client.config().namespace.clone());
        let metrics = Metrics::new(&name);
        LeaderElector::at(LockTarget::Lease { client: client.clone(), namespace, name, labels: Vec::new() }, metrics)
    }

    /// Returns a candidate for a user-defined lock. `name` labels the metrics.
    pub fn with_lock(lock: impl Lock, name: &str) -> Self {
        LeaderElector::at(LockTarget::Lock(Arc::new(lock)), Metrics::new(name))
    }

    fn at(target: LockTarget, metrics: Metrics) -> Self {
        let identity = default_identity();
        let shared = Arc::new(ElectorShared {
            identity: Mutex::new(identity.clone()),
            view: Mutex::default(),
            stop: watch::Sender::new(false),
        });
        LeaderElector {
            target,
            identity,
            timing: Timing::default(),
            stop_grace: STOP_GRACE,
            release_on_cancel: true,
            coordinated: false,
            on_new_leader: None,
            on_event: None,
            metrics,
            shared,
            machine: Arc::default(),
        }
    }

    /// Sets the identity of this candidate. Must not be empty and should be unique: two candidates with one identity
    /// never lead together, but cannot be distinguished. In a [coordinated](Self::coordinated) election they may lead
    /// together, because there the server identifies candidates by this name.
    #[must_use]
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = identity.into();
        self.shared.identity.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&self.identity);
        self.changed()
    }

    /// Sets the namespace of the Lease. Ignored for a user-defined lock.
    #[must_use]
    pub fn namespace(mut self, new: impl Into<String>) -> Self {
        if let LockTarget::Lease { namespace, .. } = &mut self.target {
            *namespace = new.into();
        }
        self.changed()
    }

    /// Adds labels to the Lease; its other labels are kept. Ignored for a user-defined lock.
    #[must_use]
    pub fn labels(mut self, new: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>) -> Self {
        if let LockTarget::Lease { labels, .. } = &mut self.target {
            labels.extend(new.into_iter().map(|(key, value)| (key.into(), value.into())));
        }
        self
    }

    /// Sets the value of the metrics label `name`. Default: the name of the Lease.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.metrics = Metrics::new(name);
        self
    }

    /// Sets how long candidates leave the lease alone after they saw it change. This is how long a failover takes if
    /// this process dies. Default: 15 seconds. Written in whole seconds; fractions are cut off.
    #[must_use]
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.timing.lease_duration = duration;
        self.changed()
    }

    /// Sets how long this process leads after it sent the last successful renewal. Default: 10 seconds.
    #[must_use]
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.timing.renew_deadline = deadline;
        self.changed()
    }

    /// Sets the time between two attempts: of a leader to renew, and, with up to 120 % jitter, of a candidate to
    /// acquire. Default: 2 seconds.
    #[must_use]
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.timing.retry_period = period;
        self.changed()
    }

    /// Sets how long work may take to finish after the lease was lost, before it is dropped. Must fit between renew
    /// deadline and lease duration. Default: the retry period, or half of that room if it is less.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.timing.grace = Some(grace);
        self.changed()
    }

    /// Sets how long work may take to finish after the elector was [stopped](ElectorHandle::stop), before it is
    /// dropped. The lease is renewed meanwhile. Default: 30 seconds.
    #[must_use]
    pub fn stop_grace(mut self, grace: Duration) -> Self {
        self.stop_grace = grace;
        self
    }

    /// Sets the timeout of one request. Default: half of the renew deadline, at least one second.
    #[must_use]
    pub fn call_timeout(mut self, limit: Duration) -> Self {
        self.timing.call_timeout = Some(limit);
        self.changed()
    }

    /// Sets whether the lease is released when the work has finished, so that candidates need not wait. Default: true.
    #[must_use]
    pub fn release_on_cancel(mut self, release: bool) -> Self {
        self.release_on_cancel = release;
        self.changed()
    }

    /// Joins a coordinated election: the API server chooses among [candidates](super::LeaseCandidate) and writes the
    /// chosen name into the lease. The elector never creates the lease nor takes it over; it leads while the lease
    /// names it.
    #[must_use]
    pub fn coordinated(mut self) -> Self {
        self.coordinated = true;
        self.changed()
    }

    /// Sets a callback for changes of the leader, called in order, one call at a time; `None` if there is no leader.
    /// It must not block: it delays renewals.
    #[must_use]
    pub fn on_new_leader(mut self, callback: impl FnMut(Option<&str>) + Send + 'static) -> Self {
        self.on_new_leader = Some(Arc::new(Mutex::new(callback)));
        self
    }

    /// Sets a callback for events to record. It must not block.
    #[must_use]
    pub fn on_event(mut self, callback: impl FnMut(ElectionEvent) + Send + 'static) -> Self {
        self.on_event = Some(Arc::new(Mutex::new(callback)));
        self
    }

    /// Attaches a health check to this elector.
    #[must_use]
    pub fn health(self, check: &ElectionHealth) -> Self {
        check.attach(&self.shared);
        self
    }

    /// Returns a handle that reads the leader and stops the elector.
    pub fn handle(&self) -> ElectorHandle {
        ElectorHandle { shared: Arc::clone(&self.shared) }
    }

    /// Discards observations that belong to the previous configuration.
    fn changed(mut self) -> Self {
        self.machine = Arc::default();
        self
    }

    /// Validates the configuration. [`run`](Self::run) does so first.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.timing.check()?;
        match &self.target {
            LockTarget::Lease { name, .. } if name.is_empty() => return Err(ConfigError::NoName),
            _ => {}
        }
        if self.identity.is_empty() {
            return Err(ConfigError::NoIdentity);
        }
        Ok(())
    }

    /// Campaigns until this process leads, then runs the work. Returns once the work has finished and the lease was
    /// released. May be called again.
    ///
    /// Work that returns ends the term. If the lease is lost or the elector is stopped, the work has a
    /// [grace](Self::grace) to finish. Dropping the future drops the work and releases the lease in the background.
    ///
    /// Concurrent calls run one after another.
    ///
    /// # Errors
    /// Returns [`ElectionError::Lost`] if the lease was lost, and [`ElectionError::Work`] if the work returned an error: see
    /// [`TermOutput`]. If both happened, returns `Lost` and logs the error of the work.
    ///
    /// # Panics
    /// If the work or a user-defined [`Lock`] panics.
    pub async fn run<W, F>(&self, work: W) -> Result<Ended<<F::Output as TermOutput>::Value>, ElectionError>
    where
        W: FnOnce(Lease) -> F,
        F: Future<Output: TermOutput>,
    {
        self.validate()?;
        let lock: Arc<dyn Lock> = match &self.target {
            LockTarget::Lock(lock) => Arc::clone(lock),
            LockTarget::Lease { client, namespace, name, labels } => {
                Arc::new(LeaseLock::new(client, namespace, name).labels(labels.iter().cloned()))
            }
        };
        let name = lock.describe();
        let mut machine = Arc::clone(&self.machine).lock_owned().await;
        // The driver takes the machine out and puts it back. If its task was aborted, a new machine starts without
        // observations.
        machine.get_or_insert_with(|| {
            ElectionMachine::new(self.timing, self.identity.clone(), self.coordinated, self.release_on_cancel)
        });
        self.shared.campaigns(&name, self.timing.lease_duration);
        let (leave, left) = oneshot::channel();
        let (lead, led) = oneshot::channel();
        let driver = ElectionDriver {
            machine,
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
        // The task ends when `leave` is dropped, which is after everything declared below.
        let driver = tokio::spawn(scheduled(driver.keep()));
        let Ok(lease) = led.await else {
            over(driver).await;
            return Ok(Ended { led: false, output: None });
        };
        let output = {
            let _term = Over(lease.clone());
            // The lease may have expired before this task was scheduled.
            match lease.is_valid() {
                true => self.run_until_over(pin!(work(lease.clone())), &lease).await,
                false => None,
            }
        };
        drop(leave);
        let lost = over(driver).await;
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

    /// Runs the work until it finishes or its time is over. After that it is not polled again, even if this process
    /// was suspended and something woke it: another process may lead.
    async fn run_until_over<F: Future>(&self, mut work: std::pin::Pin<&mut F>, lease: &Lease) -> Option<F::Output> {
        let mut changes = lease.changes();
        loop {
            let state = changes.borrow_and_update().clone();
            let grace = self.timing.grace();
            let end = state.valid_until + grace;
            let end = match state.ending {
                Some(TermEnding::Asked { at }) => at.checked_add(self.stop_grace).map_or(end, |stop| stop.min(end)),
                Some(TermEnding::Lost { at, why: LostReason::Taken { .. } }) => end.min(at + grace),
                _ => end,
            };
            let mut work_in_time = pin!(poll_fn(|context| match Instant::now() < end {
                true => work.as_mut().poll(context).map(Some),
                false => Poll::Ready(None),
            }));
            tokio::select! {
                biased;
                output = &mut work_in_time => return output,
                () = sleep_until(end), if !is_planted(Defect::LeadsAfterLoss) => return None,
                // The sender lives as long as the lease.
                _ = changes.changed() => {}
            }
        }
    }
}

/// Waits for the driver task. Returns why the lease was lost, if it was.
///
/// If the runtime is shutting down, the task is cancelled and the lease is not released. A panic of the task, which is
/// a panic of the lock, is propagated.
async fn over(driver: JoinHandle<Option<LostReason>>) -> Option<LostReason> {
    match driver.await {
        Ok(lost) => lost,
        Err(error) => error.try_into_panic().map_or(None, |panic| resume_unwind(panic)),
    }
}

/// Ends the term when the work has finished or was dropped.
struct Over(Lease);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.end(TermEnding::Over);
    }
}

impl ElectorShared {
    fn view(&self) -> MutexGuard<'_, ElectorView> {
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

    /// Returns an error if a term continues that should have ended.
    pub(super) fn check(&self, tolerance: Duration) -> Result<(), NotRenewed> {
        let view = self.view();
        let Some(lease) = &view.lease else { return Ok(()) };
        let state = lease.state();
        let age = Instant::now().saturating_duration_since(state.renewed);
        match state.ending != Some(TermEnding::Over) && age > view.lease_duration.saturating_add(tolerance) {
            true => Err(NotRenewed { lease: view.lease_name.clone(), age }),
            false => Ok(()),
        }
    }
}

impl ElectorHandle {
    /// Stops the elector: [`Lease::lost`] completes, the lease is released once the work has finished, and
    /// [`run`](LeaderElector::run) returns. Later runs return at once.
    pub fn stop(&self) {
        self.shared.stop.send_replace(true);
    }

    /// Returns the last observed leader. `None` if there is none, or before the first observation.
    pub fn leader(&self) -> Option<String> {
        self.shared.view().leader.clone()
    }

    /// Returns whether this process leads right now.
    pub fn is_leader(&self) -> bool {
        self.shared.view().lease.as_ref().is_some_and(Lease::is_valid)
    }

    /// Returns the identity of this candidate.
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
