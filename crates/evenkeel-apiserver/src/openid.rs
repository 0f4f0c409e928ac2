//! The metadata of the issuer of service-account tokens: `/.well-known/openid-configuration` and `/openid/v1/jwks` (AUT-15).

use evenkeel_core::Status;
use http::header::{self, HeaderValue};
use serde_json::json;

use crate::engine::ISSUER;
use crate::http_types::Body;
use crate::token_keys::{ALGORITHM, TokenKeys};

/// The documents of the issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IssuerDocument {
    /// `/.well-known/openid-configuration`
    Configuration,
    /// `/openid/v1/jwks`
    KeySet,
}

/// Serves a document of the issuer. `base_url` is the server's own, as the client spells it.
pub(crate) fn respond(
    document: IssuerDocument,
    keys: &TokenKeys,
    base_url: &str,
) -> Result<http::Response<Body>, Status> {
    let (media, body) = match document {
        IssuerDocument::Configuration => {
            let configuration = json!({
                "issuer": ISSUER,
                "jwks_uri": format!("{base_url}/openid/v1/jwks"),
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": [ALGORITHM],
            });
            ("application/json", configuration)
        }
        IssuerDocument::KeySet => {
            let set = keys.key_set().map_err(|error| {
                tracing::error!(%error, "failed to make the key of service-account tokens");
                Status::internal(format!("failed to make the key of service-account tokens: {error}"))
            })?;
            ("application/jwk-set+json", set)
        }
    };
    let mut response = http::Response::new(Body::whole(body.to_string()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    Ok(response)
}
