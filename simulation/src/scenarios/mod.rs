//! The scenarios: each is a part of evenkeel, or a controller of its public API, with what must hold for it.

mod api;
mod budget;
mod controllers;
mod credentials;
mod definition;
mod detector;
mod election;
mod events;
mod handlers;
mod history;
mod informer;
mod namespace;
mod queue;
mod reflector;
mod request_observer;
mod restored;
mod sharded;
mod writes;

pub use self::api::api;
pub use self::controllers::{finalizer, mirrors, replica_sets, status_only};
pub use self::credentials::credentials;
pub use self::definition::redefined;
pub use self::detector::detector;
pub use self::election::{leader, lease_deleted};
pub use self::events::events;
pub use self::handlers::handlers;
pub use self::informer::informer;
pub use self::namespace::terminating_namespace;
pub use self::queue::queue;
pub use self::reflector::{busy_ends, cached_list, empty_start, json_watch, longer_versions, paged_list, watch_list};
pub use self::restored::restored;
pub use self::sharded::{sharded, sharded_caches};
pub use self::writes::{counter, creator};

use evenkeel_sim::Scenario;

/// How a process or a workload ends.
type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// A scenario, and how many of [`SHARES`] schedules of a night run it.
#[derive(Debug)]
pub struct Shared {
    /// The scenario.
    pub scenario: Scenario,
    /// Its share.
    pub share: u64,
}

/// The sum of the shares of all scenarios.
pub const SHARES: u64 = 1000;

/// Returns all scenarios, in the order in which a night's work runs them. The cheapest one, the queue, has most of the schedules;
/// a share of 0 is for one that is too expensive, and runs by its name only.
pub fn all() -> Vec<Shared> {
    let all: [(fn() -> Scenario, u64); 27] = [
        (informer, 16),
        (watch_list, 8),
        (json_watch, 8),
        (cached_list, 8),
        (paged_list, 8),
        (longer_versions, 8),
        (empty_start, 8),
        (busy_ends, 8),
        (handlers, 8),
        (queue, 799),
        (leader, 8),
        (lease_deleted, 8),
        (counter, 8),
        (creator, 8),
        (credentials, 8),
        (events, 8),
        (mirrors, 8),
        (replica_sets, 8),
        (finalizer, 8),
        (status_only, 8),
        (terminating_namespace, 8),
        (redefined, 8),
        (restored, 8),
        (api, 8),
        (detector, 8),
        (sharded, 1),
        (sharded_caches, 0),
    ];
    all.into_iter().map(|(scenario, share)| Shared { scenario: scenario(), share }).collect()
}
