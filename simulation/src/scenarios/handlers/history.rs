//! [`History`]: what one handler was told, checked notification by notification (INV-2, INV-4, INV-6, INV-16).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel::cache::{Deleted, Event};
use evenkeel::prelude::Obj;
use evenkeel_sim::Process;

use super::STOP;

/// The invariant of a single history.
const LEGAL: &str = "legal handler history";

/// The notifications of one handler. Clones are the same history.
#[derive(Clone)]
pub(super) struct History {
    process: Process,
    handler: &'static str,
    /// Notifications that wait are merged: a deletion and an addition become an update from the final state, which was not delivered.
    merges: bool,
    told: Arc<Mutex<Told>>,
}

#[derive(Default)]
struct Told {
    /// The objects that the handler knows: uid and version.
    known: BTreeMap<String, ObjectVersion>,
    /// The keys that were ever added.
    added: BTreeSet<String>,
    is_stopped: bool,
}

/// The uid and the version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectVersion {
    uid: String,
    version: u64,
}

impl ObjectVersion {
    pub(super) fn of<K>(object: &Obj<K>) -> Self {
        let version = object.resource_version().parse().unwrap_or_default();
        ObjectVersion { uid: object.uid().to_owned(), version }
    }
}

impl History {
    pub(super) fn new(process: &Process, handler: &'static str) -> Self {
        History { process: process.clone(), handler, merges: false, told: Arc::default() }
    }

    /// Returns the history of a handler whose pending notifications are merged.
    pub(super) fn merging(process: &Process, handler: &'static str) -> Self {
        History { merges: true, ..History::new(process, handler) }
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, invariant: &str, message: &str) {
        self.process.fail(invariant, format!("{}: {message}", self.handler));
    }

    /// Checks one notification against those before it.
    pub(super) fn observe<K>(&self, event: &Event<K>) {
        let key = event.key().to_string();
        let mut told = self.lock();
        if told.is_stopped {
            return self.fail(STOP, &format!("it is called for {key} after it was stopped"));
        }
        let known = told.known.get(&key).cloned();
        match event {
            Event::Add { object, .. } => {
                if known.is_some() {
                    self.fail(LEGAL, &format!("{key} is added twice"));
                }
                told.added.insert(key.clone());
                told.known.insert(key, ObjectVersion::of(object));
            }
            Event::Update { old, new } => {
                let (old, new) = (ObjectVersion::of(old), ObjectVersion::of(new));
                match known {
                    None => self.fail(LEGAL, &format!("{key} is updated and was not added")),
                    Some(seen) if self.merges && old.uid != new.uid => self.check_order(&key, &seen, &old),
                    Some(seen) if seen != old => {
                        let (old, seen) = (old.version, seen.version);
                        self.fail(LEGAL, &format!("the old version of {key} is {old}, and {seen} was delivered"));
                    }
                    Some(seen) => self.check_order(&key, &seen, &new),
                }
                told.known.insert(key, new);
            }
            Event::Delete(deleted) => {
                told.known.remove(&key);
                match (known, deleted) {
                    (None, _) => self.fail(LEGAL, &format!("{key} is deleted and was not added")),
                    (Some(seen), Deleted::Observed(last) | Deleted::Missed { last_known: Some(last), .. }) => {
                        self.check_order(&key, &seen, &ObjectVersion::of(last));
                    }
                    (Some(_), _) => {}
                }
            }
        }
    }

    /// Checks that an object does not go back in time.
    fn check_order(&self, key: &str, seen: &ObjectVersion, next: &ObjectVersion) {
        if seen.uid == next.uid && next.version < seen.version {
            let (seen, next) = (seen.version, next.version);
            self.fail("no time travel", &format!("{key} goes back from {seen} to {next}"));
        }
    }

    /// Checks that the handler was told of these keys, which its initial list has.
    pub(super) fn check_synced(&self, initial: &BTreeSet<String>) {
        let told = self.lock();
        let missing: Vec<&String> = initial.difference(&told.added).collect();
        if !missing.is_empty() {
            self.fail("has-synced truth", &format!("it has synced, and was not told of {missing:?}"));
        }
    }

    /// Checks that the handler knows what the cache has, when nothing has changed for long.
    pub(super) fn check_complete(&self, cached: &BTreeMap<String, ObjectVersion>) {
        let told = self.lock();
        for key in told.known.keys().filter(|key| !cached.contains_key(*key)) {
            self.fail("no lost delete", &format!("it was not told that {key} is deleted"));
        }
        for (key, current) in cached.iter().filter(|(key, current)| told.known.get(*key) != Some(*current)) {
            let known = told.known.get(key).map(|known| known.version);
            self.fail(LEGAL, &format!("of {key} it knows version {known:?}, and the cache has {}", current.version));
        }
    }

    /// Fails the run if the handler is called again.
    pub(super) fn stop(&self) {
        self.lock().is_stopped = true;
    }
}
