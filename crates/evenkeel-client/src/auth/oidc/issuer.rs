//! [`IssuerClient`]: requests to the issuer, over the client's own transport.

use std::sync::Arc;

use http::{Method, StatusCode, Uri};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use zeroize::Zeroizing;

use super::OidcProvider;
use super::error::OidcProblem;
use super::protocol::{self, NO_ID_TOKEN, TokenResponse};
use crate::auth::mask_location;
use crate::auth::redact::Redactor;
use crate::config::{Config, ConfigError, ServerUrl};
use crate::secret::Secret;
use crate::transport::{Body, Transport, TransportError, TransportFault, gzip};

/// The most that is read of a response.
const MAX_RESPONSE: usize = 1 << 20;
/// The most that an error quotes. client-go's number.
const MAX_QUOTE: usize = 80;
/// The maximal ratio of decompressed to compressed size.
const MAX_INFLATION: usize = 200;

/// Returns a transport to a server of the issuer. Blocks while certificates are read from files.
pub(super) type Connector = Arc<dyn Fn(&ServerUrl) -> Result<Transport, ConfigError> + Send + Sync>;

/// Returns the connector of a provider: with its CA, and the connection settings and the environment's proxy of the
/// client. The CA, the proxy and the certificate of the cluster have no effect.
pub(super) fn connector(config: &Config, provider: &OidcProvider) -> Connector {
    let (ca, connections) = (provider.ca.clone(), config.connections.clone());
    let crypto_provider = config.tls.crypto_provider.clone();
    Arc::new(move |server| {
        let mut config = Config::new(server.clone());
        config.tls.ca.clone_from(&ca);
        config.tls.crypto_provider.clone_from(&crypto_provider);
        config.connections.clone_from(&connections);
        Transport::network(&config, None)
    })
}

/// The result of a refresh that the issuer granted.
pub(super) struct Refreshed {
    pub(super) id_token: Result<Secret, OidcProblem>,
    /// The new refresh token, if the old one was replaced.
    pub(super) rotated: Option<Secret>,
}

/// Refreshes tokens.
pub(super) struct IssuerClient {
    issuer: ServerUrl,
    client_id: String,
    client_secret: Option<Secret>,
    connect: Connector,
    transport: Transport,
}

impl IssuerClient {
    /// Opens no connection yet. Blocks while the CA is read from its file.
    pub(super) fn new(provider: &OidcProvider, connect: Connector) -> Result<Self, ConfigError> {
        let OidcProvider { issuer, client_id, client_secret, .. } = provider.clone();
        let transport = connect(&issuer)?;
        Ok(IssuerClient { issuer, client_id, client_secret, connect, transport })
    }

    pub(super) fn issuer(&self) -> &ServerUrl {
        &self.issuer
    }

    /// Requests new tokens. The caller limits the time.
    pub(super) async fn refresh(&self, refresh_token: &Secret) -> Result<Refreshed, OidcProblem> {
        let redactor = Redactor::new(self.client_secret.iter().chain([refresh_token]).cloned());
        let Some(url) = protocol::discovery_url(&self.issuer) else {
            let problem = "it is no URL that can be requested".to_owned();
            return Err(OidcProblem::Response { url: self.issuer.to_string(), problem });
        };
        let mut request = http::Request::new(Body::empty());
        *request.uri_mut() = url.clone();
        *request.headers_mut() = protocol::headers();
        let document = send(&self.transport, request, &redactor).await?;
        let found = protocol::discovery(&self.issuer, &document).map_err(|problem| response_problem(&url, problem))?;

        let transport = self.transport_to(&found.server, &found.token_endpoint).await?;
        let (headers, form) =
            protocol::refresh(&self.client_id, self.client_secret.as_ref(), refresh_token, found.basic);
        let mut request = http::Request::new(Body::full(form));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = found.token_endpoint.clone();
        *request.headers_mut() = headers;
        let response = send(&transport, request, &redactor).await?;
        let useless = |problem| response_problem(&found.token_endpoint, problem);
        let TokenResponse { id_token, refresh_token: rotated } = protocol::tokens(&response).map_err(useless)?;
        Ok(Refreshed { id_token: id_token.ok_or_else(|| useless(NO_ID_TOKEN.to_owned())), rotated })
    }

    async fn transport_to(&self, server: &ServerUrl, url: &Uri) -> Result<Transport, OidcProblem> {
        if (server.scheme(), server.authority()) == (self.issuer.scheme(), self.issuer.authority()) {
            return Ok(self.transport.clone());
        }
        let (connect, target) = (Arc::clone(&self.connect), server.clone());
        let failed = |error: crate::transport::BoxError| OidcProblem::Request {
            url: shown(url),
            source: TransportError::new(TransportFault::Tls, server.host(), error),
        };
        match tokio::task::spawn_blocking(move || connect(&target)).await {
            Ok(transport) => transport.map_err(|error| failed(error.into())),
            Err(error) => Err(failed(error.into())),
        }
    }
}

/// Sends a request and returns the body of a successful response.
async fn send(
    transport: &Transport,
    request: http::Request<Body>,
    redactor: &Redactor,
) -> Result<Zeroizing<Vec<u8>>, OidcProblem> {
    let url = request.uri().clone();
    let host = url.host().unwrap_or_default();
    let failed = |error| OidcProblem::Request { url: shown(&url), source: TransportError::from_any(error, host) };
    let response = transport.send(request).await.map_err(failed)?;
    let status = response.status();
    let response = gzip::decode(response, MAX_RESPONSE, MAX_INFLATION).map_err(|error| failed(error.into()))?;
    let (bytes, is_cut) = read(response.into_body()).await.map_err(failed)?;
    if status != StatusCode::OK {
        let body = quote(&bytes, is_cut, redactor);
        return Err(OidcProblem::Status { url: shown(&url), status, body });
    }
    if is_cut {
        return Err(response_problem(&url, format!("it is larger than {MAX_RESPONSE} bytes")));
    }
    Ok(bytes)
}

/// Reads a body up to the limit. Returns whether there was more.
async fn read(mut body: Body) -> Result<(Zeroizing<Vec<u8>>, bool), crate::transport::BoxError> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(MAX_RESPONSE);
    let mut bytes = Zeroizing::new(Vec::with_capacity(announced.min(MAX_RESPONSE)));
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        let left = MAX_RESPONSE - bytes.len();
        bytes.extend_from_slice(data.get(..left).unwrap_or(&data));
        if data.len() > left {
            return Ok((bytes, true));
        }
    }
    Ok((bytes, false))
}

/// Returns the beginning of a response, for an error.
fn quote(bytes: &[u8], is_cut: bool, redactor: &Redactor) -> String {
    let text = String::from_utf8_lossy(bytes);
    // The end of what was cut may be a part of a secret, which would not be recognised.
    let text = if is_cut { text.rsplit_once(char::is_whitespace).map_or("", |(text, _)| text) } else { &*text };
    let mut quote = redactor.redact(text, false);
    if quote.len() > MAX_QUOTE {
        let end = (0..=MAX_QUOTE).rev().find(|end| quote.is_char_boundary(*end)).unwrap_or(0);
        quote.truncate(end);
    }
    quote
}

fn response_problem(url: &Uri, problem: String) -> OidcProblem {
    OidcProblem::Response { url: shown(url), problem }
}

/// Returns a URL without its query.
fn shown(url: &Uri) -> String {
    mask_location(&url.to_string())
}
