//! [`ListDecoder`]: a list, item by item, while it is still coming in.

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;

use super::error::StreamError;
use super::feed::{Feed, Piece};
use crate::decode::DecodeError;
use crate::header::Header;
use crate::json::{JsonError, JsonFault, Scanner};
use crate::obj::Obj;
use crate::resource::ResourceInfo;
use crate::version::ResourceVersion;

/// Takes a list apart as its bytes arrive.
///
/// Push a chunk, then ask for items until there are none; at the end of the body, ask for the list's metadata. The
/// decoder holds what was pushed and not yet asked for, and at most one incomplete item; it never sees the list as a
/// whole. Items that came in one chunk are slices of it.
///
/// An item that is not an object of the API is an error that is not [fatal](StreamError::is_fatal): the items after it
/// still come. After a fatal error nothing comes any more.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_core::{ListDecoder, ResourceInfo};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let mut decoder = ListDecoder::<Pod>::new(Arc::new(ResourceInfo::of::<Pod>()));
/// let mut names = Vec::new();
/// for chunk in [r#"{"kind":"PodList","items":[{"metadata":{"na"#, r#"me":"a"}}],"metadata":{"resourceVersion":"7"}}"#] {
///     decoder.push(chunk.into());
///     while let Some(pod) = decoder.next_item()? {
///         names.push(pod.key().to_string());
///     }
/// }
/// assert_eq!(names, ["a"]);
/// assert_eq!(decoder.finish()?.resource_version.as_str(), "7");
/// # Ok::<(), evenkeel_core::StreamError>(())
/// ```
#[derive(Debug)]
pub struct ListDecoder<K> {
    items: ItemDecoder,
    info: Arc<ResourceInfo>,
    kind: PhantomData<fn() -> K>,
}

/// What a list says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListMeta {
    /// The kind of the list, such as `PodList`; empty if it does not say.
    pub kind: String,
    /// The API version of the list; empty if it does not say.
    pub api_version: String,
    /// The state of the store that the list shows.
    pub resource_version: ResourceVersion,
    /// Where the next page starts; empty on the last one.
    pub continue_token: String,
    /// About how many items the pages after this one have, if the server counted.
    pub remaining_item_count: Option<i64>,
}

impl<K> ListDecoder<K> {
    /// A decoder for a list of this kind, which its items need not state.
    pub fn new(info: Arc<ResourceInfo>) -> Self {
        ListDecoder { items: ItemDecoder::new(), info, kind: PhantomData }
    }

    /// The same decoder with another limit on the size of an item
    /// ([`DEFAULT_MAX_ITEM_BYTES`](super::DEFAULT_MAX_ITEM_BYTES)). It holds for the list's metadata too.
    pub fn max_item_bytes(mut self, limit: usize) -> Self {
        self.items.feed.limit = limit;
        self
    }

    /// Takes the next bytes of the list.
    pub fn push(&mut self, chunk: Bytes) {
        self.items.feed.push(chunk);
    }

    /// The next item, if all of it is there.
    pub fn next_item(&mut self) -> Result<Option<Obj<K>>, StreamError> {
        let Some((header, piece)) = self.items.next_item(self.info.kind())? else {
            return Ok(None);
        };
        let Piece { bytes, offset } = piece;
        Obj::from_parts(&self.info, header, bytes)
            .map(Some)
            .map_err(|source| StreamError::Object { offset, source: source.of_kind(self.info.kind()) })
    }

    /// The list's own metadata, once the stream has ended.
    pub fn finish(self) -> Result<ListMeta, StreamError> {
        self.items.finish()
    }
}

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

/// The part of the decoder that does not depend on the type of the items.
#[derive(Debug)]
struct ItemDecoder {
    feed: Feed,
    state: State,
    /// How many items have been passed.
    count: usize,
    has_items: bool,
    has_metadata: bool,
    meta: ListMeta,
}

impl ItemDecoder {
    fn new() -> Self {
        ItemDecoder {
            feed: Feed::new(super::DEFAULT_MAX_ITEM_BYTES),
            state: State::Start,
            count: 0,
            has_items: false,
            has_metadata: false,
            meta: ListMeta {
                kind: String::new(),
                api_version: String::new(),
                resource_version: ResourceVersion::new(""),
                continue_token: String::new(),
                remaining_item_count: None,
            },
        }
    }

    fn next_item(&mut self, kind: &str) -> Result<Option<(Header, Piece)>, StreamError> {
        match self.step() {
            Ok(None) => Ok(None),
            Ok(Some(piece)) => {
                let index = self.count;
                self.count += 1;
                match Header::from_json(&piece.bytes) {
                    Ok(header) => Ok(Some((header, piece))),
                    Err(source) => Err(object_error(source, &piece, index, kind)),
                }
            }
            Err(error) => {
                self.feed.give_up();
                Err(error)
            }
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
            .map_err(|source| StreamError::Malformed { source: source.within(value.offset, member.path()) })
    }

    #[cold]
    fn duplicate(&self, path: &str) -> StreamError {
        let source = JsonError::new(self.feed.offset(), path.into(), JsonFault::DuplicateMember);
        StreamError::Malformed { source }
    }

    fn finish(mut self) -> Result<ListMeta, StreamError> {
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
fn object_error(source: DecodeError, piece: &Piece, index: usize, kind: &str) -> StreamError {
    let source = source.of_kind(kind).within(piece.offset, &item_path(index));
    StreamError::Object { offset: piece.offset, source }
}

fn member_of(name: &Piece) -> Result<Member, StreamError> {
    let name = Scanner::new(&name.bytes)
        .and_then(|mut scanner| scanner.string())
        .map_err(|source| StreamError::Malformed { source: source.within(name.offset, "") })?;
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
