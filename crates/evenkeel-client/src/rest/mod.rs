//! Requests: how they are built, sent, repeated and read.
//!
//! [`Request`] is client-go's `rest.Request`: the typed APIs are written with it, and whoever needs a path or a
//! parameter that they do not have uses it directly.

mod answer;
mod path;
mod request;
mod stream;
mod warnings;

pub use answer::Answer;
pub use path::{Path, RequestError};
pub use request::Request;
pub use stream::{ByteStream, List, WatchEnd, WatchStream};
pub use warnings::{Warning, WarningHandler};
