//! From a request to a response: connections and the layers around them.
//!
//! [`Transport`] is a type-erased [`tower_service::Service`] over `http::Request<Body>`, cheap to clone and bound to
//! no runtime: connection tasks are spawned on the runtime of the request.
//! [`ClientBuilder::layer`](crate::ClientBuilder::layer) adds layers around it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_service::Service;

use self::networks::Networks;
use self::proxy::ProxyEnvironment;
use crate::config::{Config, ConfigError};
use crate::tls::IdentitySlot;

mod body;
pub(crate) mod connect;
mod error;
pub(crate) mod gzip;
pub(crate) mod limits;
mod network;
mod networks;
pub(crate) mod pool;
pub(crate) mod proxy;

pub use body::Body;
pub use error::{BoxError, TransportError, TransportFault};
pub use limits::BodyError;
pub use proxy::ProxyError;

/// The future of a [`Transport`].
pub type ResponseFuture = Pin<Box<dyn Future<Output = Result<http::Response<Body>, BoxError>> + Send>>;

/// The class of connections a request uses. Set in the request's extensions; the default is [`Lane::Calls`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lane {
    /// A request with a bounded response.
    #[default]
    Calls,
    /// A watch or a log that may last for hours. Streams have their own connections, so that an unread one delays no
    /// other request.
    Streams,
}

/// Marks a request that upgrades its connection, in its extensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpgradesConnection;

impl Lane {
    /// Returns the name in logs and metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Lane::Calls => "calls",
            Lane::Streams => "streams",
        }
    }
}

/// Sends requests: over connections to a server, or to an API server in this process, with or without layers.
#[derive(Clone)]
pub struct Transport {
    send: Arc<dyn SendRequest>,
}

/// The type-erased service of a [`Transport`].
trait SendRequest: Send + Sync {
    fn send(&self, request: http::Request<Body>) -> ResponseFuture;
}

/// A service that is cloned for every request, as tower requires.
struct Cloned<S>(S);

impl<S, B> SendRequest for Cloned<S>
where
    S: Service<http::Request<Body>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    fn send(&self, request: http::Request<Body>) -> ResponseFuture {
        let mut service = self.0.clone();
        Box::pin(async move {
            std::future::poll_fn(|context| service.poll_ready(context)).await.map_err(Into::into)?;
            let response = service.call(request).await.map_err(Into::into)?;
            Ok(response.map(Body::new))
        })
    }
}

impl Transport {
    /// Returns a transport to the server of a configuration, shared by all clients with the same settings. It opens no
    /// connection yet. Blocks while certificates are read from files.
    /// The slot is the source of the client certificate, if an exec plugin is.
    pub(crate) fn network(config: &Config, identity: Option<&Arc<IdentitySlot>>) -> Result<Self, ConfigError> {
        let network = Networks::of_process().network(config, &ProxyEnvironment::from_process(), identity)?;
        if config.server.is_tls() && config.tls.insecure_skip_verify {
            tracing::warn!(
                server = %config.server,
                "the server's certificate is not verified; the network can read and change everything"
            );
        }
        Ok(Transport { send: network })
    }

    /// Erases the type of a service.
    pub fn new<S, B>(service: S) -> Self
    where
        S: Service<http::Request<Body>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Transport { send: Arc::new(Cloned(service)) }
    }

    /// Sends a request.
    pub fn send(&self, request: http::Request<Body>) -> ResponseFuture {
        self.send.send(request)
    }
}

impl Service<http::Request<Body>> for Transport {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> ResponseFuture {
        self.send(request)
    }
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Transport")
    }
}
