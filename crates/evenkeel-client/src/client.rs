//! [`Client`]: the entry point of the crate.

use std::any::TypeId;
use std::collections::HashMap;
use std::fmt;
use std::future::{Ready, ready};
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};

use evenkeel_core::ResourceInfo;
use evenkeel_core::StaticScope;
use http::Method;
use kube_core::Resource;
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use crate::access::AccessRecorder;
use crate::api::{FieldValidation, RepeatedWrites};
use crate::attempt_observer::{AttemptObserver, AttemptObservers};
use crate::auth::{Credentials, ExecCredentials, oidc_refresher};
use crate::config::{Auth, Config, ConfigError, ServerUrl, Tls};
use crate::error::Error;
use crate::rest::metrics::Recorder;
use crate::rest::{Path, ProtobufFallback, RateLimiter, Request, ThrottleLog, WriteDefaults};
use crate::tls::RotatingIdentity;
use crate::transport::{Body, BoxError, Transport};
use crate::write_observer::{WriteObserver, WriteObservers};

/// A client of one API server. Cheap to clone; clones share connections, limits and caches.
///
/// It can be created outside of a runtime and used in several. It runs nothing in the background except for the
/// connections, and the refresh of credentials, that its requests started.
#[derive(Clone)]
pub struct Client {
    inner: Arc<ClientInner>,
    write_observers: WriteObservers,
    attempt_observers: AttemptObservers,
    write_defaults: Option<Arc<WriteDefaults>>,
    access_recorder: Option<AccessRecorder>,
}

struct ClientInner {
    config: Config,
    transport: Transport,
    credentials: Option<Credentials>,
    limiter: Option<RateLimiter>,
    throttle_log: ThrottleLog,
    metrics: Recorder,
    protobuf_fallback: Arc<ProtobufFallback>,
    repeated_writes: RepeatedWrites,
    /// The descriptions of the kinds in use, shared with their cache of decoded objects. Grows with the number of Rust
    /// types that are used as kinds.
    kinds: RwLock<HashMap<TypeId, Arc<ResourceInfo>>>,
}

/// The service of a client without a server.
#[derive(Clone, Copy)]
struct NoServer;

impl Service<http::Request<Body>> for NoServer {
    type Response = http::Response<Body>;
    type Error = io::Error;
    type Future = Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<Body>) -> Self::Future {
        ready(Err(io::Error::new(io::ErrorKind::NotConnected, "this client has no server")))
    }
}

/// Builds a [`Client`].
#[derive(Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct ClientBuilder {
    config: Config,
    transport: Transport,
    limiter: Option<RateLimiter>,
    /// The exec plugin, if the credentials are from one.
    plugin: Option<Arc<ExecCredentials>>,
    /// Whether requests are sent to a service of the caller.
    foreign: bool,
}

impl ClientBuilder {
    /// Creates a builder for the server of the configuration. Sends nothing, but checks everything that can be checked
    /// without the server and reads certificates and tokens from their files.
    pub fn new(config: Config) -> Result<Self, Error> {
        config.validate()?;
        let plugin = plugin_of(&config)?;
        let rotating = config.tls.rotating_identity.as_ref().map(RotatingIdentity::slot);
        let transport = Transport::network(&config, plugin.as_ref().map(|plugin| &plugin.identity).or(rotating))?;
        Ok(ClientBuilder { config, transport, limiter: None, plugin, foreign: false })
    }

    /// Creates a builder for a client that sends requests to this service instead of the server: an API server in this
    /// process, or a fake. The configuration of connections has no effect; TLS settings are an error in
    /// [`build`](Self::build), because they would be silently ignored.
    pub fn service<S, B>(config: Config, service: S) -> Self
    where
        S: Service<http::Request<Body>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        ClientBuilder { config, transport: Transport::new(service), limiter: None, plugin: None, foreign: true }
    }

    /// Adds a layer: the last one is the outermost. Layers see every attempt, with its credentials.
    pub fn layer<L, B>(mut self, layer: L) -> Self
    where
        L: Layer<Transport>,
        L::Service: Service<http::Request<Body>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
        <L::Service as Service<http::Request<Body>>>::Error: Into<BoxError>,
        <L::Service as Service<http::Request<Body>>>::Future: Send,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        self.transport = Transport::new(layer.layer(self.transport));
        self
    }

    /// Sets the rate limiter, which other clients may share, instead of [`Config::throttle`](crate::Config::throttle).
    pub fn rate_limiter(mut self, limiter: RateLimiter) -> Self {
        self.limiter = Some(limiter);
        self
    }

    /// Builds the client.
    pub fn build(self) -> Result<Client, Error> {
        // The crypto provider checks the certificate of an exec plugin, and protects requests to an OIDC issuer.
        let Tls { ca, identity, rotating_identity, server_name, insecure_skip_verify, crypto_provider: _ } =
            &self.config.tls;
        let has_identity = identity.is_some() || rotating_identity.is_some();
        if self.foreign && (ca.is_some() || has_identity || server_name.is_some() || *insecure_skip_verify) {
            let problem = "TLS settings have no effect on a client with its own service".to_owned();
            return Err(ConfigError::Invalid { problem }.into());
        }
        let limiter = match self.limiter {
            Some(limiter) => Some(limiter),
            None => self.config.throttle.map(RateLimiter::new).transpose()?,
        };
        let config = &self.config;
        let credentials = match &config.user_agent {
            Some(agent) => Credentials::new(&config.auth, config.impersonate.as_ref(), agent, Instant::now()),
            None => {
                let agent = Config::default_user_agent();
                Credentials::new(&config.auth, config.impersonate.as_ref(), &agent, Instant::now())
            }
        };
        let mut credentials = credentials?.of_user(config.chosen.user.as_deref());
        let plugin = match self.plugin {
            None if self.foreign => plugin_of(config)?,
            plugin => plugin,
        };
        if let Some(plugin) = plugin {
            credentials = credentials.refreshed_by(&plugin.refresher);
        }
        if let Auth::Oidc(provider) = &config.auth {
            credentials = credentials.refreshed_by(&oidc_refresher(config, provider)?);
        }
        Ok(Client::assemble(self.config, self.transport, Some(credentials), limiter))
    }
}

/// Returns the exec plugin of a configuration. Runs nothing.
fn plugin_of(config: &Config) -> Result<Option<Arc<ExecCredentials>>, ConfigError> {
    match &config.auth {
        Auth::Exec(plugin) => ExecCredentials::of(config, plugin).map(Some),
        _ => Ok(None),
    }
}

impl Client {
    /// Creates a client for the server of the configuration.
    pub fn new(config: Config) -> Result<Self, Error> {
        ClientBuilder::new(config)?.build()
    }

    /// Creates a client for the cluster of `KUBECONFIG` or `~/.kube/config`, else for the cluster that the program runs
    /// in.
    ///
    /// [`Config::infer`] is the first half of it, for programs that change the configuration.
    pub async fn infer() -> Result<Self, Error> {
        let made = tokio::task::spawn_blocking(|| Client::new(Config::infer()?)).await;
        made.unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ConfigError::Invalid { problem: "the runtime is ending".into() }.into()),
        })
    }

    /// Creates a client that sends requests to a service in this process, such as an embedded API server, with the
    /// default configuration. [`ClientBuilder::service`] takes a configuration.
    pub fn from_service<S, B>(service: S) -> Self
    where
        S: Service<http::Request<Body>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        // The only possible error is an invalid user agent.
        let credentials = Credentials::new(&Auth::None, None, &Config::default_user_agent(), Instant::now()).ok();
        Client::assemble(Config::new(ServerUrl::in_process()), Transport::new(service), credentials, None)
    }

    /// Creates a client without a server: every request fails. For code that takes a client and sends nothing, such as the
    /// description of a program.
    pub fn disconnected() -> Self {
        Client::from_service(NoServer)
    }

    fn assemble(
        config: Config,
        transport: Transport,
        credentials: Option<Credentials>,
        limiter: Option<RateLimiter>,
    ) -> Self {
        let metrics = Recorder::new(&config.server);
        let throttle_log = ThrottleLog::default();
        Client {
            inner: Arc::new(ClientInner {
                config,
                transport,
                credentials,
                limiter,
                throttle_log,
                metrics,
                protobuf_fallback: Arc::default(),
                repeated_writes: RepeatedWrites::default(),
                kinds: RwLock::default(),
            }),
            write_observers: WriteObservers::default(),
            attempt_observers: AttemptObservers::default(),
            write_defaults: None,
            access_recorder: None,
        }
    }

    /// Builds a request. The typed APIs are built on it.
    pub fn request(&self, method: Method, path: Path<'_>) -> Request {
        Request::new(self, method, path)
    }

    /// Returns a client that notifies this observer of every write. It shares everything else with this client: connections,
    /// rate limit, caches. Observers that this client has are still notified, after the new one.
    ///
    /// ```
    /// # fn example(client: &evenkeel_client::Client) {
    /// use evenkeel_client::ObservedWrite;
    ///
    /// let client = client.with_write_observer(|write: &ObservedWrite<'_>| {
    ///     println!("{:?} of {:?} made version {}", write.verb, write.key, write.resource_version());
    /// });
    /// # }
    /// ```
    pub fn with_write_observer(&self, observer: impl WriteObserver) -> Client {
        Client { write_observers: self.write_observers.with(Box::new(observer)), ..self.clone() }
    }

    /// Returns a client that notifies this observer of the outcome of every attempt. It shares everything else with this client.
    /// Observers that this client has are still notified, after the new one.
    ///
    /// ```
    /// # fn example(client: &evenkeel_client::Client) {
    /// use evenkeel_client::ObservedAttempt;
    ///
    /// let client = client.with_attempt_observer(|attempt: &ObservedAttempt<'_>| match attempt.outcome {
    ///     Ok(status) => println!("{}: {status}", attempt.request),
    ///     Err(error) => println!("{}: {error}", attempt.request),
    /// });
    /// # }
    /// ```
    pub fn with_attempt_observer(&self, observer: impl AttemptObserver) -> Client {
        Client { attempt_observers: self.attempt_observers.with(Box::new(observer)), ..self.clone() }
    }

    /// Returns a client whose creates, updates, patches and applies have this field manager, subresources included. The
    /// manager of a single call takes precedence. Deletes have none. It shares everything else with this client.
    ///
    /// ```
    /// # async fn example(client: evenkeel_client::Client) -> Result<(), evenkeel_client::Error> {
    /// use evenkeel_client::Patch;
    /// use serde_json::json;
    ///
    /// let client = client.with_field_manager("my-operator");
    /// let maps = client.core_v1().config_maps("default");
    /// maps.patch("settings", &Patch::merge(&json!({"data": {"colour": "blue"}}))).await?; // by my-operator
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_field_manager(&self, name: impl Into<Arc<str>>) -> Client {
        let name = name.into();
        self.with_write_defaults(|defaults| defaults.field_manager = Some(name).filter(|name| !name.is_empty()))
    }

    /// Returns a client whose creates, updates and patches have this validation of unknown and duplicate fields. The
    /// validation of a single call takes precedence. Server-side apply is always strict. It shares everything else with this
    /// client.
    pub fn with_field_validation(&self, validation: FieldValidation) -> Client {
        self.with_write_defaults(|defaults| defaults.field_validation = Some(validation))
    }

    /// Returns a client whose writes and deletes are checked by the server but not stored. No call can disable that. It
    /// shares everything else with this client.
    ///
    /// Requests that write no objects are sent as they are: exec, attach, port-forward, and requests that the server proxies
    /// to pods, services and nodes.
    pub fn dry_run(&self) -> Client {
        self.with_write_defaults(|defaults| defaults.dry_run = true)
    }

    fn with_write_defaults(&self, change: impl FnOnce(&mut WriteDefaults)) -> Client {
        let mut defaults = self.write_defaults.as_deref().cloned().unwrap_or_default();
        change(&mut defaults);
        Client { write_defaults: Some(Arc::new(defaults)), ..self.clone() }
    }

    pub(crate) fn write_defaults(&self) -> Option<&WriteDefaults> {
        self.write_defaults.as_deref()
    }

    /// Returns whether nothing that the client writes is stored: see [`dry_run`](Self::dry_run).
    pub fn is_dry_run(&self) -> bool {
        self.write_defaults().is_some_and(|defaults| defaults.dry_run)
    }

    /// Returns a client whose requests are noted by this recorder, instead of the one that this client has. It shares everything
    /// else with this client. For tests: see [`access`](crate::access).
    pub fn with_access_recorder(&self, recorder: &AccessRecorder) -> Client {
        Client { access_recorder: Some(recorder.clone()), ..self.clone() }
    }

    pub(crate) fn access_recorder(&self) -> Option<&AccessRecorder> {
        self.access_recorder.as_ref()
    }

    pub(crate) fn write_observers(&self) -> &WriteObservers {
        &self.write_observers
    }

    pub(crate) fn attempt_observers(&self) -> &AttemptObservers {
        &self.attempt_observers
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// What is requested in JSON although protobuf is preferred.
    pub(crate) fn protobuf_fallback(&self) -> &Arc<ProtobufFallback> {
        &self.inner.protobuf_fallback
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.inner.transport
    }

    pub(crate) fn credentials(&self) -> Option<&Credentials> {
        self.inner.credentials.as_ref()
    }

    /// The last changes of `create_or_update` and `create_or_patch`.
    pub(crate) fn repeated_writes(&self) -> &RepeatedWrites {
        &self.inner.repeated_writes
    }

    /// The rate limiter, if there is one.
    pub(crate) fn limiter(&self) -> Option<&RateLimiter> {
        self.inner.limiter.as_ref()
    }

    pub(crate) fn throttle_log(&self) -> &ThrottleLog {
        &self.inner.throttle_log
    }

    pub(crate) fn metrics(&self) -> &Recorder {
        &self.inner.metrics
    }

    /// Returns the description of a kind. Every call returns the same one.
    pub fn resource<K>(&self) -> Arc<ResourceInfo>
    where
        K: Resource + 'static,
        K::DynamicType: Default,
        K::Scope: StaticScope,
    {
        self.resource_of(TypeId::of::<K>(), ResourceInfo::of::<K>)
    }

    /// Returns whether the other client is a clone of this one: they share connections, limits and caches.
    pub fn shares_connections_with(&self, other: &Client) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Not generic, because there is a caller for every kind of Kubernetes.
    fn resource_of(&self, kind: TypeId, describe: fn() -> ResourceInfo) -> Arc<ResourceInfo> {
        let kinds = &self.inner.kinds;
        if let Some(info) = kinds.read().unwrap_or_else(PoisonError::into_inner).get(&kind) {
            return Arc::clone(info);
        }
        let mut kinds = kinds.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(kinds.entry(kind).or_insert_with(|| Arc::new(describe())))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.inner.config.server).finish_non_exhaustive()
    }
}
