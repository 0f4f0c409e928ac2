//! The scenarios: each is a part of evenkeel, or a controller of its public API, with what must hold for it.

mod budget;
mod election;
mod history;
mod informer;
mod reflector;

pub use self::election::leader;
pub use self::informer::informer;
pub use self::reflector::{busy_ends, cached_list, empty_start, json_watch, longer_versions, paged_list, watch_list};

use evenkeel_sim::Scenario;

/// How a process or a workload ends.
type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Returns all scenarios, in the order in which a night's work runs them.
pub fn all() -> Vec<Scenario> {
    vec![
        informer(),
        watch_list(),
        json_watch(),
        cached_list(),
        paged_list(),
        longer_versions(),
        empty_start(),
        busy_ends(),
        leader(),
    ]
}
