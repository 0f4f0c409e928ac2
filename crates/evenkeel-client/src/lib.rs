//! The Kubernetes client of evenkeel.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod api;
pub mod auth;
mod client;
pub mod config;
pub mod discovery;
mod error;
pub mod rest;
mod secret;
mod small_file;
pub mod tls;
pub mod transport;
pub mod util;

pub use api::{
    Api, Call, Deleted, FieldValidation, ListParams, Object, PartialObjectMetadata, Patch, Propagation, Unstructured,
    VersionMatch, WatchParams,
};
pub use client::{Client, ClientBuilder};
pub use config::Config;
pub use error::{CallName, Error};
pub use rest::{Answer, ByteStream, Lines, List, Path, Query, Request, WatchEnd, WatchStream};
pub use secret::Secret;
pub use util::{
    Backoff, CreateOrUpdate, DEFAULT_BACKOFF, DEFAULT_RETRY, Interrupted, Pager, Retry, RetryError, RetryWatcher,
    ToReference, create_or_update, is_interrupted, retry, retry_on_conflict, until, wait_for,
};
