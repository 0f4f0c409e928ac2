//! [`History`]: what one handler was told, and whether that is a history that can be.
//!
//! What is legal, for each object by itself:
//!
//! - It begins unknown. `Add` makes it known, `Update` needs it known, `Delete` needs it known and makes it unknown again.
//! - The `old` of an `Update` is what the handler was told last. There is one exception: to a handler that hears only the
//!   latest, an object that went and came back while it was busy is an `Update` from the object's last state, which differs
//!   from what it was told last in nothing but the resource version, that of the deletion.
//! - Versions never go back. An `Add` is newer than all that was told of the name before, a deletion that was seen is newer
//!   than what it ends, and an `Update` in the same version is of the same object in the same state: a resync, a relist, or
//!   an event that came twice. This holds across relists too: a list is never older than what is known. Only a server that
//!   was put back to a backup takes versions back, once for each time.
//! - An `Update` from one uid to another is a deletion and a creation that were not seen, because a list came in between or
//!   because the handler hears only the latest; it is newer.
//! - A deletion that was seen is of the uid that was told last, unless the handler hears only the latest. One that was
//!   missed comes with what was told last, or for who hears only the latest with something newer.
//! - An uid that was told to be gone comes back only if it left the selection of the informer and entered it again.
//! - `initial` is said of nothing that comes after the handler has been told that it knows everything.
//! - Nothing is told to a handler that was removed.
//!
//! What can only be judged when all is known, that each state was one that the server had and that what was told to be gone
//! did go, is judged at the end: see [`History::verdict`].

use std::collections::{HashMap, HashSet};

use evenkeel_cache::{Deleted, Delivery, Event, ObjectKey};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::truth::{Map, Truth, contents, version};

/// More complaints than this say nothing new.
const COMPLAINTS: usize = 10;

/// What one handler was told.
#[derive(Debug)]
pub(crate) struct History {
    name: String,
    delivery: Delivery,
    known: HashMap<ObjectKey, Known>,
    /// What is newer than this is remembered, to be held against the truth.
    base: u64,
    states: Vec<Map>,
    gone: Vec<Map>,
    revived: Vec<Map>,
    complaints: Vec<String>,
    closed: bool,
    /// How many events came.
    pub(crate) heard: u64,
    /// How many of them were initial.
    pub(crate) initial: u64,
    /// How many updates led from one uid to another.
    pub(crate) swaps: u64,
    /// How many deletions were seen, and how many were missed.
    pub(crate) deleted: (u64, u64),
}

/// What a handler knows of one object.
#[derive(Debug, Default)]
struct Known {
    /// What it was told last, unless it was told since that it is gone.
    told: Option<Map>,
    /// The newest version that it was told of.
    newest: u64,
    /// The uid that it was told to be gone.
    gone: Option<String>,
    /// How many times versions went back.
    back: u32,
}

impl History {
    pub(crate) fn new(name: &str, delivery: Delivery, base: u64) -> Self {
        History {
            name: name.to_owned(),
            delivery,
            known: HashMap::new(),
            base,
            states: Vec::new(),
            gone: Vec::new(),
            revived: Vec::new(),
            complaints: Vec::new(),
            closed: false,
            heard: 0,
            initial: 0,
            swaps: 0,
            deleted: (0, 0),
        }
    }

    /// The handler has been removed.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// An event; `synced` if the handler had been told by then that it knows everything.
    pub(crate) fn hear(&mut self, event: &Event<ConfigMap>, synced: bool) {
        self.heard += 1;
        if self.closed {
            self.complain(event.key(), "was told of after the handler was removed".into());
        }
        // Taken out for as long as it is looked at; the place is kept.
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
            Some(place) => *place = known,
            None => {
                self.known.insert(event.key().clone(), known);
            }
        }
    }

    fn add(&mut self, known: &mut Known, object: &Map, initial: bool, synced: bool) {
        self.initial += u64::from(initial);
        if initial && synced {
            self.complain(object.key(), "is initial, but the handler had been told everything".into());
        }
        if let Some(told) = &known.told {
            self.complain(object.key(), format!("was added at {}, but known at {}", state(object), state(told)));
        }
        known.advance(object, true);
        if known.gone.take().is_some_and(|gone| gone == object.uid()) {
            self.revived.push(object.clone());
        }
        self.tell(known, object);
    }

    fn update(&mut self, known: &mut Known, old: &Map, new: &Map) {
        let mut is_another = false;
        match &known.told {
            None => self.complain(new.key(), format!("was updated to {}, but not known", state(new))),
            Some(told) if !self.is_known_as(told, old) => {
                let text = format!("was updated from {}, but was known at {}", state(old), state(told));
                self.complain(new.key(), text);
            }
            Some(told) if told.uid() != new.uid() => {
                self.swaps += 1;
                is_another = true;
            }
            Some(told) if version(new) == version(told) && !is_same(told, new) => {
                self.complain(new.key(), format!("has two states at {}", state(new)));
            }
            Some(_) => {}
        }
        known.advance(new, is_another);
        self.tell(known, new);
    }

    /// Whether `old` is what the handler was told last.
    fn is_known_as(&self, told: &Map, old: &Map) -> bool {
        if told.uid() != old.uid() {
            return false;
        }
        if version(told) == version(old) {
            return is_same(told, old);
        }
        self.delivery == Delivery::Latest && version(old) > version(told) && contents(told) == contents(old)
    }

    fn delete(&mut self, known: &mut Known, deleted: &Deleted<ConfigMap>) {
        let key = deleted.key();
        let Some(told) = known.told.take() else {
            return self.complain(key, "was deleted, but not known".into());
        };
        let Some(last) = deleted.object() else {
            return self.complain(key, "was deleted, and nothing was said of it".into());
        };
        if last.key() != key {
            self.complain(key, format!("was deleted as {}", last.key()));
        }
        let folds = self.delivery == Delivery::Latest;
        if !folds && last.uid() != told.uid() {
            self.complain(key, format!("was deleted as {}, but known as {}", state(last), state(&told)));
        }
        match deleted {
            Deleted::Observed(_) => {
                self.deleted.0 += 1;
                known.advance(last, true);
            }
            Deleted::Missed { .. } => {
                self.deleted.1 += 1;
                if !folds && !is_same(&told, last) {
                    self.complain(key, format!("was missed at {}, but known at {}", state(last), state(&told)));
                }
                known.advance(last, false);
            }
        }
        known.gone = Some(last.uid().to_owned());
        self.gone.push(last.clone());
    }

    fn tell(&mut self, known: &mut Known, object: &Map) {
        if version(object) > self.base && known.told.as_ref().is_none_or(|told| version(told) != version(object)) {
            self.states.push(object.clone());
        }
        known.told = Some(object.clone());
    }

    fn complain(&mut self, key: &ObjectKey, text: String) {
        if self.complaints.len() < COMPLAINTS {
            self.complaints.push(format!("{}: {key} {text}", self.name));
        }
    }

    /// How what the handler believes to exist differs from what does exist; nothing if it does not.
    pub(crate) fn difference(&self, existing: &[Map]) -> Vec<String> {
        let mut difference = Vec::new();
        let mut right = 0;
        for object in existing {
            match self.known.get(object.key()).and_then(|known| known.told.as_ref()) {
                Some(told) if told.is_same_state_as(object) => right += 1,
                Some(told) => {
                    right += 1;
                    difference.push(format!("{} is at {}, not at {}", object.key(), state(object), state(told)));
                }
                None => difference.push(format!("{} is at {}, but not known", object.key(), state(object))),
            }
        }
        let known = self.known.iter().filter(|(_, known)| known.told.is_some());
        if known.clone().count() != right {
            let existing: HashSet<&ObjectKey> = existing.iter().map(|object| object.key()).collect();
            let ghosts = known.filter(|(key, _)| !existing.contains(key));
            difference.extend(ghosts.map(|(key, _)| format!("{key} is gone, but believed in")));
        }
        difference.truncate(COMPLAINTS);
        difference
    }

    /// Whether the handler hears only the latest.
    pub(crate) fn is_folding(&self) -> bool {
        self.delivery == Delivery::Latest
    }

    /// What is wrong with it so far.
    pub(crate) fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// What is wrong with it, now that the truth is known.
    pub(crate) fn verdict(mut self, truth: &Truth) -> Vec<String> {
        for object in std::mem::take(&mut self.states) {
            if let Err(problem) = truth.check_state(&object) {
                self.complain(object.key(), problem);
            }
        }
        for object in std::mem::take(&mut self.gone) {
            if !truth.has_gone(object.uid()) {
                self.complain(object.key(), format!("was told to be gone as {}, but never went", state(&object)));
            }
        }
        for object in std::mem::take(&mut self.revived) {
            if !truth.has_left(object.uid()) {
                self.complain(object.key(), format!("was told to be gone, and came back as {}", state(&object)));
            }
        }
        let allowed = truth.backups();
        let back: Vec<_> =
            self.known.iter().filter(|(_, known)| known.back > allowed).map(|(key, _)| key.clone()).collect();
        for key in back {
            self.complain(&key, format!("went back in versions more than {allowed} times"));
        }
        self.complaints
    }
}

impl Known {
    /// Goes to the version of this object, which is newer than all before, or at least not older.
    fn advance(&mut self, object: &Map, newer: bool) {
        let version = version(object);
        let is_well = if newer { version > self.newest } else { version >= self.newest };
        self.back += u32::from(!is_well);
        self.newest = version;
    }
}

/// Whether two are the same object in the same state.
fn is_same(one: &Map, other: &Map) -> bool {
    one.raw().unwrap().as_ptr() == other.raw().unwrap().as_ptr()
        || (one.is_same_state_as(other) && contents(one) == contents(other))
}

fn state(object: &Map) -> String {
    format!("{}@{}", object.uid(), object.resource_version())
}
