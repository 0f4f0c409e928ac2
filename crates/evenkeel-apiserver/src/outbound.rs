//! [`OutboundCall`]: a call that the server makes for a request, described without I/O.
//!
//! The engine returns calls, the listener makes them (`listener/outbound.rs`), and the request runs again with their
//! results ([`RequestState`](crate::request_state::RequestState)).

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// Identifies a call by its receiver and its content: equal calls of one request are made once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallId([u8; 32]);

impl CallId {
    /// Returns the id of a call to this receiver. The content leaves out what differs between runs of a request, such as
    /// the uid of a review.
    #[cfg_attr(not(test), expect(dead_code, reason = "no plugin of admission calls out yet"))]
    pub(crate) fn new(receiver: &str, content: &[u8]) -> Self {
        let mut hash = Sha256::new();
        // The length separates the two parts.
        hash.update((receiver.len() as u64).to_le_bytes());
        hash.update(receiver);
        hash.update(content);
        CallId(hash.finalize().into())
    }
}

/// A call that the server makes for a request.
#[derive(Clone, Debug)]
pub(crate) struct OutboundCall {
    pub(crate) id: CallId,
    pub(crate) endpoint: CallEndpoint,
    pub(crate) body: Bytes,
    pub(crate) timeout: Duration,
}

/// The receiver of a call.
#[derive(Clone)]
pub(crate) enum CallEndpoint {
    /// A function of the program.
    #[cfg_attr(not(test), expect(dead_code, reason = "no plugin of admission calls out yet"))]
    Function(CallFunction),
}

impl fmt::Debug for CallEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallEndpoint::Function(_) => f.write_str("Function"),
        }
    }
}

/// A function of the program: a body in, a body or the text of an error out.
pub(crate) type CallFunction = Arc<dyn Fn(Bytes) -> CallFuture + Send + Sync>;

pub(crate) type CallFuture = Pin<Box<dyn Future<Output = CallResult> + Send>>;

/// The body of the response, or the error of a call without a usable response.
pub(crate) type CallResult = Result<Bytes, CallError>;

/// Why a call has no usable response. The text is that of Go's HTTP client where it has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct CallError(pub(crate) String);
