//! The expiry of an id token. Sans-IO.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::error::OidcProblem;
use crate::secret::Secret;

/// How long before its expiry an id token is no longer used, in seconds. client-go's value.
const LEEWAY: i64 = 10;

/// Returns the time until which a token is used; `None` if it has no expiry. Its signature is not verified: the API
/// server does that.
pub(super) fn usable_until(token: &Secret) -> Result<Option<Timestamp>, OidcProblem> {
    let invalid = |problem| OidcProblem::IdToken { problem };
    let mut parts = token.expose().split('.');
    let (Some(_), Some(payload), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return Err(invalid("is no JWT: it does not have three parts"));
    };
    let payload =
        BASE64_URL_SAFE_NO_PAD.decode(payload).map_err(|_| invalid("is no JWT: its payload is not base64"))?;
    let payload = Zeroizing::new(payload);
    let claims: Map<String, Value> =
        serde_json::from_slice(&payload).map_err(|_| invalid("is no JWT: its payload is no JSON object"))?;
    let exp = match claims.get("exp") {
        None | Some(Value::Null) => return Ok(None),
        Some(exp) => exp,
    };
    let seconds = exp.as_i64().or_else(|| exp.as_f64().map(|seconds| seconds as i64));
    let until = seconds.and_then(|seconds| Timestamp::from_second(seconds.saturating_sub(LEEWAY)).ok());
    until.map(Some).ok_or_else(|| invalid("has an expiry that is no time"))
}
