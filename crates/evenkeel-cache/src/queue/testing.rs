//! What the tests of the queues share.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_core::{ObjectKey, ResourceInfo, ResourceVersion, Untyped};

use super::{Batch, Delta, DeltaQueue, KnownObjects};
use crate::{Deleted, Object};

/// The object that a text such as `foo@5` stands for.
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

/// A deletion that a watch told of.
pub(crate) fn observed(text: &str) -> Deleted<Untyped> {
    object(text).into()
}

/// A deletion that was missed, of an object that was last seen like this.
pub(crate) fn missed(text: &str) -> Deleted<Untyped> {
    let object = object(text);
    Deleted::Missed { key: object.key().clone(), last_known: Some(object) }
}

/// What a delta says: `Added foo@5`, `Missed foo@5`, `Missed foo` if nothing is known of it, `ReplacedAll[a@1 b@2]@7`, ….
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

/// The next batch, processed.
pub(crate) fn take(queue: &mut dyn DeltaQueue, limit: usize) -> Option<Vec<String>> {
    let batch = queue.pop(limit)?;
    queue.processed(batch.count);
    Some(texts(&batch))
}

/// What comes out until the queue is empty, one by one.
pub(crate) fn drain(queue: &mut dyn DeltaQueue) -> Vec<Vec<String>> {
    std::iter::from_fn(|| take(queue, 1)).collect()
}

/// A store. Its keys come in order, so that tests can tell what comes out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known(pub(crate) BTreeMap<ObjectKey, Object>);

impl Known {
    pub(crate) fn of(texts: &[&str]) -> Self {
        Known(objects(texts).into_iter().map(|object| (object.key().clone(), object)).collect())
    }

    /// What an informer does with deltas.
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

impl KnownObjects for Known {
    fn get(&self, key: &ObjectKey) -> Option<Object> {
        self.0.get(key).cloned()
    }

    fn keys(&self) -> Vec<ObjectKey> {
        self.0.keys().cloned().collect()
    }
}
