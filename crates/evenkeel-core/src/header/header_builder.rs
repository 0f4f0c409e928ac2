//! [`HeaderBuilder`]: builds a header from any format.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::{Arc, Weak};

use super::{ABSENT, Header, OwnerSpans, SharedHeader, Span};
use crate::key::ObjectKey;

/// Builds a [`Header`]. It borrows the texts that no other object has until [`finish`](Self::finish).
pub(crate) struct HeaderBuilder<'a> {
    pub(crate) name: Option<Cow<'a, str>>,
    pub(crate) namespace: Option<Cow<'a, str>>,
    pub(crate) uid: Option<Cow<'a, str>>,
    pub(crate) resource_version: Option<Cow<'a, str>>,
    pub(crate) creation_timestamp: Option<Cow<'a, str>>,
    pub(crate) deletion_timestamp: Option<Cow<'a, str>>,
    pub(crate) generation: Option<i64>,
    texts: String,
    api_version: Span,
    kind: Span,
    labels: Vec<(Span, Span)>,
    finalizers: Vec<Span>,
    owners: Vec<OwnerSpans>,
    /// The shared part of the header before this one.
    last: Weak<SharedHeader>,
}

/// What one builder leaves to the next one on its thread: empty buffers, and the last shared header. Siblings arrive in a row, so
/// most headers need no allocation for what they share.
#[derive(Default)]
struct SpareBuffers {
    texts: String,
    labels: Vec<(Span, Span)>,
    finalizers: Vec<Span>,
    owners: Vec<OwnerSpans>,
    last: Weak<SharedHeader>,
}

/// Larger buffers are not kept.
const MAX_KEPT_TEXTS: usize = 16 << 10;
const MAX_KEPT_SPANS: usize = 256;

thread_local! {
    static SPARE: RefCell<SpareBuffers> = RefCell::default();
}

/// Builds an owner reference.
#[derive(Default)]
pub(crate) struct OwnerBuilder<'a> {
    pub(crate) api_version: Option<Cow<'a, str>>,
    pub(crate) kind: Option<Cow<'a, str>>,
    pub(crate) name: Option<Cow<'a, str>>,
    pub(crate) uid: Option<Cow<'a, str>>,
    pub(crate) controller: Option<bool>,
    pub(crate) block_owner_deletion: Option<bool>,
}

/// Two labels have the same key.
#[derive(Debug)]
pub(crate) struct DuplicateLabel;

impl Default for HeaderBuilder<'_> {
    fn default() -> Self {
        let spare = SPARE.try_with(|spare| std::mem::take(&mut *spare.borrow_mut())).unwrap_or_default();
        HeaderBuilder {
            name: None,
            namespace: None,
            uid: None,
            resource_version: None,
            creation_timestamp: None,
            deletion_timestamp: None,
            generation: None,
            texts: spare.texts,
            api_version: Span::NONE,
            kind: Span::NONE,
            labels: spare.labels,
            finalizers: spare.finalizers,
            owners: spare.owners,
            last: spare.last,
        }
    }
}

impl HeaderBuilder<'_> {
    pub(crate) fn finish(self) -> Header {
        let own = [&self.uid, &self.resource_version, &self.creation_timestamp, &self.deletion_timestamp];
        let [uid, version, created, deleted] = own.map(|text| text.as_deref().unwrap_or_default());
        let mut digits = itoa::Buffer::new();
        let generation = self.generation.map_or("", |generation| digits.format(generation));
        let own = [uid, version, created, deleted, generation];
        let mut ends = [0; 4];
        let mut end = 0;
        for (slot, text) in ends.iter_mut().zip(own) {
            end += text.len();
            // Decoders limit objects far below 4 GiB.
            *slot = u32::try_from(end).unwrap_or(ABSENT);
        }
        let header = Header {
            key: ObjectKey::new(self.namespace.as_deref(), self.name.as_deref().unwrap_or_default()),
            own: own.concat().into_boxed_str(),
            ends,
            shared: self.shared(),
        };
        self.leave_buffers(&header.shared);
        header
    }

    /// Returns the part that objects share, which may be that of the object before.
    fn shared(&self) -> Arc<SharedHeader> {
        let is_equal = |last: &Arc<SharedHeader>| {
            *last.texts == *self.texts
                && last.api_version == self.api_version
                && last.kind == self.kind
                && *last.labels == *self.labels
                && *last.finalizers == *self.finalizers
                && *last.owners == *self.owners
        };
        self.last.upgrade().filter(is_equal).unwrap_or_else(|| {
            Arc::new(SharedHeader {
                texts: self.texts.as_str().into(),
                api_version: self.api_version,
                kind: self.kind,
                labels: self.labels.as_slice().into(),
                finalizers: self.finalizers.as_slice().into(),
                owners: self.owners.as_slice().into(),
            })
        })
    }

    /// Leaves the buffers to the next builder.
    fn leave_buffers(mut self, shared: &Arc<SharedHeader>) {
        let spans = self.labels.capacity().max(self.finalizers.capacity()).max(self.owners.capacity());
        if self.texts.capacity() > MAX_KEPT_TEXTS || spans > MAX_KEPT_SPANS {
            return;
        }
        self.texts.clear();
        self.labels.clear();
        self.finalizers.clear();
        self.owners.clear();
        let HeaderBuilder { texts, labels, finalizers, owners, .. } = self;
        let spare = SpareBuffers { texts, labels, finalizers, owners, last: Arc::downgrade(shared) };
        // While the thread ends there is no next builder.
        let _ = SPARE.try_with(|kept| *kept.borrow_mut() = spare);
    }

    pub(crate) fn has_api_version(&self) -> bool {
        self.api_version.length != ABSENT
    }

    pub(crate) fn has_kind(&self) -> bool {
        self.kind.length != ABSENT
    }

    pub(crate) fn set_api_version(&mut self, text: &str) {
        self.api_version = self.keep(text);
    }

    pub(crate) fn set_kind(&mut self, text: &str) {
        self.kind = self.keep(text);
    }

    pub(crate) fn add_label(&mut self, key: &str, value: &str) {
        let label = (self.keep(key), self.keep(value));
        self.labels.push(label);
    }

    pub(crate) fn add_finalizer(&mut self, text: &str) {
        let text = self.keep(text);
        self.finalizers.push(text);
    }

    pub(crate) fn add_owner(&mut self, owner: &OwnerBuilder<'_>) {
        let mut keep = |text: &Option<Cow<'_, str>>| text.as_deref().map_or(Span::NONE, |text| self.keep(text));
        let owner = OwnerSpans {
            api_version: keep(&owner.api_version),
            kind: keep(&owner.kind),
            name: keep(&owner.name),
            uid: keep(&owner.uid),
            controller: owner.controller,
            block_owner_deletion: owner.block_owner_deletion,
        };
        self.owners.push(owner);
    }

    /// Sorts the labels, once all are added.
    pub(crate) fn sort_labels(&mut self) -> Result<(), DuplicateLabel> {
        let texts = self.texts.as_str();
        self.labels.sort_by(|(a, _), (b, _)| a.of(texts).cmp(&b.of(texts)));
        let twice = |pair: &[(Span, Span)]| matches!(pair, [(a, _), (b, _)] if a.of(texts) == b.of(texts));
        if self.labels.windows(2).any(twice) { Err(DuplicateLabel) } else { Ok(()) }
    }

    /// Removes all but the last of equal labels, which must be sorted.
    pub(crate) fn keep_last_labels(&mut self) {
        let texts = self.texts.as_str();
        self.labels.reverse();
        self.labels.dedup_by(|(a, _), (b, _)| a.of(texts) == b.of(texts));
        self.labels.reverse();
    }

    fn keep(&mut self, text: &str) -> Span {
        // As above; a text that does not fit is absent.
        let (Ok(start), Ok(length)) = (u32::try_from(self.texts.len()), u32::try_from(text.len())) else {
            return Span::NONE;
        };
        self.texts.push_str(text);
        Span { start, length }
    }
}
