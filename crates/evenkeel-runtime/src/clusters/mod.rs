//! Several clusters: a set of [`Clusters`] that are engaged and disengaged at run time, and controllers that reconcile in all of them.
//!
//! ```text
//!  Clusters ──► eu-1: caches ─► queue ─┐
//!     ▲    ├──► eu-2: caches ─► queue ─┼─► workers, in turns ─► reconcile, with the client of the cluster
//!     │    └──► us-1: (waits: no connection)
//!  engage, disengage, kubeconfigs in Secrets
//! ```
//!
//! - [`Clusters`]: the set. [`Clusters::engage`] never waits.
//! - [`MultiClusterController`]: a [`Controller`](crate::Controller) in each cluster. A reconcile knows its cluster:
//!   [`Context::cluster`](crate::Context::cluster).
//! - [`KubeconfigSecrets`]: engages the clusters whose kubeconfigs are in Secrets.
//! - [`ClusterStatus`], [`metrics`]: which clusters have synced, and why others have not.
//!
//! A queue per cluster, instead of one for all, lets everything of a cluster go with it: queued, delayed and failing keys alike.

mod cluster;
mod controller;
mod engagement;
mod engagement_record;
mod engagement_state;
mod failure;
mod key;
mod member;
pub mod metrics;
mod reachability;
mod secrets;
mod set;
mod status;
mod template;

#[cfg(test)]
mod tests;

pub use self::cluster::Cluster;
pub use self::controller::MultiClusterController;
pub use self::engagement_state::EngagementPhase;
pub use self::failure::ClusterFailure;
pub use self::key::{ClusterKey, HOME};
pub(crate) use self::member::{ClusterMember, WorkerTurn};
pub use self::reachability::RequestCounts;
pub use self::secrets::KubeconfigSecrets;
pub use self::set::Clusters;
pub use self::status::{CacheStatus, ClusterStatus, EngagementStatus};
