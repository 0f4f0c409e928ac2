//! The scenarios: each is a part of evenkeel, or a controller of its public API, with what must hold for it.

mod controllers;
mod credentials;
mod election;
mod informer;
mod request_observer;
mod writes;

pub use self::controllers::{finalizer, mirrors, replica_sets, status_only};
pub use self::credentials::credentials;
pub use self::election::{leader, lease_deleted};
pub use self::informer::informer;
pub use self::writes::{counter, creator};

use evenkeel_sim::Scenario;

/// How a process or a workload ends.
type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Returns all scenarios, in the order in which a night's work runs them.
pub fn all() -> Vec<Scenario> {
    vec![
        informer(),
        leader(),
        lease_deleted(),
        counter(),
        creator(),
        credentials(),
        mirrors(),
        replica_sets(),
        finalizer(),
        status_only(),
    ]
}
