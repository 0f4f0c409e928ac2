//! [`Payload`]: the undecoded payload of an object in memory.

use std::borrow::Cow;

use bytes::Bytes;

use crate::error::DecodeError;
use crate::header::Header;
use crate::pack::Packed;
use crate::protobuf::Message;

/// The payload of an object: its wire format, and its encoding in memory.
#[derive(Clone)]
pub(crate) struct Payload {
    format: PayloadFormat,
    encoding: Encoding,
}

/// The wire format of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PayloadFormat {
    /// One JSON object, checked to be well-formed.
    Json,
    /// One message of this kind, without an envelope. Its metadata was checked; the rest may be malformed.
    Protobuf(&'static Message),
}

/// The encoding of a payload in memory.
#[derive(Clone)]
enum Encoding {
    /// The bytes as received.
    Plain(Bytes),
    /// Delta-encoded against a dictionary or a similar object.
    Packed(Packed),
}

impl Payload {
    /// Returns a payload of one JSON object, which must be well-formed.
    pub(crate) fn json(bytes: Bytes) -> Self {
        Payload { format: PayloadFormat::Json, encoding: Encoding::Plain(bytes) }
    }

    /// Returns a payload of one message, whose metadata must be well-formed.
    pub(crate) fn protobuf(bytes: Bytes, message: &'static Message) -> Self {
        Payload { format: PayloadFormat::Protobuf(message), encoding: Encoding::Plain(bytes) }
    }

    pub(crate) fn packed(format: PayloadFormat, packed: Packed) -> Self {
        Payload { format, encoding: Encoding::Packed(packed) }
    }

    /// Returns the wire format of what [`unpacked`](Self::unpacked) returns.
    pub(crate) fn format(&self) -> PayloadFormat {
        self.format
    }

    /// Returns the bytes as received, unless they are packed.
    pub(crate) fn plain(&self) -> Option<&Bytes> {
        match &self.encoding {
            Encoding::Plain(bytes) => Some(bytes),
            Encoding::Packed(_) => None,
        }
    }

    /// Returns the bytes as received, for immediate use.
    pub(crate) fn unpacked(&self, header: &Header) -> Result<Cow<'_, [u8]>, DecodeError> {
        match &self.encoding {
            Encoding::Plain(bytes) => Ok(Cow::Borrowed(bytes)),
            Encoding::Packed(packed) => unpack(packed, header).map(Cow::Owned),
        }
    }

    /// Returns the bytes as received, for keeping.
    pub(crate) fn to_bytes(&self, header: &Header) -> Result<Bytes, DecodeError> {
        match &self.encoding {
            Encoding::Plain(bytes) => Ok(bytes.clone()),
            Encoding::Packed(packed) => unpack(packed, header).map(Bytes::from),
        }
    }

    /// Returns the size of the payload in memory.
    pub(crate) fn encoded_len(&self) -> usize {
        match &self.encoding {
            Encoding::Plain(bytes) => bytes.len(),
            Encoding::Packed(packed) => packed.encoded_len(),
        }
    }

    /// Copies the payload into memory of its own.
    pub(crate) fn detached(&self) -> Self {
        match &self.encoding {
            Encoding::Plain(bytes) => {
                Payload { format: self.format, encoding: Encoding::Plain(Bytes::copy_from_slice(bytes)) }
            }
            // Packed payloads share only what is meant to be shared.
            Encoding::Packed(_) => self.clone(),
        }
    }
}

#[cfg(test)]
impl Payload {
    /// Returns the same payload with one bit of its memory flipped.
    pub(crate) fn damaged_for_test(&self) -> Self {
        let Encoding::Packed(Packed::Sibling(leader, bytes)) = &self.encoding else { return self.clone() };
        let mut bytes = bytes.to_vec();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        Payload { format: self.format, encoding: Encoding::Packed(Packed::Sibling(leader.clone(), bytes.into())) }
    }
}

fn unpack(packed: &Packed, header: &Header) -> Result<Vec<u8>, DecodeError> {
    packed.unpack(header).ok_or_else(|| DecodeError::Corrupt {
        kind: header.kind().map(Into::into),
        key: Box::new(header.key().clone()),
    })
}
