//! [`Route`]: connections to the server, direct or through a proxy.

use std::io;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderValue;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::choose::{ProxyEnvironment, choose};
use super::error::ProxyError;
use super::http_connect::{self, Answer};
use super::prefixed::Prefixed;
use super::socks5::{Failure, Handshake, SocksAction};
use crate::config::{ConfigError, Connections, Proxy, ProxyScheme, ProxyUrl, ServerUrl, Tls};
use crate::tls;
use crate::transport::connect::{BoxIo, authority, tcp_connect};
use crate::transport::{TransportError, TransportFault};

/// Opens connections to the server, direct or through a proxy. The protocol on them is negotiated elsewhere.
pub(crate) struct Route {
    host: String,
    port: u16,
    connections: Connections,
    via: Option<Via>,
}

struct Via {
    proxy: ProxyUrl,
    /// Host and port, for errors.
    name: String,
    /// The `Proxy-Authorization` for an HTTP proxy.
    authorization: Option<HeaderValue>,
    /// The TLS configuration of the connection to the proxy itself.
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl Route {
    /// Returns the route to this server. An `https` proxy must be trusted by the system's roots: the cluster's
    /// authority and the client certificate are for the cluster, not for the proxy. Of the TLS settings only the crypto
    /// provider applies to it.
    pub(crate) fn new(
        server: &ServerUrl,
        proxy: &Proxy,
        connections: &Connections,
        settings: &Tls,
        environment: &ProxyEnvironment,
    ) -> Result<Self, ConfigError> {
        let via = match choose(proxy, server, environment)? {
            Some(url) => Some(Via::new(url, || tls::for_proxies(settings))?),
            None => None,
        };
        Ok(Route::via(server, connections, via))
    }

    fn via(server: &ServerUrl, connections: &Connections, via: Option<Via>) -> Self {
        Route { host: server.host().to_owned(), port: server.port(), connections: connections.clone(), via }
    }

    /// Returns a route through this proxy with this TLS configuration.
    #[cfg(test)]
    pub(super) fn through(
        server: &ServerUrl,
        url: ProxyUrl,
        connections: &Connections,
        trust: Arc<ClientConfig>,
    ) -> Self {
        Route::via(server, connections, Some(Via::new(url, || Ok(trust)).unwrap()))
    }

    /// Returns the server's host, without brackets.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Opens a connection to the server. Name resolution, the proxy's TLS and its responses together take no longer
    /// than [`Connections::connect_timeout`].
    pub(crate) async fn connect(&self) -> Result<BoxIo, TransportError> {
        let Some(via) = &self.via else {
            return Ok(Box::new(tcp_connect(&self.host, self.port, &self.connections).await?));
        };
        match timeout(self.connections.connect_timeout, self.tunnel(via)).await {
            Ok(tunnel) => tunnel,
            Err(_) => Err(TransportError::bare(TransportFault::ConnectTimeout, &self.host)),
        }
    }

    async fn tunnel(&self, via: &Via) -> Result<BoxIo, TransportError> {
        let host = &via.proxy.host;
        let mut io: BoxIo = Box::new(tcp_connect(host, via.proxy.port, &self.connections).await?);
        if let Some((config, name)) = &via.tls {
            io = Box::new(tls::handshake(Arc::clone(config), name.clone(), io, host).await?);
        }
        let tunnel = match via.proxy.scheme {
            ProxyScheme::Http | ProxyScheme::Https => self.connect_http(via, io).await,
            ProxyScheme::Socks5 => self.connect_socks5(via, io).await,
        };
        tunnel.map_err(|error| TransportError::new(TransportFault::Proxy, &self.host, error))
    }

    async fn connect_http(&self, via: &Via, mut io: BoxIo) -> Result<BoxIo, ProxyError> {
        let authority = authority(&self.host, self.port);
        write(&mut io, &http_connect::request(&authority, via.authorization.as_ref())).await.map_err(|e| via.io(e))?;
        let mut head = Vec::with_capacity(1024);
        let (status, end) = loop {
            match http_connect::answer(&head) {
                Answer::Head { status, end } => break (status, end),
                Answer::Nonsense => return Err(via.nonsense("HTTP")),
                Answer::Partial => {}
            }
            // The last read may exceed the head limit; then the response is rejected, or the rest belongs to the
            // tunnel.
            if io.read_buf(&mut head).await.map_err(|e| via.io(e))? == 0 {
                return Err(via.io(io::ErrorKind::UnexpectedEof.into()));
            }
        };
        if !(200..300).contains(&status) {
            return Err(ProxyError::Status { proxy: via.name.clone(), status });
        }
        let prefix = Bytes::from(head.split_off(end));
        if prefix.is_empty() { Ok(io) } else { Ok(Box::new(Prefixed { prefix, io })) }
    }

    async fn connect_socks5(&self, via: &Via, mut io: BoxIo) -> Result<BoxIo, ProxyError> {
        let credentials = via.proxy.credentials.as_ref().map(|(name, password)| (name.as_str(), password.expose()));
        let mut handshake = Handshake::new(&self.host, self.port, credentials);
        let mut input = Vec::new();
        loop {
            match handshake.step(&input).map_err(|failure| via.refused(failure))? {
                SocksAction::Write(bytes) => {
                    write(&mut io, &bytes).await.map_err(|e| via.io(e))?;
                    input.clear();
                }
                SocksAction::Read(count) => {
                    input.resize(count, 0);
                    io.read_exact(&mut input).await.map_err(|e| via.io(e))?;
                }
                SocksAction::Done => return Ok(io),
            }
        }
    }
}

async fn write(io: &mut BoxIo, bytes: &[u8]) -> io::Result<()> {
    io.write_all(bytes).await?;
    io.flush().await
}

impl Via {
    fn new(
        proxy: ProxyUrl,
        trust: impl FnOnce() -> Result<Arc<ClientConfig>, ConfigError>,
    ) -> Result<Self, ConfigError> {
        let authorization = match (&proxy.credentials, proxy.scheme) {
            (Some((name, password)), ProxyScheme::Http | ProxyScheme::Https) => Some(basic(name, password.expose())?),
            _ => None,
        };
        let tls = match proxy.scheme {
            ProxyScheme::Https => Some((trust()?, tls::server_name(&proxy.host)?)),
            ProxyScheme::Http | ProxyScheme::Socks5 => None,
        };
        let name = authority(&proxy.host, proxy.port);
        Ok(Via { proxy, name, authorization, tls })
    }

    fn io(&self, source: io::Error) -> ProxyError {
        ProxyError::Io { proxy: self.name.clone(), source }
    }

    fn nonsense(&self, protocol: &'static str) -> ProxyError {
        ProxyError::Nonsense { proxy: self.name.clone(), protocol }
    }

    fn refused(&self, failure: Failure) -> ProxyError {
        let proxy = self.name.clone();
        match failure {
            Failure::Refused(code) => ProxyError::Socks { proxy, code },
            Failure::Credentials => ProxyError::Credentials { proxy },
            Failure::Nonsense => self.nonsense("SOCKS 5"),
            Failure::TooLong(what) => ProxyError::TooLong { proxy, what },
        }
    }
}

fn basic(name: &str, password: &str) -> Result<HeaderValue, ConfigError> {
    if name.contains(':') {
        return Err(ConfigError::Invalid { problem: "a user name for a proxy cannot hold a colon".into() });
    }
    let pair = Zeroizing::new(format!("{name}:{password}"));
    let text = Zeroizing::new(format!("Basic {}", STANDARD.encode(pair.as_bytes())));
    let mut value = HeaderValue::from_str(&text)
        .map_err(|_| ConfigError::Invalid { problem: "the credentials for the proxy cannot be sent".into() })?;
    value.set_sensitive(true);
    Ok(value)
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Route")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("proxy", &self.via.as_ref().map(|via| &via.name))
            .finish()
    }
}
