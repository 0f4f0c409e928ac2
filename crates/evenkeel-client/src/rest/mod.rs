//! Requests: how they are built, sent, repeated and read.
//!
//! [`Request`] is client-go's `rest.Request`: the typed APIs are written with it, and whoever needs a path or a
//! parameter that they do not have uses it directly.
//!
//! A call travels like this. A [`Path`] and a [`Query`] are checked and escaped, and with headers and a body they make a
//! `Request`. Sending it begins an exchange: wait for the client's [`RateLimiter`], send, look at what came back, and
//! perhaps wait and send again. What is repeated and when, what is followed and what is held back are decisions of state
//! machines that read no clock and open no connection; the exchange only carries them out. The head of the last answer
//! goes to a reader, which knows its media type and its limits and makes an [`Answer`], a [`List`], a [`ListStream`], a
//! [`WatchStream`] or a [`ByteStream`] of it, or an error. All of it is [measured](metrics) and traced, with a span `evenkeel.request` per
//! call at the level of debugging.

mod answer;
mod content;
mod error;
mod exchange;
mod failure;
mod lines;
mod list_stream;
mod media;
pub mod metrics;
mod path;
mod query;
mod reader;
mod reading;
mod redirect;
mod refusals;
mod reply;
mod request;
mod retry;
mod stated_kind;
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
pub use list_stream::ListStream;
pub(crate) use media::has_protobuf_form;
pub use path::Path;
pub use query::{Query, QueryValue};
pub(crate) use refusals::Refusals;
pub use request::Request;
pub use stream::{ByteStream, List, WatchEnd, WatchStream};
pub(crate) use throttle::ThrottleLog;
pub use throttle::{RateLimiter, WouldExceedDeadline};
pub use warnings::{IgnoreWarnings, LogWarnings, Warning, WarningHandler, WriteWarnings, set_default_warning_handler};
