//! What an error of hyper's means: by kind, never by its words.

use std::error::Error;
use std::io;

use super::super::error::{TransportError, TransportFault};

/// hyper's error as ours.
pub(super) fn hyper_error(host: &str, error: hyper::Error) -> TransportError {
    TransportError::new(fault(&error), host, error)
}

/// Whether the server certainly has not looked at the request, though it was sent: it refused the stream, or went away
/// having promised to finish older streams only.
pub(super) fn is_unprocessed(error: &hyper::Error) -> bool {
    find::<h2::Error>(error).is_some_and(|error| {
        error.is_remote() && (error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM))
    })
}

/// Whether the connection ended before an answer.
pub(super) fn is_silent_end(error: &hyper::Error) -> bool {
    matches!(fault(error), TransportFault::Closed | TransportFault::Reset)
}

/// An answer had more headers than we take. hyper counts them for HTTP/1.1 only.
#[derive(Debug, thiserror::Error)]
#[error("the answer has more than {0} headers")]
pub(super) struct TooManyHeaders(pub(super) usize);

/// What an error of hyper's means.
fn fault(error: &hyper::Error) -> TransportFault {
    if let Some(error) = find::<h2::Error>(error) {
        return http2_fault(error);
    }
    if let Some(error) = find::<io::Error>(error) {
        return io_fault(error);
    }
    if error.is_timeout() {
        // hyper waits for nothing else than the answer to its ping.
        TransportFault::Http2Lost
    } else if error.is_incomplete_message() || error.is_canceled() || error.is_closed() || error.is_shutdown() {
        TransportFault::Closed
    } else if error.is_parse() {
        TransportFault::Protocol
    } else {
        TransportFault::Other
    }
}

fn http2_fault(error: &h2::Error) -> TransportFault {
    match error.get_io() {
        Some(error) => match io_fault(error) {
            TransportFault::Closed => TransportFault::Http2Lost,
            fault => fault,
        },
        // Our side gave up on what the other side sent.
        None if error.is_library() => TransportFault::Protocol,
        None if error.is_go_away() => TransportFault::Http2Lost,
        None if error.is_reset() => TransportFault::StreamReset,
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

/// The first cause of this type.
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
