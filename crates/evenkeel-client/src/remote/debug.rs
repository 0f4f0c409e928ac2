//! [`AddDebugContainer`]: adds an ephemeral container to a pod and waits until it runs.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use evenkeel_core::Obj;
use k8s_openapi::api::core::v1::{ContainerState, EphemeralContainer, Pod};
use serde::{Deserialize, Serialize};

use super::{Exec, SessionError};
use crate::api::scope::Namespaced;
use crate::api::{Api, Patch};
use crate::error::Error;
use crate::retry::retry_on_conflict;
use crate::wait::wait_while_pending;
use crate::watch::Selection;

/// How long a container may take to start, unless the caller sets another time.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(300);
/// The characters of generated names: no vowels, and nothing that looks like one.
const NAME_CHARACTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Adds an ephemeral container to a pod. Does nothing until it is awaited.
#[must_use = "nothing is added until it is awaited"]
pub struct AddDebugContainer {
    pods: Api<Pod, Namespaced>,
    pod: String,
    container: EphemeralContainer,
    deadline: Duration,
}

/// An ephemeral container that has started. Dropping it does not stop the container.
#[derive(Debug)]
#[non_exhaustive]
pub struct DebugContainer {
    /// The name of the container.
    pub name: String,
    /// The pod in which it started.
    pub pod: Obj<Pod>,
    /// Its state: running, or terminated if the process has ended already.
    pub state: ContainerState,
    pods: Api<Pod, Namespaced>,
    stdin: bool,
    tty: bool,
}

/// Why a debug container did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DebugError {
    /// The server has no subresource `ephemeralcontainers`.
    #[error("the server does not support ephemeral containers, which Kubernetes has since 1.25")]
    Unsupported,
    /// A container of the pod has the name already.
    #[error("pod {pod:?} has a container {container:?} already; choose another name")]
    NameInUse {
        /// The name of the pod.
        pod: String,
        /// The name of the container.
        container: String,
    },
    /// The container did not start in time. It stays in the pod, and may start later.
    #[error("container {container:?} of pod {pod:?} does not run after {deadline:?}: {waiting}")]
    NotRunning {
        /// The name of the pod.
        pod: String,
        /// The name of the container.
        container: String,
        /// How long the client waited.
        deadline: Duration,
        /// What the container waits for.
        waiting: WaitingContainer,
    },
    /// The pod was deleted or ended before the container started.
    #[error("pod {pod:?} {reason} before container {container:?} started")]
    PodEnded {
        /// The name of the pod.
        pod: String,
        /// The name of the container.
        container: String,
        /// `was deleted`, `was replaced`, or `ended`.
        reason: &'static str,
    },
}

/// What a container waits for, as its node last reported it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitingContainer {
    /// Such as `ImagePullBackOff`; empty if the node has not reported anything.
    pub reason: String,
    /// The explanation of the node.
    pub message: String,
}

impl fmt::Display for WaitingContainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.reason, &*self.message) {
            ("", "") => f.write_str("its node has not reported a state"),
            (reason, "") => f.write_str(reason),
            ("", message) => f.write_str(message),
            (reason, message) => write!(f, "{reason}: {message}"),
        }
    }
}

impl DebugContainer {
    /// Attaches to the container, with standard input and a terminal if the container has them.
    pub fn attach(&self) -> Exec {
        let mut attach = self.pods.attach(self.pod.key().name()).container(&*self.name);
        if self.stdin {
            attach = attach.stdin();
        }
        if self.tty { attach.tty() } else { attach }
    }

    /// Returns whether the container was running when it was last seen.
    pub fn is_running(&self) -> bool {
        self.state.running.is_some()
    }
}

impl AddDebugContainer {
    pub(crate) fn new(pods: Api<Pod, Namespaced>, pod: String, container: EphemeralContainer) -> Self {
        AddDebugContainer { pods, pod, container, deadline: DEFAULT_DEADLINE }
    }

    /// Limits the time that the container may take to start. Default: 5 minutes.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    async fn run(mut self) -> Result<DebugContainer, Error> {
        let generated = self.container.name.is_empty();
        if generated {
            self.container.name = generate_name();
        }
        let added = retry_on_conflict(|| self.add()).await?;
        let name = self.container.name.clone();
        let request = self.pods.attach(&self.pod).request_name().clone();
        let error = |error: DebugError| Error::Session { request: request.clone(), source: SessionError::Debug(error) };

        let uid = added.uid().to_owned();
        let mut waiting = WaitingContainer::default();
        let mut progress = Progress::Waiting;
        let started = wait_while_pending(Selection::named(&self.pods, &self.pod)?, |pod| {
            progress = observe(pod, &uid, &name, &mut waiting);
            !matches!(progress, Progress::Waiting)
        });
        let started = tokio::time::timeout(self.deadline, started).await;
        let (pod, container) = (self.pod, name);
        let Ok(started) = started else {
            return Err(error(DebugError::NotRunning { pod, container, deadline: self.deadline, waiting }));
        };
        match (started?, progress) {
            ((Some(object), _), Progress::Started(state)) => Ok(DebugContainer {
                name: container,
                pod: object,
                state: *state,
                pods: self.pods,
                stdin: self.container.stdin == Some(true),
                tty: self.container.tty == Some(true),
            }),
            (_, Progress::Ended(reason)) => Err(error(DebugError::PodEnded { pod, container, reason })),
            _ => Err(error(DebugError::PodEnded { pod, container, reason: "was deleted" })),
        }
    }

    /// Adds the container, unless its name is in use.
    async fn add(&self) -> Result<Obj<Pod>, Error> {
        let pod = self.pods.get(&self.pod).await?;
        let PodContainers { spec } = pod.decode_as()?;
        let (name, spec) = (&self.container.name, spec.unwrap_or_default());
        let lists = [spec.containers, spec.init_containers, spec.ephemeral_containers];
        if lists.iter().flatten().flatten().any(|other| other.name == *name) {
            let source = DebugError::NameInUse { pod: self.pod.clone(), container: name.clone() };
            let request = self.pods.attach(&self.pod).request_name().clone();
            return Err(Error::Session { request, source: SessionError::Debug(source) });
        }
        // The patch merges by name: it adds to what others added meanwhile.
        let spec = EphemeralContainers { ephemeral_containers: [&self.container] };
        let patch = Patch::strategic(&PodPatch { spec });
        match self.pods.ephemeral_containers().patch(&self.pod, &patch).await {
            // The status of a missing pod names it.
            Err(Error::Api { request, status })
                if status.is_not_found() && status.details.as_ref().is_none_or(|details| details.name.is_empty()) =>
            {
                Err(Error::Session { request, source: SessionError::Debug(DebugError::Unsupported) })
            }
            patched => patched,
        }
    }
}

/// What a state of a pod means for the container.
#[derive(Debug)]
enum Progress {
    Waiting,
    Started(Box<ContainerState>),
    Ended(&'static str),
}

/// Examines a state of the pod, and keeps what the container waits for.
fn observe(pod: Option<&Obj<Pod>>, uid: &str, name: &str, waiting: &mut WaitingContainer) -> Progress {
    let Some(pod) = pod else { return Progress::Ended("was deleted") };
    if pod.uid() != uid {
        return Progress::Ended("was replaced");
    }
    let Ok(PodProgress { status: Some(status) }) = pod.decode_as() else { return Progress::Waiting };
    let statuses = status.ephemeral_container_statuses.into_iter().flatten();
    let state = statuses.filter(|status| status.name == name).find_map(|status| status.state);
    if let Some(state) = state {
        if state.running.is_some() || state.terminated.is_some() {
            return Progress::Started(Box::new(state));
        }
        if let Some(reported) = state.waiting {
            waiting.reason = reported.reason.unwrap_or_default();
            waiting.message = reported.message.unwrap_or_default();
        }
    }
    match status.phase.as_deref() {
        Some("Succeeded" | "Failed") => Progress::Ended("ended"),
        _ => Progress::Waiting,
    }
}

// What is read and written of a pod. The decoders of a whole pod would be a third of the code of this crate.

/// The containers of a pod.
#[derive(Deserialize)]
struct PodContainers {
    spec: Option<ContainerLists>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerLists {
    containers: Option<Vec<NamedContainer>>,
    init_containers: Option<Vec<NamedContainer>>,
    ephemeral_containers: Option<Vec<NamedContainer>>,
}

#[derive(Deserialize)]
struct NamedContainer {
    #[serde(default)]
    name: String,
}

/// The progress of the ephemeral containers of a pod.
#[derive(Deserialize)]
struct PodProgress {
    status: Option<EphemeralStatuses>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EphemeralStatuses {
    phase: Option<String>,
    ephemeral_container_statuses: Option<Vec<EphemeralStatus>>,
}

#[derive(Deserialize)]
struct EphemeralStatus {
    #[serde(default)]
    name: String,
    state: Option<ContainerState>,
}

/// A patch that adds an ephemeral container.
#[derive(Serialize)]
struct PodPatch<'a> {
    spec: EphemeralContainers<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EphemeralContainers<'a> {
    ephemeral_containers: [&'a EphemeralContainer; 1],
}

fn generate_name() -> String {
    let suffix = (0..5).filter_map(|_| fastrand::choice(NAME_CHARACTERS)).map(|character| char::from(*character));
    format!("debugger-{}", suffix.collect::<String>())
}

impl IntoFuture for AddDebugContainer {
    type Output = Result<DebugContainer, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<DebugContainer, Error>> + Send>>;

    /// Adds the container and waits until it runs or has ended. Dropping the future does not remove the container.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Debug for AddDebugContainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its environment may contain secrets.
        let mut out = f.debug_struct("AddDebugContainer");
        out.field("pod", &self.pod).field("container", &self.container.name).finish_non_exhaustive()
    }
}
