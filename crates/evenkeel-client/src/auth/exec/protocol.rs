//! The protocol `client.authentication.k8s.io`: the request in a plugin's environment, and its response on stdout.
//! Sans-IO.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::ExecPlugin;
use super::error::ExecProblem;
use crate::config::{Config, Proxy};
use crate::secret::Secret;

/// The variable with the request.
pub(super) const EXEC_INFO: &str = "KUBERNETES_EXEC_INFO";
const KIND: &str = "ExecCredential";

/// The version of the plugin protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExecApiVersion {
    /// `client.authentication.k8s.io/v1`.
    V1,
    /// `client.authentication.k8s.io/v1beta1`.
    V1Beta1,
}

impl ExecApiVersion {
    /// Returns the name, with the group.
    pub fn as_str(self) -> &'static str {
        match self {
            ExecApiVersion::V1 => "client.authentication.k8s.io/v1",
            ExecApiVersion::V1Beta1 => "client.authentication.k8s.io/v1beta1",
        }
    }

    /// Parses the name.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        [ExecApiVersion::V1, ExecApiVersion::V1Beta1].into_iter().find(|version| version.as_str() == text)
    }
}

/// Returns the value of `KUBERNETES_EXEC_INFO`. Like Go's encoder it ends with a line break.
pub(super) fn request(version: ExecApiVersion, is_interactive: bool, cluster: Option<&Value>) -> String {
    let mut spec = Map::new();
    if let Some(cluster) = cluster {
        spec.insert("cluster".to_owned(), cluster.clone());
    }
    spec.insert("interactive".to_owned(), is_interactive.into());
    format!("{}\n", json!({"kind": KIND, "apiVersion": version.as_str(), "spec": spec}))
}

/// Returns the cluster for a plugin that receives it. `ca` is the content of the CA file, or the inline CA.
pub(super) fn cluster(config: &Config, plugin: &ExecPlugin, ca: Option<&[u8]>) -> Value {
    let mut cluster = Map::new();
    let mut set = |name: &str, value: Value| cluster.insert(name.to_owned(), value);
    set("server", config.server.to_string().into());
    if let Some(name) = config.tls.server_name.as_ref().filter(|name| !name.is_empty()) {
        set("tls-server-name", name.as_str().into());
    }
    if config.tls.insecure_skip_verify {
        set("insecure-skip-tls-verify", true.into());
    }
    if let Some(ca) = ca {
        set("certificate-authority-data", BASE64_STANDARD.encode(ca).into());
    }
    // The plugin inherits the variables that name other proxies.
    if let Proxy::Url(url) = &config.proxy {
        set("proxy-url", url.to_url_with_credentials().expose().into());
    }
    if !config.compression {
        set("disable-compression", true.into());
    }
    if let Some(settings) = &plugin.cluster_config {
        set("config", settings.0.clone());
    }
    Value::Object(cluster)
}

/// The credential that a plugin printed: a token, a certificate with its key, or both.
#[derive(Debug)]
pub(super) struct Printed {
    pub(super) token: Option<Secret>,
    pub(super) certificate: Option<(String, Secret)>,
    pub(super) expires: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    status: Option<ExecCredentialStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredentialStatus {
    #[serde(default)]
    expiration_timestamp: Option<String>,
    #[serde(default, deserialize_with = "secret")]
    token: Option<Secret>,
    #[serde(default)]
    client_certificate_data: Option<String>,
    #[serde(default, deserialize_with = "secret")]
    client_key_data: Option<Secret>,
}

fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.map(Secret::new))
}

/// Parses what a plugin printed. No error repeats any of it.
pub(super) fn response(version: ExecApiVersion, stdout: &[u8]) -> Result<Printed, ExecProblem> {
    let credential: ExecCredential = serde_json::from_slice(stdout).map_err(|error| {
        // The error's own text quotes values.
        ExecProblem::output(format!("no ExecCredential in JSON (line {}, column {})", error.line(), error.column()))
    })?;
    if credential.kind != KIND {
        return Err(ExecProblem::output("its kind is not ExecCredential"));
    }
    if credential.api_version != version.as_str() {
        return Err(ExecProblem::output(format!("its apiVersion is not {}, as configured", version.as_str())));
    }
    let Some(status) = credential.status else { return Err(ExecProblem::output("it has no status")) };
    let token = status.token.filter(|token| !token.is_empty());
    let certificate = status.client_certificate_data.filter(|text| !text.is_empty());
    let certificate = match (certificate, status.client_key_data.filter(|key| !key.is_empty())) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (Some(_), None) => return Err(ExecProblem::output("it has clientCertificateData without clientKeyData")),
        (None, Some(_)) => return Err(ExecProblem::output("it has clientKeyData without clientCertificateData")),
        (None, None) if token.is_none() => {
            return Err(ExecProblem::output("it has neither a token nor a client certificate"));
        }
        (None, None) => None,
    };
    let expires = status.expiration_timestamp.filter(|text| !text.is_empty()).map(|text| text.parse::<Timestamp>());
    let expires = expires.transpose().map_err(|_| ExecProblem::output("its expirationTimestamp is no time"))?;
    Ok(Printed { token, certificate, expires })
}
