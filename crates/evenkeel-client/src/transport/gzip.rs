//! [`decode`]: compressed responses.
//!
//! A list in gzip has a tenth of its size. It can also be a bomb: a thousand bytes of zeros take one. So a response is
//! decompressed in small chunks as it is read, and abandoned when it exceeds the size limit or the inflation limit.

use std::io::{self, BufRead, Read};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use flate2::bufread::MultiGzDecoder;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap};
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::Body;
use super::error::BoxError;
use super::limits::BodyError;

/// The maximum size of a decompressed chunk.
const PIECE: usize = 32 << 10;
/// Below this free space a new buffer is allocated.
const ROOM: usize = 4 << 10;
/// From this size on the inflation limit applies.
const JUDGED_FROM: u64 = 1 << 20;
/// How much of an unknown encoding an error quotes.
const SHOWN: usize = 40;

/// The value of `Accept-Encoding` if responses may be compressed.
pub(crate) const ACCEPTED: &str = "gzip";

/// Returns the decompressed response: unchanged without `Content-Encoding`; without that header and the length for
/// `gzip`. Any other or repeated encoding is rejected.
///
/// The body fails with a [`BodyError`] when it exceeds `limit`, or, beyond one MiB, `inflation` times its compressed
/// size.
pub(crate) fn decode(
    response: http::Response<Body>,
    limit: usize,
    inflation: usize,
) -> Result<http::Response<Body>, BodyError> {
    if !is_compressed(response.headers())? {
        return Ok(response);
    }
    let (mut head, body) = response.into_parts();
    head.headers.remove(CONTENT_ENCODING);
    head.headers.remove(CONTENT_LENGTH);
    // The response to a HEAD has the header and no body.
    let body = if body.is_end_stream() { body } else { Body::new(Gunzip::new(body, limit, inflation)) };
    Ok(http::Response::from_parts(head, body))
}

fn is_compressed(headers: &HeaderMap) -> Result<bool, BodyError> {
    let mut compressed = false;
    for value in headers.get_all(CONTENT_ENCODING) {
        let encoding = value.as_bytes().trim_ascii();
        if encoding.is_empty() || encoding.eq_ignore_ascii_case(b"identity") {
            continue;
        }
        let is_gzip = encoding.eq_ignore_ascii_case(b"gzip") || encoding.eq_ignore_ascii_case(b"x-gzip");
        if !is_gzip || compressed {
            let shown = encoding.get(..SHOWN).unwrap_or(encoding);
            return Err(BodyError::Encoding { encoding: String::from_utf8_lossy(shown).into_owned() });
        }
        compressed = true;
    }
    Ok(compressed)
}

/// A body that is decompressed as it is read.
struct Gunzip {
    body: Body,
    decoder: MultiGzDecoder<Feed>,
    /// The buffer of the next chunk.
    space: BytesMut,
    trailers: Option<HeaderMap>,
    /// Compressed bytes received.
    came: u64,
    /// Bytes decompressed.
    made: u64,
    limit: u64,
    inflation: u64,
    over: bool,
}

/// Received bytes that are not decompressed yet.
#[derive(Default)]
struct Feed {
    bytes: Bytes,
    ended: bool,
}

impl Read for Feed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(into)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Feed {
    /// Without input the decoder stops and resumes later.
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.bytes.is_empty() && !self.ended {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(&self.bytes)
    }

    fn consume(&mut self, count: usize) {
        self.bytes.advance(count.min(self.bytes.len()));
    }
}

impl Gunzip {
    fn new(body: Body, limit: usize, inflation: usize) -> Self {
        Gunzip {
            body,
            decoder: MultiGzDecoder::new(Feed::default()),
            space: BytesMut::new(),
            trailers: None,
            came: 0,
            made: 0,
            limit: limit as u64,
            inflation: inflation as u64,
            over: false,
        }
    }

    /// Returns the next chunk: bytes, empty at the end, or `None` until more input arrives.
    fn next_piece(&mut self) -> Option<Result<Bytes, BodyError>> {
        // The rest of the buffer is used first: many small chunks share one.
        if self.space.len() < ROOM {
            self.space = BytesMut::zeroed(PIECE);
        }
        match self.decoder.read(&mut self.space) {
            Ok(count) => {
                self.made += count as u64;
                let used = self.came - self.decoder.get_ref().bytes.len() as u64;
                if self.made > self.limit {
                    return Some(Err(BodyError::TooLarge { limit: self.limit }));
                }
                if self.made > JUDGED_FROM && self.made > used.saturating_mul(self.inflation) {
                    return Some(Err(BodyError::Inflated { limit: self.inflation }));
                }
                Some(Ok(self.space.split_to(count).freeze()))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(source) => Some(Err(BodyError::Corrupt { source })),
        }
    }
}

impl HttpBody for Gunzip {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        while !self.over {
            match self.next_piece() {
                Some(Ok(piece)) if piece.is_empty() => self.over = true,
                Some(Ok(piece)) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                Some(Err(error)) => {
                    self.over = true;
                    return Poll::Ready(Some(Err(error.into())));
                }
                None => match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(bytes) => {
                            self.came += bytes.len() as u64;
                            self.decoder.get_mut().bytes = bytes;
                        }
                        Err(frame) => self.trailers = frame.into_trailers().ok(),
                    },
                    Some(Err(error)) => {
                        self.over = true;
                        return Poll::Ready(Some(Err(error)));
                    }
                    None => self.decoder.get_mut().ended = true,
                },
            }
        }
        Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.over && self.trailers.is_none()
    }

    /// The decompressed size is unknown; the compressed length does not tell it.
    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        hint.set_upper(self.limit.saturating_sub(self.made));
        hint
    }
}

#[cfg(test)]
mod tests;
