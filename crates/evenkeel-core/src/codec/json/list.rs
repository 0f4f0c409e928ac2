//! [`JsonListDecoder`]: the items of a JSON list.

use bytes::Bytes;

use super::buffer::JsonBuffer;
use crate::codec::chunks::StreamSlice;
use crate::codec::{DEFAULT_MAX_ITEM_BYTES, ParsedObject};
use crate::error::{DecodeError, StreamError};
use crate::header::Header;
use crate::json::{JsonError, JsonErrorKind, Scanner};
use crate::obj::Payload;
use crate::stream::ListMeta;
use crate::version::ResourceVersion;

/// The position of the decoder in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JsonListState {
    /// Before the list.
    Start,
    /// Before the name of a member, or before the end of a list without members.
    ListMember { first: bool },
    /// Before the colon.
    Colon(ListMember),
    /// Before the value of a member.
    Value(ListMember),
    /// After the value of a member.
    AfterValue,
    /// Before an item, or before the end of empty items.
    Item { first: bool },
    /// After an item.
    AfterItem,
    /// After the list.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListMember {
    Kind,
    ApiVersion,
    Metadata,
    Items,
    Other,
}

impl ListMember {
    fn path(self) -> &'static str {
        match self {
            ListMember::Kind => "kind",
            ListMember::ApiVersion => "apiVersion",
            ListMember::Metadata => "metadata",
            ListMember::Items => "items",
            ListMember::Other => "",
        }
    }
}

/// Decodes a JSON list.
#[derive(Debug)]
pub(in crate::codec) struct JsonListDecoder {
    buffer: JsonBuffer,
    state: JsonListState,
    /// The number of items read.
    count: usize,
    has_items: bool,
    has_metadata: bool,
    meta: ListMeta,
}

impl JsonListDecoder {
    pub(in crate::codec) fn new() -> Self {
        JsonListDecoder {
            buffer: JsonBuffer::new(DEFAULT_MAX_ITEM_BYTES),
            state: JsonListState::Start,
            count: 0,
            has_items: false,
            has_metadata: false,
            meta: ListMeta::empty(),
        }
    }

    /// Advances to the next item. Its header is set if the scan read it already.
    fn advance(&mut self) -> Result<Option<(Option<Header>, StreamSlice)>, StreamError> {
        loop {
            match self.state {
                // No whitespace may be skipped inside a value.
                JsonListState::Value(_) | JsonListState::Item { .. } | JsonListState::ListMember { .. }
                    if self.buffer.in_value() => {}
                _ if self.buffer.peek().is_none() => return Ok(None),
                _ => {}
            }
            match self.state {
                JsonListState::Start => {
                    self.punctuation(&[(b'{', JsonListState::ListMember { first: true })], "", "a list")?
                }
                JsonListState::ListMember { first } => {
                    if first && self.at(b'}') {
                        self.consume(JsonListState::Done);
                    } else if !self.buffer.in_value() && !self.at(b'"') {
                        return Err(self.buffer.unexpected("", "the name of a member"));
                    } else {
                        let Some(name) = self.buffer.next_value(String::new)? else {
                            return Ok(None);
                        };
                        self.state = JsonListState::Colon(member_of(&name)?);
                    }
                }
                JsonListState::Colon(member) => self.punctuation(&[(b':', JsonListState::Value(member))], "", "':'")?,
                JsonListState::Value(member) => {
                    if member == ListMember::Items && self.at(b'[') {
                        self.begin_items()?;
                        continue;
                    }
                    let Some(value) = self.buffer.next_value(|| member.path().into())? else {
                        return Ok(None);
                    };
                    self.read_member(member, &value)?;
                    self.state = JsonListState::AfterValue;
                }
                JsonListState::AfterValue => self.punctuation(
                    &[(b',', JsonListState::ListMember { first: false }), (b'}', JsonListState::Done)],
                    "",
                    "',' or '}'",
                )?,
                JsonListState::Item { first } => {
                    if first && !self.buffer.in_value() && self.at(b']') {
                        self.consume(JsonListState::AfterValue);
                        continue;
                    }
                    let index = self.count;
                    let (header, item) = match self.buffer.read_in_place(header_of) {
                        Some((header, item)) => (Some(header), item),
                        None => match self.buffer.next_value(|| item_path(index))? {
                            Some(item) => (None, item),
                            None => return Ok(None),
                        },
                    };
                    self.state = JsonListState::AfterItem;
                    return Ok(Some((header, item)));
                }
                JsonListState::AfterItem => self.punctuation(
                    &[(b',', JsonListState::Item { first: false }), (b']', JsonListState::AfterValue)],
                    "items",
                    "',' or ']'",
                )?,
                JsonListState::Done => return Err(self.buffer.unexpected("", "the end")),
            }
        }
    }

    fn begin_items(&mut self) -> Result<(), StreamError> {
        if std::mem::replace(&mut self.has_items, true) {
            return Err(self.duplicate("items"));
        }
        self.consume(JsonListState::Item { first: true });
        Ok(())
    }

    /// Returns whether this byte is next, outside of any value.
    fn at(&mut self, byte: u8) -> bool {
        !self.buffer.in_value() && self.buffer.peek() == Some(byte)
    }

    fn consume(&mut self, next: JsonListState) {
        self.buffer.bump();
        self.state = next;
    }

    fn punctuation(
        &mut self,
        choices: &[(u8, JsonListState)],
        path: &str,
        expected: &'static str,
    ) -> Result<(), StreamError> {
        let byte = self.buffer.peek();
        match choices.iter().find(|(choice, _)| Some(*choice) == byte) {
            Some((_, next)) => {
                self.consume(*next);
                Ok(())
            }
            None => Err(self.buffer.unexpected(path, expected)),
        }
    }

    fn read_member(&mut self, member: ListMember, value: &StreamSlice) -> Result<(), StreamError> {
        if member == ListMember::Metadata && std::mem::replace(&mut self.has_metadata, true) {
            return Err(self.duplicate("metadata"));
        }
        if member == ListMember::Items && std::mem::replace(&mut self.has_items, true) {
            return Err(self.duplicate("items"));
        }
        let meta = &mut self.meta;
        Scanner::new(&value.bytes)
            .and_then(|mut scanner| {
                match member {
                    ListMember::Kind => meta.kind = text_or_null(&mut scanner)?,
                    ListMember::ApiVersion => meta.api_version = text_or_null(&mut scanner)?,
                    ListMember::Metadata => read_metadata(&mut scanner, meta)?,
                    ListMember::Items => null_items(&mut scanner)?,
                    ListMember::Other => drop(scanner.skip()?),
                }
                scanner.end()
            })
            .map_err(|source| source.within(value.offset, member.path()).into())
    }

    #[cold]
    fn duplicate(&self, path: &str) -> StreamError {
        JsonError::new(self.buffer.offset(), path.into(), JsonErrorKind::DuplicateMember).into()
    }
}

impl JsonListDecoder {
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
        let (header, StreamSlice { bytes, offset }) = match self.advance() {
            Ok(Some(item)) => item,
            Ok(None) => return Ok(None),
            Err(error) => {
                self.buffer.close();
                return Err(error);
            }
        };
        let index = self.count;
        self.count += 1;
        let header = header
            .map_or_else(|| Header::from_json(&bytes), Ok)
            .and_then(Header::named)
            .map_err(|source| object_error(source, &bytes, offset, index, kind))?;
        Ok(Some(ParsedObject { header, payload: Payload::json(bytes) }))
    }

    pub(in crate::codec) fn finish(mut self) -> Result<ListMeta, StreamError> {
        if self.buffer.is_closed() {
            return Err(StreamError::Closed);
        }
        let in_items = matches!(self.state, JsonListState::Item { .. });
        if self.state != JsonListState::Done {
            let path = if in_items { item_path(self.count) } else { "the list".into() };
            return Err(StreamError::Truncated { offset: self.buffer.offset(), path });
        }
        if self.buffer.peek().is_some() {
            return Err(self.buffer.unexpected("", "the end"));
        }
        if !self.has_items {
            return Err(StreamError::NotAList { kind: self.meta.kind });
        }
        Ok(self.meta)
    }
}

/// Returns the header of the object at the start of a text, and the length of the object.
fn header_of(text: &str) -> Option<(Header, usize)> {
    let mut scanner = Scanner::probe(text);
    let header = Header::scan(&mut scanner).ok()?;
    Some((header, scanner.offset()))
}

fn item_path(index: usize) -> String {
    format!("items[{index}]")
}

#[cold]
fn object_error(source: DecodeError, raw: &[u8], offset: u64, index: usize, kind: &str) -> StreamError {
    let source = source.of_kind(kind).within(offset, &item_path(index));
    StreamError::Object { offset, item: Some(index), key: super::key_in(raw, &[]), source }
}

fn member_of(name: &StreamSlice) -> Result<ListMember, StreamError> {
    let name = Scanner::new(&name.bytes)
        .and_then(|mut scanner| scanner.string())
        .map_err(|source| source.within(name.offset, ""))?;
    Ok(match &*name {
        "kind" => ListMember::Kind,
        "apiVersion" => ListMember::ApiVersion,
        "metadata" => ListMember::Metadata,
        "items" => ListMember::Items,
        _ => ListMember::Other,
    })
}

fn text_or_null(scanner: &mut Scanner<'_>) -> Result<String, JsonError> {
    if scanner.null()? { Ok(String::new()) } else { Ok(scanner.string()?.into_owned()) }
}

/// Accepts null, which Go writes for an empty slice, and nothing else.
fn null_items(scanner: &mut Scanner<'_>) -> Result<(), JsonError> {
    if scanner.null()? {
        return Ok(());
    }
    let found = scanner.value_type()?;
    Err(scanner.error(JsonErrorKind::WrongType { found, expected: "an array" }))
}

fn read_metadata(scanner: &mut Scanner<'_>, meta: &mut ListMeta) -> Result<(), JsonError> {
    if scanner.null()? {
        return Ok(());
    }
    scanner.object(|scanner, member| {
        match member {
            "resourceVersion" => meta.resource_version = ResourceVersion::new(&text_or_null(scanner)?),
            "continue" => meta.continue_token = text_or_null(scanner)?,
            "remainingItemCount" if !scanner.null()? => meta.remaining_item_count = Some(scanner.integer()?),
            "shardInfo" if !scanner.null()? => scanner.object(|scanner, member| {
                if member == "selector" {
                    meta.shard_selector = Some(text_or_null(scanner)?);
                }
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })
}
