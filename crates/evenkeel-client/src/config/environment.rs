//! [`Environment`]: the inputs of configuration inference.

use std::ffi::OsString;
use std::path::PathBuf;

use super::Connections;

/// The mount path of a pod's service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The inputs from which configuration is inferred. A plain value, so tests and programs can supply their own without
/// changing the environment of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Environment {
    /// `KUBECONFIG`: a list of files.
    pub kubeconfig: Option<OsString>,
    /// The home directory.
    pub home: Option<PathBuf>,
    /// `KUBERNETES_SERVICE_HOST`, set in every pod.
    pub service_host: Option<String>,
    /// `KUBERNETES_SERVICE_PORT`, set in every pod.
    pub service_port: Option<String>,
    /// `POD_NAMESPACE`, set in some pods.
    pub pod_namespace: Option<String>,
    /// The directory with the pod's token, CA and namespace.
    pub service_account: PathBuf,
    /// Connection settings from the environment; see [`Connections::from_env`].
    pub connections: Connections,
}

impl Environment {
    /// Returns an environment with nothing set.
    pub fn empty() -> Self {
        Environment {
            kubeconfig: None,
            home: None,
            service_host: None,
            service_port: None,
            pod_namespace: None,
            service_account: SERVICE_ACCOUNT.into(),
            connections: Connections::default(),
        }
    }

    /// Captures the environment of this process. The service account path is fixed.
    pub fn from_process() -> Self {
        let text = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Environment {
            kubeconfig: std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty()),
            home: std::env::home_dir().filter(|home| !home.as_os_str().is_empty()),
            service_host: text("KUBERNETES_SERVICE_HOST"),
            service_port: text("KUBERNETES_SERVICE_PORT"),
            pod_namespace: text("POD_NAMESPACE"),
            connections: Connections::from_env(),
            ..Environment::empty()
        }
    }
}
