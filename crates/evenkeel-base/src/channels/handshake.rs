//! The headers of the upgrade to a WebSocket, without I/O.

use http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use http::header::{SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION};
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// The client's side of one handshake.
#[derive(Debug)]
pub struct ClientHandshake {
    key: String,
    protocols: &'static [&'static str],
}

/// Why the response to a handshake is not acceptable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// A header does not confirm the upgrade.
    #[error("the header {name} of the response does not confirm the upgrade")]
    Header {
        /// The name of the header.
        name: &'static str,
    },
    /// The server chose a subprotocol that was not offered, or none.
    #[error("the server chose the subprotocol {chosen:?}, which was not offered")]
    Subprotocol {
        /// The subprotocol; empty if the server chose none.
        chosen: String,
    },
}

impl ClientHandshake {
    /// Returns a handshake with a new random key that offers these subprotocols, the preferred one first.
    pub fn new(protocols: &'static [&'static str]) -> Self {
        ClientHandshake { key: generate_key(), protocols }
    }

    /// Returns the headers of the request.
    pub fn headers(&self) -> [(HeaderName, String); 5] {
        [
            (CONNECTION, "Upgrade".to_owned()),
            (UPGRADE, "websocket".to_owned()),
            (SEC_WEBSOCKET_VERSION, "13".to_owned()),
            (SEC_WEBSOCKET_KEY, self.key.clone()),
            (SEC_WEBSOCKET_PROTOCOL, self.protocols.join(", ")),
        ]
    }

    /// Checks the headers of a response with status 101. Returns the subprotocol.
    ///
    /// # Errors
    /// Returns an error if the response does not belong to this request, or if the subprotocol was not offered.
    pub fn check(&self, headers: &HeaderMap) -> Result<&'static str, HandshakeError> {
        if !has_token(headers, &UPGRADE, "websocket") {
            return Err(HandshakeError::Header { name: "upgrade" });
        }
        if !has_token(headers, &CONNECTION, "upgrade") {
            return Err(HandshakeError::Header { name: "connection" });
        }
        let accept = derive_accept_key(self.key.as_bytes());
        if headers.get(SEC_WEBSOCKET_ACCEPT).is_none_or(|value| value.as_bytes() != accept.as_bytes()) {
            return Err(HandshakeError::Header { name: "sec-websocket-accept" });
        }
        let chosen = headers.get(SEC_WEBSOCKET_PROTOCOL).map_or(&[][..], HeaderValue::as_bytes);
        let offered = self.protocols.iter().find(|protocol| protocol.as_bytes() == chosen);
        offered.copied().ok_or_else(|| HandshakeError::Subprotocol {
            chosen: String::from_utf8_lossy(chosen.get(..64).unwrap_or(chosen)).into_owned(),
        })
    }
}

/// The server's side of one handshake.
#[derive(Debug)]
pub struct ServerHandshake {
    /// The chosen subprotocol.
    pub protocol: &'static str,
    /// The headers of the response with status 101.
    pub headers: HeaderMap,
}

/// Why a server refuses an upgrade.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The request does not ask for an upgrade.
    #[error("Upgrade request required")]
    NoUpgrade,
    /// The request asks for SPDY.
    #[error("unable to upgrade: SPDY is not supported, use a WebSocket")]
    Spdy,
    /// The request asks for a WebSocket in a malformed way.
    #[error("unable to upgrade: the header {name} is missing or invalid")]
    Header {
        /// The name of the header.
        name: &'static str,
    },
    /// The server has none of the offered subprotocols.
    #[error("unable to upgrade: none of the subprotocols is supported, use one of {supported:?}")]
    Subprotocol {
        /// The subprotocols of the server.
        supported: &'static [&'static str],
    },
}

impl ServerHandshake {
    /// Checks the headers of a request and chooses the first offered subprotocol that is supported.
    ///
    /// # Errors
    /// Returns an error if the request is no handshake, or if no offered subprotocol is supported.
    pub fn accept(headers: &HeaderMap, supported: &'static [&'static str]) -> Result<Self, Refusal> {
        if !has_token(headers, &CONNECTION, "upgrade") || !headers.contains_key(UPGRADE) {
            return Err(Refusal::NoUpgrade);
        }
        if has_token(headers, &UPGRADE, "spdy/3.1") {
            return Err(Refusal::Spdy);
        }
        if !has_token(headers, &UPGRADE, "websocket") {
            return Err(Refusal::Header { name: "upgrade" });
        }
        if !has_token(headers, &SEC_WEBSOCKET_VERSION, "13") {
            return Err(Refusal::Header { name: "sec-websocket-version" });
        }
        let Some(key) = headers.get(SEC_WEBSOCKET_KEY) else {
            return Err(Refusal::Header { name: "sec-websocket-key" });
        };
        let mut offered = tokens(headers, &SEC_WEBSOCKET_PROTOCOL);
        let protocol = offered.find_map(|offer| supported.iter().find(|known| **known == offer));
        let Some(protocol) = protocol.copied() else { return Err(Refusal::Subprotocol { supported }) };
        let mut response = HeaderMap::new();
        response.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        response.insert(UPGRADE, HeaderValue::from_static("websocket"));
        response.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
        let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes()));
        response.insert(SEC_WEBSOCKET_ACCEPT, accept.map_err(|_| Refusal::Header { name: "sec-websocket-key" })?);
        Ok(ServerHandshake { protocol, headers: response })
    }
}

/// Returns the values of a header that is a list.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> + use<'a> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    tokens(headers, name).any(|value| value.eq_ignore_ascii_case(token))
}
