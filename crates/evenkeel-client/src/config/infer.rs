//! Finding out which cluster is meant.

use super::{Config, ConfigError, Environment, KubeconfigFiles, Overrides};

impl Config {
    /// The configuration that this process finds: the files in `KUBECONFIG`, or `~/.kube/config`; and if they configure
    /// nothing at all, the service account of the pod that it runs in.
    ///
    /// A kubeconfig that is there and wrong is an error, never a reason to look elsewhere.
    pub fn infer() -> Result<Self, ConfigError> {
        Environment::from_process().infer(&Overrides::default())
    }
}

impl Environment {
    /// The configuration that is found in this environment, as [`Config::infer`] does it.
    ///
    /// The namespace is that of the overrides, else that of the chosen context, else that of the pod if this is one,
    /// else `default`. Connections are made as the environment says.
    pub fn infer(&self, overrides: &Overrides) -> Result<Config, ConfigError> {
        let files = KubeconfigFiles::from_environment(self);
        let kubeconfig = files.load().into_config()?;
        match kubeconfig.select(overrides) {
            Ok(mut selected) => {
                if selected.namespace.is_none() && overrides.namespace.is_none() && self.is_in_cluster() {
                    selected.namespace = self.in_cluster_namespace()?;
                }
                Ok(Config { connections: self.connections.clone(), ..selected.into_config(overrides)? })
            }
            Err(error) if error.is_not_configured() && self.is_in_cluster() => self.in_cluster(overrides),
            Err(ConfigError::NotConfigured { contexts, .. }) => {
                Err(ConfigError::NotConfigured { looked: files.paths().to_vec(), contexts })
            }
            Err(error) => Err(error),
        }
    }
}
