//! The envelope around every object of Kubernetes protobuf: a prefix, the kind, and the message (CTN-020).

use super::error::BoxedError;
use super::wire::{Reader, put_bytes, put_varint, varint_length};
use crate::error::ProtobufError;

/// The first bytes of every envelope.
pub(crate) const PREFIX: &[u8] = b"k8s\0";

/// The contents of an envelope. Absent texts are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The group and version of the object, such as `apps/v1`.
    pub api_version: &'a str,
    /// The kind of the object.
    pub kind: &'a str,
    /// The message of the object.
    pub raw: &'a [u8],
    /// The encoding of the message; Kubernetes leaves it empty.
    pub content_encoding: &'a str,
    /// The media type of the message if it is no protobuf; Kubernetes leaves it empty.
    pub content_type: &'a str,
}

/// Reads an envelope. The message in it is not checked.
///
/// A missing kind or version is no error, as the caller may know them (CTN-021).
pub fn unwrap_envelope(bytes: &[u8]) -> Result<Envelope<'_>, ProtobufError> {
    if bytes.is_empty() {
        return Err(ProtobufError::Empty);
    }
    let unknown = bytes.strip_prefix(PREFIX).ok_or(ProtobufError::NoPrefix)?;
    if unknown.is_empty() {
        return Err(ProtobufError::NothingInside);
    }
    read(unknown).map_err(ProtobufError::from)
}

fn read(unknown: &[u8]) -> Result<Envelope<'_>, BoxedError> {
    let mut envelope = Envelope { api_version: "", kind: "", raw: &[], content_encoding: "", content_type: "" };
    let mut reader = Reader::new(unknown);
    while let Some((number, value)) = reader.next()? {
        match number {
            1 => {
                // Their order is the reverse of that in the `TypeMeta` of objects (PB-020).
                let mut type_meta = Reader::new(value.bytes()?);
                while let Some((number, value)) = type_meta.next()? {
                    match number {
                        1 => envelope.api_version = text(value.bytes()?, "apiVersion")?,
                        2 => envelope.kind = text(value.bytes()?, "kind")?,
                        _ => {}
                    }
                }
            }
            2 => envelope.raw = value.bytes()?,
            3 => envelope.content_encoding = text(value.bytes()?, "contentEncoding")?,
            4 => envelope.content_type = text(value.bytes()?, "contentType")?,
            _ => {}
        }
    }
    Ok(envelope)
}

fn text<'a>(bytes: &'a [u8], name: &str) -> Result<&'a str, BoxedError> {
    std::str::from_utf8(bytes).map_err(|_| BoxedError::unexpected("UTF-8").in_field(name))
}

/// Wraps the message of an object into an envelope, byte for byte as Go does.
///
/// ```
/// use evenkeel_core::protobuf::{unwrap_envelope, wrap_envelope};
///
/// let bytes = wrap_envelope("v1", "Pod", &[]);
/// assert_eq!(bytes, b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x00\x1a\x00\x22\x00");
/// assert_eq!(unwrap_envelope(&bytes).unwrap().kind, "Pod");
/// ```
pub fn wrap_envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let field = |length: usize| 1 + varint_length(length as u64) + length;
    let type_meta = field(api_version.len()) + field(kind.len());
    let mut out = Vec::with_capacity(PREFIX.len() + field(type_meta) + field(raw.len()) + 4);
    out.extend_from_slice(PREFIX);
    out.push(0x0a);
    put_varint(&mut out, type_meta as u64);
    put_bytes(&mut out, 1, api_version.as_bytes());
    put_bytes(&mut out, 2, kind.as_bytes());
    put_bytes(&mut out, 2, raw);
    put_bytes(&mut out, 3, b"");
    put_bytes(&mut out, 4, b"");
    out
}

#[cfg(test)]
mod tests;
