//! An embedded Kubernetes API server: the API of a cluster inside the process, for tests and development.
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
//! # Guarantees
//!
//! - It behaves like kube-apiserver 1.37 in what it serves: every built-in kind and CustomResourceDefinitions, with the
//!   metadata rules, concurrency control, lists, watches, patches and errors that clients rely on.
//! - The same requests with the same [`Env`] give the same bytes.
//! - Objects are kept until they are deleted. History, logs and request records are bounded.
//! - Dropping its handle ends all its tasks and closes its sockets.
//! - [`Faults`] inject failures of real servers and networks.
//!
//! # Not supported
//!
//! - It persists nothing without [`Builder::data_dir`], and authorizes every authenticated request without
//!   [`Builder::rbac`]. Its only controllers collect garbage, aggregate roles, add default ServiceAccounts, remove
//!   terminating namespaces and definitions, publish the usage of quotas, release unused volumes, and expire events.
//! - A request to an unsupported subresource returns 501.
//! - An object that kube-apiserver would act upon and this server does not (flow control, API services, further
//!   ServiceCIDRs) is stored, and every write of it returns a `Warning` header.
//!
//! # Modules
//!
//! `listener` serves HTTP and authenticates; `engine` is the server without I/O, one file per verb; `registry` describes
//! the served resources and their strategies; `store` holds the objects and their history; `patch` and `field_ownership`
//! change objects; `schema`, `kinds` and `crd` validate and default them.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

#[cfg(not(any(feature = "ring", feature = "aws-lc-rs")))]
compile_error!("the server generates keys and certificates: enable the feature `ring` or `aws-lc-rs`");

mod admission_hook;
mod audit;
mod authorization;
mod conversion_function;
mod crd;
mod data_dir;
mod discovery;
mod engine;
mod env;
mod exec;
mod faults;
mod field;
mod field_ownership;
mod go_json;
mod http_types;
mod install;
#[cfg(feature = "internals")]
pub mod internals;
mod json_text;
mod kinds;
mod kubeconfig;
mod limits;
mod listener;
mod logs;
mod memory;
mod meta;
mod metrics;
mod negotiate;
mod openapi;
mod openid;
mod outbound;
mod patch;
mod protobuf;
mod protobuf_response;
mod query;
mod registry;
mod request_state;
mod route;
mod schema;
mod server;
mod store;
mod table;
mod token_file;
mod token_keys;
mod version;

pub use admission_hook::{AdmissionHook, AdmissionReview, AdmissionVerdict};
pub use audit::{AuditLogError, AuditPolicy, AuditPolicyError};
pub use data_dir::{DataDirError, HistoryAfterRestart, backup_data_dir};
pub use engine::admission::AdmissionPluginError;
pub use engine::{ControllerTiming, Snapshot};
pub use env::Env;
pub use evenkeel_base::channels::{ChannelReader, ChannelWriter};
pub use evenkeel_core::{ExitStatus, TerminalSize};
pub use exec::{
    ContainerProcess, LocalAddresses, PortConnection, PortFuture, PortHandler, PortStream, ProcessFuture,
    ProcessHandler, ProcessOutcome, ScriptedCommands, ScriptedOutput, TerminalSizes,
};
pub use faults::{Action, ExpireForm, FaultSpecError, Faults, Rule, RuleId, RuleReport, WatchAction};
pub use http_types::{Body, ConnectionCut, User};
pub use install::{CrdSource, InstallError};
pub use listener::http::ConnectionCounts;
pub use listener::tls::TlsError;
pub use listener::{InProcess, RequestRecord, RequestTarget};
pub use logs::{ContainerLog, LogStream, PodLogs};
pub use memory::MemoryStats;
pub use openapi::OpenApiError;
pub use server::{ApiServer, Builder, StartError};
pub use store::{BackupSummary, Fsync, RecoveryError, StoreStats};
pub use token_file::TokenFileError;
pub use version::ServerVersion;
