//! [`HealthServer`]: the sockets.

use std::net::SocketAddr;
use std::sync::Arc;

use super::respond::Site;
use super::{Diagnostics, Health, MetricsSource};
use crate::serve::{Running, StartError, listen};

/// Where it listens unless told otherwise.
const ADDRESS: &str = "127.0.0.1:8081";

/// A server that tells of health, metrics and diagnostics. Dropping it ends it at once; [`shutdown`](Self::shutdown) lets
/// requests finish.
#[derive(Debug)]
#[must_use = "the server ends when this is dropped"]
pub struct HealthServer {
    running: Option<Running>,
}

/// What a server shall tell, and where. See [`HealthServer::builder`].
#[must_use = "a builder does nothing until start is called"]
pub struct ServerBuilder {
    address: String,
    site: Site,
}

impl HealthServer {
    /// Begins a server that tells of this health.
    pub fn builder(health: &Health) -> ServerBuilder {
        let site =
            Site { health: health.clone(), metrics: None, diagnostics: None, withholds_reasons: false, is_local: true };
        ServerBuilder { address: ADDRESS.to_owned(), site }
    }

    /// Where it listens; `None` if it is off.
    pub fn address(&self) -> Option<SocketAddr> {
        self.running.as_ref().map(Running::address)
    }

    /// Accepts nothing more, lets requests finish, for five seconds at most, and returns when every socket is closed.
    pub async fn shutdown(mut self) {
        if let Some(running) = self.running.take() {
            running.shutdown().await;
        }
    }
}

impl ServerBuilder {
    /// Where to listen: `127.0.0.1:8081` unless told otherwise.
    ///
    /// A host and a port; `:8081` is every address of the machine, which is what a kubelet needs that asks a pod; an empty
    /// address or `0` is nowhere; port 0 is one that is free.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = address.into();
        self
    }

    /// Serves `/metrics`.
    pub fn metrics(mut self, metrics: impl MetricsSource) -> Self {
        self.site.metrics = Some(Box::new(metrics));
        self
    }

    /// Serves `/debug`. On a loopback address it is told only to those who asked for this machine by name or address.
    pub fn diagnostics(mut self, diagnostics: &Diagnostics) -> Self {
        self.site.diagnostics = Some(diagnostics.clone());
        self
    }

    /// Keeps the reasons of checks that fail out of the answers. They are in the log.
    pub fn withhold_reasons(mut self) -> Self {
        self.site.withholds_reasons = true;
        self
    }

    /// Listens, in a task of the runtime that this is awaited in.
    ///
    /// # Errors
    /// If the address is none, or cannot be listened on.
    pub async fn start(mut self) -> Result<HealthServer, StartError> {
        if matches!(&*self.address, "" | "0") {
            return Ok(HealthServer { running: None });
        }
        let (listener, address) = listen(&self.address).await?;
        self.site.is_local = address.ip().is_loopback();
        if !self.site.is_local && self.site.diagnostics.is_some() {
            tracing::warn!(%address, "diagnostics are served without authentication on a non-loopback address");
        }
        Ok(HealthServer { running: Some(Running::start(listener, address, Arc::new(self.site))) })
    }
}

impl std::fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerBuilder").field("address", &self.address).finish_non_exhaustive()
    }
}
