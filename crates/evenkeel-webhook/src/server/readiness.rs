//! Whether a webhook server can be called. Sans-IO.

use std::sync::Arc;

use evenkeel_runtime::tls::ServingPair;
use jiff::Timestamp;

use super::Listening;

/// Returns the pair of new handshakes; `None` if the server is off. The error says why there is none.
pub(super) fn serving_pair(listening: &Listening) -> Result<Option<Arc<ServingPair>>, String> {
    match listening {
        Listening::No => Err("webhook server has not been started yet".to_owned()),
        Listening::Off => Ok(None),
        Listening::Yes(tls) => {
            tls.pair().get().map(Some).ok_or_else(|| "webhook server has no certificate yet".to_owned())
        }
    }
}

/// Returns why API servers cannot call the server.
pub(super) fn check(listening: &Listening, service_name: Option<&str>, now: Timestamp) -> Result<(), String> {
    let Some(pair) = serving_pair(listening)? else { return Ok(()) };
    if pair.not_after() <= now {
        return Err(format!("the certificate of the webhook server expired at {}", pair.not_after()));
    }
    match service_name {
        Some(name) if !pair.is_for(name) => {
            Err(format!("the certificate of the webhook server is not for {name}, which API servers call"))
        }
        _ => Ok(()),
    }
}

#[expect(clippy::disallowed_methods, reason = "certificates are valid in real time")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
