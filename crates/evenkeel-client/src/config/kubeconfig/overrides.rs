//! [`Overrides`]: values, such as command line flags, that take precedence over the kubeconfig.

use std::path::PathBuf;
use std::time::Duration;

use super::{Cluster, Data, User};
use crate::config::{Address, Impersonate, Pem, PrivateKey, Proxy};
use crate::secret::Secret;

/// Values that take precedence over the kubeconfig. `None` changes nothing. Any value can be overridden, also `true`
/// with `false`. Credentials set here replace a plugin or provider of the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The context, instead of the current one.
    pub context: Option<String>,
    /// The name of the cluster, instead of the context's.
    pub cluster: Option<String>,
    /// The name of the user, instead of the context's.
    pub user: Option<String>,
    /// The namespace; a prefix `ns/`, `namespace/` or `namespaces/` is removed.
    pub namespace: Option<String>,
    /// The server: a host, a host and a port, or a URL. Also discards the file's TLS server name, which belongs to the
    /// file's server.
    pub server: Option<Address>,
    /// The name to expect in the server's certificate.
    pub tls_server_name: Option<String>,
    /// Whether to accept any certificate. `true` also discards the file's CA.
    pub insecure_skip_tls_verify: Option<bool>,
    /// The certificates to trust. Also discards the file's `insecure-skip-tls-verify`.
    pub certificate_authority: Option<Pem>,
    /// The client certificate.
    pub client_certificate: Option<Pem>,
    /// The key of the client certificate.
    pub client_key: Option<PrivateKey>,
    /// The token. Replaces the file's token, token file, and name with password.
    pub token: Option<Secret>,
    /// The file with the token. Replaces the same fields as [`Overrides::token`].
    pub token_file: Option<PathBuf>,
    /// Name and password. Replace those of the file, and its token and token file.
    pub basic: Option<(String, Secret)>,
    /// The impersonated user, instead of all impersonation settings of the file.
    pub impersonate: Option<Impersonate>,
    /// The proxy.
    pub proxy: Option<Proxy>,
    /// Whether responses may be compressed.
    pub compression: Option<bool>,
    /// The timeout of one call; zero is none. See [`parse_timeout`](crate::config::parse_timeout).
    pub timeout: Option<Duration>,
    /// Uses no credentials from the file: for a server without authentication, such as `kubectl proxy`.
    pub anonymous: bool,
    /// Allows credentials over plain HTTP to a host other than this machine.
    pub allow_insecure_credentials: bool,
}

impl Overrides {
    pub(super) fn apply_to_cluster(&self, cluster: &mut Cluster) {
        if self.server.is_some() {
            cluster.server.clone_from(&self.server);
            cluster.tls_server_name = None;
        }
        if self.tls_server_name.is_some() {
            cluster.tls_server_name.clone_from(&self.tls_server_name);
        }
        if let Some(insecure) = self.insecure_skip_tls_verify {
            cluster.insecure_skip_tls_verify = insecure;
            if insecure {
                (cluster.certificate_authority, cluster.certificate_authority_data) = (None, None);
            }
        }
        if let Some(pem) = &self.certificate_authority {
            (cluster.certificate_authority, cluster.certificate_authority_data) = file_or_data(pem);
            cluster.insecure_skip_tls_verify = self.insecure_skip_tls_verify.unwrap_or(false);
        }
        if let Some(compression) = self.compression {
            cluster.disable_compression = !compression;
        }
        if self.proxy.is_some() {
            cluster.proxy_url = None;
        }
    }

    pub(super) fn apply_to_user(&self, user: &mut User) {
        if self.anonymous {
            *user = User::default();
        }
        if self.client_certificate.is_some()
            || self.token.is_some()
            || self.token_file.is_some()
            || self.basic.is_some()
        {
            user.auth_provider = None;
        }
        if let Some(pem) = &self.client_certificate {
            (user.client_certificate, user.client_certificate_data) = file_or_data(pem);
        }
        match &self.client_key {
            None => {}
            Some(PrivateKey::File(path)) => (user.client_key, user.client_key_data) = (Some(path.clone()), None),
            Some(PrivateKey::Data(key)) => {
                (user.client_key, user.client_key_data) = (None, Some(Data::new(key.expose())));
            }
        }
        if self.token.is_some() || self.token_file.is_some() || self.basic.is_some() {
            user.token.clone_from(&self.token);
            user.token_file.clone_from(&self.token_file);
            (user.username, user.password) = self.basic.clone().unzip();
        }
        if let Some(whom) = self.impersonate.clone() {
            user.impersonate = Some(whom.user).filter(|user| !user.is_empty());
            user.impersonate_uid = Some(whom.uid).filter(|uid| !uid.is_empty());
            user.impersonate_groups = whom.groups;
            user.impersonate_extra = whom.extra;
        }
    }

    /// Returns the namespace without the prefixes that users write.
    pub(super) fn namespace(&self) -> Option<&str> {
        let namespace = self.namespace.as_deref()?;
        let bare = ["namespaces/", "namespace/", "ns/"].iter().find_map(|prefix| {
            let (front, rest) = namespace.split_at_checked(prefix.len())?;
            front.eq_ignore_ascii_case(prefix).then_some(rest)
        });
        Some(bare.unwrap_or(namespace)).filter(|namespace| !namespace.is_empty())
    }
}

fn file_or_data(pem: &Pem) -> (Option<PathBuf>, Option<Data>) {
    match pem {
        Pem::File(path) => (Some(path.clone()), None),
        Pem::Data(text) => (None, Some(Data::new(text.as_str()))),
    }
}
