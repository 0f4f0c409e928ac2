//! [`HealthServer`]: the sockets.

use std::net::SocketAddr;

use evenkeel_base::http::ServerHandle;

use super::respond::HealthSite;
use super::{Diagnostics, Health, MetricsSource, SecureServing};
use crate::serve::{self, StartError, listen};

/// The default address.
const ADDRESS: &str = "127.0.0.1:8081";

/// A server of health, metrics and diagnostics. Dropping it stops it at once; [`shutdown`](Self::shutdown) lets
/// requests finish.
#[derive(Debug)]
#[must_use = "the server ends when this is dropped"]
pub struct HealthServer {
    server: Option<ServerHandle>,
}

/// Configures a [`HealthServer`]. See [`HealthServer::builder`].
#[must_use = "a builder does nothing until start is called"]
pub struct ServerBuilder {
    address: String,
    site: HealthSite,
    secure: Option<SecureServing>,
}

impl HealthServer {
    /// Returns a builder for a server of this health.
    pub fn builder(health: &Health) -> ServerBuilder {
        let site = HealthSite {
            health: health.clone(),
            metrics: None,
            diagnostics: None,
            withholds_reasons: false,
            is_local: true,
        };
        ServerBuilder { address: ADDRESS.to_owned(), site, secure: None }
    }

    /// Returns the address it listens on; `None` if it is off.
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.as_ref().map(ServerHandle::address)
    }

    /// Stops accepting, lets requests finish for at most five seconds, and returns when every socket is closed.
    pub async fn shutdown(mut self) {
        if let Some(server) = self.server.take() {
            server.shutdown().await;
        }
    }
}

impl ServerBuilder {
    /// Sets the address. Default: `127.0.0.1:8081`.
    ///
    /// A host and a port. `:8081` means all addresses of the machine, which a kubelet needs to probe a pod. An empty
    /// address or `0` disables the server. Port 0 picks a free port.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = address.into();
        self
    }

    /// Serves `/metrics`.
    pub fn metrics(mut self, metrics: impl MetricsSource) -> Self {
        self.site.metrics = Some(Box::new(metrics));
        self
    }

    /// Serves `/debug`. On a loopback address, requests must have a Host header that names this machine.
    pub fn diagnostics(mut self, diagnostics: &Diagnostics) -> Self {
        self.site.diagnostics = Some(diagnostics.clone());
        self
    }

    /// Serves over TLS, and everything but health only to clients that the API server authenticates and authorises. Default:
    /// plain HTTP for every client.
    ///
    /// A `&Client` is enough; [`SecureServing`] has options.
    ///
    /// ```no_run
    /// # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use evenkeel_runtime::health::{Health, HealthServer};
    ///
    /// let server = HealthServer::builder(&Health::new())
    ///     .address(":8443")
    ///     .metrics(|| "up 1\n".to_owned())
    ///     .secured(&client)
    ///     .start()
    ///     .await?;
    /// # drop(server);
    /// # Ok(())
    /// # }
    /// ```
    pub fn secured(mut self, secure: impl Into<SecureServing>) -> Self {
        self.secure = Some(secure.into());
        self
    }

    /// Omits the reasons of failed checks from responses. They are logged.
    pub fn withhold_reasons(mut self) -> Self {
        self.site.withholds_reasons = true;
        self
    }

    /// Starts to listen, in a task of the current runtime.
    ///
    /// # Errors
    /// If the address is invalid or cannot be bound, or if a secured server has no usable certificate.
    pub async fn start(mut self) -> Result<HealthServer, StartError> {
        if matches!(&*self.address, "" | "0") {
            return Ok(HealthServer { server: None });
        }
        let security = self.secure.map(SecureServing::prepare).transpose()?;
        let (listener, address) = listen(&self.address).await?;
        self.site.is_local = address.ip().is_loopback();
        if security.is_none() && !self.site.is_local && self.site.diagnostics.is_some() {
            tracing::warn!(%address, "diagnostics are served without authentication on a non-loopback address");
        }
        Ok(HealthServer { server: Some(serve::start(listener, address, self.site, security)) })
    }

    /// Serves until `shutdown` resolves, then lets requests finish: a task of a [`Manager`](crate::Manager). Dropping the future
    /// closes all connections.
    ///
    /// ```
    /// # fn example(client: &evenkeel_client::Client) {
    /// use evenkeel_runtime::Manager;
    /// use evenkeel_runtime::health::{Health, HealthServer};
    ///
    /// let health = HealthServer::builder(&Health::new()).address(":8081");
    /// let manager = Manager::new(client).server("health", |stop| health.run(stop.requested()));
    /// # drop(manager);
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the address is invalid or cannot be bound.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), StartError> {
        let server = self.start().await?;
        shutdown.await;
        server.shutdown().await;
        Ok(())
    }
}

impl std::fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerBuilder").field("address", &self.address).finish_non_exhaustive()
    }
}
