//! [`History`]: the notifications of one handler, and whether they are legal.
//!
//! Legal, for each object:
//!
//! - It starts unknown. `Add` makes it known, `Update` needs it known, `Delete` needs it known and makes it unknown again.
//! - The `old` of an `Update` is the state that was delivered last. One exception, with [`Delivery::Latest`]: an object that
//!   was deleted and created again is an `Update` from the object's last state, which differs from the delivered one in the
//!   resource version only, that of the deletion.
//! - Versions never decrease. An `Add` is newer than every delivered state of that name, an observed delete is newer than
//!   the state it ends, and an `Update` in the same version has the same state: a resync, a relist, or a duplicate event.
//!   This holds across relists. Only a restored backup decreases versions, once for each restore.
//! - An `Update` from one uid to another is a delete and an add that were not observed, because of a list or of
//!   [`Delivery::Latest`]; it is newer.
//! - An observed delete has the uid that was delivered last, unless delivery is `Latest`. A missed one has the state that was
//!   delivered last, or with `Latest` a newer one.
//! - An object that moved has the state that was delivered last. It may be added again in that state, or a newer one.
//! - A deleted uid is added again only if it left the selection of the informer and entered it again.
//! - No add is `initial` after the handler has synced.
//! - A removed handler receives nothing.
//!
//! [`History::verify`] checks the rest at the end: that the server had each state, and that each deleted object was deleted.

use std::collections::{HashMap, HashSet};

use evenkeel_cache::{Deleted, Delivery, Event, ObjectKey};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::truth::{Map, Truth, contents, version};

/// Number of violations that are kept.
const MAX_VIOLATIONS: usize = 10;

/// Notifications of one handler.
#[derive(Debug)]
pub(crate) struct History {
    name: String,
    delivery: Delivery,
    known: HashMap<ObjectKey, Known>,
    /// States newer than this are kept and compared with the truth.
    base: u64,
    states: Vec<Map>,
    deletes: Vec<Map>,
    revived: Vec<Map>,
    violations: Vec<String>,
    closed: bool,
    /// Number of events.
    pub(crate) received: u64,
    /// Number of initial events.
    pub(crate) initial: u64,
    /// Number of updates from one uid to another.
    pub(crate) swaps: u64,
    /// Number of observed and of missed deletes.
    pub(crate) deleted: (u64, u64),
    /// Number of objects that left the places of the informer.
    pub(crate) moved: u64,
}

/// Delivered state of one object.
#[derive(Debug, Default)]
struct Known {
    /// The state that was delivered last, unless a delete followed.
    delivered: Option<Map>,
    /// The newest delivered version.
    newest: u64,
    /// The uid of the last delete.
    deleted: Option<String>,
    /// The object was last seen to leave the places of the informer.
    has_moved: bool,
    /// Number of times versions decreased.
    decreases: u32,
}

impl History {
    pub(crate) fn new(name: &str, delivery: Delivery, base: u64) -> Self {
        History {
            name: name.to_owned(),
            delivery,
            known: HashMap::new(),
            base,
            states: Vec::new(),
            deletes: Vec::new(),
            revived: Vec::new(),
            violations: Vec::new(),
            closed: false,
            received: 0,
            initial: 0,
            swaps: 0,
            deleted: (0, 0),
            moved: 0,
        }
    }

    /// Records that the handler was removed.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Records an event; `synced` if the handler had synced before.
    pub(crate) fn record(&mut self, event: &Event<ConfigMap>, synced: bool) {
        self.received += 1;
        if self.closed {
            self.report(event.key(), "was delivered after the handler was removed".into());
        }
        let mut known = match self.known.get_mut(event.key()) {
            Some(known) => std::mem::take(known),
            None => Known::default(),
        };
        match event {
            Event::Add { object, initial } => self.add(&mut known, object, *initial, synced),
            Event::Update { old, new } => self.update(&mut known, old, new),
            Event::Delete(deleted) => self.delete(&mut known, deleted),
        }
        match self.known.get_mut(event.key()) {
            Some(entry) => *entry = known,
            None => {
                self.known.insert(event.key().clone(), known);
            }
        }
    }

    fn add(&mut self, known: &mut Known, object: &Map, initial: bool, synced: bool) {
        self.initial += u64::from(initial);
        if initial && synced {
            self.report(object.key(), "is initial, but the handler had synced".into());
        }
        if let Some(delivered) = &known.delivered {
            self.report(object.key(), format!("was added at {}, but known at {}", state(object), state(delivered)));
        }
        // An object that comes back may not have changed meanwhile.
        let has_moved = std::mem::take(&mut known.has_moved);
        known.advance(object, !has_moved);
        if known.deleted.take().is_some_and(|uid| uid == object.uid()) {
            self.revived.push(object.clone());
        }
        self.deliver(known, object);
    }

    fn update(&mut self, known: &mut Known, old: &Map, new: &Map) {
        let mut is_another = false;
        match &known.delivered {
            None => self.report(new.key(), format!("was updated to {}, but not known", state(new))),
            Some(delivered) if !self.is_known_as(delivered, old) => {
                let text = format!("was updated from {}, but was known at {}", state(old), state(delivered));
                self.report(new.key(), text);
            }
            Some(delivered) if delivered.uid() != new.uid() => {
                self.swaps += 1;
                is_another = true;
            }
            Some(delivered) if version(new) == version(delivered) && !is_same(delivered, new) => {
                self.report(new.key(), format!("has two states at {}", state(new)));
            }
            Some(_) => {}
        }
        known.advance(new, is_another);
        self.deliver(known, new);
    }

    /// Returns `true` if `old` is the state that was delivered last.
    fn is_known_as(&self, delivered: &Map, old: &Map) -> bool {
        if delivered.uid() != old.uid() {
            return false;
        }
        if version(delivered) == version(old) {
            return is_same(delivered, old);
        }
        self.delivery == Delivery::Latest && version(old) > version(delivered) && contents(delivered) == contents(old)
    }

    fn delete(&mut self, known: &mut Known, deleted: &Deleted<ConfigMap>) {
        let key = deleted.key();
        let Some(delivered) = known.delivered.take() else {
            return self.report(key, "was deleted, but not known".into());
        };
        let Some(last) = deleted.object() else {
            return self.report(key, "was deleted without its last state".into());
        };
        if last.key() != key {
            self.report(key, format!("was deleted as {}", last.key()));
        }
        let folds = self.delivery == Delivery::Latest;
        if !folds && last.uid() != delivered.uid() {
            self.report(key, format!("was deleted as {}, but known as {}", state(last), state(&delivered)));
        }
        match deleted {
            Deleted::OutOfScope { .. } => {
                return self.report(key, "left the scope, but the informer has no set".into());
            }
            Deleted::Moved { .. } => {
                self.moved += 1;
                if !folds && !is_same(&delivered, last) {
                    self.report(key, format!("moved at {}, but known at {}", state(last), state(&delivered)));
                }
                known.advance(last, false);
                known.has_moved = true;
                return;
            }
            Deleted::Observed(_) => {
                self.deleted.0 += 1;
                known.advance(last, true);
            }
            Deleted::Missed { .. } => {
                self.deleted.1 += 1;
                if !folds && !is_same(&delivered, last) {
                    self.report(key, format!("was missed at {}, but known at {}", state(last), state(&delivered)));
                }
                known.advance(last, false);
            }
        }
        known.deleted = Some(last.uid().to_owned());
        self.deletes.push(last.clone());
    }

    fn deliver(&mut self, known: &mut Known, object: &Map) {
        if version(object) > self.base
            && known.delivered.as_ref().is_none_or(|delivered| version(delivered) != version(object))
        {
            self.states.push(object.clone());
        }
        known.delivered = Some(object.clone());
    }

    fn report(&mut self, key: &ObjectKey, text: String) {
        if self.violations.len() < MAX_VIOLATIONS {
            self.violations.push(format!("{}: {key} {text}", self.name));
        }
    }

    /// Returns the differences between the delivered objects and the existing ones.
    pub(crate) fn difference(&self, existing: &[Map]) -> Vec<String> {
        let mut difference = Vec::new();
        let mut right = 0;
        for object in existing {
            match self.known.get(object.key()).and_then(|known| known.delivered.as_ref()) {
                Some(delivered) if delivered.is_same_state_as(object) => right += 1,
                Some(delivered) => {
                    right += 1;
                    difference.push(format!("{} is at {}, not at {}", object.key(), state(object), state(delivered)));
                }
                None => difference.push(format!("{} is at {}, but not known", object.key(), state(object))),
            }
        }
        let known = self.known.iter().filter(|(_, known)| known.delivered.is_some());
        if known.clone().count() != right {
            let existing: HashSet<&ObjectKey> = existing.iter().map(|object| object.key()).collect();
            let deleted = known.filter(|(key, _)| !existing.contains(key));
            difference.extend(deleted.map(|(key, _)| format!("{key} was deleted, but is known")));
        }
        difference.truncate(MAX_VIOLATIONS);
        difference
    }

    /// Returns `true` if delivery is `Latest`.
    pub(crate) fn is_folding(&self) -> bool {
        self.delivery == Delivery::Latest
    }

    /// Returns the violations so far.
    pub(crate) fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Compares the history with the states of the server, and returns all violations.
    pub(crate) fn verify(mut self, truth: &Truth) -> Vec<String> {
        for object in std::mem::take(&mut self.states) {
            if let Err(problem) = truth.check_state(&object) {
                self.report(object.key(), problem);
            }
        }
        for object in std::mem::take(&mut self.deletes) {
            if !truth.has_gone(object.uid()) {
                self.report(object.key(), format!("was delivered as deleted at {}, but never was", state(&object)));
            }
        }
        for object in std::mem::take(&mut self.revived) {
            if !truth.has_left(object.uid()) {
                self.report(object.key(), format!("was deleted, and added again as {}", state(&object)));
            }
        }
        let allowed = truth.backups();
        let decreased: Vec<_> =
            self.known.iter().filter(|(_, known)| known.decreases > allowed).map(|(key, _)| key.clone()).collect();
        for key in decreased {
            self.report(&key, format!("decreased in version more than {allowed} times"));
        }
        self.violations
    }
}

impl Known {
    /// Advances to the version of this object, which must be newer, or at least not older.
    fn advance(&mut self, object: &Map, newer: bool) {
        let version = version(object);
        let is_legal = if newer { version > self.newest } else { version >= self.newest };
        self.decreases += u32::from(!is_legal);
        self.newest = version;
    }
}

/// Returns `true` if both are the same object in the same state.
fn is_same(one: &Map, other: &Map) -> bool {
    // A handle of the same object needs no unpacking.
    std::ptr::eq(one.header(), other.header()) || (one.is_same_state_as(other) && contents(one) == contents(other))
}

fn state(object: &Map) -> String {
    format!("{}@{}", object.uid(), object.resource_version())
}
