//! In-cluster configuration: the pod's service account and the API server of its cluster.

use std::io;
use std::path::Path;

use super::kubeconfig::{Cluster, Selected, User};
use super::{Chosen, Config, ConfigError, EntryKind, Environment, Overrides};
use crate::secret::Secret;
use crate::small_file;

/// The maximal size of a token or namespace file; far above any real one.
const MAX_BYTES: u64 = 1 << 20;

impl Config {
    /// Returns the configuration of the pod that this process runs in.
    ///
    /// # Errors
    /// [`ConfigError::NotInCluster`] outside a pod. A token or CA that cannot be read is an error too: the client
    /// never falls back to another CA.
    pub fn in_cluster() -> Result<Self, ConfigError> {
        Environment::from_process().in_cluster(&Overrides::default())
    }
}

impl Environment {
    /// Returns the in-cluster configuration for this environment. All overrides apply, except context, cluster and
    /// user: there is no kubeconfig to select them from.
    pub fn in_cluster(&self, overrides: &Overrides) -> Result<Config, ConfigError> {
        let variable = |value: &Option<String>, variable| match value.as_deref() {
            Some(value) if !value.is_empty() => Ok(value.to_owned()),
            _ => Err(ConfigError::NotInCluster { variable }),
        };
        let host = variable(&self.service_host, "KUBERNETES_SERVICE_HOST")?;
        let port = variable(&self.service_port, "KUBERNETES_SERVICE_PORT")?;
        let named = [
            (EntryKind::Context, &overrides.context),
            (EntryKind::Cluster, &overrides.cluster),
            (EntryKind::User, &overrides.user),
        ];
        if let Some((kind, name)) = named.into_iter().find_map(|(kind, name)| Some((kind, name.clone()?))) {
            return Err(ConfigError::Missing { kind, name, named_by: "the override".into(), known: Vec::new() });
        }
        let (open, close) = if host.contains(':') && !host.starts_with('[') { ("[", "]") } else { ("", "") };

        let mut cluster = Cluster::default();
        cluster.server = Some(format!("https://{open}{host}{close}:{port}").into());
        cluster.certificate_authority = Some(self.service_account.join("ca.crt"));
        let mut user = User::default();
        let token_file = self.service_account.join("token");
        user.token = Some(Secret::new(read(&token_file, "the service account's token")?));
        user.token_file = Some(token_file);
        let selected = Selected {
            context_name: None,
            cluster_name: "in-cluster".into(),
            cluster,
            user_name: "in-cluster".into(),
            user,
            user_file: None,
            namespace: self.in_cluster_namespace()?,
        };
        let config = selected.into_config(overrides)?;
        // The names above exist for errors only: no kubeconfig has them.
        Ok(Config { connections: self.connections.clone(), chosen: Chosen::default(), ..config })
    }

    /// Returns whether this is the environment of a pod with a service account.
    pub fn is_in_cluster(&self) -> bool {
        let set = |value: &Option<String>| value.as_deref().is_some_and(|value| !value.is_empty());
        set(&self.service_host) && set(&self.service_port) && self.service_account.join("token").is_file()
    }

    /// Returns `POD_NAMESPACE`, else the namespace of the service account, if there is one.
    pub(super) fn in_cluster_namespace(&self) -> Result<Option<String>, ConfigError> {
        if let Some(namespace) = self.pod_namespace.as_deref().filter(|namespace| !namespace.is_empty()) {
            return Ok(Some(namespace.to_owned()));
        }
        match read(&self.service_account.join("namespace"), "the service account's namespace") {
            Ok(namespace) => Ok(Some(namespace)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Reads a short text file and trims white space.
fn read(path: &Path, what: &'static str) -> Result<String, ConfigError> {
    let read = || {
        let refuse = |problem| Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        let bytes = small_file::read(path, MAX_BYTES)?;
        match std::str::from_utf8(&bytes).map(str::trim) {
            Err(_) => refuse("it is not UTF-8"),
            Ok("") => refuse("it is empty"),
            Ok(text) => Ok(text.to_owned()),
        }
    };
    read().map_err(|error| ConfigError::read(what, path, error))
}
