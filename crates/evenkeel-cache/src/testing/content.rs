//! [`Content`]: the objects and history of a [`FakeSource`](super::FakeSource), without locks and tasks.

use std::collections::{BTreeMap, VecDeque};

use evenkeel_core::{ObjectKey, ResourceVersion, Status, Untyped, WatchEvent};

use crate::Object;
use crate::source::WatchRequest;

/// Number of changes kept for watches that start in the past.
const HISTORY: usize = 10_000;

/// Objects, their current version, and the changes that led to it.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// By key and uid: an object that is created again is another one.
    objects: BTreeMap<(ObjectKey, Box<str>), Object>,
    version: u64,
    history: VecDeque<(u64, WatchEvent<Untyped>)>,
}

impl Content {
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn resource_version(&self) -> ResourceVersion {
        ResourceVersion::new(&self.version.to_string())
    }

    pub(super) fn objects(&self) -> Vec<Object> {
        self.objects.values().cloned().collect()
    }

    /// Applies a change. The object has the next version already.
    pub(super) fn change(&mut self, event: fn(Object) -> WatchEvent<Untyped>, object: Object) -> WatchEvent<Untyped> {
        self.version += 1;
        let id = (object.key().clone(), Box::from(object.uid()));
        let event = event(object.clone());
        match event {
            WatchEvent::Deleted(_) => drop(self.objects.remove(&id)),
            _ => drop(self.objects.insert(id, object)),
        }
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back((self.version, event.clone()));
        event
    }

    pub(super) fn forget_history(&mut self) {
        self.history.clear();
    }

    /// Returns the events that a watch receives before the live ones.
    pub(super) fn replay(
        &self,
        request: &WatchRequest,
        watch_list: bool,
    ) -> Result<VecDeque<WatchEvent<Untyped>>, Status> {
        let text = &*request.resource_version;
        if request.initial_events && watch_list {
            let wanted = if text.is_empty() { 0 } else { parse(text)? };
            return if wanted > self.version {
                Err(Status::too_large_resource_version(wanted, self.version))
            } else {
                Ok(self.everything())
            };
        }
        let wanted = parse(text)?;
        if wanted == self.version {
            return Ok(VecDeque::new());
        }
        if wanted > self.version {
            return Err(Status::too_large_resource_version(wanted, self.version));
        }
        // A change is only known to be the next one after `wanted` if the one before it is known as well.
        match self.history.front() {
            Some((oldest, _)) if wanted >= *oldest => {
                let later = self.history.iter().filter(|(version, _)| *version > wanted);
                Ok(later.map(|(_, event)| event.clone()).collect())
            }
            _ => Err(Status::expired(format!("too old resource version: {wanted} ({})", self.version))),
        }
    }

    /// Returns all objects and the bookmark that ends the initial events.
    fn everything(&self) -> VecDeque<WatchEvent<Untyped>> {
        let end = WatchEvent::Bookmark { resource_version: self.resource_version(), initial_events_end: true };
        self.objects.values().cloned().map(WatchEvent::Added).chain([end]).collect()
    }
}

fn parse(version: &str) -> Result<u64, Status> {
    version.parse().map_err(|_| Status::bad_request(format!("invalid resource version: {version:?}")))
}
