//! How the payload of an object rests in memory.

use std::borrow::Cow;

use bytes::Bytes;

use crate::decode::DecodeError;
use crate::header::Header;
use crate::pack::Packed;
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
    /// As what it does not share with others.
    Packed(Packed),
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

    /// A packed payload.
    pub(crate) fn packed(form: Form, packed: Packed) -> Self {
        Payload { form, rest: Rest::Packed(packed) }
    }

    /// The bytes as they came, if they rest like that.
    pub(crate) fn plain(&self) -> Option<&Bytes> {
        match &self.rest {
            Rest::Plain(bytes) => Some(bytes),
            Rest::Packed(_) => None,
        }
    }

    /// The bytes as they came, to be looked at.
    pub(crate) fn open(&self, header: &Header) -> Result<Cow<'_, [u8]>, DecodeError> {
        match &self.rest {
            Rest::Plain(bytes) => Ok(Cow::Borrowed(bytes)),
            Rest::Packed(packed) => unpack(packed, header).map(Cow::Owned),
        }
    }

    /// The bytes as they came, to be kept.
    pub(crate) fn bytes(&self, header: &Header) -> Result<Bytes, DecodeError> {
        match &self.rest {
            Rest::Plain(bytes) => Ok(bytes.clone()),
            Rest::Packed(packed) => unpack(packed, header).map(Bytes::from),
        }
    }

    /// How many bytes it rests in.
    pub(crate) fn resting_bytes(&self) -> usize {
        match &self.rest {
            Rest::Plain(bytes) => bytes.len(),
            Rest::Packed(packed) => packed.resting_bytes(),
        }
    }

    /// The same payload in memory of its own.
    pub(crate) fn detached(&self) -> Self {
        match &self.rest {
            Rest::Plain(bytes) => Payload { form: self.form, rest: Rest::Plain(Bytes::copy_from_slice(bytes)) },
            // What it shares was made to be shared.
            Rest::Packed(_) => self.clone(),
        }
    }
}

#[cfg(test)]
impl Payload {
    /// The same payload as if its memory had been written over.
    pub(crate) fn damaged_for_test(&self) -> Self {
        let Rest::Packed(Packed::Sibling(leader, bytes)) = &self.rest else { return self.clone() };
        let mut bytes = bytes.to_vec();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        Payload { form: self.form, rest: Rest::Packed(Packed::Sibling(leader.clone(), bytes.into())) }
    }
}

fn unpack(packed: &Packed, header: &Header) -> Result<Vec<u8>, DecodeError> {
    packed.unpack(header).ok_or_else(|| DecodeError::Corrupt {
        kind: header.kind().map(Into::into),
        key: Box::new(header.key().clone()),
    })
}
