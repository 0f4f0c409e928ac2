//! Kubeconfigs: files with clusters, users and contexts.
//!
//! [`KubeconfigFiles`] locates the files. Loading them returns a [`Kubeconfig`]; selecting from it with [`Overrides`]
//! returns a [`Config`](crate::Config). [`KubeconfigFiles::edit`] changes files and keeps unknown fields.
//!
//! ```
//! use evenkeel_client::Config;
//! use evenkeel_client::config::Overrides;
//!
//! let text = "
//! clusters: [{name: c, cluster: {server: 'https://example.com:6443'}}]
//! users: [{name: u, user: {token: secret}}]
//! contexts: [{name: it, context: {cluster: c, user: u, namespace: web}}]
//! current-context: it
//! ";
//! let config = Config::from_kubeconfig_str(text, &Overrides::default())?;
//! assert_eq!((config.server.host(), config.namespace.as_str()), ("example.com", "web"));
//! assert!(!format!("{config:?}").contains("secret"));
//! # Ok::<(), evenkeel_client::config::ConfigError>(())
//! ```

mod choose;
mod edit;
mod fields;
#[cfg(feature = "internals")]
pub(crate) mod internals;
mod load;
mod merge;
mod overrides;
mod paths;
mod schema;
mod shrink;
mod text;
mod validate;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use choose::{Selected, server_of};
pub(crate) use edit::KubeconfigLock;
pub use fields::{Data, Opaque};
pub use load::{KubeconfigFiles, Loaded};
pub use overrides::Overrides;
pub use schema::{AuthProvider, Cluster, Context, Exec, ExecEnv, Kubeconfig, User};
