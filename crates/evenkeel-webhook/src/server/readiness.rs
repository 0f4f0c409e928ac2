//! Whether a webhook server can be called. Sans-IO.

use jiff::Timestamp;

use super::Listening;

/// Returns why API servers cannot call the server.
pub(super) fn check(listening: &Listening, service_name: Option<&str>, now: Timestamp) -> Result<(), String> {
    let tls = match listening {
        Listening::No => return Err("webhook server has not been started yet".to_owned()),
        Listening::Off => return Ok(()),
        Listening::Yes(tls) => tls,
    };
    let Some(pair) = tls.pair().get() else { return Err("webhook server has no certificate yet".to_owned()) };
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
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}
