//! [`OutboundCall`]: a call that the server makes for a request, described without I/O.
//!
//! The engine returns calls, the listener makes them (`listener/outbound.rs`), and the request runs again with their
//! results ([`RequestState`](crate::request_state::RequestState)).

use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::env::uuid;

/// Identifies a call by its receiver and its content: equal calls of one request are made once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallId([u8; 32]);

impl CallId {
    /// Returns the id of a call to this receiver. The content leaves out what differs between runs of a request, such as
    /// the uid of a review.
    pub(crate) fn new(receiver: &str, content: &[u8]) -> Self {
        let mut hash = Sha256::new();
        // The length separates the two parts.
        hash.update((receiver.len() as u64).to_le_bytes());
        hash.update(receiver);
        hash.update(content);
        CallId(hash.finalize().into())
    }

    /// Returns the uid of the review that this call carries. `seed` tells requests with equal calls apart.
    pub(crate) fn review_uid(&self, seed: [u64; 2]) -> String {
        let mut hash = Sha256::new();
        hash.update(self.0);
        seed.iter().for_each(|number| hash.update(number.to_le_bytes()));
        let digest: [u8; 32] = hash.finalize().into();
        let mut halves =
            digest.chunks_exact(8).map(|bytes| bytes.iter().fold(0, |half, byte| half << 8 | u64::from(*byte)));
        let halves = [halves.next().unwrap_or_default(), halves.next().unwrap_or_default()];
        let next = std::cell::Cell::new(0);
        uuid(|| halves[next.replace(1)])
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
    Function(CallFunction),
    /// A server that is called over HTTPS.
    Https(Arc<HttpsEndpoint>),
    /// No receiver was found: the call fails with this error.
    Unreachable(CallError),
}

/// A server that takes POST requests over HTTPS.
#[derive(Debug)]
pub(crate) struct HttpsEndpoint {
    /// The URL of the request, as errors show it.
    pub(crate) url: String,
    /// The `Host` header.
    pub(crate) authority: String,
    /// Path and query.
    pub(crate) path: String,
    /// The name that the certificate must have.
    pub(crate) server_name: String,
    pub(crate) address: CallAddress,
    /// Trusted certificates in PEM. If empty, those of the system are trusted.
    pub(crate) ca_bundle: Bytes,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CallAddress {
    Socket(SocketAddr),
    /// A host that is looked up, and a port.
    Host(String, u16),
}

impl fmt::Debug for CallEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallEndpoint::Function(_) => f.write_str("Function"),
            CallEndpoint::Https(endpoint) => write!(f, "Https({})", endpoint.url),
            CallEndpoint::Unreachable(error) => write!(f, "Unreachable({error})"),
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
