//! An embedded Kubernetes API server.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod env;
mod exchange;
mod field;
mod store;

pub use env::Env;
pub use exchange::{Body, Cut, User};
pub use store::StoreStats;
