//! [`Environment`]: what a process finds around itself.

use std::ffi::OsString;
use std::path::PathBuf;

use super::Connections;

/// Where a pod finds its service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// What configuration is inferred from. It is a value, so that tests and programs with ideas of their own need not
/// change the environment of the whole process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Environment {
    /// `KUBECONFIG`: a list of files.
    pub kubeconfig: Option<OsString>,
    /// The home directory.
    pub home: Option<PathBuf>,
    /// `KUBERNETES_SERVICE_HOST`, which every pod has.
    pub service_host: Option<String>,
    /// `KUBERNETES_SERVICE_PORT`, which every pod has.
    pub service_port: Option<String>,
    /// `POD_NAMESPACE`, which a pod may have.
    pub pod_namespace: Option<String>,
    /// The directory with the pod's token, CA and namespace.
    pub service_account: PathBuf,
    /// What the environment says of connections; see [`Connections::from_env`].
    pub connections: Connections,
}

impl Environment {
    /// Nothing at all.
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

    /// The environment of this process, as it is now. The service account is always looked for in its one place.
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
