//! The Kubernetes client of evenkeel.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod api;
mod client;
pub mod config;
mod error;
pub mod rest;
mod secret;
pub mod transport;

pub use api::{
    Api, Call, Deleted, FieldValidation, ListParams, Object, PartialObjectMetadata, Patch, Propagation, Unstructured,
    VersionMatch, WatchParams,
};
pub use client::{Client, ClientBuilder};
pub use config::Config;
pub use error::{CallName, Error};
pub use rest::{Answer, ByteStream, List, Path, Request, WatchEnd, WatchStream};
pub use secret::Secret;
