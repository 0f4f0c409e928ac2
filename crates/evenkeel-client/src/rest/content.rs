//! How answers come: compressed or not, and never silent for long.

use http::header::{ACCEPT_ENCODING, Entry, HeaderMap, HeaderValue};
use http::{Response, StatusCode};

use super::retry::Terminal;
use crate::config::Config;
use crate::error::{CallName, Error};
use crate::transport::limits::Talkative;
use crate::transport::{Body, BodyError, BoxError, TransportError, gzip};

/// Says how the answer may be encoded, unless the request says so itself.
///
/// Streams are never compressed: an event would wait in the compressor for those behind it.
pub(crate) fn ask(headers: &mut HeaderMap, config: &Config, terminal: Terminal) {
    let encoding = if config.compression && terminal == Terminal::Call { gzip::ACCEPTED } else { "identity" };
    if let Entry::Vacant(vacant) = headers.entry(ACCEPT_ENCODING) {
        vacant.insert(HeaderValue::from_static(encoding));
    }
}

/// The answer as it is meant: decompressed, and an error if its body falls silent, unless it is a stream, which may.
pub(crate) fn receive(
    response: Response<Body>,
    call: &CallName,
    config: &Config,
    terminal: Terminal,
) -> Result<Response<Body>, Error> {
    // An answer without a body has nothing to wait for or to undo.
    if response.status() == StatusCode::NO_CONTENT {
        return Ok(response);
    }
    let response = match terminal {
        Terminal::Call if !is_at_hand(response.body()) => {
            let (patience, host) = (config.connections.body_idle_timeout, config.server.host());
            response.map(|body| Body::new(Talkative::new(body, patience, host)))
        }
        _ => response,
    };
    // What is read of it is limited by what it turns out to be; this is for what no reader sees.
    let limit = if terminal == Terminal::Call { config.limits.list } else { usize::MAX };
    gzip::decode(response, limit, config.limits.inflation).map_err(|error| refused(error, call))
}

/// Whether all of the body is here already.
fn is_at_hand(body: &Body) -> bool {
    body.try_clone().is_some()
}

/// The error of a body.
pub(crate) fn body_error(error: BoxError, call: &CallName, host: &str) -> Error {
    match error.downcast::<BodyError>() {
        Ok(error) => refused(*error, call),
        Err(error) => {
            let source = TransportError::from_any(error, host);
            Error::Transport { call: call.clone(), source, previous: None }
        }
    }
}

fn refused(error: BodyError, call: &CallName) -> Error {
    let call = call.clone();
    match error {
        BodyError::TooLarge { limit } => Error::TooLarge { call, limit: usize::try_from(limit).unwrap_or(usize::MAX) },
        other => Error::Unreadable { call, problem: other.to_string() },
    }
}
