//! Continue tokens: the position at which the next page of a list starts.

use base64::Engine;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use evenkeel_core::Status;
use serde_json::{Value, json};

use crate::go_json;

const VERSION: &str = "meta.k8s.io/v1";

/// Go's unpadded URL encoding, which accepts trailing bits.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// The position after which a list continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContinueToken {
    /// The revision of the first page; `None` continues at the latest revision, inconsistently.
    pub(crate) revision: Option<u64>,
    /// The last key of the previous page, relative to the list.
    pub(crate) after: String,
}

impl ContinueToken {
    pub(crate) fn encode(&self) -> String {
        let revision = self.revision.map_or(json!(-1), |revision| json!(revision));
        let token = json!({"v": VERSION, "rv": revision, "start": format!("{}\0", self.after)});
        BASE64.encode(token.to_string())
    }

    pub(crate) fn decode(text: &str) -> Result<Self, Status> {
        Self::parse(text).map_err(|why| Status::bad_request(format!("invalid continue token: {why}")))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let bytes = BASE64.decode(text).map_err(|error| match error {
            base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => {
                format!("continue key is not valid: illegal base64 data at input byte {at}")
            }
            _ => format!("continue key is not valid: illegal base64 data at input byte {}", text.len()),
        })?;
        let token: Value = serde_json::from_slice(&bytes)
            .map_err(|error| go_json::syntax_error(&bytes).unwrap_or_else(|| error.to_string()))
            .map_err(|why| format!("continue key is not valid: {why}"))?;
        match token.get("v").and_then(Value::as_str).unwrap_or_default() {
            VERSION => {}
            other => {
                return Err(format!(
                    "continue key is not valid: server does not recognize this encoded version {other:?}"
                ));
            }
        }
        let revision = match token.get("rv").and_then(Value::as_i64) {
            Some(-1) => None,
            Some(revision) if revision > 0 => u64::try_from(revision).ok(),
            _ => {
                return Err(format!(
                    "continue key is not valid: incorrect encoded start resourceVersion (version {VERSION})"
                ));
            }
        };
        let start = token.get("start").and_then(Value::as_str).unwrap_or_default();
        if start.is_empty() {
            return Err(format!("continue key is not valid: encoded start key empty (version {VERSION})"));
        }
        let after = start.strip_suffix('\0').unwrap_or(start);
        let clean = |segment: &str| !matches!(segment, "" | "." | "..");
        if !after.split('/').all(clean) || after.contains('\0') {
            return Err(format!("continue key is not valid: {start:?}"));
        }
        Ok(ContinueToken { revision, after: after.to_owned() })
    }
}

#[cfg(test)]
mod tests;
