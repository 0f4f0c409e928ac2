//! [`ServerTls`]: the server's side of handshakes.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use evenkeel_client::tls::default_provider;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::{CurrentPair, TlsError};

/// The time that a client has for the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The server's side of TLS: the current pair, and which clients may connect. Cheap to clone; clones share it.
#[derive(Clone, Debug)]
pub struct ServerTls(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    provider: Arc<CryptoProvider>,
    pair: CurrentPair,
    config: RwLock<Arc<ServerConfig>>,
}

impl ServerTls {
    /// Returns TLS with this pair. Every client may connect; no client certificate is requested.
    ///
    /// `provider` is by default that of the client's feature `aws-lc-rs` or `ring`.
    ///
    /// # Errors
    /// If there is no crypto provider, or rustls rejects it.
    pub fn new(pair: &CurrentPair, provider: Option<Arc<CryptoProvider>>) -> Result<Self, TlsError> {
        let provider = provider.or_else(default_provider).ok_or(TlsError::NoCryptoProvider)?;
        let config = RwLock::new(configure(&provider, pair, None)?);
        Ok(ServerTls(Arc::new(Shared { provider, pair: pair.clone(), config })))
    }

    /// Requires a client certificate that one of these authorities has issued, from the next handshake on.
    ///
    /// # Errors
    /// If the text has no usable certificate; the authorities stay as they were.
    pub fn require_clients_of(&self, authorities: &[u8]) -> Result<(), TlsError> {
        let config = configure(&self.0.provider, &self.0.pair, Some(authorities))?;
        *self.0.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// Returns the slot of the current pair.
    pub fn pair(&self) -> &CurrentPair {
        &self.0.pair
    }

    /// Returns the crypto provider.
    pub fn crypto_provider(&self) -> &Arc<CryptoProvider> {
        &self.0.provider
    }

    /// Does the handshake with a client, which has 10 seconds for it.
    ///
    /// # Errors
    /// If the handshake fails or times out, also while there is no pair.
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> io::Result<TlsStream<S>> {
        let config = Arc::clone(&self.0.config.read().unwrap_or_else(PoisonError::into_inner));
        let handshake = TlsAcceptor::from(config).accept(stream);
        tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await.map_err(|_| io::ErrorKind::TimedOut)?
    }
}

fn configure(
    provider: &Arc<CryptoProvider>,
    pair: &CurrentPair,
    authorities: Option<&[u8]>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let setup = |error: &dyn std::fmt::Display| TlsError::Setup { problem: error.to_string() };
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| setup(&error))?;
    let builder = match authorities {
        None => builder.with_no_client_auth(),
        Some(authorities) => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(CertificateDer::pem_slice_iter(authorities).filter_map(Result::ok));
            if roots.is_empty() {
                return Err(TlsError::NoClientAuthority);
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
                .build()
                .map_err(|error| setup(&error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(pair.clone()));
    config.require_ems |= provider.fips();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A resumed session would show no certificate, and would carry over the trust in a client.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}
