//! How the events of a watch follow each other, and what faults need to know about that.

use bytes::{Bytes, BytesMut};
use evenkeel_core::Status;
use http::{HeaderMap, header};

use crate::protobuf_response;

/// How the events of a stream are separated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Each is a line of JSON.
    #[default]
    Lines,
    /// Each is a protobuf message after its length.
    Lengths,
    /// Unknown; each chunk counts as one.
    Chunks,
}

/// Of an object that no client knows.
const SURPRISE_VERSION: &str = "faults.evenkeel.dev/v1";
/// Its metadata, which hold its name.
const SURPRISE_MESSAGE: &[u8] = b"\x0a\x0a\x0a\x08surprise";

impl Framing {
    /// Of a response.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let media = headers.get(header::CONTENT_TYPE).map_or(&[][..], |value| value.as_bytes());
        if media.starts_with(b"application/json") {
            Framing::Lines
        } else if media.starts_with(b"application/vnd.kubernetes.protobuf") {
            Framing::Lengths
        } else {
            Framing::Chunks
        }
    }

    /// Takes the first event off a chunk that is not empty. What is no whole event passes for one.
    pub(crate) fn take(self, chunk: &mut Bytes) -> Bytes {
        let end = match self {
            Framing::Lines => chunk.iter().position(|byte| *byte == b'\n').map(|at| at + 1),
            Framing::Lengths => chunk
                .first_chunk()
                .and_then(|length| usize::try_from(u32::from_be_bytes(*length)).ok())
                .and_then(|length| length.checked_add(protobuf_response::FRAME_HEADER)),
            Framing::Chunks => None,
        };
        chunk.split_to(end.unwrap_or(usize::MAX).min(chunk.len()))
    }

    pub(crate) fn is_bookmark(self, frame: &[u8]) -> bool {
        match self {
            Framing::Lines | Framing::Chunks => frame.starts_with(b"{\"type\":\"BOOKMARK\""),
            Framing::Lengths => {
                frame.get(protobuf_response::FRAME_HEADER..).is_some_and(|event| event.starts_with(b"\x0a\x08BOOKMARK"))
            }
        }
    }

    /// An ERROR event.
    pub(crate) fn error(self, status: &Status) -> Bytes {
        // A Status is strings and numbers: it can always be written.
        match self {
            Framing::Lines | Framing::Chunks => {
                let object = serde_json::to_string(status).unwrap_or_default();
                Bytes::from(format!("{{\"type\":\"ERROR\",\"object\":{object}}}\n"))
            }
            Framing::Lengths => {
                let object = serde_json::to_value(status).unwrap_or_default();
                protobuf_response::event_of("ERROR", &object).unwrap_or_default()
            }
        }
    }

    /// An event of this type with an object that no client knows.
    pub(crate) fn surprise(self, event: &str) -> Bytes {
        match self {
            Framing::Lines | Framing::Chunks => Bytes::from(format!(
                "{{\"type\":\"{event}\",\"object\":{{\"kind\":\"Surprise\",\"apiVersion\":\"{SURPRISE_VERSION}\",\
                 \"metadata\":{{\"name\":\"surprise\"}}}}}}\n"
            )),
            Framing::Lengths => protobuf_response::event(event, SURPRISE_VERSION, "Surprise", SURPRISE_MESSAGE),
        }
    }

    /// The frame with a byte that is not allowed there, so that exactly this event is spoilt.
    pub(crate) fn corrupt(self, frame: Bytes, byte: usize) -> Bytes {
        let mut bytes = BytesMut::from(frame);
        let (at, spoilt) = match self {
            // The newline at the end stays.
            Framing::Lines | Framing::Chunks => (byte.min(bytes.len().saturating_sub(2)), 0x01),
            // Most bytes of a message may be anything, and the length must stay: only a field number of zero is wrong
            // everywhere, so it is the first tag that suffers, whichever byte was meant.
            Framing::Lengths => (protobuf_response::FRAME_HEADER, 0x02),
        };
        if let Some(byte) = bytes.get_mut(at) {
            *byte = spoilt;
        }
        bytes.freeze()
    }
}
