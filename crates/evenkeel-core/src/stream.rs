//! The values that lists and watches yield besides objects: [`WatchEvent`] and [`ListMeta`].

use crate::obj::Obj;
use crate::status::Status;
use crate::version::ResourceVersion;

/// One event of a watch.
#[derive(Clone, Debug)]
pub enum WatchEvent<K> {
    /// An object was created, or started to match the selectors of the watch.
    Added(Obj<K>),
    /// An object was updated.
    Modified(Obj<K>),
    /// An object was deleted, or stopped matching the selectors; this is its last state.
    Deleted(Obj<K>),
    /// All changes up to this resource version have been sent.
    Bookmark {
        /// The resource version.
        resource_version: ResourceVersion,
        /// Whether the initial events of a WatchList are complete.
        initial_events_end: bool,
    },
    /// The server ends the watch with this error.
    Error(Box<Status>),
}

impl<K> WatchEvent<K> {
    /// Returns the same event with its object seen as kind `L`. [`Obj::typed`] checks whether the payload fits `L`.
    pub fn cast<L>(self) -> WatchEvent<L> {
        match self {
            WatchEvent::Added(object) => WatchEvent::Added(object.cast()),
            WatchEvent::Modified(object) => WatchEvent::Modified(object.cast()),
            WatchEvent::Deleted(object) => WatchEvent::Deleted(object.cast()),
            WatchEvent::Bookmark { resource_version, initial_events_end } => {
                WatchEvent::Bookmark { resource_version, initial_events_end }
            }
            WatchEvent::Error(status) => WatchEvent::Error(status),
        }
    }
}

/// The metadata of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListMeta {
    /// The kind of the list, such as `PodList`; empty if the list does not state it.
    pub kind: String,
    /// The API version of the list; empty if the list does not state it.
    pub api_version: String,
    /// The resource version of the list.
    pub resource_version: ResourceVersion,
    /// The token of the next page; empty on the last page.
    pub continue_token: String,
    /// An estimate of the number of items on the following pages, if the server sent one.
    pub remaining_item_count: Option<i64>,
    /// The [shard selector](crate::shard::ShardSelector) that the server has filtered the list by, if it tells. Its text may differ
    /// from that of the request. Lists of custom resources and of metadata do not tell.
    pub shard_selector: Option<String>,
}

impl ListMeta {
    pub(crate) fn empty() -> Self {
        ListMeta {
            kind: String::new(),
            api_version: String::new(),
            resource_version: ResourceVersion::new(""),
            continue_token: String::new(),
            remaining_item_count: None,
            shard_selector: None,
        }
    }
}
