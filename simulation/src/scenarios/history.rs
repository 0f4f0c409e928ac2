//! [`HandlerHistory`]: checks the notifications of a handler against those before (INV-2, INV-4).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel::cache::{Deleted, Event};
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;
use evenkeel_sim::Process;

/// The state of an object that a handler has received last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delivered {
    pub(super) uid: String,
    pub(super) version: u64,
}

impl Delivered {
    pub(super) fn of(object: &Obj<ConfigMap>) -> Self {
        Delivered { uid: object.uid().to_owned(), version: object.resource_version().parse().unwrap_or_default() }
    }
}

/// The last notification about each object, in one life of a process.
#[derive(Clone, Debug)]
pub(super) struct HandlerHistory {
    process: Process,
    delivered: Arc<Mutex<BTreeMap<String, Delivered>>>,
}

impl HandlerHistory {
    pub(super) fn new(process: &Process) -> Self {
        HandlerHistory { process: process.clone(), delivered: Arc::default() }
    }

    /// Returns the objects that exist as far as the handler knows.
    pub(super) fn delivered(&self) -> BTreeMap<String, Delivered> {
        self.delivered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks a notification, and remembers it.
    pub(super) fn observe(&self, event: &Event<ConfigMap>) {
        let key = event.key().to_string();
        let mut delivered = self.delivered.lock().unwrap_or_else(PoisonError::into_inner);
        let known = delivered.get(&key).cloned();
        if let Some(object) = event.object() {
            self.check_time(&key, known.as_ref(), &Delivered::of(object));
        }
        match event {
            Event::Add { object, .. } => {
                if known.is_some() {
                    self.illegal(format!("{key} is added twice"));
                }
                delivered.insert(key, Delivered::of(object));
            }
            Event::Update { old, new } => {
                if known.as_ref() != Some(&Delivered::of(old)) {
                    self.illegal(format!("the old {key} is {:?}, and {known:?} was delivered", Delivered::of(old)));
                }
                delivered.insert(key, Delivered::of(new));
            }
            Event::Delete(deleted) => {
                self.check_deletion(&key, known.as_ref(), deleted);
                delivered.remove(&key);
            }
        }
    }

    /// A deletion is about the object that was delivered: a tombstone has its last known state, and others the version of the deletion.
    fn check_deletion(&self, key: &str, known: Option<&Delivered>, deleted: &Deleted<ConfigMap>) {
        let Some(known) = known else { return self.illegal(format!("{key} is deleted and was not added")) };
        let Some(last) = deleted.object().map(Delivered::of) else { return };
        if last.uid != known.uid || (deleted.is_final_state_unknown() && last != *known) {
            self.illegal(format!("the deleted {key} is {last:?}, and {known:?} was delivered"));
        }
    }

    fn check_time(&self, key: &str, known: Option<&Delivered>, told: &Delivered) {
        if let Some(known) = known.filter(|known| known.version > told.version) {
            let (from, to) = (known.version, told.version);
            self.process.fail("no time travel", format!("{key} goes back from {from} to {to}"));
        }
    }

    fn illegal(&self, message: String) {
        self.process.fail("legal handler history", message);
    }
}
