//! [`Header`]: what an informer needs to know of every object, read without reading the rest.

mod header_builder;
mod json;
mod protobuf;

use std::fmt;
use std::sync::Arc;

use rapidhash::v3::rapidhash_v3;

use crate::error::DecodeError;
use crate::key::ObjectKey;
use crate::version::ResourceVersion;

pub(crate) use header_builder::HeaderBuilder;
pub(crate) use protobuf::{MetadataField, annotation_in, metadata_of};

/// The identity and the bookkeeping of an object: everything of its metadata that the machinery itself looks at.
///
/// A header is read straight from what the server sent; the payload, annotations and managed fields are skipped, never
/// built. It is made for hundreds of thousands: the key needs no memory of its own unless it is long, and what many objects
/// have in shared, such as the labels and the owner of the pods of one workload, can be held once for all of them.
///
/// ```
/// use evenkeel_core::Header;
///
/// let header = Header::from_json(
///     br#"{"kind": "Pod", "metadata": {"namespace": "ns", "name": "web-0", "labels": {"app": "web"}}, "spec": {}}"#,
/// )?;
/// assert_eq!(header.key().as_str(), "ns/web-0");
/// assert_eq!(header.label("app"), Some("web"));
/// # Ok::<(), evenkeel_core::DecodeError>(())
/// ```
// The order of the fields is that of the memory: looking up an object touches its reference count and its key.
#[derive(Clone)]
#[repr(C)]
pub struct Header {
    key: ObjectKey,
    /// What is this object's alone, end to end: uid, resource version, creation and deletion timestamp.
    own: Box<str>,
    /// Where the first three of them end. What is empty is not there.
    ends: [u32; 3],
    /// `NO_GENERATION` for none.
    generation: i64,
    shared: Arc<SharedHeader>,
}

const NO_GENERATION: i64 = i64::MIN;

/// The part of a header that many objects have in shared.
#[derive(PartialEq, Eq)]
pub(crate) struct SharedHeader {
    /// Every text, end to end; the spans point into it.
    texts: Box<str>,
    api_version: Span,
    kind: Span,
    /// Sorted by key.
    labels: Box<[(Span, Span)]>,
    finalizers: Box<[Span]>,
    owners: Box<[OwnerSpans]>,
}

impl SharedHeader {
    /// The same for all that are equal.
    pub(crate) fn hash(&self) -> u64 {
        let counts = [self.labels.len(), self.finalizers.len(), self.owners.len()];
        counts.iter().fold(rapidhash_v3(self.texts.as_bytes()), |hash, count| hash.rotate_left(7) ^ *count as u64)
    }
}

/// A piece of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Span {
    start: u32,
    /// `ABSENT` for a text that is not there.
    length: u32,
}

const ABSENT: u32 = u32::MAX;

impl Span {
    const NONE: Span = Span { start: 0, length: ABSENT };

    fn of(self, texts: &str) -> Option<&str> {
        if self.length == ABSENT {
            return None;
        }
        let start = self.start as usize;
        texts.get(start..start + self.length as usize)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct OwnerSpans {
    api_version: Span,
    kind: Span,
    name: Span,
    uid: Span,
    controller: Option<bool>,
    block_owner_deletion: Option<bool>,
}

/// One owner of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerRef<'a> {
    /// The owner's API version.
    pub api_version: &'a str,
    /// The owner's kind.
    pub kind: &'a str,
    /// The owner's name; it lives in the same namespace, or in none.
    pub name: &'a str,
    /// The owner's uid.
    pub uid: &'a str,
    /// Whether this owner is the one that controls the object.
    pub controller: bool,
    /// Whether the owner must not go before the object has gone.
    pub block_owner_deletion: bool,
}

impl Header {
    /// The members of an object that a header is read from, beside its metadata.
    pub(crate) const MEMBERS: &[&str] = &["apiVersion", "kind"];

    /// The members of its metadata that a header is read from.
    pub(crate) const METADATA: &[&str] = &[
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "generation",
        "labels",
        "finalizers",
        "ownerReferences",
    ];

    /// The header, if it has a name.
    pub(crate) fn named(self) -> Result<Self, DecodeError> {
        if self.key.name().is_empty() {
            return Err(DecodeError::NoName { kind: self.kind().map(Into::into) });
        }
        Ok(self)
    }

    /// The API version, if the object states it; items of typed lists do not.
    pub fn api_version(&self) -> Option<&str> {
        self.shared.api_version.of(&self.shared.texts)
    }

    /// The kind, if the object states it; items of typed lists do not.
    pub fn kind(&self) -> Option<&str> {
        self.shared.kind.of(&self.shared.texts)
    }

    /// Namespace and name.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The uid; empty if there is none yet.
    pub fn uid(&self) -> &str {
        self.own(0)
    }

    /// The resource version as text; empty if there is none yet.
    pub fn resource_version(&self) -> &str {
        self.own(1)
    }

    /// The resource version as something that can be compared and kept.
    pub fn version(&self) -> ResourceVersion {
        ResourceVersion::new(self.resource_version())
    }

    /// The generation of the desired state, for kinds that count it.
    pub fn generation(&self) -> Option<i64> {
        (self.generation != NO_GENERATION).then_some(self.generation)
    }

    /// When the object was made, as the server wrote it.
    pub fn creation_timestamp(&self) -> Option<&str> {
        Some(self.own(2)).filter(|time| !time.is_empty())
    }

    /// When the object was asked to go, as the server wrote it; `None` while it is to stay.
    pub fn deletion_timestamp(&self) -> Option<&str> {
        Some(self.own(3)).filter(|time| !time.is_empty())
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let SharedHeader { texts, labels, .. } = &*self.shared;
        let found = labels.binary_search_by(|(name, _)| name.of(texts).unwrap_or_default().cmp(key)).ok()?;
        labels.get(found)?.1.of(texts)
    }

    /// All labels, sorted by key.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        let text = |span: Span| span.of(&self.shared.texts).unwrap_or_default();
        self.shared.labels.iter().map(move |(key, value)| (text(*key), text(*value)))
    }

    /// The finalizers, in their order.
    pub fn finalizers(&self) -> impl ExactSizeIterator<Item = &str> {
        self.shared.finalizers.iter().map(|span| span.of(&self.shared.texts).unwrap_or_default())
    }

    /// The owners, in their order.
    pub fn owner_references(&self) -> impl ExactSizeIterator<Item = OwnerRef<'_>> {
        let text = |span: Span| span.of(&self.shared.texts).unwrap_or_default();
        self.shared.owners.iter().map(move |owner| OwnerRef {
            api_version: text(owner.api_version),
            kind: text(owner.kind),
            name: text(owner.name),
            uid: text(owner.uid),
            controller: owner.controller.unwrap_or_default(),
            block_owner_deletion: owner.block_owner_deletion.unwrap_or_default(),
        })
    }

    /// The owner that controls the object.
    pub fn controller(&self) -> Option<OwnerRef<'_>> {
        self.owner_references().find(|owner| owner.controller)
    }

    /// One of the texts that are this object's alone.
    fn own(&self, which: usize) -> &str {
        let end = |of: usize| self.ends.get(of).map_or(self.own.len(), |end| *end as usize);
        let start = which.checked_sub(1).map_or(0, end);
        self.own.get(start..end(which)).unwrap_or_default()
    }

    /// All texts that are this object's alone, as they lie in memory.
    pub(crate) fn own_texts(&self) -> &str {
        &self.own
    }

    /// What it may have in shared with others.
    pub(crate) fn shared(&self) -> &Arc<SharedHeader> {
        &self.shared
    }

    /// Holds what it has in shared with others together with them. The two must be equal.
    pub(crate) fn share(&mut self, shared: &Arc<SharedHeader>) {
        debug_assert!(self.shared == *shared);
        self.shared = Arc::clone(shared);
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Header")
            .field("kind", &self.kind())
            .field("key", &self.key)
            .field("uid", &self.uid())
            .field("resource_version", &self.resource_version())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
