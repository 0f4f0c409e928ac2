//! Whether the program is alive and ready, what it has counted, and what it is doing: a small HTTP server.
//!
//! | path | answers |
//! |---|---|
//! | `/healthz`, `/livez` | 200 `ok` if every check of life passes, else 500 and the reasons |
//! | `/readyz` | the same for the checks of readiness |
//! | `/healthz/{name}`, … | one check |
//! | `/metrics` | what was counted, in the text format of Prometheus, if [`metrics`](ServerBuilder::metrics) were given |
//! | `/debug`, `/debug/{section}` | what the program is doing, as JSON, if [`diagnostics`](ServerBuilder::diagnostics) were given |
//!
//! `?verbose` lists checks that pass too, `?exclude=name` leaves one out. `/debug?key=default/a` tells, of all lists of keys, only
//! of that one.
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
//! # What may be assumed
//!
//! - It listens on loopback unless told otherwise.
//! - A check that hangs, panics or fails is that check's failure: the others are asked all the same, at the same time.
//! - Checks can come and go while the server runs.
//! - A connection is for one request and for 30 seconds, and there are at most 64 of them. One more takes the place of the oldest,
//!   so whoever opens many and says nothing keeps nobody else from asking.
//!
//! # What is not promised
//!
//! There is no TLS and no login: whoever can reach the port can read what it serves.

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

pub use crate::serve::StartError;
pub use check::{Check, CheckFn, Reason};
pub use checks::{AddCheckError, Checks, Health, Verdict};
pub use diagnostics::Diagnostics;
pub(crate) use diagnostics::{one_line, seconds};
pub use metrics_source::MetricsSource;
#[cfg(feature = "prometheus")]
pub use prometheus::{Prometheus, PrometheusError, RECONCILE_TIME_BUCKETS};
pub use ready_made::{Heartbeat, QueueLimits};
pub use server::{HealthServer, ServerBuilder};
pub use sources::Source;
pub(crate) use sources::{informer_report, queue_report};
