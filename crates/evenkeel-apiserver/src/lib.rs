//! An embedded Kubernetes API server: start it in a test, point any client at it, and there is a cluster's API without a
//! cluster.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), evenkeel_apiserver::StartError> {
//! use evenkeel_apiserver::ApiServer;
//!
//! let server = ApiServer::start().await?;
//! println!("listening on {}", server.url());
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! It promises to answer as kube-apiserver 1.37 does, in what it serves: every built-in kind and
//! CustomResourceDefinitions, with the metadata rules, concurrency control, lists, watches, patches and errors that
//! clients rely on. The same requests with the same [`Env`] give the same bytes. Objects are
//! kept until they are deleted; history, logs and whatever else it keeps are bounded. Nothing is left when its handle is
//! dropped. [`Faults`] make it fail in the ways that real servers and networks do.
//!
//! It deliberately does not persist anything, authorize (who is let in may do everything), run controllers other than
//! those without which namespaces and definitions would never go, or collect garbage. What it does not support it says
//! in a 501; it never pretends.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod crd;
mod discovery;
mod engine;
mod env;
mod faults;
mod field;
mod field_ownership;
mod go_json;
mod http_types;
mod install;
mod kinds;
mod kubeconfig;
mod listener;
mod logs;
mod meta;
mod negotiate;
mod openapi;
mod patch;
mod protobuf;
mod protobuf_response;
mod query;
mod registry;
mod route;
mod schema;
mod server;
mod store;
mod table;
mod version;

pub use engine::{ControllerTiming, Snapshot};
pub use env::Env;
pub use faults::{Action, ExpireForm, FaultSpecError, Faults, Rule, RuleId, RuleReport, WatchAction};
pub use http_types::{Body, ConnectionCut, User};
pub use install::{CrdSource, InstallError};
pub use listener::http::ConnectionCounts;
pub use listener::tls::TlsError;
pub use listener::{InProcess, RequestRecord};
pub use logs::{ContainerLog, LogStream, PodLogs};
pub use server::{ApiServer, Builder, StartError};
pub use store::StoreStats;
pub use version::ServerVersion;
