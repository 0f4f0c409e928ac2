//! Classifies errors of hyper by type, never by message.

use std::error::Error;
use std::io;

use super::super::error::{TransportError, TransportFault};

/// Converts an error of an HTTP/1.1 connection.
pub(super) fn http1_error(host: &str, error: hyper::Error) -> TransportError {
    TransportError::new(http1_fault(&error), host, error)
}

/// Converts an error of an HTTP/2 connection.
pub(super) fn http2_error(host: &str, error: hyper::Error) -> TransportError {
    TransportError::new(http2_fault(&error), host, error)
}

/// Returns whether the server certainly has not processed the request: it refused the stream, or sent GOAWAY for older
/// streams only.
pub(super) fn is_unprocessed(error: &hyper::Error) -> bool {
    find::<h2::Error>(error).is_some_and(|error| {
        error.is_remote() && (error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM))
    })
}

/// Returns whether an HTTP/1.1 connection ended before a response.
pub(super) fn is_silent_end(error: &hyper::Error) -> bool {
    matches!(http1_fault(error), TransportFault::Closed | TransportFault::Reset)
}

/// A response exceeded the header limit. hyper checks it for HTTP/1.1 only.
#[derive(Debug, thiserror::Error)]
#[error("the response has more than {0} headers")]
pub(super) struct TooManyHeaders(pub(super) usize);

fn http1_fault(error: &hyper::Error) -> TransportFault {
    if let Some(error) = find::<io::Error>(error) {
        io_fault(error)
    } else if error.is_incomplete_message() || error.is_canceled() || error.is_closed() || error.is_shutdown() {
        TransportFault::Closed
    } else if error.is_parse() {
        TransportFault::Protocol
    } else {
        TransportFault::Other
    }
}

fn http2_fault(error: &hyper::Error) -> TransportFault {
    // Some errors are h2's own, others are unwrapped by hyper.
    let http2 = find::<h2::Error>(error);
    if let Some(error) = http2.map_or_else(|| find::<io::Error>(error), h2::Error::get_io) {
        return match io_fault(error) {
            fault @ (TransportFault::Reset | TransportFault::Timeout | TransportFault::Tls) => fault,
            // The connection ended between two frames, or within one.
            _ => TransportFault::Http2Lost,
        };
    }
    match http2 {
        // The local side rejected what the peer sent.
        Some(error) if error.is_library() => TransportFault::Protocol,
        Some(error) if error.is_go_away() => TransportFault::Http2Lost,
        Some(error) if error.is_reset() => TransportFault::StreamReset,
        Some(_) => TransportFault::Other,
        // hyper's only timeout is that of a ping.
        None if error.is_timeout() || error.is_canceled() || error.is_closed() => TransportFault::Http2Lost,
        None => TransportFault::Other,
    }
}

fn io_fault(error: &io::Error) -> TransportFault {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => TransportFault::Reset,
        io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof | io::ErrorKind::NotConnected => {
            TransportFault::Closed
        }
        io::ErrorKind::TimedOut => TransportFault::Timeout,
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
                TransportFault::Tls
            } else {
                TransportFault::Protocol
            }
        }
        _ => TransportFault::Other,
    }
}

/// Returns the first source of this type.
fn find<E: Error + 'static>(error: &hyper::Error) -> Option<&E> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}
