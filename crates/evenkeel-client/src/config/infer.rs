//! Inference of the configuration from the environment.

use super::{Config, ConfigError, Environment, KubeconfigFiles, Overrides};

impl Config {
    /// Infers the configuration of this process: from the files in `KUBECONFIG`, or `~/.kube/config`; if they
    /// configure nothing, from the service account of the pod.
    ///
    /// An invalid kubeconfig is an error. It is never skipped in favour of another source.
    pub fn infer() -> Result<Self, ConfigError> {
        Environment::from_process().infer(&Overrides::default())
    }
}

impl Environment {
    /// Infers the configuration from this environment, as [`Config::infer`] does.
    ///
    /// The namespace is that of the overrides, else of the selected context, else of the pod, else `default`.
    /// Connection settings are those of the environment.
    pub fn infer(&self, overrides: &Overrides) -> Result<Config, ConfigError> {
        let files = KubeconfigFiles::from_environment(self);
        match files.load().select(overrides) {
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
