//! The Kubernetes client of evenkeel.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod auth;
pub mod config;
pub mod rest;
mod secret;
mod small_file;
pub mod tls;
pub mod transport;

pub use config::Config;
pub use secret::Secret;
