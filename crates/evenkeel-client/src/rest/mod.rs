//! Requests: how they are built, sent, repeated and read.
//!
//! [`Request`] is client-go's `rest.Request`: the typed APIs are written with it, and whoever needs a path or a
//! parameter that they do not have uses it directly.

mod answer;
mod content;
mod error;
mod exchange;
mod failure;
mod lines;
mod media;
pub mod metrics;
mod path;
mod query;
mod reader;
mod reading;
mod redirect;
mod reply;
mod request;
mod retry;
mod stream;
mod template;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod text;
mod throttle;
mod warnings;

pub use answer::Answer;
pub use error::RequestError;
pub use lines::Lines;
pub(crate) use media::Codecs;
pub use path::Path;
pub use query::{Query, QueryValue};
pub use request::Request;
pub use stream::{ByteStream, List, WatchEnd, WatchStream};
pub(crate) use throttle::ThrottleLog;
pub use throttle::{RateLimiter, WouldExceedDeadline};
pub use warnings::{IgnoreWarnings, LogWarnings, Warning, WarningHandler, WriteWarnings, set_default_warning_handler};
