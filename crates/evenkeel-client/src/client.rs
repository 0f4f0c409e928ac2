//! [`Client`]: the handle that everything starts from.

use std::any::TypeId;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use evenkeel_core::ResourceInfo;
use evenkeel_core::StaticScope;
use http::Method;
use kube_core::Resource;
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use crate::auth::Credentials;
use crate::config::{Auth, Config, ConfigError, ServerUrl, Tls};
use crate::error::Error;
use crate::rest::metrics::Recorder;
use crate::rest::{Path, RateLimiter, Refusals, Request, ThrottleLog};
use crate::transport::{Body, BoxError, Transport};
use crate::write_observer::{WriteObserver, WriteObservers};

/// A client of one API server. Cheap to clone; clones share connections, limits and caches.
///
/// It may be made outside of a runtime and used in several: nothing of it runs but the calls that are made with it, and
/// the connections that those calls opened.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    write_observers: WriteObservers,
}

struct Inner {
    config: Config,
    transport: Transport,
    credentials: Option<Credentials>,
    limiter: Option<RateLimiter>,
    throttle_log: ThrottleLog,
    metrics: Recorder,
    refusals: Arc<Refusals>,
    /// The kinds that have been used, so that everybody shares one description and its memo of decoded objects. Grows with
    /// the number of Rust types that are used as kinds.
    kinds: RwLock<HashMap<TypeId, Arc<ResourceInfo>>>,
}

/// Makes a [`Client`].
#[derive(Debug)]
#[must_use = "nothing is made until `build` is called"]
pub struct ClientBuilder {
    config: Config,
    transport: Transport,
    limiter: Option<RateLimiter>,
    /// The connections are not of our making.
    foreign: bool,
}

impl ClientBuilder {
    /// A client of the server that the configuration names. Nothing is sent yet; but everything that can be checked
    /// without the server is, and certificates and tokens are read from their files.
    pub fn new(config: Config) -> Result<Self, Error> {
        config.validate()?;
        let transport = Transport::network(&config)?;
        Ok(ClientBuilder { config, transport, limiter: None, foreign: false })
    }

    /// Answers requests with this service instead of connections to the server: an API server in this process, or a
    /// stand-in. What the configuration says of connections has no effect; that it says anything of TLS is refused by
    /// [`build`](Self::build), because somebody would believe in it.
    pub fn service<S, B>(config: Config, service: S) -> Self
    where
        S: Service<http::Request<Body>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        ClientBuilder { config, transport: Transport::new(service), limiter: None, foreign: true }
    }

    /// Puts a layer around what has been built so far: the last one is the outermost. Layers see every attempt, with its
    /// credentials.
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

    /// Limits the rate of requests with this limiter, which other clients may share, whatever
    /// [`Config::throttle`](crate::Config::throttle) says.
    pub fn rate_limiter(mut self, limiter: RateLimiter) -> Self {
        self.limiter = Some(limiter);
        self
    }

    /// The client.
    pub fn build(self) -> Result<Client, Error> {
        let Tls { ca, identity, server_name, insecure_skip_verify } = &self.config.tls;
        if self.foreign && (ca.is_some() || identity.is_some() || server_name.is_some() || *insecure_skip_verify) {
            let problem = "settings of TLS have no effect on a service that brings its own connections".to_owned();
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
        Ok(Client::assemble(self.config, self.transport, Some(credentials?), limiter))
    }
}

impl Client {
    /// A client of the server that the configuration names.
    pub fn new(config: Config) -> Result<Self, Error> {
        ClientBuilder::new(config)?.build()
    }

    /// A client of the cluster that this program is meant for: the one that `KUBECONFIG` or `~/.kube/config` names, else
    /// the one it runs in.
    ///
    /// [`Config::infer`] does the same in two steps, for those who want to change something in between.
    pub async fn infer() -> Result<Self, Error> {
        let made = tokio::task::spawn_blocking(|| Client::new(Config::infer()?)).await;
        made.unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ConfigError::Invalid { problem: "the runtime is ending".into() }.into()),
        })
    }

    /// A client of whatever answers requests in this process, such as an embedded API server, with the default
    /// configuration. [`ClientBuilder::service`] takes another one.
    pub fn from_service<S, B>(service: S) -> Self
    where
        S: Service<http::Request<Body>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        // All that could be missing then is the name that we call ourselves.
        let credentials = Credentials::new(&Auth::None, None, &Config::default_user_agent(), Instant::now()).ok();
        Client::assemble(Config::new(ServerUrl::in_process()), Transport::new(service), credentials, None)
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
            inner: Arc::new(Inner {
                config,
                transport,
                credentials,
                limiter,
                throttle_log,
                metrics,
                refusals: Arc::default(),
                kinds: RwLock::default(),
            }),
            write_observers: WriteObservers::default(),
        }
    }

    /// A request to anywhere. The typed APIs are made of these.
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
        Client { inner: Arc::clone(&self.inner), write_observers: self.write_observers.with(observer) }
    }

    pub(crate) fn write_observers(&self) -> &WriteObservers {
        &self.write_observers
    }

    /// What the client was made from.
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// What is known of servers that do not speak protobuf.
    pub(crate) fn refusals(&self) -> &Arc<Refusals> {
        &self.inner.refusals
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.inner.transport
    }

    pub(crate) fn credentials(&self) -> Option<&Credentials> {
        self.inner.credentials.as_ref()
    }

    /// The one limit that all requests of this client share, if there is any.
    pub(crate) fn limiter(&self) -> Option<&RateLimiter> {
        self.inner.limiter.as_ref()
    }

    pub(crate) fn throttle_log(&self) -> &ThrottleLog {
        &self.inner.throttle_log
    }

    pub(crate) fn metrics(&self) -> &Recorder {
        &self.inner.metrics
    }

    /// The description of a kind, the same one every time.
    pub fn resource<K>(&self) -> Arc<ResourceInfo>
    where
        K: Resource + 'static,
        K::DynamicType: Default,
        K::Scope: StaticScope,
    {
        let kinds = &self.inner.kinds;
        if let Some(info) = kinds.read().unwrap_or_else(PoisonError::into_inner).get(&TypeId::of::<K>()) {
            return Arc::clone(info);
        }
        let mut kinds = kinds.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(kinds.entry(TypeId::of::<K>()).or_insert_with(|| Arc::new(ResourceInfo::of::<K>())))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.inner.config.server).finish_non_exhaustive()
    }
}
