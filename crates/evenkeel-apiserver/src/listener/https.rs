//! [`HttpsClient`]: calls webhooks over HTTPS with HTTP/1.1.
//!
//! The texts of errors are those of Go's HTTP client, which is what users of kube-apiserver search for.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls::client::WantsClientCert;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::tls::provider;
use super::webhook_trust::BundleVerifier;
use crate::outbound::{CallAddress, CallError, CallResult, HttpsEndpoint};

const USER_AGENT: &str = "kube-apiserver-admission";
/// The largest response: a review of a large list.
const MAX_RESPONSE: usize = 64 << 20;
/// How many unused connections are kept, in all and per server, and for how long.
const MAX_IDLE: usize = 64;
const MAX_IDLE_PER_SERVER: usize = 8;
const IDLE: Duration = Duration::from_secs(60);
/// How many sets of trusted certificates are kept compiled.
const MAX_TRUSTED: usize = 64;
/// How much of a response that is not JSON an error shows.
const SHOWN: usize = 2048;
/// Go's text about a certificate that is too old or too new.
const INVALID_DATE: &str = "x509: certificate has expired or is not yet valid";

/// An HTTPS client with a pool of connections.
#[derive(Default)]
pub(crate) struct HttpsClient {
    idle: Mutex<Vec<IdleConnection>>,
    trusted: Mutex<HashMap<[u8; 32], Arc<ClientConfig>>>,
    system: OnceLock<Arc<ClientConfig>>,
}

struct IdleConnection {
    server: ServerKey,
    since: Instant,
    sender: SendRequest<Full<Bytes>>,
}

/// Calls with equal keys can share a connection.
#[derive(Clone, PartialEq, Eq)]
struct ServerKey {
    address: CallAddress,
    name: String,
    trusted: [u8; 32],
}

impl std::fmt::Debug for HttpsClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpsClient").finish_non_exhaustive()
    }
}

impl HttpsClient {
    /// Posts JSON and returns the body of the response.
    pub(super) async fn post(&self, endpoint: &HttpsEndpoint, body: Bytes) -> CallResult {
        let server = ServerKey {
            address: endpoint.address.clone(),
            name: endpoint.server_name.clone(),
            trusted: Sha256::digest(&endpoint.ca_bundle).into(),
        };
        let failed = |why: String| CallError(format!("Post \"{}\": {why}", endpoint.url));
        let (response, sender) = self.send(endpoint, &server, &body).await.map_err(failed)?;
        let code = response.status();
        let body = Limited::new(response.into_body(), MAX_RESPONSE).collect().await;
        let body = body.map_err(|error| failed(format!("error reading the response: {error}")))?.to_bytes();
        self.keep(server, sender);
        match code.as_u16() {
            200..=206 => Ok(body),
            _ => Err(CallError(status_text(code, &body))),
        }
    }

    /// Sends a request on an unused connection or a new one.
    async fn send(
        &self,
        endpoint: &HttpsEndpoint,
        server: &ServerKey,
        body: &Bytes,
    ) -> Result<(Response<Incoming>, SendRequest<Full<Bytes>>), String> {
        while let Some(mut sender) = self.take(server) {
            if sender.ready().await.is_err() {
                continue;
            }
            match sender.try_send_request(request(endpoint, body)?).await {
                Ok(response) => return Ok((response, sender)),
                Err(mut error) => {
                    // A request that comes back was not sent: the server had closed the connection.
                    if error.take_message().is_none() {
                        return Err(hyper_text(error.error()));
                    }
                }
            }
        }
        let mut sender = self.connect(endpoint, server).await?;
        let response = sender.send_request(request(endpoint, body)?).await;
        response.map(|response| (response, sender)).map_err(|error| hyper_text(&error))
    }

    async fn connect(&self, endpoint: &HttpsEndpoint, server: &ServerKey) -> Result<SendRequest<Full<Bytes>>, String> {
        let config = self.config(server.trusted, &endpoint.ca_bundle)?;
        let name = ServerName::try_from(endpoint.server_name.clone()).map_err(|error| error.to_string())?;
        let stream = dial(&endpoint.address).await?;
        let stream = TlsConnector::from(config).connect(name, stream).await.map_err(|error| tls_text(&error))?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| hyper_text(&error))?;
        // The task ends with the connection, which ends when its sender is dropped.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection to a webhook ended");
            }
        });
        Ok(sender)
    }

    fn take(&self, server: &ServerKey) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = lock(&self.idle);
        idle.retain(|connection| connection.since.elapsed() < IDLE && !connection.sender.is_closed());
        let index = idle.iter().rposition(|connection| connection.server == *server)?;
        Some(idle.swap_remove(index).sender)
    }

    /// Keeps a connection whose response has been read.
    fn keep(&self, server: ServerKey, sender: SendRequest<Full<Bytes>>) {
        let mut idle = lock(&self.idle);
        let same = idle.iter().filter(|connection| connection.server == server).count();
        if same >= MAX_IDLE_PER_SERVER || sender.is_closed() {
            return;
        }
        if idle.len() >= MAX_IDLE {
            idle.remove(0);
        }
        idle.push(IdleConnection { server, since: Instant::now(), sender });
    }

    /// Returns the client's side of TLS that trusts a bundle, or the certificates of the system.
    fn config(&self, hash: [u8; 32], bundle: &[u8]) -> Result<Arc<ClientConfig>, String> {
        if bundle.iter().all(u8::is_ascii_whitespace) {
            if let Some(config) = self.system.get() {
                return Ok(Arc::clone(config));
            }
            let mut roots = RootCertStore::empty();
            let loaded = rustls_native_certs::load_native_certs();
            if loaded.certs.is_empty() {
                let why = loaded.errors.first().map(ToString::to_string).unwrap_or_default();
                tracing::warn!(why, "no trusted certificates on this system; webhooks need a caBundle");
            }
            roots.add_parsable_certificates(loaded.certs);
            let config = finished(tls_versions(provider())?.with_root_certificates(roots));
            return Ok(Arc::clone(self.system.get_or_init(|| config)));
        }
        if let Some(config) = lock(&self.trusted).get(&hash) {
            return Ok(Arc::clone(config));
        }
        let unusable = |why: &str| format!("unable to load root certificates: {why}");
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bundle).collect();
        let certificates = certificates.map_err(|error| unusable(&error.to_string()))?;
        if certificates.is_empty() {
            return Err(unusable("unable to parse bytes as PEM block"));
        }
        let provider = provider();
        let verifier = BundleVerifier::new(certificates, &provider).map_err(|error| unusable(&error.to_string()))?;
        let config = finished(tls_versions(provider)?.dangerous().with_custom_certificate_verifier(verifier));
        let mut trusted = lock(&self.trusted);
        if trusted.len() >= MAX_TRUSTED {
            trusted.clear();
        }
        trusted.insert(hash, Arc::clone(&config));
        Ok(config)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tls_versions(provider: Arc<CryptoProvider>) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, String> {
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    builder.map_err(|error| format!("tls: {error}"))
}

fn finished(builder: ConfigBuilder<ClientConfig, WantsClientCert>) -> Arc<ClientConfig> {
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

fn request(endpoint: &HttpsEndpoint, body: &Bytes) -> Result<Request<Full<Bytes>>, String> {
    Request::post(&endpoint.path)
        .header(header::HOST, &endpoint.authority)
        .header(header::USER_AGENT, USER_AGENT)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, */*")
        .body(Full::new(body.clone()))
        .map_err(|error| error.to_string())
}

async fn dial(address: &CallAddress) -> Result<TcpStream, String> {
    let addresses: Vec<SocketAddr> = match address {
        CallAddress::Socket(address) => vec![*address],
        CallAddress::Host(host, port) => {
            let found = lookup_host((host.as_str(), *port)).await;
            found.map_err(|_| format!("dial tcp: lookup {host}: no such host"))?.collect()
        }
    };
    let mut failed = "dial tcp: no addresses".to_owned();
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // A review is one write, and its sender waits for the response.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => failed = format!("dial tcp {address}: connect: {}", io_text(&error)),
        }
    }
    Err(failed)
}

/// Returns the text of Go for an error of the system.
fn io_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        _ => error.to_string(),
    }
}

/// Returns the text of Go for a failed handshake.
fn tls_text(error: &io::Error) -> String {
    let Some(cause) = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>()) else {
        return io_text(error);
    };
    let rustls::Error::InvalidCertificate(fault) = cause else { return format!("tls: {cause}") };
    let text = match fault {
        // Another authority of the same name made the signature.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "x509: certificate signed by unknown authority".to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let expected = expected.to_str();
            let presented: Vec<&str> = presented.iter().map(|name| san_text(name)).collect();
            match presented.is_empty() {
                true => format!("x509: certificate is not valid for any names, but wanted to match {expected}"),
                false => format!("x509: certificate is valid for {}, not {expected}", presented.join(", ")),
            }
        }
        CertificateError::ExpiredContext { time, not_after } => {
            format!("{INVALID_DATE}: current time {} is after {}", moment(*time), moment(*not_after))
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            format!("{INVALID_DATE}: current time {} is before {}", moment(*time), moment(*not_before))
        }
        CertificateError::Expired | CertificateError::NotValidYet => INVALID_DATE.to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "x509: certificate specifies an incompatible key usage".to_owned()
        }
        other => format!("x509: {other}"),
    };
    format!("tls: failed to verify certificate: {text}")
}

fn moment(time: UnixTime) -> Timestamp {
    i64::try_from(time.as_secs()).ok().and_then(|seconds| Timestamp::from_second(seconds).ok()).unwrap_or_default()
}

/// Takes the name out of rustls' notation `DnsName("x")`.
fn san_text(name: &str) -> &str {
    name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).map_or(name, |rest| rest.trim_matches('"'))
}

fn hyper_text(error: &hyper::Error) -> String {
    if error.is_incomplete_message() {
        return "EOF".to_owned();
    }
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    source.map_or_else(|| error.to_string(), io_text)
}

/// Returns the text of client-go for a response with an error code: the message of a Status, or one for the code.
fn status_text(code: StatusCode, body: &[u8]) -> String {
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    let is_status = |value: &Value| value.get("kind").and_then(Value::as_str) == Some("Status");
    let message = parsed.as_ref().filter(|value| is_status(value)).and_then(|value| value.get("message")?.as_str());
    if let Some(message) = message.filter(|message| !message.is_empty()) {
        return message.to_owned();
    }
    let shown = String::from_utf8_lossy(body.get(..SHOWN).unwrap_or(body)).trim().to_owned();
    match code.as_u16() {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 => shown,
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        409 => "the server reported a conflict".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
                .to_owned()
        }
        500.. => format!("an error on the server ({shown:?}) has prevented the request from succeeding"),
        other => format!("the server responded with the status code {other} but did not return more information"),
    }
}
