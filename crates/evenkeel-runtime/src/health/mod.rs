//! Health, metrics and diagnostics of a program over a small HTTP server.
//!
//! | path | response |
//! |---|---|
//! | `/healthz`, `/livez` | 200 `ok` if every liveness check passes, else 500 and the reasons |
//! | `/readyz` | the same for the readiness checks |
//! | `/healthz/{name}`, … | one check |
//! | `/metrics` | metrics in the Prometheus text format, if [`metrics`](ServerBuilder::metrics) is set |
//! | `/debug`, `/debug/{section}` | diagnostics as JSON, if [`diagnostics`](ServerBuilder::diagnostics) is set |
//!
//! `?verbose` also lists checks that pass, `?exclude=name` leaves one out. `/debug?key=default/a` filters all lists of
//! keys by that key.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! use evenkeel_runtime::health::{Check, Health, HealthServer};
//!
//! let health = Health::new();
//! health.ready().add(Check::new("warm", || Err("the cache is cold".into())))?;
//! let server = HealthServer::builder(&health).address("127.0.0.1:0").start().await?;
//! println!("http://{}/readyz", server.address().unwrap());
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - It listens on loopback by default.
//! - A check that hangs, panics or fails affects only its own result; checks run concurrently.
//! - Checks can be added and removed while the server runs.
//! - A connection serves one request and lasts 30 seconds at most; there are at most 64. A further one replaces the
//!   oldest, so a client that opens many idle connections does not block others.
//!
//! # Not guaranteed
//!
//! Without [`secured`](ServerBuilder::secured) there is no TLS and no authentication: every client that reaches the port can
//! read what it serves.

mod check;
mod checks;
mod diagnostics;
mod metrics_source;
#[cfg(feature = "prometheus")]
mod prometheus;
mod ready_made;
mod respond;
mod server;
mod sources;
#[cfg(test)]
mod tests;

pub use crate::secure::SecureServing;
pub use crate::serve::StartError;
pub use check::{Check, CheckFn, Reason};
pub use checks::{AddCheckError, CheckResult, Checks, Health};
pub use diagnostics::Diagnostics;
pub(crate) use diagnostics::{one_line, seconds};
pub use metrics_source::MetricsSource;
#[cfg(feature = "prometheus")]
pub use prometheus::{Prometheus, PrometheusError, RECONCILE_TIME_BUCKETS};
pub use ready_made::{Heartbeat, QueueLimits};
pub use server::{HealthServer, ServerBuilder};
pub use sources::Source;
pub(crate) use sources::{informer_report, queue_report};
