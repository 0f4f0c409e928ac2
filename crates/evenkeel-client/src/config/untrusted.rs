//! Kubeconfigs from untrusted sources.

use super::kubeconfig::{Selected, server_of};
use super::{Config, ConfigError, Connections, EntryKind, Kubeconfig, Overrides};
use crate::auth::ExecPolicy;

impl Config {
    /// Returns the configuration of a kubeconfig from an untrusted source, such as a Secret read by a multi-cluster
    /// operator.
    ///
    /// Such a text can only select the server to connect to. Exec plugins, auth-providers, proxies, local files, and
    /// servers without TLS or certificate verification are rejected, even beside other credentials. Only the
    /// text itself counts, besides the connection settings of the environment.
    ///
    /// The server may be any, also one that only this machine can reach. A program for which that matters checks
    /// [`Config::server`] before it builds a client.
    pub fn from_untrusted(text: &str) -> Result<Self, ConfigError> {
        let overrides = Overrides::default();
        let selected = Kubeconfig::parse(text)?.select(&overrides)?;
        ConfigError::collect(refused(&selected))?;
        let config = selected.into_config(&overrides)?;
        Ok(Config { connections: Connections::from_env(), exec_policy: ExecPolicy::DenyAll, ..config })
    }
}

fn refused(selected: &Selected) -> Vec<ConfigError> {
    let (cluster, user) = (&selected.cluster, &selected.user);
    let cluster_fields = [
        ("certificate-authority", cluster.certificate_authority.is_some()),
        ("insecure-skip-tls-verify", cluster.insecure_skip_tls_verify),
        // Other problems of the server are reported later.
        ("a server without TLS", server_of(cluster).is_ok_and(|server| !server.is_tls())),
        ("proxy-url", cluster.proxy_url.is_some()),
    ];
    let user_fields = [
        ("auth-provider", user.auth_provider.is_some()),
        ("client-certificate", user.client_certificate.is_some()),
        ("client-key", user.client_key.is_some()),
        ("exec", user.exec.is_some()),
        ("tokenFile", user.token_file.is_some()),
    ];
    let refused = |kind, name: &String, fields: &[(&'static str, bool)]| -> Vec<ConfigError> {
        let there = fields.iter().filter(|(_, there)| *there);
        there.map(|(field, _)| ConfigError::Untrusted { kind, name: name.clone(), field }).collect()
    };
    let mut errors = refused(EntryKind::Cluster, &selected.cluster_name, &cluster_fields);
    errors.extend(refused(EntryKind::User, &selected.user_name, &user_fields));
    errors
}
