//! [`TransportError`]: why there is no response, or an incomplete one.

use std::fmt;
use std::sync::Arc;

/// Any error, as tower's services have it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why there is no response, or an incomplete one. [`TransportFault`] is the kind; the source has the details.
#[derive(Debug)]
pub struct TransportError {
    fault: TransportFault,
    /// The host of the connection, or the proxy.
    host: Box<str>,
    source: Option<BoxError>,
}

/// The kind of a transport failure, derived from error types, never from messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransportFault {
    /// The host name did not resolve.
    Resolve,
    /// The connection was refused.
    Refused,
    /// The connection failed for another reason.
    Connect,
    /// The connection timed out.
    ConnectTimeout,
    /// The proxy refused, or violated its protocol.
    Proxy,
    /// The TLS handshake failed: an untrusted certificate, or no common version.
    Tls,
    /// The credentials of the request could not be obtained.
    Credentials,
    /// The peer reset the connection.
    Reset,
    /// The connection was closed during a response, or before it.
    Closed,
    /// The HTTP/2 connection received GOAWAY, or its ping timed out.
    Http2Lost,
    /// One HTTP/2 stream was reset; the connection is intact.
    StreamReset,
    /// No data arrived in time.
    Timeout,
    /// The data is not HTTP, or exceeds its limits.
    Protocol,
    /// A user's layer failed, or the kind is unknown.
    Other,
}

impl TransportError {
    /// Returns an error with its source.
    pub fn new(fault: TransportFault, host: &str, source: impl Into<BoxError>) -> Self {
        TransportError { fault, host: host.into(), source: Some(source.into()) }
    }

    /// Returns an error without a source.
    pub fn bare(fault: TransportFault, host: &str) -> Self {
        TransportError { fault, host: host.into(), source: None }
    }

    /// Converts the error of any service or body. A `TransportError` is returned as it is; from any other only the
    /// operating system's error is known, if there is one.
    pub(crate) fn from_any(error: BoxError, host: &str) -> Self {
        match error.downcast::<TransportError>() {
            Ok(error) => *error,
            Err(error) => TransportError::new(fault_of(&*error), host, error),
        }
    }

    /// Returns the error for another request that waited for the same connection.
    pub(crate) fn shared(error: Arc<TransportError>) -> Self {
        let source = error.source.is_some().then(|| BoxError::from(SharedSource(Arc::clone(&error))));
        TransportError { fault: error.fault, host: error.host.clone(), source }
    }

    /// Returns the kind of the failure.
    pub fn fault(&self) -> TransportFault {
        self.fault
    }

    /// Returns the host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns whether an established connection was lost, so that the server may or may not have processed the
    /// request.
    pub fn is_connection_lost(&self) -> bool {
        matches!(self.fault, TransportFault::Reset | TransportFault::Closed | TransportFault::Http2Lost)
    }

    /// Returns whether a timeout expired.
    pub fn is_timeout(&self) -> bool {
        matches!(self.fault, TransportFault::ConnectTimeout | TransportFault::Timeout)
    }
}

fn fault_of(error: &(dyn std::error::Error + 'static)) -> TransportFault {
    use std::io::ErrorKind;
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(ours) = error.downcast_ref::<TransportError>() {
            return ours.fault;
        }
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            match io.kind() {
                ErrorKind::ConnectionRefused => return TransportFault::Refused,
                ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => return TransportFault::Reset,
                ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe => return TransportFault::Closed,
                ErrorKind::TimedOut => return TransportFault::Timeout,
                _ => {}
            }
        }
        next = error.source();
    }
    TransportFault::Other
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = &self.host;
        match self.fault {
            TransportFault::Resolve => write!(f, "cannot find the address of {host}"),
            TransportFault::Refused => write!(f, "{host} refused the connection"),
            TransportFault::Connect => write!(f, "cannot connect to {host}"),
            TransportFault::ConnectTimeout => write!(f, "no connection to {host} in time"),
            TransportFault::Proxy => write!(f, "the proxy does not let us through to {host}"),
            TransportFault::Tls => write!(f, "no secure connection to {host}"),
            TransportFault::Credentials => write!(f, "no credentials for {host}"),
            TransportFault::Reset => write!(f, "{host} reset the connection"),
            TransportFault::Closed => write!(f, "{host} closed the connection before its answer was complete"),
            TransportFault::Http2Lost => write!(f, "the HTTP/2 connection to {host} was lost"),
            TransportFault::StreamReset => write!(f, "{host} broke off the request"),
            TransportFault::Timeout => write!(f, "{host} was silent for too long"),
            TransportFault::Protocol => write!(f, "{host} does not speak proper HTTP"),
            TransportFault::Other => write!(f, "the request to {host} failed"),
        }
    }
}

impl std::error::Error for TransportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source.as_ref() as _)
    }
}

/// The source of an error that several requests share.
struct SharedSource(Arc<TransportError>);

impl SharedSource {
    fn get(&self) -> &(dyn std::error::Error + 'static) {
        std::error::Error::source(&*self.0).unwrap_or(&*self.0)
    }
}

impl fmt::Debug for SharedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.get(), f)
    }
}

impl fmt::Display for SharedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.get(), f)
    }
}

impl std::error::Error for SharedSource {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.get().source()
    }
}
