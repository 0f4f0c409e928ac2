//! [`PluginSource`]: a plugin as a source of credentials.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderValue;
use serde_json::Value;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::error::ExecProblem;
use super::hint::HintLimiter;
use super::{ExecPlugin, ExecPolicy, metrics, program, protocol, run, terminal};
use crate::auth::credentials::bearer;
use crate::auth::error::CredentialProblem;
use crate::auth::redact::Redactor;
use crate::auth::refresh::{CredentialSource, Fetched, Fetching};
use crate::auth::wall_clock::{self, lifetime};
use crate::config::ConfigError;
use crate::secret::Secret;
use crate::tls::{ClientIdentity, CryptoProvider, IdentitySlot};

/// How often requests update the metric of the certificate's remaining time, in seconds.
const TTL_EVERY: i64 = 10;

/// Runs one plugin. A certificate that it prints is put into the slot, from which connections take it.
pub(super) struct PluginSource {
    plugin: ExecPlugin,
    policy: ExecPolicy,
    cluster: Option<Value>,
    identity: Arc<IdentitySlot>,
    /// `None` if there is none: then the plugin can only return tokens.
    provider: Option<Arc<CryptoProvider>>,
    redactor: Redactor,
    hints: Mutex<HintLimiter>,
    /// When the metric was updated, in seconds; 0 while there is no certificate.
    shown: AtomicI64,
}

impl PluginSource {
    pub(super) fn new(
        plugin: &ExecPlugin,
        policy: &ExecPolicy,
        cluster: Option<Value>,
        identity: Arc<IdentitySlot>,
        provider: Option<Arc<CryptoProvider>>,
    ) -> Self {
        PluginSource {
            plugin: plugin.clone(),
            policy: policy.clone(),
            cluster,
            identity,
            provider,
            redactor: redactor(plugin),
            hints: Mutex::default(),
            shown: AtomicI64::new(0),
        }
    }

    async fn refresh(&self) -> Result<Fetched, CredentialProblem> {
        let failed = |problem| CredentialProblem::Exec { command: self.plugin.command.clone(), problem };
        let (stdout, stderr) = self.run().await.map_err(failed)?;
        let printed = protocol::response(self.plugin.api_version, &stdout).map_err(failed)?;
        if !stderr.is_empty() {
            // A plugin in its debug mode may print its credential there too.
            let key = printed.certificate.as_ref().map(|(_, key)| key);
            let stderr = Redactor::new(printed.token.iter().chain(key).cloned()).redact(&stderr, false);
            tracing::debug!(command = self.plugin.command, stderr, "the exec plugin printed to stderr");
        }
        let lifetime = lifetime(printed.expires).map_err(|at| failed(ExecProblem::Expired { at }))?;
        let authorization = match &printed.token {
            Some(token) => Some(authorization(token).map_err(failed)?),
            None => None,
        };
        let identity = match &printed.certificate {
            Some((certificate, key)) => {
                let unusable =
                    |error: String| failed(ExecProblem::output(format!("its certificate cannot be used: {error}")));
                let provider =
                    self.provider.as_ref().ok_or_else(|| unusable(ConfigError::NoCryptoProvider.to_string()))?;
                Some(ClientIdentity::parse(certificate, key, provider).map_err(|error| unusable(error.to_string()))?)
            }
            None => None,
        };
        self.show(identity);
        tracing::debug!(command = self.plugin.command, ?lifetime, "the exec plugin returned a credential");
        Ok(Fetched { authorization, lifetime })
    }

    /// Runs the plugin and returns what it printed, to stdout and to stderr.
    async fn run(&self) -> Result<(Zeroizing<Vec<u8>>, String), ExecProblem> {
        let ExecPlugin { interactive_mode, stdin_unavailable, api_version, .. } = &self.plugin;
        let is_interactive = interactive_mode.is_interactive(stdin_unavailable.as_deref(), terminal::is_terminal())?;
        let program = self.program().await;
        let outcome = match program {
            Ok(program) => {
                let info = protocol::request(*api_version, is_interactive, self.cluster.as_ref());
                run::run(&program, &self.plugin, &info, is_interactive, &self.redactor).await
            }
            Err(ExecProblem::Denied) => return Err(ExecProblem::Denied),
            Err(problem) => Err(problem),
        };
        metrics::called(&outcome);
        outcome
    }

    /// Returns the file to run, if the policy allows it.
    async fn program(&self) -> Result<PathBuf, ExecProblem> {
        if self.policy == ExecPolicy::DenyAll {
            metrics::judged(false);
            return Err(ExecProblem::Denied);
        }
        let (command, policy) = (PathBuf::from(&self.plugin.command), self.policy.clone());
        // The directories of `PATH` may be on a file system that hangs.
        let looked_up = tokio::task::spawn_blocking(move || {
            let path = std::env::var_os("PATH");
            let resolve = |name: &Path| program::resolve(name, path.as_deref());
            let program = resolve(&command)?;
            let is_allowed = policy.allows(&program, |name| resolve(name).ok());
            Ok::<_, program::Unresolved>((program, is_allowed))
        });
        let limit = self.plugin.timeout;
        let looked_up = match tokio::time::timeout(limit, looked_up).await {
            Ok(looked_up) => looked_up.map_err(|error| ExecProblem::Start(std::io::Error::other(error)))?,
            Err(_) => return Err(ExecProblem::Timeout { limit, stderr: String::new() }),
        };
        let (program, is_allowed) = looked_up.map_err(|unresolved| {
            if self.policy != ExecPolicy::AllowAll {
                metrics::judged(false);
            }
            unresolved.into_problem(self.hint())
        })?;
        metrics::judged(is_allowed);
        if is_allowed { Ok(program) } else { Err(ExecProblem::Denied) }
    }

    fn hint(&self) -> Option<String> {
        let hint = self.plugin.install_hint.as_ref()?;
        let mut hints = self.hints.lock().unwrap_or_else(PoisonError::into_inner);
        hints.allow(Instant::now()).then(|| hint.clone())
    }

    /// Makes a certificate the one of new connections.
    fn show(&self, identity: Option<ClientIdentity>) {
        let expires = identity.as_ref().map(ClientIdentity::not_after);
        if let Some(replaced) = self.identity.set(identity) {
            tracing::info!(command = self.plugin.command, "client certificate renewed; new connections use it");
            metrics::rotated(replaced.not_before());
        }
        if expires.is_some() || self.shown.load(Ordering::Relaxed) != 0 {
            metrics::expires(self.identity.id(), expires);
            self.shown.store(expires.map_or(0, |_| wall_clock::now().as_second()), Ordering::Relaxed);
        }
    }
}

impl CredentialSource for PluginSource {
    fn fetch(&self) -> Fetching<'_> {
        Box::pin(self.refresh())
    }

    fn used(&self) {
        let shown = self.shown.load(Ordering::Relaxed);
        if shown == 0 {
            return;
        }
        let now = wall_clock::now().as_second();
        let is_due = now - shown >= TTL_EVERY;
        if is_due && self.shown.compare_exchange(shown, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            metrics::show_ttl();
        }
    }
}

impl Drop for PluginSource {
    fn drop(&mut self) {
        if self.shown.load(Ordering::Relaxed) != 0 {
            metrics::expires(self.identity.id(), None);
        }
    }
}

fn authorization(token: &Secret) -> Result<HeaderValue, ExecProblem> {
    bearer(token).map_err(|_| ExecProblem::output("its token holds a line break or another control character"))
}

/// Returns a redactor of the values of the plugin's arguments and variables.
pub(super) fn redactor(plugin: &ExecPlugin) -> Redactor {
    let values = plugin.env.iter().map(|(_, value)| value.clone());
    let args = plugin.args.iter().filter_map(|arg| match arg.expose().split_once('=') {
        Some((_, value)) => Some(Secret::new(value)),
        // The name of an option.
        None if arg.expose().starts_with('-') => None,
        None => Some(arg.clone()),
    });
    Redactor::new(values.chain(args))
}
