//! Helpers for tests of the delta queues.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_core::{ObjectKey, ResourceInfo, ResourceVersion, Untyped};

use super::{Batch, Delta, DeltaFifo, DeltaQueue, OrderedQueue, StoreView};
use crate::compat::Fifo;
use crate::reflector::{DeltaSink, SinkError};
use crate::{Deleted, Object, Store};

/// Returns the object for a text such as `foo@5`.
pub(crate) fn object(text: &str) -> Object {
    let (name, version) = text.split_once('@').unwrap();
    let info = Arc::new(ResourceInfo::new("", "v1", "Thing", "things", false));
    let json = format!(r#"{{"metadata":{{"name":"{name}","uid":"uid-{name}","resourceVersion":"{version}"}}}}"#);
    Object::from_json(&info, json).unwrap()
}

pub(crate) fn objects(texts: &[&str]) -> Vec<Object> {
    texts.iter().map(|text| object(text)).collect()
}

pub(crate) fn version(text: &str) -> ResourceVersion {
    ResourceVersion::new(text)
}

/// Returns an observed deletion.
pub(crate) fn observed(text: &str) -> Deleted<Untyped> {
    object(text).into()
}

/// Returns a tombstone with this last known state.
pub(crate) fn missed(text: &str) -> Deleted<Untyped> {
    let object = object(text);
    Deleted::Missed { key: object.key().clone(), last_known: Some(object) }
}

/// Returns the text of a delta: `Added foo@5`, `Missed foo@5`, `Missed foo` if nothing is known of it, `ReplacedAll[a@1 b@2]@7`, ….
pub(crate) fn text(delta: &Delta) -> String {
    let at = |object: &Object| format!("{}@{}", object.key(), object.resource_version());
    match delta {
        Delta::Added(object) => format!("Added {}", at(object)),
        Delta::Updated(object) => format!("Updated {}", at(object)),
        Delta::Replaced(object) => format!("Replaced {}", at(object)),
        Delta::Sync(object) => format!("Sync {}", at(object)),
        Delta::Deleted(Deleted::Observed(object)) => format!("Deleted {}", at(object)),
        Delta::Deleted(Deleted::Missed { last_known: Some(object), .. }) => format!("Missed {}", at(object)),
        Delta::Deleted(Deleted::Missed { key, last_known: None }) => format!("Missed {key}"),
        Delta::Deleted(Deleted::OutOfScope { object }) => format!("OutOfScope {}", at(object)),
        Delta::Deleted(Deleted::Moved { object }) => format!("Moved {}", at(object)),
        Delta::ReplacedAll { objects, resource_version } => {
            format!("ReplacedAll[{}]@{resource_version}", objects.iter().map(at).collect::<Vec<_>>().join(" "))
        }
        Delta::SyncAll => "SyncAll".into(),
        Delta::Bookmark(version) => format!("Bookmark {version}"),
    }
}

pub(crate) fn texts(batch: &Batch) -> Vec<String> {
    batch.deltas.iter().map(text).collect()
}

/// Returns the next batch, processed.
pub(crate) fn take(queue: &mut impl TestQueue, limit: usize) -> Option<Vec<String>> {
    let batch = queue.pop(limit)?;
    queue.processed(batch.count);
    Some(texts(&batch))
}

/// Returns all batches until the queue is empty, one by one.
pub(crate) fn drain(queue: &mut impl TestQueue) -> Vec<Vec<String>> {
    std::iter::from_fn(|| take(queue, 1)).collect()
}

/// The queues, with one method for each delta.
pub(crate) trait TestQueue {
    fn push(&mut self, delta: Delta, store: &StoreView<'_>);
    fn pop(&mut self, limit: usize) -> Option<Batch>;
    fn processed(&mut self, count: usize);
    fn has_synced(&self) -> bool;
    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn push_known(&mut self, delta: Delta, known: &Known) {
        self.push(delta, &StoreView::new(known.store().table(), None));
    }

    fn add(&mut self, object: Object) {
        self.push_known(Delta::Added(object), &Known::default());
    }

    fn update(&mut self, object: Object) {
        self.push_known(Delta::Updated(object), &Known::default());
    }

    fn delete(&mut self, deleted: Deleted<Untyped>, known: &Known) {
        self.push_known(Delta::Deleted(deleted), known);
    }

    fn replace(&mut self, objects: Vec<Object>, resource_version: ResourceVersion, known: &Known) {
        self.push_known(Delta::ReplacedAll { objects, resource_version }, known);
    }

    fn resync(&mut self, known: &Known) {
        self.push_known(Delta::SyncAll, known);
    }

    fn bookmark(&mut self, version: ResourceVersion) {
        self.push_known(Delta::Bookmark(version), &Known::default());
    }
}

macro_rules! test_queue {
    ($($queue:ty, $push:ident;)*) => {$(
        impl TestQueue for $queue {
            fn push(&mut self, delta: Delta, store: &StoreView<'_>) {
                <$queue>::$push(self, delta, store);
            }

            fn pop(&mut self, limit: usize) -> Option<Batch> {
                <$queue>::pop(self, limit)
            }

            fn processed(&mut self, count: usize) {
                <$queue>::processed(self, count);
            }

            fn has_synced(&self) -> bool {
                <$queue>::has_synced(self)
            }

            fn len(&self) -> usize {
                <$queue>::len(self)
            }
        }
    )*};
}

test_queue! { DeltaQueue, push_over; OrderedQueue, push; DeltaFifo, push; Fifo, push; }

/// A sink, with one method for each delta that a reflector sends.
pub(crate) trait TestSink: DeltaSink {
    fn add(&mut self, object: Object) -> Result<(), SinkError> {
        self.push(Delta::Added(object))
    }

    fn update(&mut self, object: Object) -> Result<(), SinkError> {
        self.push(Delta::Updated(object))
    }

    fn delete(&mut self, object: Object) -> Result<(), SinkError> {
        self.push(Delta::Deleted(object.into()))
    }

    fn replace(&mut self, objects: Vec<Object>, resource_version: ResourceVersion) -> Result<(), SinkError> {
        self.push(Delta::ReplacedAll { objects, resource_version })
    }

    fn resync(&mut self) -> Result<(), SinkError> {
        self.push(Delta::SyncAll)
    }

    fn bookmark(&mut self, version: &ResourceVersion) -> Result<(), SinkError> {
        self.push(Delta::Bookmark(version.clone()))
    }
}

impl<T: DeltaSink + ?Sized> TestSink for T {}

/// The objects of a store, by key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known(pub(crate) BTreeMap<ObjectKey, Object>);

impl Known {
    pub(crate) fn of(texts: &[&str]) -> Self {
        Known(objects(texts).into_iter().map(|object| (object.key().clone(), object)).collect())
    }

    /// Returns a store with these objects. Its keys are ordered, so that a test can predict what leaves a queue.
    pub(crate) fn store(&self) -> Store<Untyped> {
        let store = Store::new([]);
        store.replace(self.0.values().cloned(), ResourceVersion::new("1"));
        store
    }

    /// Applies a delta as an informer does.
    pub(crate) fn apply(&mut self, delta: Delta) {
        match delta {
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) | Delta::Sync(object) => {
                self.0.insert(object.key().clone(), object);
            }
            Delta::Deleted(deleted) => {
                self.0.remove(deleted.key());
            }
            Delta::ReplacedAll { objects, .. } => {
                self.0 = objects.into_iter().map(|object| (object.key().clone(), object)).collect();
            }
            Delta::SyncAll | Delta::Bookmark(_) => {}
        }
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.0.values().map(|object| format!("{}@{}", object.key(), object.resource_version())).collect()
    }
}

/// A store that the producer and the consumer of a channel share.
#[derive(Clone, Debug)]
pub(crate) struct SharedStore(pub(crate) Store<Untyped>);

impl SharedStore {
    pub(crate) fn of(texts: &[&str]) -> Self {
        SharedStore(Known::of(texts).store())
    }

    pub(crate) fn apply(&self, deltas: impl IntoIterator<Item = Delta>) {
        for delta in deltas {
            match delta {
                Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) => {
                    self.0.put(object);
                }
                Delta::Deleted(deleted) => {
                    self.0.delete(deleted);
                }
                Delta::ReplacedAll { objects, resource_version } => self.0.replace(objects, resource_version),
                Delta::Bookmark(version) => self.0.bookmark(&version),
                Delta::Sync(_) | Delta::SyncAll => {}
            }
        }
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        let at = |object: &Object| format!("{}@{}", object.key(), object.resource_version());
        let mut texts: Vec<_> = self.0.list().iter().map(at).collect();
        texts.sort();
        texts
    }
}
