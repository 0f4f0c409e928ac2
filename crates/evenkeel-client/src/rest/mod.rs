//! Requests: how they are built, sent, retried and decoded.
//!
//! [`Request`] is client-go's `rest.Request`. The typed APIs are built on it; use it directly for a path or a parameter that
//! they do not offer.
//!
//! The flow of a request, by file:
//!
//! 1. `path` and `query` check and escape the URL; `request` adds headers and a body.
//! 2. `execute` waits for the client's [`RateLimiter`] (`throttle`), sends an attempt to the transport, and decides whether to
//!    retry (`retry`), to follow a redirect (`redirect`) or to fall back to JSON (`protobuf_fallback`). The decisions are
//!    state machines without I/O.
//! 3. `response` picks the codec (`media`) and decodes the last response into a [`Response`], a [`List`] or [`ListStream`]
//!    (`list`), a [`WatchStream`] or a [`ByteStream`] (`stream`), or into an error (`status_error`).
//!
//! Every request is [measured](metrics) and traced, with a span `evenkeel.request` at debug level.

mod body;
mod error;
mod execute;
mod list;
mod media;
pub mod metrics;
mod path;
mod protobuf_fallback;
mod query;
mod redirect;
mod request;
mod response;
mod retry;
pub(crate) mod sanitize;
mod status_error;
mod stream;
#[cfg(test)]
mod testing;
mod throttle;
mod type_meta;
mod url_template;
mod warnings;
mod write_defaults;

pub use error::RequestError;
pub use list::{List, ListStream};
pub(crate) use media::has_protobuf_form;
pub use path::Path;
pub(crate) use protobuf_fallback::ProtobufFallback;
pub use query::{Query, QueryValue};
pub use request::Request;
pub use response::Response;
pub(crate) use sanitize::escaped;
pub use stream::{ByteStream, Lines, WatchEnd, WatchStream};
pub(crate) use throttle::ThrottleLog;
pub use throttle::{RateLimiter, WouldExceedDeadline};
pub use warnings::{IgnoreWarnings, LogWarnings, Warning, WarningHandler, WriteWarnings, set_default_warning_handler};
pub(crate) use write_defaults::WriteDefaults;

#[cfg(test)]
mod tests;
