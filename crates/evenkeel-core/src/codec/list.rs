//! [`ListDecoder`]: the items of a list, decoded while the response body arrives.

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;

use super::json::JsonListDecoder;
use super::protobuf::ProtobufListDecoder;
use super::{Codec, ParsedObject};
use crate::error::StreamError;
use crate::obj::Obj;
use crate::protobuf::Message;
use crate::resource::ResourceInfo;
use crate::stream::ListMeta;

/// The default limit on one item of a list and one event of a watch: 32 MiB. Servers accept objects of at most 3 MiB.
pub const DEFAULT_MAX_ITEM_BYTES: usize = 32 << 20;

/// The maximal number of characters of a foreign kind in an error.
pub(super) const MAX_SHOWN: usize = 256;

/// Decodes a list as its bytes arrive, in chunks that may be cut anywhere.
///
/// Push a chunk, then call [`next_item`](Self::next_item) until it returns `None`; at the end of the body call
/// [`finish`](Self::finish) for the list's metadata. The decoder buffers what was pushed and not yet returned, and at most one
/// incomplete item; it never holds the whole list. An item that arrived in one chunk is a slice of it.
///
/// An item that is not an object of the API is an error that is not [fatal](StreamError::is_fatal): decoding continues with the
/// next item. After a fatal error the decoder returns nothing more.
///
/// A list of another kind is a [fatal error](StreamError::OtherKind), as soon as it states its kind and at the latest at its end.
/// A list that states no kind is accepted, as is one of metadata. The kind of a custom resource's list may be any, as its
/// definition names it; the API version must be that of the resource.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_core::codec::{Codec, ListDecoder};
/// use evenkeel_core::ResourceInfo;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let mut decoder = ListDecoder::<Pod>::new(Codec::Json, Arc::new(ResourceInfo::of::<Pod>()));
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
    format: ListFormat,
    info: Arc<ResourceInfo>,
    /// The kind was checked before the first item.
    is_checked: bool,
    kind: PhantomData<fn() -> K>,
}

#[derive(Debug)]
enum ListFormat {
    Json(Box<JsonListDecoder>),
    Protobuf(Box<ProtobufListDecoder>),
}

impl<K> ListDecoder<K> {
    /// Returns a decoder for a list of this kind. Items need not state their kind.
    pub fn new(codec: Codec, info: Arc<ResourceInfo>) -> Self {
        let format = match codec {
            Codec::Json => ListFormat::Json(Box::new(JsonListDecoder::new())),
            Codec::Protobuf => ListFormat::Protobuf(Box::new(ProtobufListDecoder::new())),
        };
        ListDecoder { format, info, is_checked: false, kind: PhantomData }
    }

    /// Sets the limit on the size of an item and of the list's metadata ([`DEFAULT_MAX_ITEM_BYTES`]).
    pub fn max_item_bytes(mut self, limit: usize) -> Self {
        match &mut self.format {
            ListFormat::Json(list) => list.set_limit(limit),
            ListFormat::Protobuf(list) => list.set_limit(limit),
        }
        self
    }

    /// Adds the next bytes of the list.
    pub fn push(&mut self, chunk: Bytes) {
        match &mut self.format {
            ListFormat::Json(list) => list.push(chunk),
            ListFormat::Protobuf(list) => list.push(chunk),
        }
    }

    /// Returns the next item, or `None` until more bytes are pushed.
    pub fn next_item(&mut self) -> Result<Option<Obj<K>>, StreamError> {
        let item: Option<ParsedObject> = match &mut self.format {
            ListFormat::Json(list) => list.next_item(self.info.kind())?,
            ListFormat::Protobuf(list) => list.next_item(self.info.kind())?,
        };
        let Some(item) = item else { return Ok(None) };
        if !self.is_checked {
            self.check_kind()?;
        }
        Ok(Some(Obj::new(&self.info, item)))
    }

    /// Checks the kind before the first item, as far as the list has stated it.
    #[cold]
    fn check_kind(&mut self) -> Result<(), StreamError> {
        self.is_checked = true;
        let meta = match &self.format {
            ListFormat::Json(list) => list.meta(),
            ListFormat::Protobuf(list) => list.meta(),
        };
        let checked = check_kind(meta, &self.info);
        if checked.is_err() {
            match &mut self.format {
                ListFormat::Json(list) => list.close(),
                ListFormat::Protobuf(list) => list.close(),
            }
        }
        checked
    }

    /// Returns the list's metadata, once the stream has ended.
    pub fn finish(self) -> Result<ListMeta, StreamError> {
        let meta = match self.format {
            ListFormat::Json(list) => list.finish(),
            ListFormat::Protobuf(list) => list.finish(),
        }?;
        check_kind(&meta, &self.info)?;
        Ok(meta)
    }
}

/// Checks that a list is of the requested kind, as far as it states its kind.
fn check_kind(meta: &ListMeta, info: &ResourceInfo) -> Result<(), StreamError> {
    let (kind, api_version) = (meta.kind.as_str(), meta.api_version.as_str());
    if kind == "PartialObjectMetadataList" && api_version.starts_with("meta.k8s.io/") {
        return Ok(());
    }
    let is_list_of_kind = kind.strip_suffix("List") == Some(info.kind());
    // The definition of a custom resource may name the kind of its lists.
    let is_kind = kind.is_empty() || is_list_of_kind || Message::of_kind(info.api_version(), info.kind()).is_none();
    if is_kind && (api_version.is_empty() || api_version == info.api_version()) {
        return Ok(());
    }
    Err(StreamError::OtherKind {
        expected: format!("{} {}List", info.api_version(), info.kind()),
        found: format!("{api_version} {kind}").escape_debug().take(MAX_SHOWN).collect(),
    })
}
