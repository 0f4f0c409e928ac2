//! [`ApiServer`]: the handle of a running server.
//!
//! [`Builder`] has its settings, `start` starts it.

mod builder;
mod start;
mod system_env;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::spawn_blocking;

pub use self::builder::Builder;
pub use self::start::StartError;
use self::start::Ticker;
use self::system_env::SystemEnv;
use crate::engine::{ServiceRoutes, Snapshot};
use crate::faults::Faults;
use crate::install::{self, CrdSource, InstallError};
use crate::kubeconfig::{Credential, Kubeconfig, write_private};
use crate::listener::RequestRecord;
use crate::listener::auth::{admin, authenticated};
use crate::listener::http::{ConnectionCounts, ListenerHandle};
use crate::listener::service::{Caller, InProcess, ServerShared};
use crate::listener::tls::{Identity, TlsError, provider};
use crate::logs::PodLogs;
use crate::memory::MemoryStats;
use crate::store::StoreStats;

/// A Kubernetes API server inside this process.
///
/// It starts in milliseconds, needs no other binary, keeps everything in memory unless it has a [`Builder::data_dir`], and
/// behaves like kube-apiserver.
/// [`ApiServer::start`] listens with plain HTTP on a free port of the loopback interface and treats every client as the
/// administrator. [`ApiServer::builder`] offers TLS, tokens, another address, or no socket at all. The server accepts
/// requests when the handle is returned.
///
/// Several servers in one process share nothing. A server runs on the tokio runtime that started it. Dropping the handle
/// stops it: no task or socket survives. [`ApiServer::shutdown`] stops it gracefully and returns when it has stopped.
///
/// This is a tool for tests and development. It generates real certificates and tokens, and it has limits for memory, time
/// and connections, but it is not hardened against hostile tenants.
pub struct ApiServer {
    pub(crate) shared: Arc<ServerShared>,
    listening: Option<ListenerHandle>,
    url: String,
    identity: Option<Arc<Identity>>,
    token: Option<Secret>,
    fault_endpoint_token: Option<Secret>,
    ticker: Ticker,
    service_routes: ServiceRoutes,
}

impl ApiServer {
    /// Starts a server on a free port of the loopback interface, with plain HTTP and no authentication.
    ///
    /// # Errors
    /// Returns an error if no port can be bound.
    pub async fn start() -> Result<Self, StartError> {
        Self::builder().start().await
    }

    /// Returns a builder for a server with other settings than those of [`ApiServer::start`].
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Returns the URL of the server, e.g. `http://127.0.0.1:40123`. A server without a socket has a URL for requests
    /// through [`ApiServer::service`].
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the certificate authority of the server, if it uses TLS.
    pub fn ca_pem(&self) -> Option<&str> {
        self.identity.as_ref().map(|identity| identity.ca_pem.as_str())
    }

    /// Issues the client certificate of a signing request in PEM, signed by the server's certificate authority and valid
    /// for this time. The common name of the request is the user, its organization the group.
    ///
    /// The server stores CertificateSigningRequests and does not sign them: a test approves one, and writes the
    /// certificate into its status, as kube-controller-manager does.
    ///
    /// # Errors
    /// The request cannot be read, or the server has no certificate authority because it does not use TLS.
    pub fn sign_certificate(&self, request_pem: &str, lifetime: Duration) -> Result<String, TlsError> {
        let identity = self.identity.as_ref().ok_or(TlsError::NotUsed)?;
        identity.sign(request_pem, SystemEnv::time_of_day(), lifetime)
    }

    /// Sets where the server reaches a port of a Service when it calls a webhook whose `clientConfig` names that Service. It
    /// precedes the endpoints of the Service. The certificate must be valid for `{name}.{namespace}.svc`.
    pub fn route_service(&self, namespace: &str, name: &str, port: u16, address: SocketAddr) {
        self.service_routes.set(namespace, name, port, address);
    }

    /// Returns a kubeconfig with the credentials of the administrator.
    pub fn kubeconfig(&self) -> String {
        let credential = match (&self.identity, &self.token) {
            (Some(identity), _) => {
                Credential::Certificate { pem: &identity.admin_certificate_pem, key_pem: &identity.admin_key_pem }
            }
            (None, Some(token)) => Credential::Token(&token.0),
            (None, None) => Credential::None,
        };
        Kubeconfig { server: &self.url, ca_pem: self.ca_pem(), credential }.render()
    }

    /// Writes the kubeconfig atomically to a file that only its owner can read.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written. An existing file is unchanged then.
    pub fn write_kubeconfig(&self, path: impl AsRef<Path>) -> io::Result<()> {
        write_private(path.as_ref(), &self.kubeconfig())
    }

    /// Returns a token of the administrator if the server requires credentials: one from the builder, or one generated at
    /// start.
    pub fn token(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.0.as_str())
    }

    /// Returns the server as an in-process service without a socket. It acts as the administrator.
    pub fn service(&self) -> InProcess {
        InProcess::new(Arc::clone(&self.shared), Caller::InProcess(Arc::new(authenticated(admin()))))
    }

    /// Returns an in-process client without a socket. It acts as the administrator. For a client over the network, use
    /// [`ApiServer::kubeconfig`].
    #[cfg(feature = "client")]
    pub fn client(&self) -> evenkeel_client::Client {
        evenkeel_client::Client::from_service(self.service())
    }

    /// Returns the logs of pods, which `pods/X/log` serves.
    pub fn logs(&self) -> PodLogs {
        self.shared.handler.logs()
    }

    /// Installs CustomResourceDefinitions in the order given and replaces existing ones. They are served when this
    /// returns. Returns their names.
    ///
    /// A definition is typed (`server.install_crds([Foo::crd(), Bar::crd()])`), a JSON value, or a text of YAML or JSON.
    ///
    /// # Errors
    /// Returns an error at the first definition that the server refuses. Those before it stay installed.
    pub async fn install_crds<I>(&self, definitions: I) -> Result<Vec<String>, InstallError>
    where
        I: IntoIterator,
        I::Item: Into<CrdSource>,
    {
        install::install(&self.service(), definitions.into_iter().map(Into::into)).await
    }

    /// Returns the sizes of the store.
    pub fn stats(&self) -> StoreStats {
        self.shared.handler.stats()
    }

    /// Returns the memory of the server and its budget.
    pub fn memory(&self) -> MemoryStats {
        self.shared.memory.stats()
    }

    /// Returns the fault injector of the server.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Returns the token of the fault endpoint `/evenkeel/faults`, if it is enabled.
    pub fn fault_endpoint_token(&self) -> Option<&str> {
        self.fault_endpoint_token.as_ref().map(|token| token.0.as_str())
    }

    /// Returns the last few thousand requests, oldest first. A request is recorded when its response starts.
    pub fn requests(&self) -> Vec<RequestRecord> {
        self.shared.request_log.snapshot()
    }

    /// Returns what a user has used of the API since the start of a server with [`Builder::record_access`]: verbs, resources,
    /// namespaces and names, of refused requests as well. Without it the log is empty. At most 1,024 users are recorded.
    ///
    /// The log gives the minimal roles, and checks existing ones ([`evenkeel_client::access`]):
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use evenkeel_apiserver::{ApiServer, User};
    ///
    /// let server = ApiServer::builder().record_access(true).start().await?;
    /// let user = User { name: "shop".to_owned(), ..User::default() };
    /// let service = server.service().acting_as(user);
    /// // … run the program under test with this service, or with a token of that user …
    /// for role in server.access_log("shop").rules().roles("shop-operator")? {
    ///     println!("{role:#}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "client")]
    pub fn access_log(&self, user: &str) -> evenkeel_client::access::AccessLog {
        self.shared.access_logs.as_ref().map(|logs| logs.of(user)).unwrap_or_default()
    }

    /// Returns the counters of connections.
    pub fn connections(&self) -> ConnectionCounts {
        self.listening.as_ref().map_or_else(ConnectionCounts::default, |listening| listening.counters.snapshot())
    }

    /// Returns a snapshot for [`Builder::snapshot`] or [`ApiServer::restore`].
    pub fn snapshot(&self) -> Snapshot {
        self.shared.handler.snapshot()
    }

    /// Restores the objects of a snapshot of this server or of another one and closes all watches.
    ///
    /// The revision rises above all that this server has issued, and the history is dropped: a client with an earlier
    /// resource version receives 410 and relists. Objects keep the resource versions of the snapshot.
    pub fn restore(&self, snapshot: &Snapshot) {
        self.shared.handler.restore(snapshot);
    }

    /// Writes the content of one revision to a file for [`Builder::restore_backup`], while requests go on. Returns the
    /// revision. The file is readable by its owner only and appears when it is complete.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written. An existing file is unchanged then.
    pub async fn backup(&self, path: impl Into<PathBuf>) -> io::Result<u64> {
        let (handler, path) = (Arc::clone(&self.shared.handler), path.into());
        spawn_blocking(move || handler.backup(&path)).await.map_err(io::Error::other)?
    }

    /// Returns a builder for an independent server that starts with the current content of this one, at the same
    /// revision. The two servers issue the same resource versions for different objects, so a client must not move from
    /// one to the other without relisting.
    pub fn fork(&self) -> Builder {
        ApiServer::builder().snapshot(self.snapshot()).first_revision(0)
    }

    /// Stops the server: accepts no more connections, closes all watches, waits up to two seconds for requests in flight,
    /// and closes every socket. Requests that arrive meanwhile get 429, except for health probes.
    pub async fn shutdown(mut self) {
        self.shared.draining.store(true, Ordering::Relaxed);
        if let Some(listening) = self.listening.take() {
            listening.stop().await;
        }
        self.ticker.stop().await;
        if let Some(audit) = &self.shared.audit {
            audit.flush().await;
        }
        let handler = Arc::clone(&self.shared.handler);
        if !handler.is_durable() {
            return;
        }
        // Fails only with the runtime; then the drop of the server closes the storage.
        let _ = spawn_blocking(move || handler.close_storage()).await;
    }
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.shared.handler.close_watches();
        self.shared.handler.close_storage();
        self.shared.sessions.abort();
    }
}

/// A token. `Debug` does not show it.
struct Secret(String);

impl Secret {
    fn random() -> Result<Self, StartError> {
        let mut bytes = [0; 32];
        provider().secure_random.fill(&mut bytes).map_err(|_| StartError::Randomness)?;
        Ok(Secret(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[redacted]")
    }
}
