//! The scenarios: each is a part of evenkeel, or a controller of its public API, with what must hold for it.

mod api;
mod detector;
mod election;
mod informer;

pub use self::api::api;
pub use self::detector::detector;
pub use self::election::leader;
pub use self::informer::informer;

use evenkeel_sim::Scenario;

/// How a process or a workload ends.
type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Returns all scenarios, in the order in which a night's work runs them.
pub fn all() -> Vec<Scenario> {
    vec![informer(), leader(), api(), detector()]
}
