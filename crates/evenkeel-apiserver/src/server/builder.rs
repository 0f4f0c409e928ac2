//! [`Builder`]: the settings of an [`ApiServer`].

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Secret;
use super::system_env::SystemEnv;
use crate::admission_hook::{AdmissionHook, AdmissionReview, AdmissionVerdict};
use crate::audit::AuditSettings;
use crate::conversion_function::conversion_function;
use crate::data_dir::HistoryAfterRestart;
use crate::engine::admission::AdmissionPluginError;
use crate::engine::{ControllerTiming, Converter, Settings, Snapshot};
use crate::env::Env;
use crate::exec::{PortHandler, ProcessHandler};
use crate::faults::Clock;
use crate::http_types::User;
use crate::listener::auth::admin;
use crate::listener::tls::{ClientCa, TlsError};
use crate::memory::Memory;
use crate::openapi::{self, Descriptions, OpenApiError};
use crate::store::Fsync;
use crate::token_file::{self, TokenFileError};
use crate::version::ServerVersion;
#[cfg(doc)]
use crate::{ApiServer, StoreStats};

/// The default limit of connections.
const MAX_CONNECTIONS: u64 = 4096;

/// Configures and starts an [`ApiServer`].
#[must_use = "a builder does nothing until `start`"]
pub struct Builder {
    pub(super) address: Option<SocketAddr>,
    pub(super) tls: bool,
    pub(super) tokens: Vec<(Secret, User)>,
    pub(super) anonymous: bool,
    /// Credentials are required, whether or not there are tokens.
    pub(super) credentials: bool,
    pub(super) open: bool,
    pub(super) fault_endpoint: bool,
    pub(super) max_connections: u64,
    pub(super) max_in_flight: (usize, usize),
    pub(super) clock: Arc<Clock>,
    pub(super) settings: Settings,
    pub(super) first_revision: Option<u64>,
    pub(super) data_dir: Option<PathBuf>,
    pub(super) fsync: Fsync,
    pub(super) salvage: bool,
    pub(super) backup: Option<PathBuf>,
    pub(super) crd_dirs: Vec<PathBuf>,
    pub(crate) audit: AuditSettings,
    #[cfg(feature = "client")]
    pub(super) record_access: bool,
    pub(super) descriptions: Descriptions,
    pub(super) client_ca: Option<ClientCa>,
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
    pub(super) fn new() -> Self {
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
            fsync: Fsync::default(),
            salvage: false,
            backup: None,
            crd_dirs: Vec::new(),
            audit: AuditSettings::default(),
            #[cfg(feature = "client")]
            record_access: false,
            descriptions: Descriptions::default(),
            client_ca: None,
        }
    }

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

    /// Authenticates client certificates that these authorities (PEM) have issued, beside the server's own: the common name is
    /// the user, the organisations are its groups, and the attribute 1.3.6.1.4.1.57683.2 is its uid. Needs [`Builder::tls`].
    ///
    /// # Errors
    /// The text has more than 1 MiB, or no certificate that can be the root of a chain.
    pub fn client_ca(mut self, pem: impl AsRef<[u8]>) -> Result<Self, TlsError> {
        self.client_ca = Some(ClientCa::parse(pem.as_ref())?);
        Ok(self)
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

    /// Lets a function of the program review writes, where a webhook of the hook's name would: after the built-in defaults, in
    /// the order of the names of all hooks and webhook configurations. Dry runs, failure policy, timeout and reinvocation are
    /// those of a webhook; a function that panics counts as a webhook that cannot be called.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), evenkeel_apiserver::StartError> {
    /// use evenkeel_apiserver::{AdmissionHook, AdmissionReview, AdmissionVerdict, ApiServer};
    ///
    /// let hook = AdmissionHook::validating("names.example.com").rule(&["CREATE"], &[""], &["v1"], &["configmaps"]);
    /// let check = |review: AdmissionReview| async move {
    ///     match review.name().starts_with("tmp-") {
    ///         true => AdmissionVerdict::deny("temporary objects are not allowed"),
    ///         false => AdmissionVerdict::allow(),
    ///     }
    /// };
    /// let server = ApiServer::builder().admit(hook, check).start().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn admit<F, Fut>(mut self, hook: AdmissionHook, function: F) -> Self
    where
        F: Fn(AdmissionReview) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = AdmissionVerdict> + Send + 'static,
    {
        self.settings.admission_functions.push(hook.into_webhook(function));
        self
    }

    /// Lets a function of the program convert the custom resources of a kind between their versions, whatever the conversion
    /// strategy of their definition. It receives objects of any version and the `apiVersion` that is wanted, and returns as many
    /// objects in the same order, or the text of an error. Of their metadata only labels and annotations are taken.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), evenkeel_apiserver::StartError> {
    /// use evenkeel_apiserver::ApiServer;
    /// use serde_json::Value;
    ///
    /// let convert = |mut objects: Vec<Value>, version: String| async move {
    ///     for object in &mut objects {
    ///         object["apiVersion"] = version.as_str().into();
    ///     }
    ///     Ok(objects)
    /// };
    /// let server = ApiServer::builder().convert("example.com", "Widget", convert).start().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn convert<F, Fut>(mut self, group: impl Into<String>, kind: impl Into<String>, function: F) -> Self
    where
        F: Fn(Vec<Value>, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<Value>, String>> + Send + 'static,
    {
        let function = conversion_function(function);
        self.settings.converters.push(Converter { group: group.into(), kind: kind.into(), function });
        self
    }

    /// Sets where the server reaches a port of a Service: [`ApiServer::route_service`] before the start.
    pub fn route_service(self, namespace: &str, name: &str, port: u16, address: SocketAddr) -> Self {
        self.settings.service_routes.set(namespace, name, port, address);
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
        self.data_dir = Some(path.into());
        self
    }

    /// Sets when the log of [`Builder::data_dir`] is synced. A server in memory has no log.
    pub fn fsync(mut self, policy: Fsync) -> Self {
        self.fsync = policy;
        self
    }

    /// Starts from the last good record of a damaged [`Builder::data_dir`] instead of refusing to start. The damaged files
    /// are kept beside the others, and a warning in the log says how many revisions are lost.
    pub fn salvage(mut self, enabled: bool) -> Self {
        self.salvage = enabled;
        self
    }

    /// Sets what a restart on [`Builder::data_dir`] leaves of the history. The default is [`HistoryAfterRestart::Keep`].
    pub fn history_after_restart(mut self, history: HistoryAfterRestart) -> Self {
        self.settings.history_after_restart = history;
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

    /// Sets when the namespaces get their ServiceAccount `default`, also again after its deletion. The default is
    /// [`ControllerTiming::Immediate`]; [`ControllerTiming::Off`] leaves it to a kube-controller-manager.
    pub fn service_account_controller(mut self, timing: ControllerTiming) -> Self {
        self.settings.service_accounts = timing;
        self
    }

    /// Starts with the objects of a fresh kube-apiserver: the Service `default/kubernetes` and its endpoints, flow schemas
    /// and priority levels, priority classes, APIServices, ClusterRoles and their bindings, the default ServiceCIDR and the
    /// configuration in kube-system.
    /// On by default. Without them a server starts with the initial namespaces only.
    ///
    /// A server on a [`Builder::data_dir`] or a [`Builder::restore_backup`] adds those that are missing and leaves the
    /// others as they are; one that starts from a [`Builder::snapshot`] has exactly the content of the snapshot.
    pub fn bootstrap(mut self, enabled: bool) -> Self {
        self.settings.bootstrap = enabled;
        self
    }

    /// Sets when the garbage collector deletes objects whose owners are gone, and finishes deletions with the policies
    /// `Foreground` and `Orphan`. The default is [`ControllerTiming::Immediate`]. Switch it off if a kube-controller-manager
    /// uses the server.
    pub fn garbage_collector(mut self, timing: ControllerTiming) -> Self {
        self.settings.garbage_collector = timing;
        self
    }

    /// Lets the Roles, ClusterRoles and bindings of the store decide what users may do. Off by default: every authenticated
    /// user may do everything.
    ///
    /// Users in `system:masters` may do everything in any case, and [`ApiServer::service`], [`ApiServer::client`] and clients
    /// of a server without credentials are such users. Others come from [`Builder::tokens`], from tokens of service accounts,
    /// from [`InProcess::acting_as`](crate::InProcess::acting_as) and from impersonation. A write of a role or a binding governs
    /// the next request.
    pub fn rbac(mut self, enabled: bool) -> Self {
        self.settings.rbac = enabled;
        self
    }

    /// Honours `shardSelector` of lists, watches and delete-collections, as kube-apiserver with the feature gate
    /// `ShardedListAndWatch`: they select the objects whose uid or namespace has its hash in the given ranges. Off by default:
    /// the parameter is ignored.
    pub fn sharded_lists(mut self, enabled: bool) -> Self {
        self.settings.sharded_lists = enabled;
        self
    }

    /// Records what each user uses of the API, for [`ApiServer::access_log`]. Off by default.
    #[cfg(feature = "client")]
    pub fn record_access(mut self, enabled: bool) -> Self {
        self.record_access = enabled;
        self
    }

    /// Sets when ClusterRoles with an `aggregationRule` get the rules of the roles that they gather. The default is
    /// [`ControllerTiming::Immediate`]; [`ControllerTiming::Off`] leaves it to a kube-controller-manager.
    pub fn role_aggregation(mut self, timing: ControllerTiming) -> Self {
        self.settings.role_aggregation = timing;
        self
    }

    /// Switches an admission plugin on or off, by the name that kube-apiserver gives it. All are on by default except
    /// ServiceAccount: kube-apiserver has that one on as well, and envtest switches it off.
    ///
    /// # Errors
    ///
    /// An error lists the plugins if there is none of this name. NamespaceLifecycle cannot be switched off.
    pub fn admission(mut self, plugin: &str, on: bool) -> Result<Self, AdmissionPluginError> {
        self.settings.admission.set(plugin, on)?;
        Ok(self)
    }

    /// Sets when `status.used` of a ResourceQuota follows the objects of its namespace. The default is
    /// [`ControllerTiming::Immediate`]. Without it, a quota whose status another controller has not computed refuses every
    /// object that it counts, as on kube-apiserver alone.
    pub fn quota_controller(mut self, timing: ControllerTiming) -> Self {
        self.settings.quotas = timing;
        self
    }

    /// Sets when the finalizers are removed that protect deleted claims, volumes and volume attributes classes from removal
    /// while they are used. The default is [`ControllerTiming::Immediate`]. Without it, a deleted claim waits for another
    /// controller, as on kube-apiserver alone.
    pub fn protection_controller(mut self, timing: ControllerTiming) -> Self {
        self.settings.protection = timing;
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

    /// Describes the built-in kinds and their fields in the OpenAPI documents, for example for `kubectl explain`. The file is
    /// the output of `kubectl get --raw /openapi/v2`, or of one document of `/openapi/v3`, of a cluster; it is read once,
    /// here. Several calls add up. Without it only custom resources have descriptions, which are those of their definitions.
    ///
    /// The cached documents of the server grow by the descriptions, up to some 15 MB.
    ///
    /// # Errors
    /// The file cannot be read, is not a regular file, has more than 64 MiB, is not an OpenAPI document, or describes no
    /// built-in kind.
    pub fn openapi(self, path: impl AsRef<Path>) -> Result<Self, OpenApiError> {
        self.openapi_document(&openapi::read_descriptions(path.as_ref())?)
    }

    /// The same as [`Builder::openapi`], from the content of such a file.
    ///
    /// # Errors
    /// Those of [`Builder::openapi`], except of reading the file.
    pub fn openapi_document(mut self, document: &[u8]) -> Result<Self, OpenApiError> {
        self.descriptions.add_document(document)?;
        Ok(self)
    }

    /// Sets the source of time and randomness. Certificates and tokens do not use it.
    pub fn env(mut self, env: impl Env) -> Self {
        self.clock = Arc::new(Clock::new(Arc::new(env)));
        self
    }
}
