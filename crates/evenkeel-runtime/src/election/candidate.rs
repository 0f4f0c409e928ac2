//! [`LeaseCandidate`]: standing for a coordinated election.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_cache::source::ApiSource;
use evenkeel_cache::{Event, SharedInformer};
use evenkeel_client::{Api, Client, Error};
use evenkeel_queue::WorkQueue;
use jiff::{Timestamp, ToSpan};
use k8s_openapi::api::coordination::v1beta1::{LeaseCandidate as Candidate, LeaseCandidateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use tracing::debug;

use super::driver::wall_clock;
use super::identity::default_identity;
use super::record::whole_microseconds;

/// How often a candidate says that it is still there.
const PERIOD: Duration = Duration::from_secs(300);

/// The name of the queue, as dashboards know it.
const QUEUE: &str = "leasecandidate";

/// Stands for a coordinated election: keeps a LeaseCandidate that tells the API server who would lead and what version it is, and
/// answers when the server asks whether it is still there.
///
/// The server chooses among the candidates and writes the name of the chosen one into the lease; a
/// [coordinated](super::LeaderElector::coordinated) elector of the same name does the rest.
///
/// ```no_run
/// use evenkeel_client::Client;
/// use evenkeel_runtime::election::{LeaderElector, LeaseCandidate};
///
/// # async fn example(client: Client, pod_name: String) -> Result<(), Box<dyn std::error::Error>> {
/// let candidate = LeaseCandidate::new(&client, "my-controller").identity(&pod_name).binary_version("1.4.0");
/// let elector = LeaderElector::new(&client, "my-controller").identity(&pod_name).coordinated();
/// tokio::select! {
///     stood = candidate.run() => stood?,
///     ended = elector.run(|lease| async move { lease.lost().await }) => drop(ended?),
/// }
/// # Ok(())
/// # }
/// ```
///
/// Which question was answered is remembered by the question, and not by comparing the server's clock with ours. An answer is
/// dated later than its question, because the server does compare the two.
pub struct LeaseCandidate {
    client: Client,
    namespace: String,
    name: String,
    lease_name: String,
    binary_version: String,
    emulation_version: Option<String>,
    strategy: String,
}

/// Why a candidate cannot stand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CandidateError {
    /// The server would refuse it.
    #[error("a lease candidate needs {what}")]
    Missing {
        /// What was not given.
        what: &'static str,
    },
    /// The informer ended, which it does when the runtime is shutting down.
    #[error("the informer of the lease candidate {candidate} has ended")]
    InformerEnded {
        /// Which candidate.
        candidate: String,
    },
}

/// The question that was answered last.
type Answered = Arc<Mutex<Option<Timestamp>>>;

impl LeaseCandidate {
    /// A candidate for this lease, in the namespace that the client's configuration names.
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

    /// What the candidate is called, which the elector has to be called as well.
    #[must_use]
    pub fn identity(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The namespace of the lease.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// The version of the program, as `1.2.3`. Has to be given.
    #[must_use]
    pub fn binary_version(mut self, version: impl Into<String>) -> Self {
        self.binary_version = version.into();
        self
    }

    /// The version that the program behaves like, if it is another.
    #[must_use]
    pub fn emulation_version(mut self, version: impl Into<String>) -> Self {
        self.emulation_version = Some(version.into());
        self
    }

    /// How the server is to choose. `OldestEmulationVersion` unless told otherwise.
    #[must_use]
    pub fn strategy(mut self, strategy: impl Into<String>) -> Self {
        self.strategy = strategy.into();
        self
    }

    /// Stands until it is dropped. Failures are tried again, with a back-off.
    pub async fn run(&self) -> Result<(), CandidateError> {
        let missing = [("a name", &self.name), ("a lease", &self.lease_name), ("a version", &self.binary_version)];
        if let Some((what, _)) = missing.into_iter().find(|(_, value)| value.is_empty()) {
            return Err(CandidateError::Missing { what });
        }
        let api = self.client.api::<Candidate>().namespace(&self.namespace);
        let source = ApiSource::new(api.clone()).fields(format_args!("metadata.name={}", self.name));
        let info = Arc::clone(source.resource());
        let informer = SharedInformer::<Candidate>::builder(source, &info).resync(PERIOD).build();
        let _stop = StopOnDrop(informer.clone());
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
        informer.start();
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

    /// Makes the candidate, or says that it is still there.
    async fn ensure(&self, api: &Api<Candidate>, answered: &Answered) -> Result<(), Error> {
        let now = Some(MicroTime(whole_microseconds(wall_clock())));
        match api.get(&self.name).await {
            Ok(found) => {
                let mut candidate = Candidate::clone(&*found.typed()?);
                let LeaseCandidateSpec { lease_name, ping_time, .. } = candidate.spec;
                // A server takes for an answer what is later than its question, by its own clock. Ours may be behind.
                let after =
                    ping_time.as_ref().and_then(|asked| asked.0.checked_add(1.microsecond()).ok()).map(MicroTime);
                // Who was here before us under this name may have been of another version.
                candidate.spec =
                    LeaseCandidateSpec { lease_name, ping_time, renew_time: now.max(after), ..self.spec() };
                candidate.metadata.managed_fields = None;
                // Before the write, because the informer may tell of it before it returns. If it fails, it is tried again.
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

/// What the server asks: a time, which is all that tells one question from another.
fn question(candidate: &Candidate) -> Option<Timestamp> {
    candidate.spec.ping_time.as_ref().map(|time| time.0)
}

/// Whether the server asks something that was not answered.
fn asks(candidate: &Candidate, answered: &Answered) -> bool {
    let question = question(candidate);
    question.is_some() && question != *answered.lock().unwrap_or_else(PoisonError::into_inner)
}

struct StopOnDrop(SharedInformer<Candidate>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl fmt::Debug for LeaseCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseCandidate")
            .field("name", &format_args!("{}/{}", self.namespace, self.name))
            .field("lease_name", &self.lease_name)
            .finish_non_exhaustive()
    }
}
