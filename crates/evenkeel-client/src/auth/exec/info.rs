//! The plugin's side of the protocol: from `KUBERNETES_EXEC_INFO` to a configuration. client-go: `tools/auth/exec`.

use serde::Deserialize;

use super::protocol::{EXEC_INFO, ExecApiVersion};
use crate::config::kubeconfig::{Cluster, Data, Kubeconfig};
use crate::config::{Config, ConfigError, Overrides};
use crate::secret::Secret;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecInfo {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    spec: Option<ExecInfoSpec>,
}

#[derive(Deserialize)]
struct ExecInfoSpec {
    #[serde(default)]
    cluster: Option<ExecInfoCluster>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ExecInfoCluster {
    server: String,
    #[serde(default)]
    tls_server_name: Option<String>,
    #[serde(default)]
    insecure_skip_tls_verify: bool,
    #[serde(default)]
    certificate_authority_data: Option<String>,
    #[serde(default)]
    proxy_url: Option<String>,
    #[serde(default)]
    disable_compression: bool,
}

impl Config {
    /// Returns the configuration that an exec plugin received in the variable `KUBERNETES_EXEC_INFO`: the cluster of
    /// the program that runs it, without credentials. For programs that are plugins themselves.
    ///
    /// # Errors
    /// If the text is no `ExecCredential` of a known version, or contains no cluster because the kubeconfig does not
    /// set `provideClusterInfo`. No error repeats the text.
    pub fn from_exec_info(text: &str) -> Result<Self, ConfigError> {
        let invalid = |problem: &str| ConfigError::invalid(format!("{EXEC_INFO} {problem}"));
        let info: ExecInfo = serde_json::from_str(text).map_err(|_| invalid("is no ExecCredential in JSON"))?;
        if info.kind != "ExecCredential" {
            return Err(invalid("is of another kind than ExecCredential"));
        }
        if ExecApiVersion::parse(&info.api_version).is_none() {
            return Err(invalid("has an unknown apiVersion"));
        }
        let Some(given) = info.spec.and_then(|spec| spec.cluster) else {
            return Err(invalid("has no cluster; the kubeconfig must set provideClusterInfo"));
        };
        let ca = given.certificate_authority_data.filter(|text| !text.is_empty());
        let ca = ca.map(|text| base64::Engine::decode(&base64::prelude::BASE64_STANDARD, text));
        let ca = ca.transpose().map_err(|_| invalid("has certificate-authority-data that is not base64"))?;
        let given_text = |text: Option<String>| text.filter(|text| !text.is_empty());
        let mut cluster = Cluster::default();
        cluster.server = Some(given.server.as_str().into());
        cluster.tls_server_name = given_text(given.tls_server_name);
        cluster.insecure_skip_tls_verify = given.insecure_skip_tls_verify;
        cluster.certificate_authority_data = ca.map(Data::new);
        cluster.proxy_url = given_text(given.proxy_url).map(Secret::new);
        cluster.disable_compression = given.disable_compression;
        let mut kubeconfig = Kubeconfig::default();
        kubeconfig.clusters.insert("cluster".to_owned(), cluster);
        let overrides = Overrides { cluster: Some("cluster".to_owned()), ..Overrides::default() };
        let mut config = kubeconfig.config(&overrides)?;
        config.chosen = Default::default();
        Ok(config)
    }
}
