//! How the payload of an object rests in memory.

use std::borrow::Cow;

use bytes::Bytes;

use crate::decode::DecodeError;
use crate::header::Header;
use crate::protobuf::Message;

/// An object taken apart: its [`Header`] and its payload, as it came. Made by a [`Codec`](super::Codec), for
/// [`Obj::new`](crate::Obj::new). It has a name.
///
/// `Debug` shows the header, never the payload.
pub struct Parsed {
    /// [`Header::named`].
    pub(crate) header: Header,
    pub(crate) payload: Payload,
}

/// The payload of an object: the form that it came in, and how it rests.
#[derive(Clone)]
pub(crate) struct Payload {
    form: Form,
    rest: Rest,
}

/// The form that a payload came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One JSON object, checked to be one.
    Json,
    /// One message of this kind, without an envelope. Its metadata has been read; the rest need not be sound.
    Protobuf(&'static Message),
}

/// How a payload rests.
#[derive(Clone)]
enum Rest {
    /// As it came.
    Plain(Bytes),
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
    /// One JSON object, checked to be one.
    pub(crate) fn json(bytes: Bytes) -> Self {
        Payload { form: Form::Json, rest: Rest::Plain(bytes) }
    }

    /// One message, whose metadata has been read.
    pub(crate) fn protobuf(bytes: Bytes, message: &'static Message) -> Self {
        Payload { form: Form::Protobuf(message), rest: Rest::Plain(bytes) }
    }

    /// The form of what [`open`](Self::open) answers with.
    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// The bytes as they came, to be looked at.
    pub(crate) fn open(&self, _header: &Header) -> Result<Cow<'_, [u8]>, DecodeError> {
        let Rest::Plain(bytes) = &self.rest;
        Ok(Cow::Borrowed(bytes))
    }

    /// The bytes as they came, to be kept.
    pub(crate) fn bytes(&self, _header: &Header) -> Result<Bytes, DecodeError> {
        let Rest::Plain(bytes) = &self.rest;
        Ok(bytes.clone())
    }

    /// How many bytes it rests in.
    pub(crate) fn resting_bytes(&self) -> usize {
        let Rest::Plain(bytes) = &self.rest;
        bytes.len()
    }

    /// Whether it lies in memory of the other's.
    pub(crate) fn lies_in(&self, other: &Payload) -> bool {
        let (Rest::Plain(bytes), Rest::Plain(other)) = (&self.rest, &other.rest);
        other.as_ptr_range().contains(&bytes.as_ptr())
    }

    /// The same payload in memory of its own.
    pub(crate) fn detached(&self) -> Self {
        let Rest::Plain(bytes) = &self.rest;
        Payload { form: self.form, rest: Rest::Plain(Bytes::copy_from_slice(bytes)) }
    }
}
