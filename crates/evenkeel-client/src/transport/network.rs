//! [`Network`]: the connections that a client makes for itself.

use tokio::time::Instant;

use super::pool::Pool;
use super::proxy::ProxyEnvironment;
use super::{Body, ResponseFuture, SendRequest};
use crate::config::{Config, ConfigError};
use crate::tls::Dialer;

/// The connections to the server of a configuration, renewed when certificates on disk are.
#[derive(Debug)]
pub(super) struct Network {
    pool: Pool,
    dialer: Dialer,
}

impl Network {
    pub(super) fn new(config: &Config, environment: &ProxyEnvironment) -> Result<Self, ConfigError> {
        let dialer = Dialer::new(config, environment, Instant::now())?;
        let pool = Pool::new(&config.server, &config.connections, &config.limits, dialer.clone());
        Ok(Network { pool, dialer })
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
