//! [`ProtobufItems`]: a protobuf list, item by item, while it is still coming in.

use bytes::Bytes;

use super::feed::Feed;
use super::{item_of, key_in, malformed};
use crate::codec::chunks::Piece;
use crate::codec::{ApiKind, ItemDecoder, Parsed, Payload};
use crate::header::Header;
use crate::protobuf::{Failure, Message, PREFIX, ProtobufError, Reader, WireFault};
use crate::stream::{DEFAULT_MAX_ITEM_BYTES, ListMeta, StreamError};
use crate::version::ResourceVersion;

/// Groups, which nobody writes, are passed over, but not without end.
const MAX_GROUPS: u32 = 100;

/// Where the decoder stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the bytes that every envelope begins with.
    Prefix,
    /// Before a field.
    Tag,
    /// Before the length of a field.
    Length { number: u64 },
    /// Before the contents of a field.
    Value { field: Field, length: usize },
    /// Before a number that is of no interest.
    Number,
    /// Before bytes that are of no interest.
    Skip { length: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    TypeMeta,
    Metadata,
    Item,
}

/// A list that is coming in.
#[derive(Debug)]
pub(super) struct ProtobufItems {
    feed: Feed,
    state: State,
    /// Where the field starts that is being read.
    start: u64,
    /// How many groups are open.
    groups: u32,
    /// Where the list ends, while the decoder is inside of it; outside it is in the envelope.
    end: Option<u64>,
    /// What the items are, once the envelope has said it.
    item: Option<&'static Message>,
    has_list: bool,
    /// How many items have been passed.
    count: usize,
    meta: ListMeta,
}

impl ProtobufItems {
    pub(super) fn new() -> Self {
        ProtobufItems {
            feed: Feed::new(DEFAULT_MAX_ITEM_BYTES),
            state: State::Prefix,
            start: 0,
            groups: 0,
            end: None,
            item: None,
            has_list: false,
            count: 0,
            meta: ListMeta::empty(),
        }
    }

    /// Goes on to the next item.
    fn step(&mut self) -> Result<Option<(Piece, &'static Message)>, StreamError> {
        loop {
            match self.state {
                State::Prefix => {
                    let Some(prefix) = self.feed.piece(PREFIX.len()) else { return Ok(None) };
                    if prefix.bytes != PREFIX {
                        return Err(malformed(prefix.offset, ProtobufError::NoPrefix));
                    }
                    self.state = State::Tag;
                }
                State::Tag => {
                    if self.end == Some(self.feed.offset()) && self.groups == 0 && !self.feed.is_in_number() {
                        self.end = None;
                    }
                    if !self.feed.is_in_number() {
                        self.start = self.feed.offset();
                    }
                    let Some(tag) = self.number()? else { return Ok(None) };
                    self.state = self.value_of(tag)?;
                }
                State::Length { number } => {
                    let Some(length) = self.number()? else { return Ok(None) };
                    self.state = self.field(number, length)?;
                }
                State::Value { field, length } => {
                    let Some(piece) = self.feed.piece(length) else { return Ok(None) };
                    self.state = State::Tag;
                    match (field, self.item) {
                        (Field::Item, Some(item)) => return Ok(Some((piece, item))),
                        (Field::Item, None) => {}
                        (Field::TypeMeta, _) => self.read_type(&piece)?,
                        (Field::Metadata, _) => read_metadata(&piece.bytes, &mut self.meta)
                            .map_err(|failure| malformed(self.start, failure.in_field("metadata").into()))?,
                    }
                }
                State::Number => {
                    if self.number()?.is_none() {
                        return Ok(None);
                    }
                    self.state = State::Tag;
                }
                State::Skip { length } => {
                    let passed = self.feed.pass(length);
                    if passed < length {
                        self.state = State::Skip { length: length - passed };
                        return Ok(None);
                    }
                    self.state = State::Tag;
                }
            }
        }
    }

    /// What comes after a tag.
    fn value_of(&mut self, tag: u64) -> Result<State, StreamError> {
        let number = tag >> 3;
        if number == 0 || number >> 29 != 0 {
            return Err(self.fault(WireFault::BadTag));
        }
        Ok(match tag & 7 {
            2 => State::Length { number },
            wire @ (0 | 1 | 5) => {
                if self.groups == 0 && self.known(number).is_some() {
                    return Err(self.fault(WireFault::WireType(wire as u8)));
                }
                match wire {
                    0 => State::Number,
                    1 => self.skip(8)?,
                    _ => self.skip(4)?,
                }
            }
            3 if self.groups < MAX_GROUPS => {
                self.groups += 1;
                State::Tag
            }
            4 if self.groups > 0 => {
                self.groups -= 1;
                State::Tag
            }
            4 => return Err(self.fault(WireFault::EndOfGroup)),
            wire => return Err(self.fault(WireFault::WireType(wire as u8))),
        })
    }

    /// What a field is, where the decoder stands now; for the list inside of the envelope, what is in it.
    fn known(&self, number: u64) -> Option<&'static str> {
        match (self.end, number) {
            (None, 1) => Some("typeMeta"),
            (None, 2) => Some("raw"),
            (Some(_), 1) => Some("metadata"),
            (Some(_), 2) => Some("items"),
            _ => None,
        }
    }

    /// What to do with a field that has this length.
    fn field(&mut self, number: u64, length: u64) -> Result<State, StreamError> {
        if self.groups > 0 {
            return self.skip(length);
        }
        let field = match (self.end, number) {
            (None, 1) => Field::TypeMeta,
            (None, 2) => {
                self.begin_list(length)?;
                return Ok(State::Tag);
            }
            (Some(_), 1) => Field::Metadata,
            (Some(_), 2) => Field::Item,
            _ => return self.skip(length),
        };
        self.check_end(length)?;
        let length = self.feed.check(length, self.start, || match field {
            Field::Item => item_path(self.count),
            Field::TypeMeta => "typeMeta".into(),
            Field::Metadata => "metadata".into(),
        })?;
        Ok(State::Value { field, length })
    }

    fn begin_list(&mut self, length: u64) -> Result<(), StreamError> {
        // Writers put the kind first. Without it nobody can tell what the items are.
        if self.item.is_none() || self.has_list {
            let expected = if self.has_list { "one object in the envelope" } else { "the kind before the object" };
            return Err(malformed(self.start, ProtobufError::Unexpected { path: "".into(), expected }));
        }
        self.has_list = true;
        self.end = Some(self.feed.offset().saturating_add(length));
        Ok(())
    }

    fn skip(&self, length: u64) -> Result<State, StreamError> {
        self.check_end(length)?;
        Ok(State::Skip { length })
    }

    /// Nothing in the list may be longer than the list.
    fn check_end(&self, length: u64) -> Result<(), StreamError> {
        let goes_to = self.feed.offset().checked_add(length);
        match (self.end, goes_to) {
            (Some(end), Some(goes_to)) if goes_to <= end => Ok(()),
            (None, Some(_)) => Ok(()),
            _ => Err(self.fault(WireFault::Truncated)),
        }
    }

    /// The next number, which must not reach beyond the list.
    fn number(&mut self) -> Result<Option<u64>, StreamError> {
        let number = self.feed.varint().map_err(|fault| self.fault(fault))?;
        if self.end.is_some_and(|end| self.feed.offset() > end) {
            return Err(self.fault(WireFault::Truncated));
        }
        Ok(number)
    }

    fn read_type(&mut self, piece: &Piece) -> Result<(), StreamError> {
        let stated = ApiKind::from_type_meta(&piece.bytes).map_err(|error| malformed(self.start, error))?;
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
    fn fault(&self, fault: WireFault) -> StreamError {
        malformed(self.start, Failure::from(fault).into())
    }
}

impl ItemDecoder for ProtobufItems {
    fn set_limit(&mut self, bytes: usize) {
        self.feed.limit = bytes;
    }

    fn push(&mut self, chunk: Bytes) {
        self.feed.push(chunk);
    }

    fn next_item(&mut self, kind: &str) -> Result<Option<Parsed>, StreamError> {
        if self.feed.is_given_up() {
            return Ok(None);
        }
        let (Piece { bytes, offset }, message) = match self.step() {
            Ok(Some(item)) => item,
            Ok(None) => return Ok(None),
            Err(error) => {
                self.feed.give_up();
                return Err(error);
            }
        };
        let index = self.count;
        self.count += 1;
        // Items do not state what they are. Of what the caller asked for this is clear, but metadata is of another kind.
        let is_metadata = self.meta.kind == "PartialObjectMetadataList";
        let stated = is_metadata.then_some(("PartialObjectMetadata", self.meta.api_version.as_str()));
        let (stated_kind, api_version) = stated.unzip();
        match Header::of_protobuf(message, &bytes, stated_kind, api_version).and_then(Header::named) {
            Ok(header) => Ok(Some(Parsed { header, payload: Payload::protobuf(bytes, message) })),
            Err(source) => Err(StreamError::Object {
                offset,
                item: Some(index),
                key: key_in(message, &bytes),
                source: source.of_kind(kind),
            }),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<ListMeta, StreamError> {
        if self.feed.is_given_up() {
            return Err(StreamError::GivenUp);
        }
        // The tag behind the last field is not looked for before it comes.
        if self.end == Some(self.feed.offset()) {
            self.end = None;
        }
        let is_whole = self.state == State::Tag && self.groups == 0 && self.end.is_none() && self.has_list;
        if !is_whole || !self.feed.is_at_rest() {
            let in_item = matches!(self.state, State::Value { field: Field::Item, .. });
            let path = if in_item { item_path(self.count) } else { "the list".into() };
            return Err(StreamError::Truncated { offset: self.feed.offset(), path });
        }
        Ok(self.meta)
    }
}

fn item_path(index: usize) -> String {
    format!("items[{index}]")
}

/// Reads `ListMeta`.
fn read_metadata(bytes: &[u8], meta: &mut ListMeta) -> Result<(), Failure> {
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        match number {
            2 => meta.resource_version = ResourceVersion::new(&String::from_utf8_lossy(value.bytes()?)),
            3 => meta.continue_token = String::from_utf8_lossy(value.bytes()?).into_owned(),
            4 => meta.remaining_item_count = Some(value.varint()?.cast_signed()),
            _ => {}
        }
    }
    Ok(())
}
