//! From a request to an answer: connections, and what is wrapped around them.
//!
//! [`Transport`] is a [`tower_service::Service`] over `http::Request<Body>`, erased, cheap to clone and bound to no
//! runtime: whatever drives connections is spawned where a request is made. Layers of the user's are put around it with
//! [`ClientBuilder::layer`](crate::ClientBuilder::layer).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_service::Service;

use self::networks::Networks;
use self::proxy::ProxyEnvironment;
use crate::config::{Config, ConfigError};

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

/// What a [`Transport`] answers with.
pub type ResponseFuture = Pin<Box<dyn Future<Output = Result<http::Response<Body>, BoxError>> + Send>>;

/// What a request is for. Put into the request's extensions; a request without one is [`Lane::Calls`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lane {
    /// An answer that comes and is over.
    #[default]
    Calls,
    /// A watch or a log that may last for hours. These have connections of their own, so that a reader who does not read
    /// holds up nobody's calls.
    Streams,
}

impl Lane {
    /// Its name in logs and metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Lane::Calls => "calls",
            Lane::Streams => "streams",
        }
    }
}

/// Something that answers requests: connections to a server, an API server in this process, or either with layers around.
#[derive(Clone)]
pub struct Transport {
    send: Arc<dyn SendRequest>,
}

/// Whatever answers requests, behind a [`Transport`].
trait SendRequest: Send + Sync {
    fn send(&self, request: http::Request<Body>) -> ResponseFuture;
}

/// A service that is cloned for every request, as tower wants it.
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
    /// Connections to the server of a configuration, shared with all who have the same settings; none is made yet. Blocks
    /// while certificates are read from files.
    pub(crate) fn network(config: &Config) -> Result<Self, ConfigError> {
        let network = Networks::of_process().network(config, &ProxyEnvironment::from_process())?;
        if config.server.is_tls() && config.tls.insecure_skip_verify {
            tracing::warn!(
                server = %config.server,
                "the server's certificate is not verified: whoever is on the network can read and change everything"
            );
        }
        Ok(Transport { send: network })
    }

    /// Erases a service.
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
