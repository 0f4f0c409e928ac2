//! [`Network`]: the connections that a client makes for itself.

use std::sync::Arc;

use tokio::time::Instant;

use super::networks::Place;
use super::pool::Pool;
use super::proxy::ProxyEnvironment;
use super::{Body, ResponseFuture, SendRequest};
use crate::config::{Config, ConfigError};
use crate::tls::Dialer;

/// The connections to the server of a configuration, renewed when certificates on disk are.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) pool: Pool,
    dialer: Dialer,
    /// Where clients with the same settings find it, if they can.
    _place: Option<Place>,
}

impl Network {
    /// No connection is made yet. Blocks while certificates are read from files.
    pub(super) fn new(
        config: &Config,
        environment: &ProxyEnvironment,
        place: Option<Place>,
    ) -> Result<Arc<Self>, ConfigError> {
        let dialer = Dialer::new(config, environment, Instant::now())?;
        let pool = Pool::new(&config.server, &config.connections, &config.limits, dialer.clone());
        Ok(Arc::new(Network { pool, dialer, _place: place }))
    }
}

impl SendRequest for Network {
    fn send(&self, request: http::Request<Body>) -> ResponseFuture {
        if self.dialer.rotated(Instant::now()) {
            self.pool.retire();
        }
        let pool = self.pool.clone();
        Box::pin(async move { pool.send(request).await.map_err(Into::into) })
    }
}
