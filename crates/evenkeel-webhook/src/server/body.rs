//! Reads the body of a request, within a limit and a time.

use std::pin::pin;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::StatusCode;
use http_body::Body;
use http_body_util::BodyExt;

use super::budget::ReservedBytes;

/// The time from the head of a request to the last byte of its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// A buffer grows from here, so that a length in the head alone takes no memory.
const FIRST_CAPACITY: usize = 64 << 10;

/// Why a body was not read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyError {
    #[error("request entity is too large; limit is {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the request body did not arrive within {} seconds", BODY_TIMEOUT.as_secs())]
    TooSlow,
    #[error("the connection broke before the end of the request body")]
    Broken,
    #[error("the bodies of other requests fill the memory for bodies; try again")]
    NoRoom,
}

impl BodyError {
    pub(super) fn code(&self) -> StatusCode {
        match self {
            BodyError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            BodyError::TooSlow => StatusCode::REQUEST_TIMEOUT,
            BodyError::Broken => StatusCode::BAD_REQUEST,
            BodyError::NoRoom => StatusCode::TOO_MANY_REQUESTS,
        }
    }
}

/// Reads a body of fewer than `limit` bytes, which count as `reserved`.
pub(super) async fn read<B: Body>(body: B, limit: usize, reserved: &mut ReservedBytes<'_>) -> Result<Bytes, BodyError> {
    let limit = limit.min(reserved.max().saturating_add(1));
    tokio::time::timeout(BODY_TIMEOUT, read_all(body, limit, reserved)).await.unwrap_or(Err(BodyError::TooSlow))
}

async fn read_all<B: Body>(body: B, limit: usize, reserved: &mut ReservedBytes<'_>) -> Result<Bytes, BodyError> {
    let stated = body.size_hint().lower();
    if stated >= limit as u64 {
        return Err(BodyError::TooLarge { limit });
    }
    let mut body = pin!(body);
    let (mut first, mut rest) = (Bytes::new(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let Ok(mut data) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        if first.len() + rest.len() + data.remaining() >= limit {
            return Err(BodyError::TooLarge { limit });
        }
        if !reserved.add(data.remaining()).await {
            return Err(BodyError::NoRoom);
        }
        // Most bodies are one frame, which needs no copy.
        if first.is_empty() && rest.is_empty() {
            first = data.copy_to_bytes(data.remaining());
            continue;
        }
        if rest.is_empty() {
            let capacity = usize::try_from(stated).unwrap_or(0).min(FIRST_CAPACITY).max(2 * first.len());
            rest.reserve(capacity.min(limit));
            rest.extend_from_slice(&std::mem::take(&mut first));
        }
        while data.has_remaining() {
            let chunk = data.chunk();
            rest.extend_from_slice(chunk);
            let length = chunk.len();
            data.advance(length);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}
