//! [`Error`]: what can go wrong with a call.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::{DecodeError, Status, StreamError};
use http::{Method, StatusCode};

use crate::config::ConfigError;
use crate::discovery::DiscoveryError;
use crate::paging::PagingError;
use crate::rest::RequestError;
use crate::retry::RetryError;
use crate::transport::TransportError;

/// The cause that marks an error that was made from an answer which is no [`Status`].
pub(crate) const UNEXPECTED_SERVER_RESPONSE: &str = "UnexpectedServerResponse";

/// What can go wrong with a call.
///
/// Every variant that is about one call names it. The text is complete by itself: it includes the cause's, and [`source`] goes on behind
/// that, so that printing the whole chain repeats nothing. Ask the predicates (`is_not_found`, `is_conflict`, …) rather
/// than matching codes; they follow client-go's.
///
/// [`source`]: std::error::Error::source
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The client could not be made.
    Config(ConfigError),
    /// The request makes no sense; nothing was sent.
    Request(RequestError),
    /// The server refused, or failed, and says why.
    Api {
        /// Which call.
        call: CallName,
        /// What the server says. If its answer was no `Status`, one was made from what it did say.
        status: Box<Status>,
    },
    /// There is no answer, or only half of one. Whether the server acted on the request is not known unless the
    /// [fault](TransportError::fault) says that there was no connection.
    Transport {
        /// Which call.
        call: CallName,
        /// What happened to the connection.
        source: TransportError,
        /// The error of the attempt before, if there was one and it was another.
        previous: Option<Box<Error>>,
    },
    /// The call took longer than it was given. The server may still act on it.
    Timeout {
        /// Which call.
        call: CallName,
        /// How long it was given.
        limit: Duration,
        /// The error of the last attempt, if one had failed before time ran out.
        previous: Option<Box<Error>>,
    },
    /// The client's own limit on the rate of requests would have made the call wait for longer than it has.
    RateLimited {
        /// Which call.
        call: CallName,
        /// How long it would have waited.
        wait: Duration,
        /// The error of the last attempt, if this was to be another one.
        previous: Option<Box<Error>>,
    },
    /// The answer is larger than the client accepts.
    TooLarge {
        /// Which call.
        call: CallName,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The server points elsewhere, and the client does not go there.
    Redirected {
        /// Which call.
        call: CallName,
        /// The server's code.
        code: StatusCode,
        /// Where it points, as far as it can be shown.
        location: String,
    },
    /// The answer is in a form that the client does not read.
    Unreadable {
        /// Which call.
        call: CallName,
        /// What is wrong with it.
        problem: String,
    },
    /// The answer is no object of the kind that was asked for.
    Decode {
        /// Which call.
        call: CallName,
        /// Where it is wrong.
        source: DecodeError,
    },
    /// The answer is no list, or no watch.
    Stream {
        /// Which call.
        call: CallName,
        /// Where it is wrong.
        source: StreamError,
    },
    /// An object that was read does not fit its Rust type. What [`Obj::typed`](evenkeel_core::Obj::typed) says of it, made
    /// this by `?`. The call that read it was a success.
    Typed(DecodeError),
    /// Whoever was to change an object would not: see [`Mutation`](crate::api::Mutation). Nothing was written.
    Declined {
        /// The object's name.
        name: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It is not known what the server serves, or a name means nothing to it.
    Discovery(DiscoveryError),
    /// A call was tried again, and there is more to tell of that than the error of the last attempt.
    Retry(Box<RetryError<Error>>),
    /// A collection that was read page by page does not come to an end.
    Paging(PagingError),
}

/// A call as people name it: `GET /api/v1/namespaces/default/pods/web-0`. The query is left out.
///
/// Cheap to clone: errors and answers carry it along.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CallName(Arc<Name>);

#[derive(PartialEq, Eq, Hash)]
struct Name {
    method: Method,
    path: String,
}

impl CallName {
    pub(crate) fn new(method: &Method, path: impl Into<String>) -> Self {
        CallName(Arc::new(Name { method: method.clone(), path: path.into() }))
    }

    /// The method.
    pub fn method(&self) -> &Method {
        &self.0.method
    }

    /// The path, without the query.
    pub fn path(&self) -> &str {
        &self.0.path
    }
}

impl fmt::Display for CallName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method(), self.path())
    }
}

impl fmt::Debug for CallName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// What the server said, if it was the server that refused.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Error::Api { status, .. } => Some(status),
            Error::Retry(retry) => retry.error().and_then(Error::status),
            Error::Discovery(DiscoveryError::Api(error)) => error.status(),
            _ => None,
        }
    }

    /// The object or the resource is not there.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(Status::is_not_found)
    }

    /// The object to create is there already.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(Status::is_already_exists)
    }

    /// The write was based on an old version; read again and retry.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(Status::is_conflict)
    }

    /// The object does not pass validation; the causes among the details say why.
    pub fn is_invalid(&self) -> bool {
        self.status().is_some_and(Status::is_invalid)
    }

    /// The request makes no sense to the server.
    pub fn is_bad_request(&self) -> bool {
        self.status().is_some_and(Status::is_bad_request)
    }

    /// The credentials are missing or wrong.
    pub fn is_unauthorized(&self) -> bool {
        self.status().is_some_and(Status::is_unauthorized)
    }

    /// The user may not do this.
    pub fn is_forbidden(&self) -> bool {
        self.status().is_some_and(Status::is_forbidden)
    }

    /// The object is gone for good.
    pub fn is_gone(&self) -> bool {
        self.status().is_some_and(Status::is_gone)
    }

    /// The resource version or continue token is too old: list again. Covers servers that say `Gone` for it.
    pub fn is_expired(&self) -> bool {
        self.status().is_some_and(Status::is_expired)
    }

    /// The server could not finish in the time that the request gave it. When it is the client that gave up waiting, the
    /// error is an [`Error::Timeout`] instead.
    pub fn is_timeout(&self) -> bool {
        self.status().is_some_and(Status::is_timeout)
    }

    /// The server could not finish in time and asks to try again.
    pub fn is_server_timeout(&self) -> bool {
        self.status().is_some_and(Status::is_server_timeout)
    }

    /// The server wants fewer requests.
    pub fn is_too_many_requests(&self) -> bool {
        self.status().is_some_and(Status::is_too_many_requests)
    }

    /// The server is not ready for the request.
    pub fn is_service_unavailable(&self) -> bool {
        self.status().is_some_and(Status::is_service_unavailable)
    }

    /// Something broke inside the server.
    pub fn is_internal_error(&self) -> bool {
        self.status().is_some_and(Status::is_internal_error)
    }

    /// The resource does not support the verb.
    pub fn is_method_not_supported(&self) -> bool {
        self.status().is_some_and(Status::is_method_not_supported)
    }

    /// The server cannot answer in any media type that was asked for.
    pub fn is_not_acceptable(&self) -> bool {
        self.status().is_some_and(Status::is_not_acceptable)
    }

    /// The server does not read the media type that was sent.
    pub fn is_unsupported_media_type(&self) -> bool {
        self.status().is_some_and(Status::is_unsupported_media_type)
    }

    /// The body was larger than the server takes.
    pub fn is_request_entity_too_large(&self) -> bool {
        self.status().is_some_and(Status::is_request_entity_too_large)
    }

    /// The request asked for a resource version that the server has not reached yet.
    pub fn is_too_large_resource_version(&self) -> bool {
        self.status().is_some_and(Status::is_too_large_resource_version)
    }

    /// The object cannot be created because its namespace is being deleted.
    pub fn is_namespace_terminating(&self) -> bool {
        self.status().is_some_and(Status::is_namespace_terminating)
    }

    /// Only one item of a list, or one event of a watch, cannot be read: the others still come.
    pub fn is_about_one_item(&self) -> bool {
        matches!(self, Error::Stream { source, .. } if !source.is_fatal())
    }

    /// The answer was not an API server's own: a proxy or a load balancer spoke, and its code is all there is to go by.
    pub fn is_unexpected_server_error(&self) -> bool {
        self.status().is_some_and(|status| status.has_cause(UNEXPECTED_SERVER_RESPONSE))
    }

    /// How long the server asks to wait before the next try, if it asks for that; it may leave the time open, which is zero
    /// here.
    pub fn suggests_delay(&self) -> Option<Duration> {
        let status = self.status()?;
        status.retry_after().or_else(|| status.is_server_timeout().then_some(Duration::ZERO))
    }

    fn call_name(&self) -> Option<&CallName> {
        match self {
            Error::Config(_)
            | Error::Request(_)
            | Error::Typed(_)
            | Error::Declined { .. }
            | Error::Discovery(_)
            | Error::Retry(_)
            | Error::Paging(_) => None,
            Error::Api { call, .. }
            | Error::Transport { call, .. }
            | Error::Timeout { call, .. }
            | Error::RateLimited { call, .. }
            | Error::TooLarge { call, .. }
            | Error::Redirected { call, .. }
            | Error::Unreadable { call, .. }
            | Error::Decode { call, .. }
            | Error::Stream { call, .. } => Some(call),
        }
    }

    fn previous(&self) -> Option<&Error> {
        match self {
            Error::Transport { previous, .. }
            | Error::Timeout { previous, .. }
            | Error::RateLimited { previous, .. } => previous.as_deref(),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(call) = self.call_name() {
            write!(f, "{call}: ")?;
        }
        match self {
            Error::Config(source) => write!(f, "{source}"),
            Error::Request(source) => write!(f, "{source}"),
            Error::Api { status, .. } => write!(f, "{status}"),
            Error::Transport { source, .. } => write!(f, "{source}"),
            Error::Timeout { limit, .. } => write!(f, "no answer within {limit:?}"),
            Error::RateLimited { wait, .. } => {
                write!(f, "the client's rate limit would delay it by {wait:?}, which is longer than it may take")
            }
            Error::TooLarge { limit, .. } => write!(f, "the answer is larger than {limit} bytes and was not read"),
            Error::Redirected { code, location, .. } => {
                write!(f, "the server answered {code} and points to {location:?}, which is not followed")
            }
            Error::Unreadable { problem, .. } => write!(f, "the answer cannot be read: {problem}"),
            Error::Decode { source, .. } => write!(f, "{source}"),
            Error::Stream { source, .. } => write!(f, "{source}"),
            Error::Typed(source) => write!(f, "{source}"),
            Error::Declined { name, source } => write!(f, "{name:?} was left as it is: {source}"),
            Error::Discovery(source) => write!(f, "{source}"),
            Error::Retry(source) => write!(f, "{source}"),
            Error::Paging(source) => write!(f, "{source}"),
        }?;
        match self.previous() {
            Some(previous) => write!(f, " (the attempt before: {previous})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Config(source) => std::error::Error::source(source),
            Error::Request(source) => std::error::Error::source(source),
            Error::Transport { source, .. } => std::error::Error::source(source),
            Error::Decode { source, .. } => std::error::Error::source(source),
            Error::Stream { source, .. } => std::error::Error::source(source),
            Error::Typed(source) => std::error::Error::source(source),
            Error::Declined { source, .. } => source.source(),
            Error::Discovery(source) => std::error::Error::source(source),
            Error::Retry(source) => std::error::Error::source(&**source),
            Error::Paging(source) => std::error::Error::source(source),
            _ => None,
        }
    }
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Error::Config(error)
    }
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Self {
        Error::Request(error)
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Error::Typed(error)
    }
}

impl From<DiscoveryError> for Error {
    fn from(error: DiscoveryError) -> Self {
        Error::Discovery(error)
    }
}

#[cfg(test)]
mod tests;
