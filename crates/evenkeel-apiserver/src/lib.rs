//! An embedded Kubernetes API server.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod crd;
mod discovery;
mod env;
mod exchange;
mod field;
mod go_json;
mod kinds;
mod managed;
mod meta;
mod negotiate;
mod openapi;
mod patch;
mod protobuf;
mod query;
mod registry;
mod route;
mod schema;
mod store;
mod table;

pub use env::Env;
pub use exchange::{Body, Cut, User};
pub use store::StoreStats;
