//! Reads a request's body completely, with a size limit and an idle timeout (URL-11, SEC-65).

use std::pin::pin;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use evenkeel_core::{Reason, Status};
use http_body_util::BodyExt;

use crate::memory::BodyMeter;

/// The largest accepted request body.
pub(crate) const MAX_BODY: usize = 3 * 1024 * 1024;
/// The longest pause of a client while it sends a body.
pub(crate) const BODY_IDLE: Duration = Duration::from_secs(30);

/// Why a body was not read.
#[derive(Debug)]
pub(crate) enum RequestBodyError {
    /// The client gets this status.
    Rejected(Box<Status>),
    /// The client disconnected.
    Disconnected,
}

/// Reads a body and charges it to the meter, which counts it until the request is served.
pub(crate) async fn read<B: http_body::Body>(body: B, meter: &mut BodyMeter) -> Result<Bytes, RequestBodyError> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(too_large());
    }
    let mut body = pin!(body);
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    loop {
        let frame = match tokio::time::timeout(BODY_IDLE, body.frame()).await {
            Err(_) => return Err(too_slow()),
            Ok(None) => break,
            Ok(Some(Err(_))) => return Err(RequestBodyError::Disconnected),
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(mut data) = frame.into_data() else {
            continue;
        };
        if first.len() + rest.len() + data.remaining() > MAX_BODY {
            return Err(too_large());
        }
        // Most bodies are one frame, which needs no copy.
        if first.is_empty() && rest.is_empty() {
            meter.grow_to(data.remaining()).map_err(RequestBodyError::Rejected)?;
            first = data.copy_to_bytes(data.remaining());
        } else {
            if rest.is_empty() {
                rest = BytesMut::from(std::mem::take(&mut first));
            }
            // A buffer grows to twice its size, or to what is needed.
            let needed = rest.len() + data.remaining();
            if needed > rest.capacity() {
                meter.grow_to(needed.max(2 * rest.capacity()).min(2 * MAX_BODY)).map_err(RequestBodyError::Rejected)?;
            }
            while data.has_remaining() {
                let chunk = data.chunk();
                rest.extend_from_slice(chunk);
                let length = chunk.len();
                data.advance(length);
            }
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

fn too_large() -> RequestBodyError {
    RequestBodyError::Rejected(Box::new(Status::failure(
        413,
        Reason::REQUEST_ENTITY_TOO_LARGE,
        format!("Request entity too large: limit is {MAX_BODY}"),
    )))
}

fn too_slow() -> RequestBodyError {
    RequestBodyError::Rejected(Box::new(Status::failure(
        408,
        Reason::TIMEOUT,
        format!("Timeout: no byte of the request's body arrived for {} seconds", BODY_IDLE.as_secs()),
    )))
}
