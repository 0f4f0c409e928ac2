//! The messages of an issuer: the discovery document and the refresh grant. Sans-IO.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use form_urlencoded::{Serializer, byte_serialize};
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Uri};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::is_protected;
use crate::auth::headers::secret_value;
use crate::config::{Config, ServerUrl};
use crate::secret::Secret;

const WELL_KNOWN: &str = "/.well-known/openid-configuration";
/// The problem of a response without an id token.
pub(super) const NO_ID_TOKEN: &str =
    "it has no id_token; the login must request the scope openid, and the issuer must support id tokens in refreshes";

/// The part of a discovery document that a refresh needs.
#[derive(Debug)]
pub(super) struct Discovery {
    /// The server of the token endpoint, which may be another host than the issuer's.
    pub(super) server: ServerUrl,
    pub(super) token_endpoint: Uri,
    /// Whether the client authenticates by the header `Authorization`, rather than in the form.
    pub(super) basic: bool,
}

/// The tokens that an issuer returned. A rotated refresh token counts even if there is no id token: the issuer may
/// accept the previous one no more.
#[derive(Debug)]
pub(super) struct TokenResponse {
    pub(super) id_token: Option<Secret>,
    /// The new refresh token, if the old one was replaced.
    pub(super) refresh_token: Option<Secret>,
}

/// Returns the URL of the discovery document.
pub(super) fn discovery_url(issuer: &ServerUrl) -> Option<Uri> {
    format!("{issuer}{WELL_KNOWN}").parse().ok()
}

/// Parses a discovery document. No problem repeats any of it.
pub(super) fn discovery(issuer: &ServerUrl, document: &[u8]) -> Result<Discovery, String> {
    let document: Value = serde_json::from_slice(document).map_err(|error| no_json(&error))?;
    let Some(endpoint) = document.get("token_endpoint").and_then(Value::as_str).filter(|url| !url.is_empty()) else {
        return Err("it has no token_endpoint".to_owned());
    };
    let (Ok(server), Ok(token_endpoint)) = (ServerUrl::parse(endpoint), endpoint.trim().parse::<Uri>()) else {
        return Err("its token_endpoint is no URL".to_owned());
    };
    // An issuer on this machine may be without TLS; any other must not lead to an endpoint without TLS.
    if !server.is_tls() && (issuer.is_tls() || !is_protected(&server)) {
        return Err("its token_endpoint is not https".to_owned());
    }
    // Without a list the form is used, as most issuers accept it.
    let methods = document.get("token_endpoint_auth_methods_supported").and_then(Value::as_array);
    let has = |name: &str| methods.is_some_and(|methods| methods.iter().any(|method| method.as_str() == Some(name)));
    let basic = has("client_secret_basic") && !has("client_secret_post");
    Ok(Discovery { server, token_endpoint, basic })
}

/// Returns the headers of every request.
pub(super) fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Ok(agent) = HeaderValue::try_from(Config::default_user_agent()) {
        headers.insert(USER_AGENT, agent);
    }
    headers
}

/// Returns the headers and the body of a refresh.
pub(super) fn refresh(
    client_id: &str,
    client_secret: Option<&Secret>,
    refresh_token: &Secret,
    basic: bool,
) -> (HeaderMap, Bytes) {
    let mut headers = headers();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "refresh_token").append_pair("refresh_token", refresh_token.expose());
    match client_secret {
        Some(secret) if basic => {
            let escape = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
            let pair = Zeroizing::new(format!("{}:{}", escape(client_id), escape(secret.expose())));
            let text = Zeroizing::new(format!("Basic {}", BASE64_STANDARD.encode(pair.as_bytes())));
            // Base64 is always a valid header.
            if let Ok(value) = secret_value("the client secret", text.as_bytes()) {
                headers.insert(AUTHORIZATION, value);
            }
        }
        Some(secret) => {
            form.append_pair("client_id", client_id).append_pair("client_secret", secret.expose());
        }
        None => {
            form.append_pair("client_id", client_id);
        }
    }
    (headers, Bytes::from(form.finish()))
}

/// Parses the response to a refresh. No problem repeats any of it.
pub(super) fn tokens(response: &[u8]) -> Result<TokenResponse, String> {
    let mut response: Map<String, Value> = serde_json::from_slice(response).map_err(|error| no_json(&error))?;
    let mut secret = |name: &str| match response.remove(name) {
        Some(Value::String(text)) if !text.is_empty() => Some(Secret::new(text)),
        _ => None,
    };
    Ok(TokenResponse { id_token: secret("id_token"), refresh_token: secret("refresh_token") })
}

/// The error's own text quotes values.
fn no_json(error: &serde_json::Error) -> String {
    format!("it is not the expected JSON (line {}, column {})", error.line(), error.column())
}
