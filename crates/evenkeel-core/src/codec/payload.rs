//! How the payload of an object rests in memory.

use bytes::Bytes;

use crate::header::Header;

/// An object taken apart: its [`Header`] and its payload, as it came. Made by a [`Codec`](super::Codec), for
/// [`Obj::new`](crate::Obj::new). It has a name.
///
/// `Debug` shows the header, never the payload.
pub struct Parsed {
    /// [`Header::named`].
    pub(crate) header: Header,
    pub(crate) payload: Payload,
}

/// The payload of an object, in the form that it came in.
#[derive(Clone)]
pub(crate) enum Payload {
    /// One JSON object, checked to be one.
    Json(Bytes),
}

impl Parsed {
    /// What is known of the object without decoding it.
    pub fn header(&self) -> &Header {
        &self.header
    }
}

impl std::fmt::Debug for Parsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.header.fmt(f)
    }
}

impl Payload {
    /// The bytes as they came.
    pub(crate) fn bytes(&self) -> &Bytes {
        let Payload::Json(bytes) = self;
        bytes
    }

    /// The same payload in memory of its own.
    pub(crate) fn detached(&self) -> Self {
        let Payload::Json(bytes) = self;
        Payload::Json(Bytes::copy_from_slice(bytes))
    }
}
