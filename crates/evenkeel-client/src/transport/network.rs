//! [`Network`]: the connections of a client.

use std::sync::Arc;

use tokio::time::Instant;

use super::networks::RegistryEntry;
use super::pool::Pool;
use super::proxy::ProxyEnvironment;
use super::{Body, ResponseFuture, SendRequest, UpgradesConnection};
use crate::config::{Config, ConfigError};
use crate::tls::{Dialer, IdentitySlot};

/// The connections to the server of a configuration, replaced when certificates change.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) pool: Pool,
    dialer: Dialer,
    /// The entry by which clients with the same settings find it, if it can be shared.
    _entry: Option<RegistryEntry>,
}

impl Network {
    /// Opens no connection yet. Blocks while certificates are read from files.
    pub(super) fn new(
        config: &Config,
        environment: &ProxyEnvironment,
        identity: Option<&Arc<IdentitySlot>>,
        place: Option<RegistryEntry>,
    ) -> Result<Arc<Self>, ConfigError> {
        let dialer = Dialer::new(config, environment, identity, Instant::now())?;
        let pool = Pool::new(&config.server, &config.connections, &config.limits, dialer.clone());
        Ok(Arc::new(Network { pool, dialer, _entry: place }))
    }
}

impl SendRequest for Network {
    fn send(&self, request: http::Request<Body>) -> ResponseFuture {
        if self.dialer.rotated(Instant::now()) {
            self.pool.retire();
        }
        let pool = self.pool.clone();
        if request.extensions().get::<UpgradesConnection>().is_some() {
            let dialing = self.dialer.dial_http1();
            return Box::pin(async move { pool.upgrade(dialing, request).await.map_err(Into::into) });
        }
        Box::pin(async move { pool.send(request).await.map_err(Into::into) })
    }
}
