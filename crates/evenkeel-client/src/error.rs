//! [`Error`]: the errors of requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::{DecodeError, Status, StreamError};
use http::{Method, StatusCode};

use crate::config::ConfigError;
use crate::discovery::DiscoveryError;
use crate::managed_fields::ManagedFieldsError;
use crate::paging::PagingError;
use crate::remote::SessionError;
use crate::rest::RequestError;
use crate::retry::RetryError;
use crate::transport::TransportError;

/// The cause that marks an error whose response was no [`Status`].
pub(crate) const UNEXPECTED_SERVER_RESPONSE: &str = "UnexpectedServerResponse";

/// The error of a request.
///
/// Every variant about one request names it. The message is complete: it includes the message of the cause, and
/// [`source`] returns what is behind that, so that printing the whole chain repeats nothing. Use the predicates
/// (`is_not_found`, `is_conflict`, …) instead of matching codes; they follow client-go's.
///
/// [`source`]: std::error::Error::source
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The configuration is invalid.
    Config(ConfigError),
    /// The request is invalid; nothing was sent.
    Request(RequestError),
    /// The server rejected the request, or failed.
    Api {
        /// The request.
        request: RequestName,
        /// The server's `Status`. If the response was none, it is derived from the response.
        status: Box<Status>,
    },
    /// There is no response, or a part of one. The server may have acted on the request, unless the
    /// [fault](TransportError::fault) means that there was no connection.
    Transport {
        /// The request.
        request: RequestName,
        /// What happened to the connection.
        source: TransportError,
        /// The error of the previous attempt, if it was a different one.
        previous: Option<Box<Error>>,
    },
    /// The request timed out. The server may still act on it.
    Timeout {
        /// The request.
        request: RequestName,
        /// The timeout.
        limit: Duration,
        /// The error of the last attempt before the timeout.
        previous: Option<Box<Error>>,
    },
    /// The client's own rate limit would have delayed the request beyond its timeout.
    RateLimited {
        /// The request.
        request: RequestName,
        /// The delay.
        wait: Duration,
        /// The error of the previous attempt.
        previous: Option<Box<Error>>,
    },
    /// The response is larger than the client's limit.
    TooLarge {
        /// The request.
        request: RequestName,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The response is a redirect that the client does not follow.
    Redirected {
        /// The request.
        request: RequestName,
        /// The status code.
        code: StatusCode,
        /// The location, with secrets masked.
        location: String,
    },
    /// The response cannot be decoded.
    Unreadable {
        /// The request.
        request: RequestName,
        /// Why.
        problem: String,
    },
    /// The response is not an object of the requested kind.
    Decode {
        /// The request.
        request: RequestName,
        /// Where decoding failed.
        source: DecodeError,
    },
    /// The response is not a list, or not a watch.
    Stream {
        /// The request.
        request: RequestName,
        /// Where decoding failed.
        source: StreamError,
    },
    /// An exec, attach or port-forward session could not be opened, or failed.
    Session {
        /// The request.
        request: RequestName,
        /// What happened.
        source: SessionError,
    },
    /// An object that was read does not fit its Rust type: the error of [`Obj::typed`](evenkeel_core::Obj::typed),
    /// converted by `?`. The request itself succeeded.
    Typed(DecodeError),
    /// A [`Mutation`](crate::api::Mutation) returned an error. Nothing was written.
    Declined {
        /// The object's name.
        name: String,
        /// The mutation's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The ownership of an object's fields cannot be used. Nothing was written.
    ManagedFields(ManagedFieldsError),
    /// Discovery failed, or the server does not serve the resource.
    Discovery(DiscoveryError),
    /// A retried operation failed, with more than the error of its last attempt.
    Retry(Box<RetryError<Error>>),
    /// The pages of a collection do not end.
    Paging(PagingError),
}

/// Method and path of a request: `GET /api/v1/namespaces/default/pods/web-0`. The query is left out.
///
/// Cheap to clone: errors and responses contain it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RequestName(Arc<Name>);

#[derive(PartialEq, Eq, Hash)]
struct Name {
    method: Method,
    path: String,
}

impl RequestName {
    pub(crate) fn new(method: &Method, path: impl Into<String>) -> Self {
        RequestName(Arc::new(Name { method: method.clone(), path: path.into() }))
    }

    /// Returns the method.
    pub fn method(&self) -> &Method {
        &self.0.method
    }

    /// Returns the path, without the query.
    pub fn path(&self) -> &str {
        &self.0.path
    }
}

impl fmt::Display for RequestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method(), self.path())
    }
}

impl fmt::Debug for RequestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Returns the server's `Status`, if the server responded with one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Error::Api { status, .. } => Some(status),
            Error::Retry(retry) => retry.error().and_then(Error::status),
            Error::Discovery(DiscoveryError::Api(error)) => error.status(),
            _ => None,
        }
    }

    /// The object or the resource does not exist.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(Status::is_not_found)
    }

    /// The object to create exists.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(Status::is_already_exists)
    }

    /// The write was based on an old version; read again and retry.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(Status::is_conflict)
    }

    /// The object is invalid; the causes in the details state why.
    pub fn is_invalid(&self) -> bool {
        self.status().is_some_and(Status::is_invalid)
    }

    /// The server does not understand the request.
    pub fn is_bad_request(&self) -> bool {
        self.status().is_some_and(Status::is_bad_request)
    }

    /// The credentials are missing or invalid.
    pub fn is_unauthorized(&self) -> bool {
        self.status().is_some_and(Status::is_unauthorized)
    }

    /// The user is not authorized.
    pub fn is_forbidden(&self) -> bool {
        self.status().is_some_and(Status::is_forbidden)
    }

    /// The object does not exist any more and will not exist again.
    pub fn is_gone(&self) -> bool {
        self.status().is_some_and(Status::is_gone)
    }

    /// The resource version or continue token is too old: relist. Includes servers that respond with `Gone` for it.
    pub fn is_expired(&self) -> bool {
        self.status().is_some_and(Status::is_expired)
    }

    /// The server did not finish within the request's timeout. A timeout of the client is an [`Error::Timeout`]
    /// instead.
    pub fn is_timeout(&self) -> bool {
        self.status().is_some_and(Status::is_timeout)
    }

    /// The server did not finish in time; retry later.
    pub fn is_server_timeout(&self) -> bool {
        self.status().is_some_and(Status::is_server_timeout)
    }

    /// The server throttles requests.
    pub fn is_too_many_requests(&self) -> bool {
        self.status().is_some_and(Status::is_too_many_requests)
    }

    /// The server is not ready.
    pub fn is_service_unavailable(&self) -> bool {
        self.status().is_some_and(Status::is_service_unavailable)
    }

    /// The server failed internally.
    pub fn is_internal_error(&self) -> bool {
        self.status().is_some_and(Status::is_internal_error)
    }

    /// The resource does not support the verb.
    pub fn is_method_not_supported(&self) -> bool {
        self.status().is_some_and(Status::is_method_not_supported)
    }

    /// The server supports none of the accepted media types.
    pub fn is_not_acceptable(&self) -> bool {
        self.status().is_some_and(Status::is_not_acceptable)
    }

    /// The server does not support the media type of the body.
    pub fn is_unsupported_media_type(&self) -> bool {
        self.status().is_some_and(Status::is_unsupported_media_type)
    }

    /// The body was larger than the server's limit.
    pub fn is_request_entity_too_large(&self) -> bool {
        self.status().is_some_and(Status::is_request_entity_too_large)
    }

    /// The requested resource version is newer than the server's.
    pub fn is_too_large_resource_version(&self) -> bool {
        self.status().is_some_and(Status::is_too_large_resource_version)
    }

    /// The object cannot be created because its namespace is being deleted.
    pub fn is_namespace_terminating(&self) -> bool {
        self.status().is_some_and(Status::is_namespace_terminating)
    }

    /// Only one item of a list, or one event of a watch, cannot be decoded: the others follow.
    pub fn is_about_one_item(&self) -> bool {
        matches!(self, Error::Stream { source, .. } if !source.is_fatal())
    }

    /// The response is not from an API server but from a proxy or a load balancer; only its status code is known.
    pub fn is_unexpected_server_error(&self) -> bool {
        self.status().is_some_and(|status| status.has_cause(UNEXPECTED_SERVER_RESPONSE))
    }

    /// Returns how long the server suggests to wait before a retry; zero if it suggests one without a time.
    pub fn suggests_delay(&self) -> Option<Duration> {
        let status = self.status()?;
        status.retry_after().or_else(|| status.is_server_timeout().then_some(Duration::ZERO))
    }

    fn call_name(&self) -> Option<&RequestName> {
        match self {
            Error::Config(_)
            | Error::Request(_)
            | Error::Typed(_)
            | Error::Declined { .. }
            | Error::ManagedFields(_)
            | Error::Discovery(_)
            | Error::Retry(_)
            | Error::Paging(_) => None,
            Error::Api { request, .. }
            | Error::Transport { request, .. }
            | Error::Timeout { request, .. }
            | Error::RateLimited { request, .. }
            | Error::TooLarge { request, .. }
            | Error::Redirected { request, .. }
            | Error::Unreadable { request, .. }
            | Error::Decode { request, .. }
            | Error::Stream { request, .. }
            | Error::Session { request, .. } => Some(request),
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

/// Returns the name and version of the resource, if the server does not serve it and a CustomResourceDefinition would define it.
fn unserved_resource<'a>(request: &'a RequestName, status: &Status) -> Option<(String, &'a str)> {
    // An object that does not exist is named in the message.
    if !status.is_not_found() || !status.message.starts_with("the server could not find the requested resource") {
        return None;
    }
    let mut parts = request.path().strip_prefix("/apis/")?.split('/');
    let (group, version, first) = (parts.next()?, parts.next()?, parts.next()?);
    let resource = match (first, parts.nth(1)) {
        ("namespaces", Some(resource)) => resource,
        _ => first,
    };
    group.contains('.').then(|| (format!("{resource}.{group}"), version))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(request) = self.call_name() {
            write!(f, "{request}: ")?;
        }
        match self {
            Error::Config(source) => write!(f, "{source}"),
            Error::Request(source) => write!(f, "{source}"),
            Error::Api { request, status } => match unserved_resource(request, status) {
                None => write!(f, "{status}"),
                Some((name, version)) => write!(
                    f,
                    "{status}: {name} is not served: install the CustomResourceDefinition {name} with version {version}"
                ),
            },
            Error::Transport { source, .. } => write!(f, "{source}"),
            Error::Timeout { limit, .. } => write!(f, "no response within {limit:?}"),
            Error::RateLimited { wait, .. } => {
                write!(f, "the client's rate limit would delay it by {wait:?}, which exceeds its timeout")
            }
            Error::TooLarge { limit, .. } => write!(f, "the response is larger than the limit of {limit} bytes"),
            Error::Redirected { code, location, .. } => {
                write!(f, "the server responded with {code} and a redirect to {location:?}, which is not followed")
            }
            Error::Unreadable { problem, .. } => write!(f, "the response cannot be decoded: {problem}"),
            Error::Decode { source, .. } => write!(f, "{source}"),
            Error::Stream { source, .. } => write!(f, "{source}"),
            Error::Session { source, .. } => write!(f, "{source}"),
            Error::Typed(source) => write!(f, "{source}"),
            Error::Declined { name, source } => write!(f, "{name:?} was not written: {source}"),
            Error::ManagedFields(source) => write!(f, "{source}"),
            Error::Discovery(source) => write!(f, "{source}"),
            Error::Retry(source) => write!(f, "{source}"),
            Error::Paging(source) => write!(f, "{source}"),
        }?;
        match self.previous() {
            Some(previous) => write!(f, " (previous attempt: {previous})"),
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
            Error::Session { source, .. } => std::error::Error::source(source),
            Error::Typed(source) => std::error::Error::source(source),
            Error::Declined { source, .. } => source.source(),
            Error::ManagedFields(source) => std::error::Error::source(source),
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
