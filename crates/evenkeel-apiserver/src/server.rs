//! [`ApiServer`]: the handle of a running server, and its builder.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_base::hash::GOLDEN_RATIO;
use jiff::Timestamp;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::audit::{AuditLogError, AuditSettings};
use crate::data_dir::{DataDir, DataDirError};
use crate::engine::{ApiEngine, ControllerTiming, Settings, SigningKey, Snapshot};
use crate::env::Env;
use crate::exec::{PortHandler, ProcessHandler};
use crate::faults::{Clock, Faults, StoreControl};
use crate::http_types::User;
use crate::install::{self, CrdSource, InstallError};
use crate::kubeconfig::{Credential, Kubeconfig, write_private};
use crate::listener::aside::AsideThreads;
use crate::listener::auth::{Authenticator, Tokens, admin, authenticated};
use crate::listener::flow::InFlightLimits;
use crate::listener::http::{ConnectionCounts, ListenerHandle, listen};
use crate::listener::service::{Caller, InProcess, ServerShared};
use crate::listener::sessions::Sessions;
use crate::listener::tls::{Identity, IdentityKeys, TlsError, provider};
use crate::listener::{FaultEndpoint, Handler, RequestLog, RequestRecord};
use crate::logs::PodLogs;
use crate::memory::{Memory, MemoryStats};
use crate::metrics::Metrics;
use crate::store::durable::read_backup;
use crate::store::{Fsync, StoreStats, first_revision};
use crate::token_file::{self, TokenFileError};
use crate::version::ServerVersion;

/// The default limit of connections.
const MAX_CONNECTIONS: u64 = 4096;
/// The interval of the engine's tick.
const TICK: Duration = Duration::from_secs(1);

/// A Kubernetes API server inside this process.
///
/// It starts in milliseconds, needs no other binary, keeps everything in memory, and behaves like kube-apiserver.
/// [`ApiServer::start`] listens with plain HTTP on a free port of the loopback interface and treats every client as the
/// administrator. [`ApiServer::builder`] offers TLS, tokens, another address, or no socket at all. The server accepts
/// requests when the handle is returned.
///
/// Several servers in one process share nothing. A server runs on the tokio runtime that started it. Dropping the handle
/// stops it: no task or socket survives. [`ApiServer::shutdown`] stops it gracefully and returns when it has stopped.
///
/// This is a tool for tests and development. It generates real certificates and tokens at every start, but it is not
/// hardened against hostile tenants.
pub struct ApiServer {
    pub(crate) shared: Arc<ServerShared>,
    listening: Option<ListenerHandle>,
    url: String,
    identity: Option<Arc<Identity>>,
    token: Option<Secret>,
    fault_endpoint_token: Option<Secret>,
    ticker: Ticker,
}

/// An error of [`Builder::start`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address is in use.
    #[error(
        "{address} is in use by another program; stop that one, or listen on another port (port 0 picks a free one)"
    )]
    AddressInUse {
        /// The requested address.
        address: SocketAddr,
    },
    /// The address cannot be listened on for another reason.
    #[error("cannot listen on {address}")]
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Every client on the network would be administrator.
    #[error(
        "refusing to listen on {address} without authentication: every client that can reach it would be administrator; \
         use TLS or a token, or allow it with `i_know_this_is_open`"
    )]
    OpenToTheNetwork {
        /// The requested address.
        address: SocketAddr,
    },
    /// TLS could not be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The data directory could not be opened.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// A definition of [`Builder::crd_dir`] could not be installed.
    #[error(transparent)]
    Crds(#[from] InstallError),
    /// The file of [`Builder::audit_log`] could not be opened.
    #[error(transparent)]
    AuditLog(#[from] AuditLogError),
    /// The runtime shut down during the start.
    #[error("the runtime shut down while the server started")]
    Cancelled,
    /// The system gave no random bytes.
    #[error("the system's source of randomness failed")]
    Randomness,
}

/// Configures and starts an [`ApiServer`].
#[must_use = "a builder does nothing until `start`"]
pub struct Builder {
    address: Option<SocketAddr>,
    tls: bool,
    tokens: Vec<(Secret, User)>,
    anonymous: bool,
    /// Credentials are required, whether or not there are tokens.
    credentials: bool,
    open: bool,
    fault_endpoint: bool,
    max_connections: u64,
    max_in_flight: (usize, usize),
    clock: Arc<Clock>,
    settings: Settings,
    first_revision: Option<u64>,
    data_dir: Option<DataDir>,
    backup: Option<PathBuf>,
    crd_dirs: Vec<PathBuf>,
    pub(crate) audit: AuditSettings,
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
        Builder {
            address: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            tls: false,
            tokens: Vec::new(),
            anonymous: false,
            credentials: false,
            open: false,
            fault_endpoint: false,
            max_connections: MAX_CONNECTIONS,
            max_in_flight: (0, 0),
            clock: Arc::new(Clock::new(Arc::new(SystemEnv::new()))),
            settings: Settings::default(),
            first_revision: None,
            data_dir: None,
            backup: None,
            crd_dirs: Vec::new(),
            audit: AuditSettings::default(),
        }
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
        tokio::task::spawn_blocking(move || handler.backup(&path)).await.map_err(io::Error::other)?
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
        let _ = tokio::task::spawn_blocking(move || handler.close_storage()).await;
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

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("address", &self.address)
            .field("tls", &self.tls)
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// Listens on this address; port 0 picks a free port.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// Opens no socket. Only [`ApiServer::service`] reaches the server, and TLS is not used.
    pub fn in_process_only(mut self) -> Self {
        self.address = None;
        self
    }

    /// Uses plain HTTP, which is the default. Without tokens every client is the administrator.
    pub fn plain_http(mut self) -> Self {
        self.tls = false;
        self
    }

    /// Uses TLS with certificates generated at start. Clients present a certificate (the kubeconfig contains that of the
    /// administrator) or a token (see [`ApiServer::token`]).
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Authenticates this token as the administrator. The server requires credentials from then on.
    pub fn token(self, token: impl Into<String>) -> Self {
        self.tokens([(token.into(), admin())])
    }

    /// Authenticates these tokens as these users. The server requires credentials from then on.
    pub fn tokens(mut self, tokens: impl IntoIterator<Item = (String, User)>) -> Self {
        self.tokens.extend(tokens.into_iter().map(|(token, user)| (Secret(token), user)));
        self.credentials = true;
        self
    }

    /// Authenticates the tokens of a file as kube-apiserver's `--token-auth-file` does: lines of comma-separated values with
    /// token, user name, uid and, optionally and quoted, a comma-separated list of groups. The server requires credentials
    /// from then on. The file is read once, here.
    ///
    /// # Errors
    /// The file cannot be read, is not a regular file, has more than 1 MiB, or has an invalid line.
    pub fn token_file(self, path: impl AsRef<Path>) -> Result<Self, TokenFileError> {
        Ok(self.tokens(token_file::read(path.as_ref())?))
    }

    /// Requires credentials, and serves requests without them as `system:anonymous`, which may read the health and the
    /// version of the server and nothing else.
    pub fn anonymous(mut self, allowed: bool) -> Self {
        self.anonymous = allowed;
        self
    }

    /// Allows listening without authentication on an address that other machines can reach.
    pub fn i_know_this_is_open(mut self) -> Self {
        self.open = true;
        self
    }

    /// Serves `/evenkeel/faults` to clients on this machine that present [`ApiServer::fault_endpoint_token`].
    pub fn fault_endpoint(mut self, enabled: bool) -> Self {
        self.fault_endpoint = enabled;
        self
    }

    /// Limits the number of connections, 4,096 by default. A quarter of them may be without credentials.
    ///
    /// Above a limit, the oldest connection without an authenticated request makes room for a new one, or else the
    /// authenticated one that has been idle for longest. If all are in use, the new one is closed.
    pub fn max_connections(mut self, connections: u64) -> Self {
        self.max_connections = connections;
        self
    }

    /// Limits the requests that are handled at the same time, reads and writes apart. Zero is no limit, the default;
    /// kube-apiserver has 400 and 200. Watches, logs, sessions and health probes do not count.
    ///
    /// Beyond the limit the requests of each user wait in a queue of their own, for up to 15 seconds, and the users take
    /// turns. A user with more than 50 waiting requests gets 429 with `Retry-After`. Requests of `system:masters` neither
    /// wait nor are refused.
    pub fn max_in_flight(mut self, reads: usize, writes: usize) -> Self {
        self.max_in_flight = (reads, writes);
        self
    }

    /// Keeps this many events of each resource for watches to resume from. At least one is kept: a watch reads its
    /// events from the history.
    pub fn history(mut self, changes: usize) -> Self {
        self.settings.history.events = changes.max(1);
        self
    }

    /// Evicts events older than this, too. kube-apiserver keeps five minutes. By default only [`Builder::history`] bounds
    /// the history.
    pub fn history_age(mut self, age: Duration) -> Self {
        self.settings.history.age = Some(age);
        self
    }

    /// Limits the memory of the history of all resources, 128 MiB by default. Beyond it the resource with the most bytes
    /// loses its oldest event first, and reads and watches before that event return 410. [`StoreStats::history_bytes`]
    /// shows the use.
    pub fn history_bytes(mut self, bytes: usize) -> Self {
        self.settings.history.bytes = bytes;
        self
    }

    /// Limits the memory of the server, 2 GiB by default: three quarters are for objects and history, an eighth each for
    /// request bodies and responses in flight. A write that exceeds it gets kube-apiserver's error for a full etcd
    /// (`etcdserver: mvcc: database space exceeded`), and a body a 429; reads and deletes succeed, and responses are encoded
    /// as fast as they are read. [`ApiServer::memory`] shows the use. At least 64 MiB.
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.settings.memory = Arc::new(Memory::new(bytes.max(64 << 20)));
        self
    }

    /// Behaves like this release where releases differ. The default is the newest.
    pub fn version(mut self, version: ServerVersion) -> Self {
        self.settings.version = version;
        self
    }

    /// Runs the commands of `pods/X/exec`: a closure, or [`ScriptedCommands`](crate::ScriptedCommands). Without a handler,
    /// exec is refused with 501.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), evenkeel_apiserver::StartError> {
    /// use evenkeel_apiserver::{ApiServer, ContainerProcess, ExitStatus};
    ///
    /// let cat = |mut process: ContainerProcess| async move {
    ///     if let (Some(stdin), Some(stdout)) = (&mut process.stdin, &mut process.stdout) {
    ///         let _ = tokio::io::copy_buf(stdin, stdout).await;
    ///     }
    ///     ExitStatus::SUCCESS
    /// };
    /// let server = ApiServer::builder().exec(cat).start().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn exec(mut self, handler: impl ProcessHandler) -> Self {
        self.settings.processes.exec = Some(Arc::new(handler));
        self
    }

    /// Runs the processes that clients of `pods/X/attach` attach to. Without a handler, attach is refused with 501.
    pub fn attach(mut self, handler: impl ProcessHandler) -> Self {
        self.settings.processes.attach = Some(Arc::new(handler));
        self
    }

    /// Serves the ports of `pods/X/portforward`: a closure, or [`LocalAddresses`](crate::LocalAddresses). Without a handler,
    /// port-forward is refused with 501.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), evenkeel_apiserver::StartError> {
    /// use evenkeel_apiserver::{ApiServer, PortConnection};
    /// use tokio::io::AsyncWriteExt;
    ///
    /// let greet = |mut connection: PortConnection| async move {
    ///     match connection.port {
    ///         80 => Ok(connection.stream.write_all(b"hello").await?),
    ///         _ => Err("connection refused".into()),
    ///     }
    /// };
    /// let server = ApiServer::builder().port_forward(greet).start().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn port_forward(mut self, handler: impl PortHandler) -> Self {
        self.settings.processes.ports = Some(Arc::new(handler));
        self
    }

    /// Starts with the content of a snapshot. Clients of the server that it was taken from may go on with this one: a watch
    /// from a resource version of the snapshot resumes, and one from a later version receives 410.
    pub fn snapshot(mut self, snapshot: Snapshot) -> Self {
        self.settings.snapshot = Some(snapshot);
        self
    }

    /// Keeps everything that a GET shows in this directory, which is created if absent: objects, definitions, the recent
    /// history and the revision; also the certificate authority and the key of service-account tokens. Without a data
    /// directory everything is in memory.
    ///
    /// Guarantees:
    /// - An acknowledged write survives a kill of the process, and a power loss under [`Fsync::Always`] and
    ///   [`Fsync::Group`]. An unacknowledged write is there whole or not at all.
    /// - A response or a watch event shows only what is durable in this sense.
    /// - No resource version is issued twice. A watch resumes from every version in the history, and receives 410 from an
    ///   earlier one.
    /// - One process uses the directory. It is readable by its owner only.
    ///
    /// If the disk fails, the server refuses writes with 503 until it is restarted, and reads go on.
    /// [`ApiServer::shutdown`] and dropping the server write everything out and release the directory; services and
    /// clients that outlive the server read only.
    pub fn data_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.data_dir.get_or_insert_default().path = path.into();
        self
    }

    /// Sets when the log of [`Builder::data_dir`] is synced.
    pub fn fsync(mut self, policy: Fsync) -> Self {
        self.data_dir.get_or_insert_default().fsync = policy;
        self
    }

    /// Starts from the last good record of a damaged [`Builder::data_dir`] instead of refusing to start. The damaged files
    /// are kept beside the others, and a warning in the log says how many revisions are lost.
    pub fn salvage(mut self, enabled: bool) -> Self {
        self.data_dir.get_or_insert_default().salvage = enabled;
        self
    }

    /// Starts with the content of an [`ApiServer::backup`], in memory or in an empty [`Builder::data_dir`]. The revision is
    /// raised by a billion and the history is dropped: clients of the original receive 410 and relist.
    pub fn restore_backup(mut self, path: impl Into<PathBuf>) -> Self {
        self.backup = Some(path.into());
        self
    }

    /// Starts at this revision, or at that of the snapshot if it is higher. Resource versions of tests become predictable.
    ///
    /// By default a server starts at the microseconds since 2024 on the clock of its [`Env`]. A server that is restarted
    /// on the same address therefore issues higher resource versions than before, and a client of the earlier one
    /// receives 410 and relists instead of missing changes.
    pub fn first_revision(mut self, revision: u64) -> Self {
        self.first_revision = Some(revision);
        self
    }

    /// Sets when the namespace controller deletes the content of a deleted namespace. The default is
    /// [`ControllerTiming::Immediate`].
    pub fn namespace_controller(mut self, timing: ControllerTiming) -> Self {
        self.settings.namespaces = timing;
        self
    }

    /// Sets the time to live of Event objects. The default is one hour; `None` keeps them.
    pub fn event_ttl(mut self, ttl: Option<Duration>) -> Self {
        self.settings.event_ttl = ttl;
        self
    }

    /// Installs the CustomResourceDefinitions in the `.yaml`, `.yml` and `.json` files of a folder before
    /// [`Builder::start`] returns. Skips other objects in those files. May be called several times.
    pub fn crd_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.crd_dirs.push(folder.into());
        self
    }

    /// Sets the source of time and randomness. Certificates and tokens do not use it.
    pub fn env(mut self, env: impl Env) -> Self {
        self.clock = Arc::new(Clock::new(Arc::new(env)));
        self
    }

    /// Starts the server. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound, or if it would be open to the network.
    pub async fn start(mut self) -> Result<ApiServer, StartError> {
        self.ensure_token()?;
        let mut settings = self.settings.clone();
        let mut key = [0; 64];
        provider().secure_random.fill(&mut key).map_err(|_| StartError::Randomness)?;
        if let Some(data_dir) = self.data_dir.clone().filter(|data_dir| !data_dir.path.as_os_str().is_empty()) {
            let (history, has_snapshot) = (settings.history, settings.snapshot.is_some() || self.backup.is_some());
            let memory = Arc::clone(&settings.memory);
            let opening = tokio::task::spawn_blocking(move || {
                let opened = data_dir.open(history, memory)?;
                match has_snapshot && !opened.empty {
                    true => Err(DataDirError::NotEmpty { path: data_dir.path }),
                    false => Ok((opened, data_dir.signing_key(key)?)),
                }
            });
            // The task neither panics nor is cancelled, except with the runtime.
            let (opened, kept) = opening.await.map_err(|_| StartError::Cancelled)??;
            settings.opened = Some(Arc::new(opened));
            key = kept;
        }
        if let Some(path) = self.backup.take() {
            let history = settings.history;
            let reading = tokio::task::spawn_blocking(move || {
                read_backup(&path, history).map_err(|source| DataDirError::Recovery { path, source })
            });
            settings.backup = Some(reading.await.map_err(|_| StartError::Cancelled)??);
        }
        settings.signing_key = Some(SigningKey(key));
        settings.static_tokens = self.static_tokens();
        settings.first_revision = self.first_revision.unwrap_or_else(|| first_revision(self.clock.wall()));
        let engine = Arc::new(ApiEngine::new(settings, self.clock.clone()));
        self.start_with(engine.clone(), engine).await
    }

    /// Returns whether every client is the administrator. TLS, tokens and anonymous users all mean that some are not.
    fn requires_no_credentials(&self) -> bool {
        !self.tls && !self.credentials && !self.anonymous
    }

    /// Generates a token for the administrator if a server that requires credentials has none.
    fn ensure_token(&mut self) -> Result<(), StartError> {
        if !self.requires_no_credentials() && !self.tokens.iter().any(|(_, user)| *user == admin()) {
            self.tokens.push((Secret::random()?, admin()));
        }
        Ok(())
    }

    /// Returns the keys of TLS: those of the data directory, or new ones, which it keeps.
    fn identity_keys(&self) -> Result<IdentityKeys, StartError> {
        let now = SystemEnv::time_of_day();
        let Some(data_dir) = &self.data_dir else { return Ok(IdentityKeys::generate(now)?) };
        if let Some(keys) = data_dir.identity_keys()?.filter(|keys| keys.is_current(now)) {
            return Ok(keys);
        }
        let keys = IdentityKeys::generate(now)?;
        data_dir.keep_identity(&keys)?;
        Ok(keys)
    }

    fn static_tokens(&self) -> Tokens {
        let mut tokens = Tokens::default();
        for (token, user) in &self.tokens {
            tokens.add(&token.0, user.clone());
        }
        tokens
    }

    pub(crate) async fn start_with(
        mut self,
        handler: Arc<dyn Handler>,
        store: Arc<dyn StoreControl>,
    ) -> Result<ApiServer, StartError> {
        let open = self.requires_no_credentials();
        let local = self.address.is_none_or(|address| address.ip().to_canonical().is_loopback());
        if let Some(address) = self.address
            && open
            && !local
            && !self.open
        {
            return Err(StartError::OpenToTheNetwork { address });
        }
        let bound = match self.address {
            None => None,
            Some(address) => Some(bind(address)?),
        };
        let address = bound.as_ref().map(|(_, address)| *address);
        let identity = match (self.tls, address) {
            (true, Some(address)) => {
                let (now, keys) = (SystemEnv::time_of_day(), self.identity_keys()?);
                Some(Arc::new(Identity::issue(address.ip(), &admin(), now, &keys)?))
            }
            _ => None,
        };
        self.ensure_token()?;
        let fault_endpoint_token = if self.fault_endpoint { Some(Secret::random()?) } else { None };
        let tokens = self.static_tokens();
        let token =
            self.tokens.iter().position(|(_, user)| *user == admin()).map(|index| self.tokens.swap_remove(index).0);
        let metrics = Arc::<Metrics>::default();
        let shared = Arc::new(ServerShared {
            audit: self.audit.open(&metrics)?,
            metrics,
            auth: Authenticator {
                open,
                // A server that is open to the network is reached by any name that it has there.
                checks_host: local && (open || self.anonymous),
                anonymous: self.anonymous,
                tokens,
            },
            faults: Faults::new(Some(store), Some(Arc::clone(&self.clock))),
            fault_endpoint: fault_endpoint_token.as_ref().map(|token| FaultEndpoint::new(&token.0)),
            request_log: RequestLog::default(),
            sessions: Sessions::default(),
            memory: Arc::clone(&self.settings.memory),
            started: self.clock.monotonic(),
            env: self.clock,
            handler: Arc::clone(&handler),
            in_flight: InFlightLimits::new(self.max_in_flight.0, self.max_in_flight.1),
            aside: AsideThreads::new(),
            draining: AtomicBool::new(false),
        });
        let inside = InProcess::new(Arc::clone(&shared), Caller::InProcess(Arc::new(authenticated(admin()))));
        for folder in &self.crd_dirs {
            install::install_folder(&inside, folder).await?;
        }
        let url = url(self.tls, address);
        let listening = bound.map(|(listener, address)| {
            ListenerHandle::start(listener, address, identity.clone(), Arc::clone(&shared), self.max_connections)
        });
        if let Some(listening) = &listening {
            shared.metrics.connections.get_or_init(|| Arc::clone(&listening.counters));
        }
        tracing::debug!(%url, "API server started");
        Ok(ApiServer { shared, listening, url, identity, token, fault_endpoint_token, ticker: Ticker::start(handler) })
    }
}

fn bind(address: SocketAddr) -> Result<(tokio::net::TcpListener, SocketAddr), StartError> {
    listen(address)
        .and_then(|listener| {
            let address = listener.local_addr()?;
            Ok((listener, address))
        })
        .map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => StartError::AddressInUse { address },
            _ => StartError::Listen { address, source },
        })
}

fn url(tls: bool, address: Option<SocketAddr>) -> String {
    let Some(mut address) = address else {
        return "http://localhost".into();
    };
    // Clients cannot connect to the unspecified address; on this machine the loopback address stands for it.
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)),
        _ => {}
    }
    format!("{}://{address}", if tls { "https" } else { "http" })
}

/// Ticks the engine until dropped.
#[derive(Debug)]
struct Ticker(JoinHandle<()>);

impl Ticker {
    fn start(handler: Arc<dyn Handler>) -> Self {
        Ticker(tokio::spawn(async move {
            let mut interval = interval(TICK);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval.tick().await;
            let in_place = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
            loop {
                interval.tick().await;
                if in_place {
                    handler.tick();
                } else {
                    let handler = Arc::clone(&handler);
                    // Sweeps of namespaces take long. A panic ends the tick alone.
                    let _ = spawn_blocking(move || handler.tick()).await;
                }
            }
        }))
    }

    async fn stop(&mut self) {
        self.0.abort();
        let _ = (&mut self.0).await;
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.0.abort();
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

/// The clocks of the system, and random numbers from a seed of the system's entropy.
///
/// The monotonic clock is tokio's. When a test pauses or advances it, the time of day follows.
#[derive(Debug)]
struct SystemEnv {
    start: Instant,
    real_start: std::time::Instant,
    state: AtomicU64,
}

impl SystemEnv {
    #[expect(clippy::disallowed_methods, reason = "the real clock enters the server here")]
    fn new() -> Self {
        use std::hash::{BuildHasher, Hasher};
        // The standard library seeds its hash maps with the system's entropy.
        let seed = std::collections::hash_map::RandomState::new().build_hasher().finish();
        SystemEnv { start: Instant::now(), real_start: std::time::Instant::now(), state: AtomicU64::new(seed) }
    }

    #[expect(clippy::disallowed_methods, reason = "the real clock enters the server here")]
    fn time_of_day() -> Timestamp {
        Timestamp::now()
    }
}

impl Env for SystemEnv {
    fn wall(&self) -> Timestamp {
        let ahead = self.start.elapsed().saturating_sub(self.real_start.elapsed());
        let now = Self::time_of_day();
        // Reading two clocks takes time; only a clock that a test advanced is ahead by more.
        if ahead < Duration::from_millis(10) { now } else { now.checked_add(ahead).unwrap_or(now) }
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    /// SplitMix64: every call takes the next state, so threads never get the same number.
    fn random(&self) -> u64 {
        let mut z = self.state.fetch_add(GOLDEN_RATIO, Ordering::Relaxed).wrapping_add(GOLDEN_RATIO);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
