//! [`LeaseCandidate`]: a candidate of a coordinated election.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_cache::source::ApiSource;
use evenkeel_cache::{Event, InformerOptions, SharedInformer};
use evenkeel_client::{Api, Client, Error};
use evenkeel_queue::WorkQueue;
use jiff::{Timestamp, ToSpan};
use k8s_openapi::api::coordination::v1beta1::{LeaseCandidate as Candidate, LeaseCandidateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use tracing::debug;

use super::identity::default_identity;
use super::record::whole_microseconds;
use crate::environment::time_of_day;

/// How often a candidate renews its LeaseCandidate.
const PERIOD: Duration = Duration::from_secs(300);

/// The name of the work queue, as in client-go's metrics.
const QUEUE: &str = "leasecandidate";

/// Maintains the LeaseCandidate of this process in a coordinated election: it states identity and version, and
/// acknowledges the server's pings.
///
/// The server chooses among the candidates and writes the chosen name into the lease; a
/// [coordinated](super::LeaderElector::coordinated) elector of the same identity does the rest.
///
/// ```no_run
/// use evenkeel_client::Client;
/// use evenkeel_runtime::election::{LeaderElector, LeaseCandidate};
///
/// # async fn example(client: Client, pod_name: String) -> Result<(), Box<dyn std::error::Error>> {
/// let candidate = LeaseCandidate::new(&client, "my-controller").identity(&pod_name).binary_version("1.4.0");
/// let elector = LeaderElector::new(&client, "my-controller").identity(&pod_name).coordinated();
/// tokio::select! {
///     candidate = candidate.run() => candidate?,
///     ended = elector.run(|lease| async move { lease.lost().await }) => drop(ended?),
/// }
/// # Ok(())
/// # }
/// ```
///
/// A ping is identified by its time, without comparing the server's clock with the local one. The acknowledgement is
/// dated later than the ping, because the server does compare the two.
pub struct LeaseCandidate {
    client: Client,
    namespace: String,
    name: String,
    lease_name: String,
    binary_version: String,
    emulation_version: Option<String>,
    strategy: String,
}

/// Why a candidate cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CandidateError {
    /// A required setting is missing; the server would reject the candidate.
    #[error("a lease candidate needs {what}")]
    Missing {
        /// The missing setting.
        what: &'static str,
    },
    /// The informer stopped. This happens when the runtime shuts down.
    #[error("the informer of the lease candidate {candidate} has ended")]
    InformerEnded {
        /// The candidate, `namespace/name`.
        candidate: String,
    },
}

/// The ping that was acknowledged last.
type Answered = Arc<Mutex<Option<Timestamp>>>;

impl LeaseCandidate {
    /// Returns a candidate for this lease, in the namespace of the client's configuration.
    pub fn new(client: &Client, lease_name: impl Into<String>) -> Self {
        LeaseCandidate {
            client: client.clone(),
            namespace: client.config().namespace.clone(),
            name: default_identity(),
            lease_name: lease_name.into(),
            binary_version: String::new(),
            emulation_version: None,
            strategy: "OldestEmulationVersion".to_owned(),
        }
    }

    /// Sets the candidate's name. The elector must have the same identity.
    #[must_use]
    pub fn identity(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the namespace of the lease.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Sets the version of the program, as `1.2.3`. Required.
    #[must_use]
    pub fn binary_version(mut self, version: impl Into<String>) -> Self {
        self.binary_version = version.into();
        self
    }

    /// Sets the version that the program emulates, if it differs from the binary version.
    #[must_use]
    pub fn emulation_version(mut self, version: impl Into<String>) -> Self {
        self.emulation_version = Some(version.into());
        self
    }

    /// Sets the server's strategy. Default: `OldestEmulationVersion`.
    #[must_use]
    pub fn strategy(mut self, strategy: impl Into<String>) -> Self {
        self.strategy = strategy.into();
        self
    }

    /// Maintains the LeaseCandidate until the future is dropped. Failures are retried with backoff.
    pub async fn run(&self) -> Result<(), CandidateError> {
        let missing = [("a name", &self.name), ("a lease", &self.lease_name), ("a version", &self.binary_version)];
        if let Some((what, _)) = missing.into_iter().find(|(_, value)| value.is_empty()) {
            return Err(CandidateError::Missing { what });
        }
        let api = self.client.api::<Candidate>().namespace(&self.namespace);
        let source = ApiSource::new(api.clone()).fields(format_args!("metadata.name={}", self.name));
        let info = Arc::clone(source.resource());
        let informer = SharedInformer::<Candidate>::new(source, &info, InformerOptions::new().resync(PERIOD));
        let queue = WorkQueue::<String>::rate_limited(QUEUE);
        let answered = Answered::default();
        let ended = || CandidateError::InformerEnded { candidate: format!("{}/{}", self.namespace, self.name) };
        let handler = {
            let (queue, answered, key) = (queue.clone(), Arc::clone(&answered), self.name.clone());
            move |event: Event<Candidate>| {
                let (Event::Add { object, .. } | Event::Update { new: object, .. }) = event else { return };
                let asks = object.typed().is_ok_and(|candidate| asks(&candidate, &answered));
                if asks {
                    queue.add(key.clone());
                }
            }
        };
        let registration = informer.add_handler(handler).map_err(|_| ended())?;
        let _running = informer.start();
        registration.synced().await.map_err(|_| ended())?;
        queue.add(self.name.clone());
        self.work(&queue, &api, &answered).await;
        Err(ended())
    }

    async fn work(&self, queue: &WorkQueue<String>, api: &Api<Candidate>, answered: &Answered) {
        while let Some(item) = queue.next().await {
            match self.ensure(api, answered).await {
                Ok(()) => item.requeue_after(PERIOD),
                Err(error) => item.retry(error),
            }
        }
    }

    /// Creates the LeaseCandidate, or renews it.
    async fn ensure(&self, api: &Api<Candidate>, answered: &Answered) -> Result<(), Error> {
        let now = Some(MicroTime(whole_microseconds(time_of_day())));
        match api.get(&self.name).await {
            Ok(found) => {
                let mut candidate = Candidate::clone(&*found.typed()?);
                let LeaseCandidateSpec { lease_name, ping_time, .. } = candidate.spec;
                // The server accepts a renewal only if it is later than the ping by the server's clock. The local
                // clock may be behind.
                let after =
                    ping_time.as_ref().and_then(|asked| asked.0.checked_add(1.microsecond()).ok()).map(MicroTime);
                // A previous process of this name may have had another version.
                candidate.spec =
                    LeaseCandidateSpec { lease_name, ping_time, renew_time: now.max(after), ..self.spec() };
                candidate.metadata.managed_fields = None;
                // Set before the write: the informer may deliver the update before the write returns. A failed write
                // is retried.
                *answered.lock().unwrap_or_else(PoisonError::into_inner) = question(&candidate);
                api.update(&candidate).await?;
                debug!(candidate = %self.name, "renewed the lease candidate");
            }
            Err(error) if error.is_not_found() => {
                let (name, namespace) = (Some(self.name.clone()), Some(self.namespace.clone()));
                let metadata = ObjectMeta { name, namespace, ..ObjectMeta::default() };
                let spec = LeaseCandidateSpec { renew_time: now, ..self.spec() };
                api.create(&Candidate { metadata, spec }).await?;
                debug!(candidate = %self.name, "created the lease candidate");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn spec(&self) -> LeaseCandidateSpec {
        LeaseCandidateSpec {
            lease_name: self.lease_name.clone(),
            binary_version: self.binary_version.clone(),
            emulation_version: self.emulation_version.clone(),
            strategy: self.strategy.clone(),
            ping_time: None,
            renew_time: None,
        }
    }
}

/// Returns the ping time, which identifies a ping.
fn question(candidate: &Candidate) -> Option<Timestamp> {
    candidate.spec.ping_time.as_ref().map(|time| time.0)
}

/// Returns whether the server has sent a ping that was not acknowledged.
fn asks(candidate: &Candidate, answered: &Answered) -> bool {
    let question = question(candidate);
    question.is_some() && question != *answered.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for LeaseCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseCandidate")
            .field("name", &format_args!("{}/{}", self.namespace, self.name))
            .field("lease_name", &self.lease_name)
            .finish_non_exhaustive()
    }
}
