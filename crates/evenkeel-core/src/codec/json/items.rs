//! [`JsonItems`]: a JSON list, item by item, while it is still coming in.

use bytes::Bytes;

use super::feed::Feed;
use crate::codec::chunks::Piece;
use crate::codec::{ItemDecoder, Parsed, Payload};
use crate::decode::DecodeError;
use crate::header::Header;
use crate::json::{JsonError, JsonFault, Scanner};
use crate::stream::{DEFAULT_MAX_ITEM_BYTES, ListMeta, StreamError};
use crate::version::ResourceVersion;

/// Where the decoder stands in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the list.
    Start,
    /// Before the name of a member, or before the end of the list if it has no members yet.
    Member { first: bool },
    /// Before the colon.
    Colon(Member),
    /// Before the value of a member.
    Value(Member),
    /// Behind the value of a member.
    AfterValue,
    /// Before an item, or before the end of the items if there are none yet.
    Item { first: bool },
    /// Behind an item.
    AfterItem,
    /// Behind the list.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Kind,
    ApiVersion,
    Metadata,
    Items,
    Other,
}

impl Member {
    fn path(self) -> &'static str {
        match self {
            Member::Kind => "kind",
            Member::ApiVersion => "apiVersion",
            Member::Metadata => "metadata",
            Member::Items => "items",
            Member::Other => "",
        }
    }
}

/// A list that is coming in.
#[derive(Debug)]
pub(super) struct JsonItems {
    feed: Feed,
    state: State,
    /// How many items have been passed.
    count: usize,
    has_items: bool,
    has_metadata: bool,
    meta: ListMeta,
}

impl JsonItems {
    pub(super) fn new() -> Self {
        JsonItems {
            feed: Feed::new(DEFAULT_MAX_ITEM_BYTES),
            state: State::Start,
            count: 0,
            has_items: false,
            has_metadata: false,
            meta: ListMeta::empty(),
        }
    }

    /// Goes on to the next item.
    fn step(&mut self) -> Result<Option<Piece>, StreamError> {
        loop {
            match self.state {
                // A value that has begun is not to be disturbed by looking for space.
                State::Value(_) | State::Item { .. } | State::Member { .. } if self.feed.is_open() => {}
                _ if self.feed.peek().is_none() => return Ok(None),
                _ => {}
            }
            match self.state {
                State::Start => self.punctuation(&[(b'{', State::Member { first: true })], "", "a list")?,
                State::Member { first } => {
                    if first && self.at(b'}') {
                        self.pass(State::Done);
                    } else if !self.feed.is_open() && !self.at(b'"') {
                        return Err(self.feed.unexpected("", "the name of a member"));
                    } else {
                        let Some(name) = self.feed.value(String::new)? else {
                            return Ok(None);
                        };
                        self.state = State::Colon(member_of(&name)?);
                    }
                }
                State::Colon(member) => self.punctuation(&[(b':', State::Value(member))], "", "':'")?,
                State::Value(member) => {
                    if member == Member::Items && self.at(b'[') {
                        self.begin_items()?;
                        continue;
                    }
                    let Some(value) = self.feed.value(|| member.path().into())? else {
                        return Ok(None);
                    };
                    self.read_member(member, &value)?;
                    self.state = State::AfterValue;
                }
                State::AfterValue => {
                    self.punctuation(&[(b',', State::Member { first: false }), (b'}', State::Done)], "", "',' or '}'")?
                }
                State::Item { first } => {
                    if first && !self.feed.is_open() && self.at(b']') {
                        self.pass(State::AfterValue);
                        continue;
                    }
                    let index = self.count;
                    let Some(item) = self.feed.value(|| item_path(index))? else {
                        return Ok(None);
                    };
                    self.state = State::AfterItem;
                    return Ok(Some(item));
                }
                State::AfterItem => self.punctuation(
                    &[(b',', State::Item { first: false }), (b']', State::AfterValue)],
                    "items",
                    "',' or ']'",
                )?,
                State::Done => return Err(self.feed.unexpected("", "the end")),
            }
        }
    }

    fn begin_items(&mut self) -> Result<(), StreamError> {
        if std::mem::replace(&mut self.has_items, true) {
            return Err(self.duplicate("items"));
        }
        self.pass(State::Item { first: true });
        Ok(())
    }

    /// Whether this byte comes next, outside of any value.
    fn at(&mut self, byte: u8) -> bool {
        !self.feed.is_open() && self.feed.peek() == Some(byte)
    }

    fn pass(&mut self, next: State) {
        self.feed.bump();
        self.state = next;
    }

    fn punctuation(&mut self, choices: &[(u8, State)], path: &str, expected: &'static str) -> Result<(), StreamError> {
        let byte = self.feed.peek();
        match choices.iter().find(|(choice, _)| Some(*choice) == byte) {
            Some((_, next)) => {
                self.pass(*next);
                Ok(())
            }
            None => Err(self.feed.unexpected(path, expected)),
        }
    }

    fn read_member(&mut self, member: Member, value: &Piece) -> Result<(), StreamError> {
        if member == Member::Metadata && std::mem::replace(&mut self.has_metadata, true) {
            return Err(self.duplicate("metadata"));
        }
        if member == Member::Items && std::mem::replace(&mut self.has_items, true) {
            return Err(self.duplicate("items"));
        }
        let meta = &mut self.meta;
        Scanner::new(&value.bytes)
            .and_then(|mut scanner| {
                match member {
                    Member::Kind => meta.kind = text_or_null(&mut scanner)?,
                    Member::ApiVersion => meta.api_version = text_or_null(&mut scanner)?,
                    Member::Metadata => read_metadata(&mut scanner, meta)?,
                    Member::Items => null_items(&mut scanner)?,
                    Member::Other => drop(scanner.skip()?),
                }
                scanner.end()
            })
            .map_err(|source| source.within(value.offset, member.path()).into())
    }

    #[cold]
    fn duplicate(&self, path: &str) -> StreamError {
        JsonError::new(self.feed.offset(), path.into(), JsonFault::DuplicateMember).into()
    }
}

impl ItemDecoder for JsonItems {
    fn set_limit(&mut self, bytes: usize) {
        self.feed.limit = bytes;
    }

    fn push(&mut self, chunk: Bytes) {
        self.feed.push(chunk);
    }

    fn next_item(&mut self, kind: &str) -> Result<Option<Parsed>, StreamError> {
        let Piece { bytes, offset } = match self.step() {
            Ok(Some(piece)) => piece,
            Ok(None) => return Ok(None),
            Err(error) => {
                self.feed.give_up();
                return Err(error);
            }
        };
        let index = self.count;
        self.count += 1;
        let header = Header::from_json(&bytes)
            .and_then(Header::named)
            .map_err(|source| object_error(source, &bytes, offset, index, kind))?;
        Ok(Some(Parsed { header, payload: Payload::json(bytes) }))
    }

    fn finish(mut self: Box<Self>) -> Result<ListMeta, StreamError> {
        if self.feed.is_given_up() {
            return Err(StreamError::GivenUp);
        }
        let in_items = matches!(self.state, State::Item { .. });
        if self.state != State::Done {
            let path = if in_items { item_path(self.count) } else { "the list".into() };
            return Err(StreamError::Truncated { offset: self.feed.offset(), path });
        }
        if self.feed.peek().is_some() {
            return Err(self.feed.unexpected("", "the end"));
        }
        if !self.has_items {
            return Err(StreamError::NotAList { kind: self.meta.kind });
        }
        Ok(self.meta)
    }
}

fn item_path(index: usize) -> String {
    format!("items[{index}]")
}

#[cold]
fn object_error(source: DecodeError, raw: &[u8], offset: u64, index: usize, kind: &str) -> StreamError {
    let source = source.of_kind(kind).within(offset, &item_path(index));
    StreamError::Object { offset, item: Some(index), key: super::key_in(raw, ""), source }
}

fn member_of(name: &Piece) -> Result<Member, StreamError> {
    let name = Scanner::new(&name.bytes)
        .and_then(|mut scanner| scanner.string())
        .map_err(|source| source.within(name.offset, ""))?;
    Ok(match &*name {
        "kind" => Member::Kind,
        "apiVersion" => Member::ApiVersion,
        "metadata" => Member::Metadata,
        "items" => Member::Items,
        _ => Member::Other,
    })
}

fn text_or_null(scanner: &mut Scanner<'_>) -> Result<String, JsonError> {
    if scanner.null()? { Ok(String::new()) } else { Ok(scanner.string()?.into_owned()) }
}

/// An empty list may have been written by Go, where an empty slice is null. Anything else that is no array is wrong.
fn null_items(scanner: &mut Scanner<'_>) -> Result<(), JsonError> {
    if scanner.null()? {
        return Ok(());
    }
    let found = scanner.shape()?;
    Err(scanner.fault(JsonFault::WrongType { found, expected: "an array" }))
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
            _ => {}
        }
        Ok(())
    })
}
