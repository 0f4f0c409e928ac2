//! [`WebhookServer`]: serves hooks over TLS.

mod activity;
mod body;
mod budget;
mod builder;
mod dispatch;
mod error;
mod listener;
mod metrics;
mod readiness;
mod route;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use evenkeel_base::http::ServerHandle;
use evenkeel_client::tls::CryptoProvider;
use evenkeel_runtime::health::Check;
use evenkeel_runtime::internals::listen;
use evenkeel_runtime::tls::{CertificateWatcher, CurrentPair, ServerTls, ServingPair};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use tokio::task::JoinHandle;

pub use builder::WebhookServerBuilder;
pub use error::{RegisterError, ServeError};
pub(crate) use readiness::now;
pub use route::Fault;
pub(crate) use route::{ReviewSettings, Route};

use self::budget::BodyBudget;
use self::metrics::RouteMetrics;
use crate::admission::{Hook, HookHandler};
use crate::configuration::{self, ConfigurationError, Configurations, WebhookTarget};
use crate::conversion::{Conversion, Conversions};
use crate::path;
use crate::path::CONVERT_PATH;
use listener::WebhookListener;

/// Requests end by their own limits. A manager has a grace for all its parts, and names those that exceed it.
const DRAIN: Duration = Duration::from_secs(24 * 60 * 60);

/// Serves hooks over TLS. Cheap to clone; clones are the same server.
///
/// [`run`](Self::run) is made for [`Manager::server`](evenkeel_runtime::Manager::server): a manager starts its servers before its
/// caches, because a list may need a webhook of the same program.
///
/// # Metrics
///
/// With the label `webhook`, the path: `controller_runtime_webhook_latency_seconds`,
/// `controller_runtime_webhook_requests_total` (by HTTP `code`), `controller_runtime_webhook_requests_in_flight`, and
/// `controller_runtime_webhook_reviews_total` (by `operation`, `allowed` and `code` of the answer). Without it:
/// `controller_runtime_webhook_panics_total`, `controller_runtime_webhook_body_bytes_in_flight`, and
/// `controller_runtime_webhook_bodies_refused_total`.
#[derive(Clone)]
pub struct WebhookServer {
    shared: Arc<Shared>,
    settings: Arc<ServeSettings>,
}

/// A server that listens. Dropping it closes all connections; [`shutdown`](Self::shutdown) lets requests finish.
#[derive(Debug)]
#[must_use = "the server ends when this is dropped"]
pub struct RunningWebhookServer {
    server: Option<ServerHandle>,
    reloading: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

/// Where and how a server listens.
struct ServeSettings {
    address: String,
    certificates: Certificates,
    provider: Option<Arc<CryptoProvider>>,
}

/// Where the certificate of a server comes from.
enum Certificates {
    Files { certificate: PathBuf, key: PathBuf, client_ca: Option<PathBuf> },
    Slot { slot: CurrentPair, has_client_ca: bool },
}

/// The hooks of a server, and its state.
struct Shared {
    routes: RwLock<HashMap<String, Arc<Route>>>,
    conversions: Conversions,
    /// Made when the first conversion is requested.
    conversion_metrics: OnceLock<RouteMetrics>,
    conversion_limit: usize,
    /// The memory of all request bodies.
    bodies: BodyBudget,
    review: ReviewSettings,
    /// The name that API servers dial.
    service_name: Option<String>,
    listening: RwLock<Listening>,
}

/// Whether a server listens.
#[derive(Clone, Debug)]
enum Listening {
    No,
    Off,
    Yes(ServerTls),
}

impl WebhookServer {
    /// Returns a builder for a server.
    pub fn builder() -> WebhookServerBuilder {
        WebhookServerBuilder::new()
    }

    /// Adds a hook. It is served from the next request on.
    ///
    /// # Errors
    /// If another hook has the path, or if no configuration could name it.
    pub fn register<H: HookHandler>(&self, hook: Hook<H>) -> Result<(), RegisterError> {
        self.shared.register(hook)
    }

    /// Adds the conversions of a kind. They are served from the next request on.
    ///
    /// # Errors
    /// If a version has no converter or two, or if the kind has conversions already.
    pub fn register_conversion<H: 'static>(&self, conversion: Conversion<H>) -> Result<(), RegisterError> {
        Ok(self.shared.conversions.register(conversion)?)
    }

    /// Returns the paths that are served, sorted.
    pub fn paths(&self) -> Vec<String> {
        let routes = self.shared.routes.read().unwrap_or_else(PoisonError::into_inner);
        let convert = (!self.shared.conversions.is_empty()).then(|| CONVERT_PATH.to_owned());
        let mut paths: Vec<_> = routes.keys().cloned().chain(convert).collect();
        paths.sort();
        paths
    }

    /// Returns the configurations that make API servers call the hooks that are registered now.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use evenkeel_webhook::{Hook, WebhookServer, WebhookTarget};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let pods = Hook::validating::<Pod>().on_delete(|_, _| async { Ok(()) });
    /// let server = WebhookServer::builder().hook(pods).build()?;
    /// let configurations = server.configurations(&WebhookTarget::service("shop", "shop-system", "hooks"))?;
    /// let webhook = &configurations.validating.webhooks.as_ref().unwrap()[0];
    /// assert_eq!(webhook.name, "validate--v1-pod.hooks.shop-system.svc");
    /// assert_eq!(webhook.rules.as_ref().unwrap()[0].operations, Some(vec!["DELETE".to_owned()]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If API servers would reject them: see [`ConfigurationError`].
    pub fn configurations(&self, target: &WebhookTarget) -> Result<Configurations, ConfigurationError> {
        let routes = self.shared.routes.read().unwrap_or_else(PoisonError::into_inner);
        let mut hooks: Vec<_> = routes.values().map(|route| route.hook()).collect();
        hooks.sort_by_key(|hook| &hook.settings.path);
        // A hook without functions is never called.
        hooks.retain(|hook| !hook.handler.operations().is_empty());
        configuration::make(hooks.into_iter(), target)
    }

    /// Sets `spec.conversion` of a definition whose kind has conversions; others are left alone.
    ///
    /// # Errors
    /// If the target is none that API servers accept.
    pub fn add_conversion(
        &self,
        definition: &mut CustomResourceDefinition,
        target: &WebhookTarget,
    ) -> Result<(), ConfigurationError> {
        let kind = (definition.spec.group.clone(), definition.spec.names.kind.clone());
        if self.shared.conversions.contains(&kind) {
            definition.spec.conversion = Some(target.conversion(CONVERT_PATH)?);
        }
        Ok(())
    }

    /// Returns a readiness check with the name `webhook`. It makes no connection.
    ///
    /// It fails while the server does not listen, without a certificate, once that has expired, and if it is not for the
    /// [service](WebhookServerBuilder::service). A server that is off passes.
    pub fn readiness(&self) -> Check {
        let shared = Arc::clone(&self.shared);
        Check::new("webhook", move || {
            let listening = shared.listening.read().unwrap_or_else(PoisonError::into_inner).clone();
            Ok(readiness::check(&listening, shared.service_name.as_deref(), readiness::now())?)
        })
    }

    /// Returns the pair of new handshakes; `None` if the server is off. The error says why there is none.
    pub(crate) fn serving_pair(&self) -> Result<Option<Arc<ServingPair>>, String> {
        readiness::serving_pair(&self.shared.listening())
    }

    /// Returns the conversions of the server.
    pub(crate) fn conversions(&self) -> &Conversions {
        &self.shared.conversions
    }

    /// Returns the names of the definitions whose kinds have conversions.
    #[cfg(feature = "certificates")]
    pub(crate) fn converted_definitions(&self) -> Vec<String> {
        self.shared.conversions.definitions()
    }

    /// Returns whether the server listens.
    #[cfg(feature = "certificates")]
    pub(crate) fn is_listening(&self) -> bool {
        matches!(self.shared.listening(), Listening::Yes(_))
    }

    /// Starts to listen, in tasks of the current runtime.
    ///
    /// # Errors
    /// If the server listens already, if the address is invalid or in use, or if there is no usable certificate.
    pub async fn start(&self) -> Result<RunningWebhookServer, ServeError> {
        let off = || RunningWebhookServer { server: None, reloading: None, shared: Arc::clone(&self.shared) };
        if matches!(self.shared.listening(), Listening::Yes(_)) {
            return Err(ServeError::Running);
        }
        if matches!(&*self.settings.address, "" | "0") {
            self.shared.set_listening(Listening::Off);
            return Ok(off());
        }
        let mut running = off();
        let (tls, watcher) = self.settings.tls()?;
        let (listener, address) = listen(&self.settings.address).await?;
        running.reloading = watcher.map(|watcher| tokio::spawn(watcher.run()));
        let listener = WebhookListener::new(listener, tls.clone(), Arc::clone(&self.shared));
        running.server = Some(ServerHandle::start(address, DRAIN, listener));
        self.shared.set_listening(Listening::Yes(tls));
        tracing::info!(%address, "serving webhooks");
        Ok(running)
    }

    /// Serves until `shutdown` resolves, then lets requests finish. Dropping the future closes all connections.
    ///
    /// # Errors
    /// If the server cannot [start](Self::start).
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), ServeError> {
        let running = self.start().await?;
        shutdown.await;
        running.shutdown().await;
        Ok(())
    }
}

impl RunningWebhookServer {
    /// Returns the address it listens on; `None` if it is off.
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.as_ref().map(ServerHandle::address)
    }

    /// Stops accepting, closes idle connections, and returns when all requests are answered. Each has at most 40 seconds, by
    /// the limits of its body and of its hook.
    pub async fn shutdown(mut self) {
        self.shared.set_listening(Listening::No);
        if let Some(server) = self.server.take() {
            server.shutdown().await;
        }
    }
}

impl Drop for RunningWebhookServer {
    fn drop(&mut self) {
        self.shared.set_listening(Listening::No);
        if let Some(task) = &self.reloading {
            task.abort();
        }
    }
}

impl ServeSettings {
    fn tls(&self) -> Result<(ServerTls, Option<CertificateWatcher>), ServeError> {
        match &self.certificates {
            Certificates::Slot { has_client_ca: true, .. } => Err(ServeError::ClientCaWithSlot),
            Certificates::Slot { slot, .. } => Ok((ServerTls::new(slot, self.provider.clone())?, None)),
            Certificates::Files { certificate, key, client_ca } => {
                let mut builder = CertificateWatcher::builder(certificate, key);
                if let Some(file) = client_ca {
                    builder = builder.client_ca(file);
                }
                if let Some(provider) = &self.provider {
                    builder = builder.crypto_provider(Arc::clone(provider));
                }
                let watcher = builder.load()?;
                Ok((watcher.server_tls().clone(), Some(watcher)))
            }
        }
    }
}

impl Shared {
    fn register<H: HookHandler>(&self, hook: Hook<H>) -> Result<(), RegisterError> {
        let route = Route::new(hook.erase());
        let path = route.hook().settings.path.clone();
        if let Err(source) = path::check(&path) {
            return Err(RegisterError::Path { path, hook: route.hook().describe(), source });
        }
        let mut routes = self.routes.write().unwrap_or_else(PoisonError::into_inner);
        let first = match routes.get(&path) {
            Some(first) => Some(first.hook().describe()),
            None => (path == CONVERT_PATH).then(|| "conversions of all kinds".to_owned()),
        };
        if let Some(first) = first {
            let second = route.hook().describe();
            return Err(RegisterError::Duplicate { path, first, second });
        }
        routes.insert(path, Arc::new(route));
        Ok(())
    }

    fn route(&self, path: &str) -> Option<Arc<Route>> {
        self.routes.read().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    fn listening(&self) -> Listening {
        self.listening.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_listening(&self, listening: Listening) {
        *self.listening.write().unwrap_or_else(PoisonError::into_inner) = listening;
    }
}

impl fmt::Debug for WebhookServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookServer")
            .field("address", &self.settings.address)
            .field("paths", &self.paths())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("listening", &self.listening()).finish_non_exhaustive()
    }
}
