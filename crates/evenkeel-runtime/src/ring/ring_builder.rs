//! [`Ring`]: the replicas of a program that share its work.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_client::Client;
use tokio::time::Instant;
use tracing::{info, warn};

use super::driver::{Life, LifeEnd, LifeParts, Undrained};
use super::error::RingError;
use super::handle::RingHandle;
use super::lease_store::{LeaseStore, NAME_LABEL, PART_LABEL};
use super::member::{MemberEnd, MemberMachine};
use super::metrics::Metrics;
use super::settings::{RingConfigError, RingSettings, ShardBy};
use super::shared::RingShared;
use super::slices::Slices;
use super::table::MemberName;
use crate::election::LeaderElector;
use crate::environment::hostname;

/// How often a member may lose its membership within [`LOSSES_WITHIN`] and join again.
const MOST_LOSSES: usize = 3;
const LOSSES_WITHIN: Duration = Duration::from_secs(600);
/// The longest identity in the name of a member.
const IDENTITY: usize = 48;
const SUFFIX: usize = 5;

/// A group of replicas that share the objects of a program: each place of the hash space belongs to at most one of them.
///
/// ```no_run
/// use evenkeel_client::Client;
/// use evenkeel_core::shard::place;
/// use evenkeel_runtime::ring::{Ring, RingError, SliceEvent};
///
/// # async fn sweep(_: &str) {}
/// # async fn example(client: Client, pod_name: String) -> Result<(), Box<dyn std::error::Error>> {
/// let ring = Ring::new(&client, "foo-controller").identity(pod_name);
/// let (mut slices, handle) = (ring.slices(), ring.handle());
/// tokio::spawn(async move {
///     while let Some(event) = slices.next().await {
///         if let SliceEvent::Granted(grant) = event {
///             // Work on the namespaces in the range. The guard drops what this replica may not do any more.
///             if grant.range().contains(place("default")) {
///                 handle.guard(place("default"), sweep("default")).await;
///             }
///         }
///     }
/// });
/// ring.run(evenkeel_runtime::manager::shutdown_signal()?).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - At no moment do two members poll [guarded](RingHandle::guard) work of one place. This holds for any network delay, lost or late
///   message, suspension, clock offset and number of assigners, as long as no clock *runs* faster than another by more than the ratio
///   of lease duration to renew deadline plus grace (5 : 4 by default), and polls return within the grace.
/// - A range is released after the last poll of its work, and its epoch rises with each owner.
/// - A replica that cannot renew its Lease stops. It resumes the same ranges if it was not replaced meanwhile.
///
/// # Not guaranteed
///
/// - That a place has an owner while the API server cannot be reached.
/// - Stopping work that never reaches an `await`, and tasks and threads that work has spawned.
/// - That a write that was sent before a crash is not applied later. Use [`RingHandle::fence`] with external stores, and resource
///   versions with Kubernetes.
/// - Anything, if Leases of the ring are edited by hand. Deleting them is safe.
pub struct Ring {
    client: Client,
    name: String,
    identity: String,
    namespace: String,
    labels: Vec<(String, String)>,
    build: String,
    settings: RingSettings,
    covers_itself: bool,
    shared: Arc<RingShared>,
    is_running: AtomicBool,
}

impl Ring {
    /// Returns a member of the ring of this name, whose Leases are in the namespace of the client's configuration (inside a cluster,
    /// the pod's namespace). The default identity is the host name, which inside a cluster is the name of the pod.
    pub fn new(client: &Client, name: impl Into<String>) -> Self {
        let (name, settings) = (name.into(), RingSettings::default());
        let shared = Arc::new(RingShared::new(&name, settings.grace));
        Ring {
            client: client.clone(),
            identity: hostname().to_ascii_lowercase(),
            namespace: client.config().namespace.clone(),
            labels: Vec::new(),
            build: String::new(),
            covers_itself: true,
            is_running: AtomicBool::new(false),
            name,
            settings,
            shared,
        }
    }

    /// Sets the identity: the first part of the names of this process's members. Each life adds five random characters.
    #[must_use]
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = identity.into();
        self
    }

    /// Sets the namespace of the Leases.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Adds labels to the Leases.
    #[must_use]
    pub fn labels(mut self, labels: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>) -> Self {
        self.labels.extend(labels.into_iter().map(|(key, value)| (key.into(), value.into())));
        self
    }

    /// Sets the version of this program. Leaving members give their slices to the members of the youngest member's version, so that a
    /// rolling upgrade moves each slice once.
    #[must_use]
    pub fn build(mut self, build: impl Into<String>) -> Self {
        self.build = build.into();
        self
    }

    /// Sets the field whose hash is the place of an object. All members must agree. Default: the namespace.
    #[must_use]
    pub fn shard_by(mut self, shard_by: ShardBy) -> Self {
        self.settings.shard_by = shard_by;
        self
    }

    /// Sets how long a member's Lease is observed unchanged before its slices are given away. All members must agree. Default: 15
    /// seconds. Whole seconds.
    #[must_use]
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.settings.lease_duration = duration;
        self
    }

    /// Sets how long a member works after it sent its last successful renewal. Default: 10 seconds.
    #[must_use]
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.settings.renew_deadline = deadline;
        self
    }

    /// Sets the time between two renewals. Three must fit into the renew deadline. Default: 3 seconds.
    #[must_use]
    pub fn heartbeat(mut self, heartbeat: Duration) -> Self {
        self.settings.heartbeat = heartbeat;
        self
    }

    /// Sets how long work is polled after the renew deadline. Default: 2 seconds. Must fit between renew deadline and lease duration.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self.with_new_state()
    }

    /// Sets how long the work of a range may run after the range was revoked. Then it is dropped. Default: 30 seconds.
    #[must_use]
    pub fn drain_limit(mut self, limit: Duration) -> Self {
        self.settings.drain_limit = limit;
        self
    }

    /// Makes [`Drain::cancelled`](super::Drain::cancelled) complete at once, and not at half of the drain limit.
    #[must_use]
    pub fn cancel_on_move(mut self) -> Self {
        self.settings.cancel_on_move = true;
        self
    }

    /// Sets how long the assigner waits after the last join before it moves slices. Default: 5 seconds.
    #[must_use]
    pub fn settle(mut self, settle: Duration) -> Self {
        self.settings.settle = settle;
        self
    }

    /// Sets the number of slices per member that is aimed at. At most 16. Default: 8.
    #[must_use]
    pub fn slices_per_member(mut self, slices: usize) -> Self {
        self.settings.slices_per_member = slices;
        self
    }

    /// Sets how far the load of a member may be above its share before slices move for it. Default: 0.25.
    #[must_use]
    pub fn imbalance(mut self, imbalance: f64) -> Self {
        self.settings.imbalance = imbalance;
        self
    }

    /// Sets the share of this member relative to the others. 0: it gets no slices. Default: 1.
    #[must_use]
    pub fn capacity(mut self, capacity: u32) -> Self {
        self.settings.capacity = capacity;
        self
    }

    /// Makes ranges wait until the caller has reported that its caches cover them: [`RingHandle::cover`]. Otherwise they are granted
    /// without a wait.
    #[must_use]
    pub fn covered_by_caller(mut self) -> Self {
        self.covers_itself = false;
        self
    }

    fn with_new_state(mut self) -> Self {
        self.shared = Arc::new(RingShared::new(&self.name, self.settings.grace));
        self
    }

    /// Validates the settings. [`run`](Self::run) does so first.
    ///
    /// # Errors
    ///
    /// A setting is invalid.
    pub fn validate(&self) -> Result<(), RingConfigError> {
        self.settings.check(&self.name, &self.identity)
    }

    pub(crate) fn divides_by(&self) -> ShardBy {
        self.settings.shard_by
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the namespace of the Leases.
    pub(crate) fn lease_namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns a handle that reads the ring and runs guarded work. Take it after the settings are complete.
    pub fn handle(&self) -> RingHandle {
        RingHandle { shared: Arc::clone(&self.shared) }
    }

    /// Returns the changes of the ranges that this process works on. Each change is in one stream only: take it once, after the
    /// settings are complete.
    pub fn slices(&self) -> Slices {
        if !self.shared.connect() {
            warn!(ring = self.name, "the slices of the ring have two readers; each change is delivered to one of them");
        }
        Slices { shared: Arc::clone(&self.shared) }
    }

    /// Joins the ring and shares its work until `shutdown` completes. Then the slices move to other members, the work ends, and the
    /// member's Lease is deleted. A program that has no other member leaves its slices free.
    ///
    /// Dropping the future stops all guarded work at once. Other members take over when the Lease has expired.
    ///
    /// # Errors
    ///
    /// See [`RingError`]. A fence is no error: the member joins again under a new name, at most three times in ten minutes.
    pub async fn run<T>(&self, shutdown: impl Future<Output = T>) -> Result<(), RingError> {
        self.validate()?;
        let ring = || self.name.clone();
        if self.is_running.swap(true, Ordering::AcqRel) {
            return Err(RingError::Running { ring: ring() });
        }
        let _running = RunningRing(self);
        self.shared.close_events(false);
        let lease_seconds = i32::try_from(self.settings.lease_duration.as_secs()).unwrap_or(i32::MAX);
        let store = LeaseStore::new(&self.client, &self.namespace, &self.name, &self.labels, lease_seconds);
        let mut shutdown = pin!(async {
            shutdown.await;
        });
        let (mut metrics, mut undrained, mut was_shut_down) = (Metrics::new(&self.name), Undrained::default(), false);
        let mut losses: VecDeque<Instant> = VecDeque::new();
        loop {
            let name = self.member_name();
            let elector = || self.elector(&name);
            let now = self.shared.clock.now();
            let member = MemberMachine::new(name.clone(), &self.settings, self.build.clone(), now);
            let parts = LifeParts {
                shared: &self.shared,
                settings: &self.settings,
                store: &store,
                covers_itself: self.covers_itself,
                metrics: &mut metrics,
                undrained: &mut undrained,
                elector: &elector,
            };
            let end = Life::new(parts, member).run(shutdown.as_mut(), &mut was_shut_down).await;
            let why = match end {
                LifeEnd::Versions(version) => return Err(RingError::Versions { ring: ring(), version }),
                LifeEnd::LeaveTimeout => {
                    warn!(ring = self.name, "the ring was not left in time; the member's lease expires");
                    return undrained.into_result(ring());
                }
                LifeEnd::Member(MemberEnd::Left) => return undrained.into_result(ring()),
                LifeEnd::Member(MemberEnd::Refused { theirs }) => {
                    return Err(RingError::Refused { ring: ring(), theirs, ours: self.settings.terms() });
                }
                LifeEnd::Member(MemberEnd::UnknownFormat(source)) => {
                    return Err(RingError::Unreadable { ring: ring(), source });
                }
                LifeEnd::Member(MemberEnd::Fenced(cause)) => cause.as_str(),
                LifeEnd::Member(MemberEnd::Deleted) => "its lease was deleted",
                LifeEnd::Member(MemberEnd::Overwritten) => "its lease was overwritten",
                LifeEnd::Member(MemberEnd::StoreWentBack) => "the store has an older table than before",
            };
            if was_shut_down {
                return undrained.into_result(ring());
            }
            losses.push_back(Instant::now());
            losses.retain(|at| at.elapsed() < LOSSES_WITHIN);
            if losses.len() > MOST_LOSSES {
                return Err(RingError::LostTooOften { ring: ring(), times: losses.len(), why });
            }
            info!(ring = self.name, member = %name, why, "membership lost; joining again under a new name");
        }
    }

    fn elector(&self, member: &MemberName) -> LeaderElector {
        let labels = [(NAME_LABEL, self.name.as_str()), (PART_LABEL, "election")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter();
        LeaderElector::new(&self.client, self.name.as_str())
            .namespace(&*self.namespace)
            .identity(&**member)
            .labels(self.labels.iter().cloned().chain(labels))
            .lease_duration(self.settings.lease_duration)
            .renew_deadline(self.settings.renew_deadline)
            .retry_period(self.settings.heartbeat * 2 / 3)
            .grace(self.settings.grace)
    }

    /// Returns the name of a new member. Names are used once.
    fn member_name(&self) -> MemberName {
        let kept: String = self.identity.chars().take(IDENTITY).collect();
        let suffix: String = std::iter::repeat_with(|| fastrand::choice(b"abcdefghijklmnopqrstuvwxyz234567").copied())
            .take(SUFFIX)
            .flatten()
            .map(char::from)
            .collect();
        format!("{}-{suffix}", kept.trim_end_matches(['-', '.'])).into()
    }
}

impl Undrained {
    fn into_result(self, ring: String) -> Result<(), RingError> {
        match self {
            Undrained { running: 0, .. } => Ok(()),
            Undrained { slices, running } => Err(RingError::NotDrained { ring, slices, running }),
        }
    }
}

/// Ends the streams of slices with the run.
struct RunningRing<'r>(&'r Ring);

impl Drop for RunningRing<'_> {
    fn drop(&mut self) {
        self.0.is_running.store(false, Ordering::Release);
        self.0.shared.close_events(true);
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("name", &self.name)
            .field("identity", &self.identity)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
