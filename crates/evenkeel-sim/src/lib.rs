//! Deterministic simulation of Kubernetes controllers.
//!
//! A [`Scenario`] runs controllers, their informers, queues and elections together with an API server in one process, in
//! virtual time. Every run breaks what may break: connections, watches, responses, the server's history, clocks, processes. A
//! failure is repeated from one line.
//!
//! ```
//! # use evenkeel_sim::Scenario;
//! # fn scenario() -> Scenario { Scenario::new("empty") }
//! # fn main() -> Result<(), evenkeel_sim::Failed> {
//! let scenario = scenario();
//! scenario.check(20)?;        // 20 random runs
//! scenario.crash_matrix()?;   // a crash at every write
//! scenario.stale_matrix()?;   // a restart onto an old replica at every write
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - Nothing waits for real time, and there are no threads. The order of tasks, the time of messages and every fault are
//!   choices of the seed.
//! - All injected faults are legal: a correct API server, network or machine may show them ([`Fault`]).
//! - Without faults the final state is computed first; a run with faults must end in the same state, and then nothing may be
//!   written any more.
//!
//! # Not guaranteed
//!
//! What is not deterministic, and must not be used by the code of a scenario:
//!
//! - `tokio::select!` without `biased`, which draws from a generator that cannot be seeded;
//! - the order of iteration of `HashMap` and `HashSet` with their default hasher;
//! - `SystemTime::now`, `std::time::Instant::now`, threads, `spawn_blocking`, files and sockets.
//!
//! Tasks that the code under test spawns with `tokio::spawn` run in the order in which they are woken, and survive a crash of
//! their process; their requests do not. Timers and channels of tokio are covered.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod check;
mod coverage;
mod decisions;
mod executor;
mod fault;
mod fault_rules;
mod fingerprint;
mod logs;
mod network;
mod page;
mod recording;
mod regression;
mod run;
mod scenario;
mod shared;
mod shrink;
mod state;
mod trace;
mod world;

pub use check::{Failed, ReplayError, Report};
pub use coverage::{ClientPhase, Coverage};
pub use decisions::TapeError;
pub use evenkeel_apiserver::FaultSpecError;
pub use fault::Fault;
pub use run::{Failure, Run};
pub use scenario::{Alone, Process, Scenario, Workload};
pub use state::ClusterState;
pub use trace::{Trace, TraceLine};
pub use world::CrashPhase;
