//! The Kubernetes client of evenkeel.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod api;
pub mod auth;
mod client;
pub mod config;
pub mod discovery;
mod error;
pub mod paging;
pub mod reference;
pub mod rest;
pub mod retry;
mod secret;
mod small_file;
pub mod tls;
pub mod transport;
pub mod wait;
pub mod watch;

pub use api::{
    Api, Call, CreateOrUpdate, Deleted, FieldValidation, ListParams, Object, PartialObjectMetadata, Patch, Propagation,
    Unstructured, VersionMatch, WatchParams, create_or_update,
};
pub use client::{Client, ClientBuilder};
pub use config::Config;
pub use error::{CallName, Error};
pub use paging::Pager;
pub use reference::ToReference;
pub use rest::{Answer, ByteStream, Lines, List, Path, Query, Request, WatchEnd, WatchStream};
pub use retry::{Backoff, DEFAULT_BACKOFF, DEFAULT_RETRY, Retry, RetryError, retry, retry_on_conflict};
pub use secret::Secret;
pub use wait::{Interrupted, is_interrupted, wait_for};
pub use watch::{RetryWatcher, until};
