//! Exec plugins: commands that print credentials, in the protocol `client.authentication.k8s.io`.
//!
//! The flow of a run, by file:
//!
//! 1. `registry` returns the plugin that clients with equal settings share; its
//!    [`Refresher`](super::refresh::Refresher) decides when to run it.
//! 2. `program` resolves the command, `policy` allows or denies it, `terminal` decides whether it is interactive.
//! 3. `child` starts it with the request of `protocol` in its environment; `run` bounds its time and its output.
//! 4. `protocol` parses what it printed. A token becomes the `Authorization` header, a certificate the client
//!    certificate of new connections.

mod child;
mod error;
mod hint;
mod info;
#[cfg(feature = "internals")]
pub(crate) mod internals;
mod metrics;
mod plugin;
mod policy;
mod program;
mod protocol;
mod registry;
mod run;
mod terminal;

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::config::kubeconfig::Opaque;
use crate::secret::Secret;

pub use error::ExecProblem;
pub use policy::ExecPolicy;
pub use protocol::ExecApiVersion;
pub(crate) use registry::ExecCredentials;
pub use terminal::InteractiveMode;

/// The default of [`ExecPlugin::timeout`].
const TIMEOUT: Duration = Duration::from_secs(60);

/// An exec plugin: a command that prints a token or a client certificate. A kubeconfig's `exec` becomes one.
///
/// No shell is involved: the arguments are passed as a list. The working directory is that of this process.
///
/// # Guarantees
/// - The command runs when a request needs a credential, never when a client is built. Clients with equal plugins,
///   policies and, if the plugin receives it, cluster information share one credential; at most one run is in flight.
/// - A credential is reused until it expires, or until the server rejects it with a 401. It is refreshed ahead of its
///   expiry without delaying requests.
/// - After a failed run, the next one starts after a pause, which doubles from one second to one minute. Requests
///   without a valid credential fail at once with the error of the last run.
/// - A run that exceeds [`timeout`](Self::timeout), or prints more than 1 MiB, is killed with its process group.
/// - A run is a task of its own: dropping a request does not cancel it. Shutting down its runtime kills it.
/// - Arguments, environment and stdout are shown nowhere, and the stderr of an error has none of their values (of six
///   characters or more).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecPlugin {
    /// The version of the protocol. The plugin must respond in the same.
    pub api_version: ExecApiVersion,
    /// The command: a name to look up in `PATH`, or a path. A relative path in a kubeconfig file is relative to the
    /// file.
    pub command: String,
    /// Its arguments.
    pub args: Vec<Secret>,
    /// Variables added to the environment of this process. Of equal names the last one counts.
    pub env: Vec<(String, Secret)>,
    /// The hint to show when the command is not installed.
    pub install_hint: Option<String>,
    /// Whether the plugin may use the terminal.
    pub interactive_mode: InteractiveMode,
    /// Reserves stdin for the program itself, and states why: the plugin is not interactive, and one that must be is an
    /// error.
    pub stdin_unavailable: Option<String>,
    /// Whether the plugin receives the cluster's address and CA.
    pub provide_cluster_info: bool,
    /// The settings of the plugin for this cluster: the extension `client.authentication.k8s.io/exec` of the cluster.
    /// Sent with the cluster's address.
    pub cluster_config: Option<Opaque>,
    /// The longest run; one minute by default. Interactive runs are not limited.
    pub timeout: Duration,
}

impl ExecPlugin {
    /// Returns a plugin without arguments: protocol `v1`, never interactive.
    pub fn new(command: impl Into<String>) -> Self {
        ExecPlugin {
            api_version: ExecApiVersion::V1,
            command: command.into(),
            args: Vec::new(),
            env: Vec::new(),
            install_hint: None,
            interactive_mode: InteractiveMode::Never,
            stdin_unavailable: None,
            provide_cluster_info: false,
            cluster_config: None,
            timeout: TIMEOUT,
        }
    }

    /// Returns the problems that make the plugin unusable.
    pub(crate) fn problems(&self) -> Vec<&'static str> {
        let mut problems = Vec::new();
        if self.command.is_empty() {
            problems.push("the exec plugin has no command");
        }
        if self.env.iter().any(|(name, _)| name.is_empty() || name.contains(['=', '\0'])) {
            problems.push("a variable of the exec plugin has a name that no variable can have");
        }
        if self.timeout.is_zero() {
            problems.push("the timeout of the exec plugin is zero");
        }
        problems
    }
}
