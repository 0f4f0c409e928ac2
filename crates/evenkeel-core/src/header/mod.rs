//! [`Header`]: the metadata of an object that informers need, read without decoding the rest.

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

/// The part of an object's metadata that informers and controllers use: identity, version, labels, owners and finalizers.
///
/// A header is read from the encoded object; payload, annotations and managed fields are skipped. Headers are compact, as caches hold
/// hundreds of thousands: a key is inline unless it is long, and what many objects have in common, such as the labels and the owner
/// of the pods of one workload, is stored once.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_core::{Obj, ResourceInfo};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let json = r#"{"metadata": {"namespace": "ns", "name": "web-0", "labels": {"app": "web"}}, "spec": {"containers": []}}"#;
/// let pod = Obj::<Pod>::from_json(&Arc::new(ResourceInfo::of::<Pod>()), json)?;
/// assert_eq!(pod.header().key().as_str(), "ns/web-0");
/// assert_eq!(pod.label("app"), Some("web"));
/// # Ok::<(), evenkeel_core::DecodeError>(())
/// ```
// The order of the fields is that in memory: a lookup touches the reference count and the key.
#[derive(Clone)]
#[repr(C)]
pub struct Header {
    key: ObjectKey,
    /// The texts that no other object has, concatenated: uid, resource version, creation and deletion timestamp, generation.
    own: Box<str>,
    /// The ends of the first four. An empty text is absent.
    ends: [u32; 4],
    shared: Arc<SharedHeader>,
}

/// The part of a header that objects share.
#[derive(PartialEq, Eq)]
pub(crate) struct SharedHeader {
    /// All texts, concatenated; the spans point into it.
    texts: Box<str>,
    api_version: Span,
    kind: Span,
    /// Sorted by key.
    labels: Box<[(Span, Span)]>,
    finalizers: Box<[Span]>,
    owners: Box<[OwnerSpans]>,
}

impl SharedHeader {
    /// Returns a hash that is equal for equal headers.
    pub(crate) fn hash(&self) -> u64 {
        let counts = [self.labels.len(), self.finalizers.len(), self.owners.len()];
        counts.iter().fold(rapidhash_v3(self.texts.as_bytes()), |hash, count| hash.rotate_left(7) ^ *count as u64)
    }
}

/// A range of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Span {
    start: u32,
    /// `ABSENT` for an absent text.
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
    /// The owner's name. The owner is in the same namespace, or cluster-scoped.
    pub name: &'a str,
    /// The owner's uid.
    pub uid: &'a str,
    /// Whether this owner controls the object.
    pub controller: bool,
    /// Whether the owner must not be deleted before the object.
    pub block_owner_deletion: bool,
}

impl Header {
    /// The members of an object that the header contains, besides metadata.
    pub(crate) const MEMBERS: &[&str] = &["apiVersion", "kind"];

    /// The members of metadata that the header contains.
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

    /// Returns an error unless the header has a name.
    pub(crate) fn named(self) -> Result<Self, DecodeError> {
        // Only a key that is empty or ends in a slash can have an empty name.
        if matches!(self.key.as_bytes().last(), None | Some(b'/')) && self.key.name().is_empty() {
            return Err(DecodeError::NoName { kind: self.kind().map(Into::into) });
        }
        Ok(self)
    }

    /// Returns the API version, if the object states it; items of typed lists do not.
    pub fn api_version(&self) -> Option<&str> {
        self.shared.api_version.of(&self.shared.texts)
    }

    /// Returns the kind, if the object states it; items of typed lists do not.
    pub fn kind(&self) -> Option<&str> {
        self.shared.kind.of(&self.shared.texts)
    }

    /// Returns namespace and name.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Returns the uid; empty before the object is created.
    pub fn uid(&self) -> &str {
        self.own(0)
    }

    /// Returns the resource version as text; empty before the object is created.
    pub fn resource_version(&self) -> &str {
        self.own(1)
    }

    /// Returns the resource version as a value to compare and keep.
    pub fn version(&self) -> ResourceVersion {
        ResourceVersion::new(self.resource_version())
    }

    /// Returns the generation of the desired state, for kinds that count it.
    pub fn generation(&self) -> Option<i64> {
        self.own(4).parse().ok()
    }

    /// Returns the creation time, as the server sent it.
    pub fn creation_timestamp(&self) -> Option<&str> {
        Some(self.own(2)).filter(|time| !time.is_empty())
    }

    /// Returns the time of the delete request, as the server sent it; `None` unless the object is being deleted.
    pub fn deletion_timestamp(&self) -> Option<&str> {
        Some(self.own(3)).filter(|time| !time.is_empty())
    }

    /// Returns the value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let SharedHeader { texts, labels, .. } = &*self.shared;
        let found = labels.binary_search_by(|(name, _)| name.of(texts).unwrap_or_default().cmp(key)).ok()?;
        labels.get(found)?.1.of(texts)
    }

    /// Returns all labels, sorted by key.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        let text = |span: Span| span.of(&self.shared.texts).unwrap_or_default();
        self.shared.labels.iter().map(move |(key, value)| (text(*key), text(*value)))
    }

    /// Returns the finalizers, in order.
    pub fn finalizers(&self) -> impl ExactSizeIterator<Item = &str> {
        self.shared.finalizers.iter().map(|span| span.of(&self.shared.texts).unwrap_or_default())
    }

    /// Returns the owners, in order.
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

    /// Returns the owner that controls the object.
    pub fn controller(&self) -> Option<OwnerRef<'_>> {
        self.owner_references().find(|owner| owner.controller)
    }

    /// Returns one of the texts that no other object has.
    fn own(&self, which: usize) -> &str {
        let end = |of: usize| self.ends.get(of).map_or(self.own.len(), |end| *end as usize);
        let start = which.checked_sub(1).map_or(0, end);
        self.own.get(start..end(which)).unwrap_or_default()
    }

    /// Returns all texts that no other object has, concatenated.
    pub(crate) fn own_texts(&self) -> &str {
        &self.own
    }

    /// Returns the part that other objects may share.
    pub(crate) fn shared(&self) -> &Arc<SharedHeader> {
        &self.shared
    }

    /// Replaces the shared part by an equal one.
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
