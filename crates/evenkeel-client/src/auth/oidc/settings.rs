//! The settings of the auth provider `oidc` in a kubeconfig.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::{OidcProvider, is_protected};
use crate::config::{Pem, ServerUrl};
use crate::secret::Secret;

/// The name of the provider.
pub(super) const NAME: &str = "oidc";
/// The file with the issuer's CA.
pub(crate) const CERTIFICATE_AUTHORITY: &str = "idp-certificate-authority";
const CERTIFICATE_AUTHORITY_DATA: &str = "idp-certificate-authority-data";
const ISSUER: &str = "idp-issuer-url";
const CLIENT_ID: &str = "client-id";
const CLIENT_SECRET: &str = "client-secret";
pub(super) const ID_TOKEN: &str = "id-token";
pub(super) const REFRESH_TOKEN: &str = "refresh-token";

impl OidcProvider {
    /// Returns the provider of these settings, or all their problems. No problem repeats a value. Unknown settings are
    /// ignored, as are `extra-scopes`. An inline CA takes precedence over a file.
    pub(crate) fn from_settings(settings: &BTreeMap<String, Secret>) -> Result<Self, Vec<&'static str>> {
        let get = |name: &str| settings.get(name).filter(|value| !value.is_empty());
        let mut problems = Vec::new();
        let issuer = match get(ISSUER).map(|url| ServerUrl::parse(url.expose())) {
            Some(Ok(issuer)) if is_protected(&issuer) => Some(issuer),
            Some(Ok(_)) => {
                problems.push("has an oidc auth-provider whose idp-issuer-url is not https");
                None
            }
            Some(Err(_)) => {
                problems.push("has an oidc auth-provider whose idp-issuer-url is no URL");
                None
            }
            None => {
                problems.push("has an oidc auth-provider without idp-issuer-url");
                None
            }
        };
        let client_id = get(CLIENT_ID);
        if client_id.is_none() {
            problems.push("has an oidc auth-provider without client-id");
        }
        let ca = match (get(CERTIFICATE_AUTHORITY_DATA), get(CERTIFICATE_AUTHORITY)) {
            (Some(data), _) => {
                let ca = decode(data);
                if ca.is_none() {
                    problems
                        .push("has an oidc auth-provider whose idp-certificate-authority-data is not PEM in base64");
                }
                ca.map(Pem::Data)
            }
            (None, Some(path)) => Some(Pem::File(path.expose().into())),
            (None, None) => None,
        };
        let (Some(issuer), Some(client_id), true) = (issuer, client_id, problems.is_empty()) else {
            return Err(problems);
        };
        let mut provider = OidcProvider::new(issuer, client_id.expose());
        provider.client_secret = get(CLIENT_SECRET).cloned();
        provider.ca = ca;
        provider.id_token = get(ID_TOKEN).cloned();
        provider.refresh_token = get(REFRESH_TOKEN).cloned();
        Ok(provider)
    }
}

fn decode(data: &Secret) -> Option<String> {
    // As in Go, line breaks are ignored.
    let text: String = data.expose().chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    BASE64_STANDARD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok())
}
