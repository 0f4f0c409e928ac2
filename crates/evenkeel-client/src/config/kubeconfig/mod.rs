//! Kubeconfigs: the files that say which clusters there are, who we are to them, and which one is meant.
//!
//! [`KubeconfigFiles`] knows where the files are; loading them gives a [`Kubeconfig`], and choosing from that with
//! [`Overrides`] gives a [`Config`](crate::Config). [`KubeconfigFiles::edit`] changes files and keeps what it does not
//! understand.

mod choose;
mod edit;
mod fields;
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

pub(crate) use choose::Selected;
pub use fields::{Data, Opaque};
pub use load::{KubeconfigFiles, Loaded};
pub use overrides::Overrides;
pub use schema::{AuthProvider, Cluster, Context, Exec, ExecEnv, Kubeconfig, User};
