//! [`Overrides`]: what someone says on the command line, which beats what stands in the file.

use std::path::PathBuf;
use std::time::Duration;

use super::{Cluster, Data, User};
use crate::config::{Address, Impersonate, Pem, PrivateKey, Proxy};
use crate::secret::Secret;

/// What beats the kubeconfig. A field that is `None` changes nothing, and any value can be overridden, `true` with
/// `false` as well. Credentials given here replace a plugin or provider of the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The context, instead of the current one.
    pub context: Option<String>,
    /// The name of the cluster, instead of the context's.
    pub cluster: Option<String>,
    /// The name of the user, instead of the context's.
    pub user: Option<String>,
    /// The namespace; `ns/`, `namespace/` and `namespaces/` in front are dropped.
    pub namespace: Option<String>,
    /// The server: a host, a host and a port, or a URL. The name that the file expects in the certificate goes with the
    /// server that it was for.
    pub server: Option<Address>,
    /// The name to expect in the server's certificate.
    pub tls_server_name: Option<String>,
    /// Whether to accept any certificate. `true` also drops the file's CA.
    pub insecure_skip_tls_verify: Option<bool>,
    /// The certificates to trust. Also ends the file's wish to accept any certificate.
    pub certificate_authority: Option<Pem>,
    /// The client certificate.
    pub client_certificate: Option<Pem>,
    /// Its key.
    pub client_key: Option<PrivateKey>,
    /// The token. Takes the place of the file's token, token file, and name with password.
    pub token: Option<Secret>,
    /// The file with the token; as [`Overrides::token`].
    pub token_file: Option<PathBuf>,
    /// Name and password. Take the place of the file's, and of its token and token file.
    pub basic: Option<(String, Secret)>,
    /// Whom to act as, instead of all that the file says about it.
    pub impersonate: Option<Impersonate>,
    /// The way to the server.
    pub proxy: Option<Proxy>,
    /// Whether answers may come compressed.
    pub compression: Option<bool>,
    /// The time for one call; zero is as long as it takes. See [`parse_timeout`](crate::config::parse_timeout).
    pub timeout: Option<Duration>,
    /// Use no credentials from the file: for a server that asks for none, such as a local proxy to the cluster.
    pub anonymous: bool,
    /// Lets credentials go over plain HTTP to a host that is not this machine.
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

    /// The namespace without the words that people put in front of it.
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
