//! Reads a header from protobuf.

use std::borrow::Cow;

use super::header_builder::OwnerBuilder;
use super::{Header, HeaderBuilder};
use crate::error::DecodeError;
use crate::error::ProtobufError;
use crate::protobuf::{BoxedError, Message, Reader, Wire, time_text};

/// Field numbers of `ObjectMeta`.
mod meta {
    pub(super) const NAME: u32 = 1;
    pub(super) const NAMESPACE: u32 = 3;
    pub(super) const UID: u32 = 5;
    pub(super) const RESOURCE_VERSION: u32 = 6;
    pub(super) const GENERATION: u32 = 7;
    pub(super) const CREATION_TIMESTAMP: u32 = 8;
    pub(super) const DELETION_TIMESTAMP: u32 = 9;
    pub(super) const LABELS: u32 = 11;
    pub(super) const ANNOTATIONS: u32 = 12;
    pub(super) const OWNER_REFERENCES: u32 = 13;
    pub(super) const FINALIZERS: u32 = 14;
}

impl Header {
    /// Reads the header of an object from its message without the envelope, with the kind and API version of the envelope, if any. It
    /// checks the metadata only.
    ///
    /// The header equals that of the same object in JSON. An object with metadata but no name has a header with an empty name.
    pub(crate) fn of_protobuf(
        message: &'static Message,
        bytes: &[u8],
        kind: Option<&str>,
        api_version: Option<&str>,
    ) -> Result<Self, DecodeError> {
        let mut builder = HeaderBuilder::default();
        kind.into_iter().for_each(|text| builder.set_kind(text));
        api_version.into_iter().for_each(|text| builder.set_api_version(text));
        match metadata_of(message, bytes).map_err(DecodeError::from)? {
            MetadataField::OfObject(metadata) => {
                read_metadata(&mut builder, metadata)
                    .map_err(|error| ProtobufError::from(error.in_field("metadata")))?;
                Ok(builder.finish())
            }
            // The metadata of a list has no name.
            MetadataField::Other => Ok(builder.finish()),
            MetadataField::None => Err(DecodeError::NoMetadata { kind: kind.map(Into::into) }),
        }
    }
}

/// The metadata field of a message.
pub(crate) enum MetadataField<'a> {
    /// The metadata of an object.
    OfObject(&'a [u8]),
    /// The metadata of a list or a status.
    Other,
    None,
}

/// Finds the metadata in a message, and checks the framing of all fields.
pub(crate) fn metadata_of<'a>(message: &'static Message, bytes: &'a [u8]) -> Result<MetadataField<'a>, ProtobufError> {
    let Some(named) = message.named("metadata") else { return Ok(MetadataField::None) };
    let mut found = None;
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        if number == u32::from(named.field.number) {
            found = Some(value.bytes().map_err(|fault| fault.in_field("metadata"))?);
        }
    }
    let is_object = named.field.of.message().name() == "ObjectMeta";
    Ok(found.map_or(
        MetadataField::None,
        |bytes| if is_object { MetadataField::OfObject(bytes) } else { MetadataField::Other },
    ))
}

fn read_metadata<'a>(builder: &mut HeaderBuilder<'a>, bytes: &'a [u8]) -> Result<(), BoxedError> {
    let mut has_labels = false;
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        match number {
            meta::NAME => builder.name = Some(text(value).map_err(|fault| fault.in_field("name"))?),
            meta::NAMESPACE => builder.namespace = Some(text(value).map_err(|fault| fault.in_field("namespace"))?),
            meta::UID => builder.uid = Some(text(value).map_err(|fault| fault.in_field("uid"))?),
            meta::RESOURCE_VERSION => {
                builder.resource_version = Some(text(value).map_err(|fault| fault.in_field("resourceVersion"))?);
            }
            meta::GENERATION => {
                let generation = value.varint().map_err(|fault| fault.in_field("generation"))?;
                // Go has a plain integer here, and omits zero.
                builder.generation = Some(generation.cast_signed()).filter(|generation| *generation != 0);
            }
            meta::CREATION_TIMESTAMP => {
                builder.creation_timestamp = time(value).map_err(|fault| fault.in_field("creationTimestamp"))?;
            }
            meta::DELETION_TIMESTAMP => {
                builder.deletion_timestamp = time(value).map_err(|fault| fault.in_field("deletionTimestamp"))?;
            }
            meta::LABELS => {
                let (key, value) = entry(value).map_err(|fault| fault.in_field("labels"))?;
                builder.add_label(&lossy(key), &lossy(value));
                has_labels = true;
            }
            meta::OWNER_REFERENCES => {
                let owner = owner(value).map_err(|fault| fault.in_field("ownerReferences"))?;
                builder.add_owner(&owner);
            }
            meta::FINALIZERS => {
                builder.add_finalizer(&text(value).map_err(|fault| fault.in_field("finalizers"))?);
            }
            _ => {}
        }
    }
    if has_labels && builder.sort_labels().is_err() {
        builder.keep_last_labels();
    }
    Ok(())
}

fn owner(value: Wire<'_>) -> Result<OwnerBuilder<'_>, BoxedError> {
    let mut owner = OwnerBuilder::default();
    let mut reader = Reader::new(value.bytes()?);
    while let Some((number, value)) = reader.next()? {
        match number {
            1 => owner.kind = Some(text(value)?),
            3 => owner.name = Some(text(value)?),
            4 => owner.uid = Some(text(value)?),
            5 => owner.api_version = Some(text(value)?),
            6 => owner.controller = Some(value.varint()? != 0),
            7 => owner.block_owner_deletion = Some(value.varint()? != 0),
            _ => {}
        }
    }
    Ok(owner)
}

/// Converts a string, which need not be UTF-8: Go does not check, and its JSON replaces invalid sequences as this does.
fn text(value: Wire<'_>) -> Result<Cow<'_, str>, BoxedError> {
    value.bytes().map(lossy)
}

/// Does what [`String::from_utf8_lossy`] does, faster for what is UTF-8.
#[inline]
fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Returns the key and value of an entry of a string map. Absent ones are empty.
fn entry<'a>(value: Wire<'a>) -> Result<(&'a [u8], &'a [u8]), BoxedError> {
    let (mut key, mut content) = (&[][..], &[][..]);
    let mut reader = Reader::new(value.bytes()?);
    while let Some((number, value)) = reader.next()? {
        match number {
            1 => key = value.bytes()?,
            2 => content = value.bytes()?,
            _ => {}
        }
    }
    Ok((key, content))
}

/// Returns the value of an annotation: the last one of several.
pub(crate) fn annotation_in<'a>(metadata: &'a [u8], key: &str) -> Result<Option<Cow<'a, str>>, ProtobufError> {
    let mut found = None;
    let mut reader = Reader::new(metadata);
    while let Some((number, value)) = reader.next()? {
        if number == meta::ANNOTATIONS {
            let (name, content) = entry(value).map_err(|fault| fault.in_field("annotations"))?;
            if String::from_utf8_lossy(name) == key {
                found = Some(content);
            }
        }
    }
    Ok(found.map(String::from_utf8_lossy))
}

/// Returns a time in the format of JSON, or `None` if it is not set.
fn time(value: Wire<'_>) -> Result<Option<Cow<'static, str>>, BoxedError> {
    Ok(time_text(value.bytes()?)?.map(Cow::Owned))
}
