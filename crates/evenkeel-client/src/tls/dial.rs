//! [`Dialer`]: opens connections to the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::error::TlsError;
use super::material::Material;
use super::slot::IdentitySlot;
use crate::config::{Config, ConfigError, HttpVersions};
use crate::transport::connect::{BoxIo, Dial, Dialed, Dialing};
use crate::transport::proxy::{ProxyEnvironment, Route};
use crate::transport::{Lane, TransportError, TransportFault};

/// Opens connections to the server of a configuration: through its proxy if there is one, with TLS if its URL is
/// `https`. Clones share state.
///
/// Over TLS the server chooses the HTTP version. Without TLS there is no negotiation: HTTP/2 is used only if it is the
/// only version allowed.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    route: Arc<Route>,
    http: HttpVersions,
    protection: Option<Arc<Protection>>,
}

#[derive(Debug)]
struct Protection {
    material: Arc<Material>,
    /// The last epoch that was reported.
    reported: AtomicU64,
    name: ServerName<'static>,
    timeout: Duration,
}

impl Dialer {
    /// Validates everything that can be checked without the server. Blocks while certificates are read from files.
    /// The slot is the source of the client certificate, if an exec plugin is.
    pub(crate) fn new(
        config: &Config,
        environment: &ProxyEnvironment,
        identity: Option<&Arc<IdentitySlot>>,
        now: Instant,
    ) -> Result<Self, ConfigError> {
        let Config { server, tls, connections, .. } = config;
        let protection = if server.is_tls() {
            let name = tls.server_name.as_deref().filter(|name| !name.is_empty()).unwrap_or(server.host());
            Some(Arc::new(Protection {
                name: super::server_name(name)?,
                material: Arc::new(Material::new(tls, connections.http, now)?.following(identity)),
                reported: AtomicU64::new(0),
                timeout: connections.tls_timeout,
            }))
        } else {
            None
        };
        let route = Arc::new(Route::new(server, &config.proxy, connections, tls, environment)?);
        Ok(Dialer { route, http: connections.http, protection })
    }

    /// Returns whether certificates have changed since the last call, so that existing connections should receive no
    /// more requests. Called before every request; never waits; see [`Material`].
    pub(crate) fn rotated(&self, now: Instant) -> bool {
        self.protection.as_ref().is_some_and(|protection| {
            let epoch = protection.material.touch(now);
            // Writes only on a change, so that requests on all cores share the cache line.
            protection.reported.load(Ordering::Relaxed) < epoch
                && protection.reported.fetch_max(epoch, Ordering::Relaxed) < epoch
        })
    }

    /// Opens a connection for HTTP/1.1, whatever versions are configured: only HTTP/1.1 connections can be upgraded.
    pub(crate) fn dial_http1(&self) -> Dialing {
        Box::pin(Dialer { http: HttpVersions::Http1Only, ..self.clone() }.connect())
    }

    async fn connect(self) -> Result<Dialed, TransportError> {
        let io = self.route.connect().await?;
        let Some(protection) = &self.protection else {
            return Ok(Dialed { io, http2: self.http == HttpVersions::Http2Only });
        };
        let host = self.route.host();
        let attempt = async {
            let mut config = protection.material.for_handshake(Instant::now()).await;
            if self.http == HttpVersions::Http1Only && config.alpn_protocols.iter().any(|protocol| protocol == b"h2") {
                Arc::make_mut(&mut config).alpn_protocols = vec![b"http/1.1".to_vec()];
            }
            handshake(config, protection.name.clone(), io, host).await
        };
        let Ok(stream) = timeout(protection.timeout, attempt).await else {
            return Err(TransportError::bare(TransportFault::ConnectTimeout, host));
        };
        let stream = stream?;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        if self.http == HttpVersions::Http2Only && !http2 {
            return Err(TransportError::new(TransportFault::Tls, host, TlsError::NoHttp2));
        }
        Ok(Dialed { io: Box::new(stream), http2 })
    }
}

impl Dial for Dialer {
    fn dial(&self, _: Lane) -> Dialing {
        Box::pin(self.clone().connect())
    }
}

/// Performs the handshake with a peer of this name. The caller limits the time.
pub(crate) async fn handshake(
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    io: BoxIo,
    host: &str,
) -> Result<TlsStream<BoxIo>, TransportError> {
    TlsConnector::from(config).connect(name, io).await.map_err(|error| {
        let error = TlsError::of_handshake(error);
        // A lost connection says nothing about certificates; a retry may succeed.
        let fault = if matches!(error, TlsError::Io(_)) { TransportFault::Connect } else { TransportFault::Tls };
        TransportError::new(fault, host, error)
    })
}
