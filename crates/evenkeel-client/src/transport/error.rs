//! [`TransportError`]: why there is no answer, or only half of one.

use std::fmt;
use std::sync::Arc;

/// Any error at all, as tower's services have it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why there is no answer, or only half of one. What happened is a [`TransportFault`]; the cause has the details.
#[derive(Debug)]
pub struct TransportError {
    fault: TransportFault,
    /// The host that was talked to, or the proxy.
    host: Box<str>,
    source: Option<BoxError>,
}

/// What went wrong between us and the server, told apart by kind, never by the words of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransportFault {
    /// The host's name has no address.
    Resolve,
    /// Nobody listens there.
    Refused,
    /// No connection could be made for another reason.
    Connect,
    /// No connection could be made in time.
    ConnectTimeout,
    /// The proxy refused, or spoke nonsense.
    Proxy,
    /// The TLS handshake failed: a certificate that is not trusted, a version that is not spoken.
    Tls,
    /// The credentials for the request could not be had.
    Credentials,
    /// The connection was reset by the other side.
    Reset,
    /// The connection ended in the middle of an answer, or before one.
    Closed,
    /// HTTP/2 was told to go away, or its ping was not answered.
    Http2Lost,
    /// One HTTP/2 stream was reset; the connection lives.
    StreamReset,
    /// Nothing came for too long.
    Timeout,
    /// What came is no HTTP, or is larger than HTTP may be.
    Protocol,
    /// A layer of the user's failed, or something else that has no better name.
    Other,
}

impl TransportError {
    /// An error with its cause.
    pub fn new(fault: TransportFault, host: &str, source: impl Into<BoxError>) -> Self {
        TransportError { fault, host: host.into(), source: Some(source.into()) }
    }

    /// An error that says all by itself.
    pub fn bare(fault: TransportFault, host: &str) -> Self {
        TransportError { fault, host: host.into(), source: None }
    }

    /// The error of a service or of a body, whoever made it. One of ours is taken as it is; from any other what can be
    /// known is what the operating system said, if it said something.
    pub(crate) fn from_any(error: BoxError, host: &str) -> Self {
        match error.downcast::<TransportError>() {
            Ok(error) => *error,
            Err(error) => TransportError::new(fault_of(&*error), host, error),
        }
    }

    /// The same error for one more of those who waited for the same connection.
    pub(crate) fn shared(error: Arc<TransportError>) -> Self {
        let source = error.source.is_some().then(|| BoxError::from(SharedSource(Arc::clone(&error))));
        TransportError { fault: error.fault, host: error.host.clone(), source }
    }

    /// What happened.
    pub fn fault(&self) -> TransportFault {
        self.fault
    }

    /// To which host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether a connection that was there has been lost, so that the server may or may not have seen the request.
    pub fn is_connection_lost(&self) -> bool {
        matches!(self.fault, TransportFault::Reset | TransportFault::Closed | TransportFault::Http2Lost)
    }

    /// Whether time ran out.
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

/// The cause of an error that several have.
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
