//! The framing of watch events, as far as faults depend on it.

use bytes::{Bytes, BytesMut};
use evenkeel_core::Status;
use http::{HeaderMap, header};

use crate::protobuf_response;

/// How a stream separates its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Each event is a line of JSON.
    #[default]
    Lines,
    /// Each event is a length-prefixed protobuf message.
    Lengths,
    /// Unknown; each chunk counts as one event.
    Chunks,
}

/// The API version of an object that no client knows.
const SURPRISE_VERSION: &str = "faults.evenkeel.dev/v1";
/// The metadata of that object, with its name.
const SURPRISE_MESSAGE: &[u8] = b"\x0a\x0a\x0a\x08surprise";

impl Framing {
    /// Returns the framing of a response.
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

    /// Splits the first event off a chunk that is not empty. An incomplete event counts as one.
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

    /// Returns whether a frame is the bookmark that ends the initial events.
    pub(crate) fn is_initial_end(self, frame: &[u8]) -> bool {
        const ANNOTATION: &[u8] = b"k8s.io/initial-events-end";
        self.is_bookmark(frame) && frame.windows(ANNOTATION.len()).any(|part| part == ANNOTATION)
    }

    /// Encodes an ERROR event.
    pub(crate) fn error(self, status: &Status) -> Bytes {
        // A Status consists of strings and numbers, so encoding cannot fail.
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

    /// Encodes an event of this type with an object that no client knows.
    pub(crate) fn surprise(self, event: &str) -> Bytes {
        match self {
            Framing::Lines | Framing::Chunks => Bytes::from(format!(
                "{{\"type\":\"{event}\",\"object\":{{\"kind\":\"Surprise\",\"apiVersion\":\"{SURPRISE_VERSION}\",\
                 \"metadata\":{{\"name\":\"surprise\"}}}}}}\n"
            )),
            Framing::Lengths => protobuf_response::event(event, SURPRISE_VERSION, "Surprise", SURPRISE_MESSAGE),
        }
    }

    /// Replaces one byte of the frame by an invalid one, so that exactly this event is corrupt.
    pub(crate) fn corrupt(self, frame: Bytes, byte: usize) -> Bytes {
        let mut bytes = BytesMut::from(frame);
        let (at, spoilt) = match self {
            // The newline at the end stays.
            Framing::Lines | Framing::Chunks => (byte.min(bytes.len().saturating_sub(2)), 0x01),
            // Most bytes of a message may have any value, and the length must stay. Only a field number of zero is
            // always invalid, so the first tag is replaced, whichever byte was requested.
            Framing::Lengths => (protobuf_response::FRAME_HEADER, 0x02),
        };
        if let Some(byte) = bytes.get_mut(at) {
            *byte = spoilt;
        }
        bytes.freeze()
    }
}
