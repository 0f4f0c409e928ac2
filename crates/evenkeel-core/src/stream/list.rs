//! [`ListDecoder`]: a list, item by item, while it is still coming in.

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;

use super::error::StreamError;
use crate::codec::{Codec, ItemDecoder, Json};
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
    items: Box<dyn ItemDecoder>,
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

impl ListMeta {
    /// That of a list that says nothing.
    pub(crate) fn empty() -> Self {
        ListMeta {
            kind: String::new(),
            api_version: String::new(),
            resource_version: ResourceVersion::new(""),
            continue_token: String::new(),
            remaining_item_count: None,
        }
    }
}

impl<K> ListDecoder<K> {
    /// A decoder for a JSON list of this kind, which its items need not state.
    pub fn new(info: Arc<ResourceInfo>) -> Self {
        Self::with_codec(&Json, info)
    }

    /// A decoder for a list of this kind in another form.
    pub fn with_codec(codec: &dyn Codec, info: Arc<ResourceInfo>) -> Self {
        ListDecoder { items: codec.items(), info, kind: PhantomData }
    }

    /// The same decoder with another limit on the size of an item
    /// ([`DEFAULT_MAX_ITEM_BYTES`](super::DEFAULT_MAX_ITEM_BYTES)). It holds for the list's metadata too.
    pub fn max_item_bytes(mut self, limit: usize) -> Self {
        self.items.set_limit(limit);
        self
    }

    /// Takes the next bytes of the list.
    pub fn push(&mut self, chunk: Bytes) {
        self.items.push(chunk);
    }

    /// The next item, if all of it is there.
    pub fn next_item(&mut self) -> Result<Option<Obj<K>>, StreamError> {
        let item = self.items.next_item(self.info.kind())?;
        Ok(item.map(|parsed| Obj::new(&self.info, parsed)))
    }

    /// The list's own metadata, once the stream has ended.
    pub fn finish(self) -> Result<ListMeta, StreamError> {
        self.items.finish()
    }
}
