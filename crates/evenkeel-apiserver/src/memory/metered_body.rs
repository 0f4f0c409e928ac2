//! Response bodies whose encoded bytes are counted until they are sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Body as _;

use super::{BodyCharge, ConnectionMemory};
use crate::http_types::{Body, ConnectionCut, FrameStream};

/// Smaller frames are not counted: counting costs an allocation, and the buffers of a stream bound them.
const SMALL: usize = 4096;

/// A streamed body that is encoded no faster than the client reads.
pub(crate) struct MeteredBody {
    body: Body,
    connection: Arc<ConnectionMemory>,
}

impl MeteredBody {
    pub(crate) fn new(body: Body, connection: Arc<ConnectionMemory>) -> Self {
        MeteredBody { body, connection }
    }
}

impl FrameStream for MeteredBody {
    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ConnectionCut>>> {
        let this = self.get_mut();
        std::task::ready!(this.connection.poll_response(cx));
        let frame = std::task::ready!(Pin::new(&mut this.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| {
            let data = frame?.into_data().unwrap_or_default();
            Ok(charge(data, &this.connection))
        }))
    }
}

/// Counts the bytes of a complete body.
pub(crate) fn charge_whole(body: Bytes, connection: &ConnectionMemory) -> Body {
    Body::whole(charge(body, connection))
}

fn charge(bytes: Bytes, connection: &ConnectionMemory) -> Bytes {
    if bytes.len() < SMALL {
        return bytes;
    }
    let charge = connection.charge_response(bytes.len());
    Bytes::from_owner(ChargedBytes { bytes, _charge: charge })
}

/// Bytes that are counted until the last part of them is dropped.
struct ChargedBytes {
    bytes: Bytes,
    _charge: BodyCharge,
}

impl AsRef<[u8]> for ChargedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
