//! [`ProtobufListDecoder`]: the items of a protobuf list.

use bytes::Bytes;

use super::buffer::ProtobufBuffer;
use super::{item_of, key_in, malformed};
use crate::codec::chunks::StreamSlice;
use crate::codec::{ApiKind, DEFAULT_MAX_ITEM_BYTES, ParsedObject};
use crate::error::{ProtobufError, StreamError, WireError};
use crate::header::Header;
use crate::obj::Payload;
use crate::protobuf::{BoxedError, Message, PREFIX, Reader};
use crate::stream::ListMeta;
use crate::version::ResourceVersion;

/// The nesting limit of groups, which Kubernetes does not write and the decoder skips.
const MAX_GROUPS: u32 = 100;

/// The position of the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProtobufListState {
    /// Before the prefix of the envelope.
    Prefix,
    /// Before a field.
    Tag,
    /// Before the length of a field.
    Length { number: u64 },
    /// Before the contents of a field.
    Value { field: ListField, length: usize },
    /// Before a varint to skip.
    Number,
    /// Before bytes to skip.
    Skip { length: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListField {
    TypeMeta,
    MetadataField,
    Item,
}

/// Decodes a protobuf list.
#[derive(Debug)]
pub(in crate::codec) struct ProtobufListDecoder {
    buffer: ProtobufBuffer,
    state: ProtobufListState,
    /// The offset of the field in progress.
    start: u64,
    /// The number of open groups.
    groups: u32,
    /// The end of the list while the decoder is inside the list, `None` while it is in the envelope.
    end: Option<u64>,
    /// The message of the items, once the envelope has stated the kind of the list.
    item: Option<&'static Message>,
    has_list: bool,
    /// The number of items read.
    count: usize,
    meta: ListMeta,
}

impl ProtobufListDecoder {
    pub(in crate::codec) fn new() -> Self {
        ProtobufListDecoder {
            buffer: ProtobufBuffer::new(DEFAULT_MAX_ITEM_BYTES),
            state: ProtobufListState::Prefix,
            start: 0,
            groups: 0,
            end: None,
            item: None,
            has_list: false,
            count: 0,
            meta: ListMeta::empty(),
        }
    }

    /// Advances to the next item.
    fn advance(&mut self) -> Result<Option<(StreamSlice, &'static Message)>, StreamError> {
        loop {
            match self.state {
                ProtobufListState::Prefix => {
                    let Some(prefix) = self.buffer.next_slice(PREFIX.len()) else { return Ok(None) };
                    if prefix.bytes != PREFIX {
                        return Err(malformed(prefix.offset, ProtobufError::NoPrefix));
                    }
                    self.state = ProtobufListState::Tag;
                }
                ProtobufListState::Tag => {
                    if self.end == Some(self.buffer.offset()) && self.groups == 0 && !self.buffer.in_varint() {
                        self.end = None;
                    }
                    if !self.buffer.in_varint() {
                        self.start = self.buffer.offset();
                    }
                    let Some(tag) = self.varint()? else { return Ok(None) };
                    self.state = self.value_of(tag)?;
                }
                ProtobufListState::Length { number } => {
                    let Some(length) = self.varint()? else { return Ok(None) };
                    self.state = self.field(number, length)?;
                }
                ProtobufListState::Value { field, length } => {
                    let Some(slice) = self.buffer.next_slice(length) else { return Ok(None) };
                    self.state = ProtobufListState::Tag;
                    match (field, self.item) {
                        (ListField::Item, Some(item)) => return Ok(Some((slice, item))),
                        (ListField::Item, None) => {}
                        (ListField::TypeMeta, _) => self.read_type(&slice)?,
                        (ListField::MetadataField, _) => read_metadata(&slice.bytes, &mut self.meta)
                            .map_err(|error| malformed(self.start, error.in_field("metadata").into()))?,
                    }
                }
                ProtobufListState::Number => {
                    if self.varint()?.is_none() {
                        return Ok(None);
                    }
                    self.state = ProtobufListState::Tag;
                }
                ProtobufListState::Skip { length } => {
                    let skipped = self.buffer.skip(length);
                    if skipped < length {
                        self.state = ProtobufListState::Skip { length: length - skipped };
                        return Ok(None);
                    }
                    self.state = ProtobufListState::Tag;
                }
            }
        }
    }

    /// Returns the state after a tag.
    fn value_of(&mut self, tag: u64) -> Result<ProtobufListState, StreamError> {
        let number = tag >> 3;
        if number == 0 || number >> 29 != 0 {
            return Err(self.wire_error(WireError::BadTag));
        }
        Ok(match tag & 7 {
            2 => ProtobufListState::Length { number },
            wire @ (0 | 1 | 5) => {
                if self.groups == 0 && self.known(number).is_some() {
                    return Err(self.wire_error(WireError::WireType(wire as u8)));
                }
                match wire {
                    0 => ProtobufListState::Number,
                    1 => self.skip(8)?,
                    _ => self.skip(4)?,
                }
            }
            3 if self.groups < MAX_GROUPS => {
                self.groups += 1;
                ProtobufListState::Tag
            }
            4 if self.groups > 0 => {
                self.groups -= 1;
                ProtobufListState::Tag
            }
            4 => return Err(self.wire_error(WireError::EndOfGroup)),
            wire => return Err(self.wire_error(WireError::WireType(wire as u8))),
        })
    }

    /// Returns the name of a field at the current position: in the envelope, or in the list.
    fn known(&self, number: u64) -> Option<&'static str> {
        match (self.end, number) {
            (None, 1) => Some("typeMeta"),
            (None, 2) => Some("raw"),
            (Some(_), 1) => Some("metadata"),
            (Some(_), 2) => Some("items"),
            _ => None,
        }
    }

    /// Returns the state for the contents of a field.
    fn field(&mut self, number: u64, length: u64) -> Result<ProtobufListState, StreamError> {
        if self.groups > 0 {
            return self.skip(length);
        }
        let field = match (self.end, number) {
            (None, 1) => ListField::TypeMeta,
            (None, 2) => {
                self.begin_list(length)?;
                return Ok(ProtobufListState::Tag);
            }
            (Some(_), 1) => ListField::MetadataField,
            (Some(_), 2) => ListField::Item,
            _ => return self.skip(length),
        };
        self.check_end(length)?;
        let length = self.buffer.check(length, self.start, || match field {
            ListField::Item => item_path(self.count),
            ListField::TypeMeta => "typeMeta".into(),
            ListField::MetadataField => "metadata".into(),
        })?;
        Ok(ProtobufListState::Value { field, length })
    }

    fn begin_list(&mut self, length: u64) -> Result<(), StreamError> {
        // Writers put the kind first. Without it the type of the items is unknown.
        if self.item.is_none() || self.has_list {
            let expected = if self.has_list { "one object in the envelope" } else { "the kind before the object" };
            return Err(malformed(self.start, ProtobufError::Unexpected { path: "".into(), expected }));
        }
        self.has_list = true;
        self.end = Some(self.buffer.offset().saturating_add(length));
        Ok(())
    }

    fn skip(&self, length: u64) -> Result<ProtobufListState, StreamError> {
        self.check_end(length)?;
        Ok(ProtobufListState::Skip { length })
    }

    /// Checks that a field does not extend past the end of the list.
    fn check_end(&self, length: u64) -> Result<(), StreamError> {
        let field_end = self.buffer.offset().checked_add(length);
        match (self.end, field_end) {
            (Some(end), Some(field_end)) if field_end <= end => Ok(()),
            (None, Some(_)) => Ok(()),
            _ => Err(self.wire_error(WireError::Truncated)),
        }
    }

    /// Returns the next varint, which must not extend past the end of the list.
    fn varint(&mut self) -> Result<Option<u64>, StreamError> {
        let number = self.buffer.next_varint().map_err(|error| self.wire_error(error))?;
        if self.end.is_some_and(|end| self.buffer.offset() > end) {
            return Err(self.wire_error(WireError::Truncated));
        }
        Ok(number)
    }

    fn read_type(&mut self, slice: &StreamSlice) -> Result<(), StreamError> {
        let stated = ApiKind::from_type_meta(&slice.bytes).map_err(|error| malformed(self.start, error))?;
        self.meta.kind = stated.kind.into();
        self.meta.api_version = stated.api_version.into();
        let Some(message) = Message::of_kind(stated.api_version, stated.kind) else {
            return Err(StreamError::UnknownKind { kind: stated.to_string() });
        };
        self.item = item_of(message);
        match self.item {
            Some(_) => Ok(()),
            None => Err(StreamError::NotAList { kind: stated.kind.into() }),
        }
    }

    #[cold]
    fn wire_error(&self, error: WireError) -> StreamError {
        malformed(self.start, BoxedError::from(error).into())
    }
}

impl ProtobufListDecoder {
    pub(in crate::codec) fn set_limit(&mut self, bytes: usize) {
        self.buffer.limit = bytes;
    }

    /// Returns what was read of the list's metadata.
    pub(in crate::codec) fn meta(&self) -> &ListMeta {
        &self.meta
    }

    /// Ends the decoding after a fatal error.
    pub(in crate::codec) fn close(&mut self) {
        self.buffer.close();
    }

    pub(in crate::codec) fn push(&mut self, chunk: Bytes) {
        self.buffer.push(chunk);
    }

    pub(in crate::codec) fn next_item(&mut self, kind: &str) -> Result<Option<ParsedObject>, StreamError> {
        if self.buffer.is_closed() {
            return Ok(None);
        }
        let (StreamSlice { bytes, offset }, message) = match self.advance() {
            Ok(Some(item)) => item,
            Ok(None) => return Ok(None),
            Err(error) => {
                self.buffer.close();
                return Err(error);
            }
        };
        let index = self.count;
        self.count += 1;
        // Items do not state their kind: it is the one that the caller requested, except in a list of metadata.
        let is_metadata = self.meta.kind == "PartialObjectMetadataList";
        let stated = is_metadata.then_some(("PartialObjectMetadata", self.meta.api_version.as_str()));
        let (stated_kind, api_version) = stated.unzip();
        match Header::of_protobuf(message, &bytes, stated_kind, api_version).and_then(Header::named) {
            Ok(header) => Ok(Some(ParsedObject { header, payload: Payload::protobuf(bytes, message) })),
            Err(source) => Err(StreamError::Object {
                offset,
                item: Some(index),
                key: key_in(message, &bytes),
                source: source.of_kind(kind),
            }),
        }
    }

    pub(in crate::codec) fn finish(mut self) -> Result<ListMeta, StreamError> {
        if self.buffer.is_closed() {
            return Err(StreamError::Closed);
        }
        // The end of the list is otherwise noticed at the next tag.
        if self.end == Some(self.buffer.offset()) {
            self.end = None;
        }
        let is_whole = self.state == ProtobufListState::Tag && self.groups == 0 && self.end.is_none() && self.has_list;
        if !is_whole || !self.buffer.is_empty() {
            let in_item = matches!(self.state, ProtobufListState::Value { field: ListField::Item, .. });
            let path = if in_item { item_path(self.count) } else { "the list".into() };
            return Err(StreamError::Truncated { offset: self.buffer.offset(), path });
        }
        Ok(self.meta)
    }
}

fn item_path(index: usize) -> String {
    format!("items[{index}]")
}

/// Reads `ListMeta`.
fn read_metadata(bytes: &[u8], meta: &mut ListMeta) -> Result<(), BoxedError> {
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        match number {
            2 => meta.resource_version = ResourceVersion::new(&String::from_utf8_lossy(value.bytes()?)),
            3 => meta.continue_token = String::from_utf8_lossy(value.bytes()?).into_owned(),
            4 => meta.remaining_item_count = Some(value.varint()?.cast_signed()),
            5 => {
                let mut info = Reader::new(value.bytes()?);
                while let Some((number, value)) = info.next()? {
                    if number == 1 {
                        meta.shard_selector = Some(String::from_utf8_lossy(value.bytes()?).into_owned());
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}
