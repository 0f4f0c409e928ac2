//! Frames of SPDY/3.1, without I/O.
//!
//! The payload of a DATA frame is passed on as it arrives, without a copy, so that a large frame needs no buffer. The limits are
//! for control frames.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::error::{ResetStatus, SpdyError};
use super::headers::{HeaderDecoder, HeaderEncoder, StreamHeaders};

/// The length of the header of every frame.
pub(super) const FRAME_HEADER: usize = 8;
/// The largest control frame that is decoded.
pub(super) const MAX_CONTROL: usize = 16 * 1024;

const VERSION: u16 = 3;
const CONTROL_BIT: u32 = 1 << 31;
const STREAM_ID: u32 = CONTROL_BIT - 1;
const FLAG_FIN: u8 = 1;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;

/// A frame of the peer, or a part of the payload of a DATA frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    SynStream { stream: u32, fin: bool, headers: StreamHeaders },
    SynReply { stream: u32, fin: bool },
    Reset { stream: u32, status: ResetStatus },
    Ping { id: u32 },
    GoAway,
    Headers { stream: u32, fin: bool },
    Data { stream: u32, payload: Bytes, fin: bool },
}

/// Decodes the frames of one direction.
pub(super) struct FrameDecoder {
    headers: HeaderDecoder,
    input: Bytes,
    /// The start of a frame that is not complete.
    partial: Vec<u8>,
    payload: Option<Payload>,
}

/// The rest of a payload.
enum Payload {
    Data { stream: u32, fin: bool, remaining: usize },
    Skipped { remaining: usize },
}

impl FrameDecoder {
    pub(super) fn new() -> Self {
        FrameDecoder { headers: HeaderDecoder::new(), input: Bytes::new(), partial: Vec::new(), payload: None }
    }

    /// Adds the next bytes. All earlier bytes must have been decoded.
    pub(super) fn feed(&mut self, input: Bytes) {
        debug_assert!(self.input.is_empty(), "the input was not decoded");
        self.input = input;
    }

    /// Decodes the next frame. `None` if the rest of the frame is missing.
    ///
    /// SETTINGS, WINDOW_UPDATE and unknown control frames are skipped.
    pub(super) fn decode(&mut self) -> Result<Option<Frame>, SpdyError> {
        loop {
            match self.payload.take() {
                Some(payload) if self.input.is_empty() => {
                    self.payload = Some(payload);
                    return Ok(None);
                }
                Some(Payload::Data { stream, fin, remaining }) => {
                    let payload = self.input.split_to(remaining.min(self.input.len()));
                    let remaining = remaining - payload.len();
                    if remaining > 0 {
                        self.payload = Some(Payload::Data { stream, fin, remaining });
                    }
                    return Ok(Some(Frame::Data { stream, payload, fin: fin && remaining == 0 }));
                }
                Some(Payload::Skipped { remaining }) => {
                    let length = remaining.min(self.input.len());
                    self.input.advance(length);
                    if remaining > length {
                        self.payload = Some(Payload::Skipped { remaining: remaining - length });
                    }
                }
                None => match self.decode_header()? {
                    Some(frame) => return Ok(Some(frame)),
                    None if self.payload.is_none() => return Ok(None),
                    None => {}
                },
            }
        }
    }

    /// Decodes a control frame, or the header of a frame with a payload.
    fn decode_header(&mut self) -> Result<Option<Frame>, SpdyError> {
        self.fill(FRAME_HEADER);
        let Some(header) = self.partial.first_chunk::<FRAME_HEADER>() else { return Ok(None) };
        let first = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
        let flags = header[4];
        let length = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
        if first & CONTROL_BIT == 0 {
            self.partial.clear();
            let fin = flags & FLAG_FIN != 0;
            if length == 0 {
                return Ok(Some(Frame::Data { stream: first, payload: Bytes::new(), fin }));
            }
            self.payload = Some(Payload::Data { stream: first, fin, remaining: length });
            return Ok(None);
        }
        let (version, kind) = ((first >> 16) as u16 & 0x7fff, first as u16);
        if version != VERSION {
            return Err(SpdyError::Version { version });
        }
        let Some((name, minimum)) = known(kind) else {
            self.partial.clear();
            self.payload = Some(Payload::Skipped { remaining: length });
            return Ok(None);
        };
        if length < minimum || length > MAX_CONTROL {
            return Err(SpdyError::FrameLength { frame: name, length });
        }
        self.fill(FRAME_HEADER + length);
        if self.partial.len() < FRAME_HEADER + length {
            return Ok(None);
        }
        let partial = std::mem::take(&mut self.partial);
        let frame = self.decode_control(kind, flags, partial.get(FRAME_HEADER..).unwrap_or_default());
        self.partial = partial;
        self.partial.clear();
        frame.map(Some)
    }

    fn decode_control(&mut self, kind: u16, flags: u8, mut body: &[u8]) -> Result<Frame, SpdyError> {
        let fin = flags & FLAG_FIN != 0;
        let stream = body.try_get_u32().unwrap_or_default() & STREAM_ID;
        Ok(match kind {
            SYN_STREAM => {
                // Skips the associated stream, the priority and the slot.
                let headers = self.headers.decode(body.get(6..).unwrap_or_default())?;
                Frame::SynStream { stream, fin, headers }
            }
            SYN_REPLY => {
                self.headers.decode(body)?;
                Frame::SynReply { stream, fin }
            }
            HEADERS => {
                self.headers.decode(body)?;
                Frame::Headers { stream, fin }
            }
            RST_STREAM => Frame::Reset { stream, status: ResetStatus(body.try_get_u32().unwrap_or_default()) },
            PING => Frame::Ping { id: stream },
            _ => Frame::GoAway,
        })
    }

    /// Moves input to the partial frame until that has `length` bytes.
    fn fill(&mut self, length: usize) {
        let missing = length.saturating_sub(self.partial.len()).min(self.input.len());
        self.partial.extend_from_slice(&self.input.split_to(missing));
    }
}

/// Returns the name and the smallest length of a control frame that is decoded.
fn known(kind: u16) -> Option<(&'static str, usize)> {
    Some(match kind {
        SYN_STREAM => ("SYN_STREAM", 10),
        SYN_REPLY => ("SYN_REPLY", 4),
        RST_STREAM => ("RST_STREAM", 8),
        PING => ("PING", 4),
        GOAWAY => ("GOAWAY", 8),
        HEADERS => ("HEADERS", 4),
        _ => return None,
    })
}

fn control(kind: u16, body: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(FRAME_HEADER + body.len());
    frame.put_u16(0x8000 | VERSION);
    frame.put_u16(kind);
    frame.put_u32(body.len() as u32);
    frame.put_slice(body);
    frame.freeze()
}

/// Encodes a SYN_STREAM of the highest priority.
pub(super) fn syn_stream(stream: u32, headers: &StreamHeaders, encoder: &mut HeaderEncoder) -> Bytes {
    let mut body = Vec::with_capacity(128);
    body.put_u32(stream);
    body.put_slice(&[0; 6]);
    encoder.encode(headers, &mut body);
    control(SYN_STREAM, &body)
}

/// Encodes a SYN_REPLY without headers.
pub(super) fn syn_reply(stream: u32, encoder: &mut HeaderEncoder) -> Bytes {
    let mut body = Vec::with_capacity(16);
    body.put_u32(stream);
    encoder.encode(&StreamHeaders::default(), &mut body);
    control(SYN_REPLY, &body)
}

pub(super) fn reset(stream: u32, status: ResetStatus) -> Bytes {
    let mut body = [0; 8];
    body[..4].copy_from_slice(&stream.to_be_bytes());
    body[4..].copy_from_slice(&status.0.to_be_bytes());
    control(RST_STREAM, &body)
}

pub(super) fn ping(id: u32) -> Bytes {
    control(PING, &id.to_be_bytes())
}

/// Encodes a GOAWAY without an error.
pub(super) fn go_away(last_stream: u32) -> Bytes {
    let mut body = [0; 8];
    body[..4].copy_from_slice(&last_stream.to_be_bytes());
    control(GOAWAY, &body)
}

/// A DATA frame to which data can be added until it is sent.
pub(super) struct DataFrame {
    pub(super) stream: u32,
    frame: BytesMut,
}

impl DataFrame {
    pub(super) fn new(stream: u32, data: &[u8]) -> Self {
        let mut frame = BytesMut::with_capacity(FRAME_HEADER + data.len());
        frame.put_u32(stream);
        frame.put_u32(0);
        frame.put_slice(data);
        DataFrame { stream, frame }
    }

    pub(super) fn push(&mut self, data: &[u8]) {
        self.frame.put_slice(data);
    }

    /// The length of the payload.
    pub(super) fn len(&self) -> usize {
        self.frame.len() - FRAME_HEADER
    }

    pub(super) fn finish(mut self, fin: bool) -> Bytes {
        let flags = if fin { u32::from(FLAG_FIN) << 24 } else { 0 };
        let length = flags | self.len() as u32;
        if let Some(field) = self.frame.get_mut(4..FRAME_HEADER) {
            field.copy_from_slice(&length.to_be_bytes());
        }
        self.frame.freeze()
    }
}
