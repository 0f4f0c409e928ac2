//! The scenarios: each is a part of evenkeel, or a controller of its public API, with what must hold for it.

mod api;
mod definition;
mod detector;
mod election;
mod informer;
mod namespace;
mod restored;

pub use self::api::api;
pub use self::definition::redefined;
pub use self::detector::detector;
pub use self::election::leader;
pub use self::informer::informer;
pub use self::namespace::terminating_namespace;
pub use self::restored::restored;

use evenkeel_sim::Scenario;

/// How a process or a workload ends.
type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Returns all scenarios, in the order in which a night's work runs them.
pub fn all() -> Vec<Scenario> {
    vec![informer(), leader(), api(), detector(), terminating_namespace(), redefined(), restored()]
}
