//! [`Table`]: the untyped store behind every [`Indexer`](super::Indexer) and [`Store`](super::Store).
//!
//! # Concurrency
//!
//! Readers take a sharded lock for the time of a look-up: threads are spread over eight shards, so that few share a cache line, and
//! a writer takes all shards. A mutex orders the writers before it. Index functions run before either is taken, and a small write looks its
//! keys up before it takes the shards. A large write, such as a relist with many changes, is prepared on a copy that shares all
//! unchanged pages with the current state; readers wait only for the exchange of a pointer.
//!
//! A [`Snapshot`](super::Snapshot) is a reference to the state. While one exists, the next write copies the roots of the state and
//! each page that it changes; without snapshots, writes change pages in place. So every object is stored once, and removed
//! objects do not stay in memory. After a peak, [`Table::publish`] compacts tables that are mostly unused.
//!
//! (Two copies that alternate, so that readers need no lock, were measured: reads by many threads get slightly cheaper, and
//! everything else twice as expensive, because each write leaves the caches cold.)

use std::hint::black_box;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_utils::sync::{ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};
use evenkeel_base::planted::{Defect, is_planted};
use evenkeel_core::{ObjectKey, ResourceVersion, Untyped};

use super::edit::{Edit, WriterState};
use super::index::{Index, IndexError};
use super::scopes::StoreVersions;
use super::state::StoreState;
use super::values::Values;
use super::wait::{StoreStopped, Waiters};
use crate::delta::Delta;
use crate::event::Notifications;
use crate::namespaces::{NamespaceSet, Scope};
use crate::shard_scope::Places;
use crate::{Deleted, Event, Object};

/// Writes of more objects than this are prepared on a copy, and reads of more are collected without the lock.
pub(super) const LARGE: usize = 4096;

/// The untyped store.
#[derive(Debug)]
pub(crate) struct Table {
    /// Writers lock it while they hold `writer`.
    published: ShardedLock<Arc<StoreState>>,
    /// Serializes writers.
    writer: Mutex<WriterState>,
    pub(super) waiters: Waiters,
    /// The namespaces of a store that several reflectors fill; `None` for all other stores.
    namespaces: Option<NamespaceSet>,
    /// Whether several reflectors fill the store, each with the objects of some places. Its version is set by the informer.
    has_places: bool,
}

/// The objects that a list replaces.
#[derive(Clone, Copy)]
pub(super) enum TablePart<'a> {
    Whole,
    Scope(&'a Scope),
    Places(&'a Places),
}

impl Table {
    /// Returns an empty table. Of indexes with the same name the last is used.
    pub(crate) fn new(indexes: Vec<Index<Untyped>>) -> Self {
        Table::with_namespaces(indexes, None)
    }

    /// Returns an empty table that one reflector for each of these namespaces fills.
    pub(crate) fn with_namespaces(mut indexes: Vec<Index<Untyped>>, namespaces: Option<NamespaceSet>) -> Self {
        let names: Vec<Arc<str>> = indexes.iter().map(|index| Arc::clone(index.shared_name())).collect();
        let mut place = 0;
        indexes.retain(|index| {
            place += 1;
            !names[place..].contains(index.shared_name())
        });
        let definitions: Arc<[Index<Untyped>]> = indexes.into();
        Table {
            writer: Mutex::new(WriterState::new(Arc::clone(&definitions))),
            published: ShardedLock::new(Arc::new(StoreState::new(definitions))),
            waiters: Waiters::default(),
            namespaces,
            has_places: false,
        }
    }

    /// Returns the same table for several reflectors, each with the objects of some places.
    pub(crate) fn of_places(mut self) -> Self {
        self.has_places = true;
        self
    }

    /// Returns the current state, which later writes do not change.
    pub(super) fn snapshot(&self) -> Arc<StoreState> {
        Arc::clone(&self.read())
    }

    pub(crate) fn get(&self, key: &str) -> Option<Object> {
        self.read().get(key).cloned()
    }

    /// Reads an object in place. The function runs under the lock: it must be short, and no code of the user.
    pub(crate) fn look_up<T>(&self, key: &[u8], read: impl FnOnce(&Object) -> T) -> Option<T> {
        self.read().get(key).map(read)
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        self.read().get(key).is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.read().totals.objects
    }

    pub(crate) fn payload_bytes(&self) -> usize {
        self.read().totals.payload_bytes
    }

    pub(crate) fn list(&self) -> Vec<Object> {
        self.snapshot().clone_all()
    }

    pub(crate) fn keys(&self) -> Vec<ObjectKey> {
        self.snapshot().iter().map(|object| object.key().clone()).collect()
    }

    pub(crate) fn by_index(&self, name: &str, value: &str) -> Option<Vec<Object>> {
        let collect = |state: &StoreState, slots: &[u32]| -> Vec<Object> {
            let mut found = Vec::with_capacity(slots.len());
            found.extend(slots.iter().filter_map(|slot| state.object(*slot)).cloned());
            found
        };
        {
            let state = self.read();
            let slots = state.slots_by_index(name, value)?;
            if slots.len() <= LARGE {
                return Some(collect(&state, slots));
            }
        }
        let state = self.snapshot();
        Some(collect(&state, state.slots_by_index(name, value)?))
    }

    /// Returns the number of writes so far.
    pub(crate) fn commits(&self) -> u64 {
        self.read().totals.commits
    }

    pub(crate) fn version(&self) -> ResourceVersion {
        self.read().totals.version.clone()
    }

    /// Returns the versions that waiters compare with.
    pub(super) fn versions(&self) -> StoreVersions {
        match self.namespaces {
            None => {
                let state = self.read();
                let one = || StoreVersions::One(state.totals.version.clone());
                state.totals.places.clone().map_or_else(one, StoreVersions::PerPlace)
            }
            Some(_) => StoreVersions::PerScope(self.read().totals.scopes.clone()),
        }
    }

    /// Returns the namespaces of a store that several reflectors fill.
    pub(crate) fn namespaces(&self) -> Option<&NamespaceSet> {
        self.namespaces.as_ref()
    }

    /// Applies a batch of deltas in one step, and returns the notifications about it. Leaves `deltas` empty.
    pub(crate) fn apply(&self, deltas: &mut Vec<Delta>, initial: bool) -> Notifications {
        // A delta about all objects is alone in its batch.
        match deltas.pop_if(|delta| delta.key().is_none()) {
            Some(Delta::ReplacedAll { objects, resource_version }) => self.replace(objects, resource_version, initial),
            Some(Delta::SyncAll) => self.resync(),
            Some(Delta::Bookmark(version)) => {
                self.bookmark(&version);
                Notifications::default()
            }
            _ => self.apply_each(deltas, initial),
        }
    }

    fn apply_each(&self, deltas: &mut Vec<Delta>, initial: bool) -> Notifications {
        let (previous, commit) = self.commit(deltas);
        let is_resync = matches!(deltas.first(), Some(Delta::Sync(_)));
        let events = Vec::with_capacity(deltas.len());
        let mut notifications = Notifications { events, unchanged: Vec::new(), commit, is_resync };
        for (delta, previous) in deltas.drain(..).zip(previous) {
            match (delta, previous) {
                (Delta::Added(object) | Delta::Updated(object), Some(old)) => {
                    notifications.events.push(Event::Update { old, new: object });
                }
                (Delta::Added(object) | Delta::Updated(object), None) => {
                    notifications.events.push(Event::Add { object, initial });
                }
                (Delta::Replaced(object), previous) => notifications.push_listed(previous, object, initial),
                (Delta::Sync(object), _) => notifications.push_resync(object),
                (Delta::Deleted(deleted), Some(_)) => notifications.events.push(Event::Delete(deleted)),
                // Deletes of unknown objects are ignored.
                (Delta::Deleted(_), None) => {}
                (Delta::ReplacedAll { .. } | Delta::SyncAll | Delta::Bookmark(_), _) => {}
            }
        }
        notifications
    }

    /// Writes deltas about single objects in order, in one step. Returns the previous object of each, and the number of writes
    /// to the store so far. A [`Delta::Sync`] writes nothing.
    pub(crate) fn commit(&self, deltas: &[Delta]) -> (Vec<Option<Object>>, u64) {
        let mut previous = Vec::with_capacity(deltas.len());
        if deltas.iter().all(|delta| matches!(delta, Delta::Sync(_))) {
            previous.resize(deltas.len(), None);
            return (previous, self.commits());
        }
        let (mut writer, values) =
            self.evaluated(|definitions| Values::of(deltas.iter().filter_map(Delta::stored_object), definitions));
        self.read_ahead(deltas.iter().filter_map(Delta::key));
        let (opaque, commit) = self.publish(&mut writer, deltas.len() > LARGE, |edit| {
            edit.state.totals.commits += 1;
            let opaque = match edit.state.totals.scopes {
                None if self.has_places => Vec::new(),
                None => edit.state.totals.saw(deltas.iter().filter_map(observed_version)),
                Some(_) => {
                    edit.state.totals.change_scopes(|scopes| scopes.saw(deltas.iter().filter_map(scoped_version)))
                }
            };
            let width = edit.state.indexes.len();
            let mut cell = 0;
            for delta in deltas {
                previous.push(match (delta.stored_object(), delta) {
                    (Some(object), _) => {
                        cell += width;
                        edit.put(object.clone(), &values, cell - width)
                    }
                    (None, Delta::Deleted(deleted)) => edit.remove(deleted.key().as_bytes()),
                    (None, _) => None,
                });
            }
            (opaque, edit.state.totals.commits)
        });
        drop(writer);
        values.recycle();
        self.waiters.reached(|| self.versions(), &opaque);
        (previous, commit)
    }

    /// Stores one object, and returns the previous one.
    pub(crate) fn put(&self, object: Object) -> Option<Object> {
        let (mut writer, values) = self.evaluated(|definitions| Values::of([&object], definitions));
        // No other writer changes it before this one is done.
        let location = self.read().locate(object.key().as_bytes());
        let (previous, opaque) = self.publish(&mut writer, false, |edit| {
            edit.state.totals.commits += 1;
            let opaque = edit.state.totals.saw([object.resource_version()].into_iter());
            (edit.put_at(location, object, &values, 0), opaque)
        });
        drop(writer);
        values.recycle();
        self.waiters.reached(|| self.versions(), &opaque);
        previous
    }

    /// Looks keys up before a write, so that readers do not wait while the memory of the stored objects is read.
    fn read_ahead<'a>(&self, keys: impl Iterator<Item = &'a ObjectKey>) {
        let state = self.read();
        black_box(keys.filter(|key| state.locate(key.as_bytes()).slot.is_some()).count());
    }

    /// Replaces all objects in one step, and returns the notifications about the difference. Of objects with the same key the
    /// last is stored.
    pub(crate) fn replace(&self, objects: Vec<Object>, version: ResourceVersion, initial: bool) -> Notifications {
        self.replace_in(TablePart::Whole, objects, version, initial)
    }

    /// Replaces all objects, or those of one part.
    pub(super) fn replace_in(
        &self,
        part: TablePart<'_>,
        objects: Vec<Object>,
        version: ResourceVersion,
        initial: bool,
    ) -> Notifications {
        let (mut writer, survey, values) = self.surveyed(&objects, part);
        let changes = survey.missing.len() + survey.stored.iter().filter(|stored| !**stored).count();
        let events = Vec::with_capacity(survey.missing.len() + objects.len());
        let mut notifications = Notifications { events, ..Notifications::default() };
        let mut previous = Vec::with_capacity(objects.len());
        self.publish(&mut writer, changes > LARGE, |edit| {
            edit.state.totals.commits += 1;
            notifications.commit = edit.state.totals.commits;
            for object in &survey.missing {
                if let Some(object) = edit.remove(object.key().as_bytes())
                    && !is_planted(Defect::RelistWithoutDeletes)
                {
                    let deleted = Deleted::Missed { key: object.key().clone(), last_known: Some(object) };
                    notifications.events.push(Event::Delete(deleted));
                }
            }
            edit.state.reserve(changes);
            let width = edit.state.indexes.len();
            let mut cell = 0;
            for (object, stored) in objects.iter().zip(&survey.stored) {
                if *stored {
                    previous.push(Some(object.clone()));
                    continue;
                }
                previous.push(edit.put(object.clone(), &values, cell));
                cell += width;
            }
            match part {
                TablePart::Whole => edit.state.totals.version = version,
                TablePart::Places(_) => {}
                TablePart::Scope(scope) => edit.state.totals.change_scopes(|scopes| scopes.listed(scope, version)),
            }
        });
        drop(writer);
        self.waiters.reached(|| self.versions(), &[]);
        for (object, previous) in objects.into_iter().zip(previous) {
            notifications.push_listed(previous, object, initial);
        }
        notifications
    }

    /// Returns the notifications that redeliver all objects.
    fn resync(&self) -> Notifications {
        let state = self.snapshot();
        let events = Vec::with_capacity(state.totals.objects);
        let mut notifications =
            Notifications { events, unchanged: Vec::new(), commit: state.totals.commits, is_resync: true };
        state.iter().cloned().for_each(|object| notifications.push_resync(object));
        notifications
    }

    /// Locks the writer, and returns the index values of the objects that are not stored already. A relist after a short time has
    /// few of those.
    fn surveyed(&self, objects: &[Object], part: TablePart<'_>) -> (MutexGuard<'_, WriterState>, Survey, Values) {
        let state = self.snapshot();
        let survey = Survey::new(&state, objects, part);
        if !survey.repeated {
            let new = objects.iter().zip(&survey.stored).filter(|(_, stored)| !**stored);
            let values = Values::of(new.map(|(object, _)| object), &state.definitions);
            let writer = self.lock();
            if Arc::ptr_eq(&state, &self.read()) {
                return (writer, survey, values);
            }
        }
        // Another writer was faster, or a key occurs twice: evaluate all objects.
        drop(state);
        let (writer, values) = self.evaluated(|definitions| Values::of(objects, definitions));
        let mut survey = Survey::new(&self.read(), objects, part);
        survey.stored.fill(false);
        (writer, survey, values)
    }

    /// Advances the version: nothing changed up to it.
    pub(crate) fn bookmark(&self, version: &ResourceVersion) {
        let mut writer = self.lock();
        let opaque = self.publish(&mut writer, false, |edit| edit.state.totals.saw([version.as_str()].into_iter()));
        drop(writer);
        self.waiters.reached(|| self.versions(), &opaque);
    }

    /// Adds indexes of all objects, stored and later ones. Adds none if a name is taken.
    pub(crate) fn add_indexes(&self, added: &[Index<Untyped>]) -> Result<(), IndexError> {
        let mut values = Values::default();
        let mut cells = 0;
        // The state of the last pass, and for each of its slots the cell with the values of the object there. Objects that are
        // written concurrently are evaluated in the next pass; each pass is shorter than the one before.
        let mut seen: Option<(Arc<StoreState>, Vec<usize>)> = None;
        loop {
            let state = self.snapshot();
            let names = state.definitions.iter().chain(added).map(Index::name);
            for (place, index) in added.iter().enumerate() {
                if names.clone().take(state.definitions.len() + place).any(|name| name == index.name()) {
                    return Err(IndexError::Conflict { name: index.name().into() });
                }
            }
            let mut cell_of = Vec::with_capacity(state.totals.objects);
            for (slot, object) in state.occupied() {
                let known = seen.as_ref().and_then(|(seen, cell_of)| {
                    seen.object(slot).filter(|known| is_same(known, object))?;
                    cell_of.get(slot as usize).copied()
                });
                // Cells of empty slots are not used.
                cell_of.resize(slot as usize, 0);
                cell_of.push(known.unwrap_or(cells));
                if known.is_none() {
                    values.add(object, added);
                    cells += added.len();
                }
            }
            let mut writer = self.lock();
            if !Arc::ptr_eq(&state, &self.read()) {
                seen = Some((state, cell_of));
                continue;
            }
            let definitions: Arc<[_]> = state.definitions.iter().chain(added).cloned().collect();
            writer.definitions = Arc::clone(&definitions);
            self.publish(&mut writer, true, |edit| {
                for (place, index) in added.iter().enumerate() {
                    let slots = (0..).zip(&cell_of).map(|(slot, cell)| (slot, cell + place));
                    edit.add_index(index, slots.filter(|(slot, _)| state.object(*slot).is_some()), &values);
                }
                edit.state.definitions = definitions;
            });
            return Ok(());
        }
    }

    /// Waits until the store reaches this version, in this namespace or as a whole.
    pub(crate) async fn at_least(
        &self,
        namespace: Option<&str>,
        version: &ResourceVersion,
    ) -> Result<(), StoreStopped> {
        let is_possible = || match (&self.namespaces, namespace) {
            (Some(set), Some(namespace)) => set.covers(namespace),
            _ => true,
        };
        self.waiters.wait(version, namespace, is_possible, || self.versions()).await
    }

    /// Fails all waiters for a version, now and later: nothing more will be written.
    pub(crate) fn stop_waiting(&self) {
        self.waiters.stop();
    }

    /// Evaluates index functions without a lock, then locks the writer. Evaluates again if indexes were added meanwhile.
    fn evaluated<T>(&self, evaluate: impl Fn(&[Index<Untyped>]) -> T) -> (MutexGuard<'_, WriterState>, T) {
        loop {
            let definitions = Arc::clone(&self.read().definitions);
            let values = evaluate(&definitions);
            let writer = self.lock();
            if Arc::ptr_eq(&definitions, &writer.definitions) {
                return (writer, values);
            }
        }
    }

    /// Makes a change, which readers see when it is complete. Compacts the tables if most of them is unused.
    pub(super) fn publish<T>(
        &self,
        writer_state: &mut WriterState,
        large: bool,
        change: impl FnOnce(&mut Edit<'_>) -> T,
    ) -> T {
        let (result, is_sparse) = if large {
            let mut next = Arc::clone(&self.read());
            let result = change(&mut Edit { state: Arc::make_mut(&mut next), writer_state });
            let is_sparse = writer_state.is_sparse(&next);
            self.exchange(next);
            (result, is_sparse)
        } else {
            let mut published = self.write();
            let result = change(&mut Edit { state: Arc::make_mut(&mut published), writer_state });
            (result, writer_state.is_sparse(&published))
        };
        if is_sparse {
            let state = self.snapshot();
            let (compact, compact_writer_state) = writer_state.compacted(&state);
            *writer_state = compact_writer_state;
            self.exchange(Arc::new(compact));
        }
        result
    }

    fn exchange(&self, next: Arc<StoreState>) {
        let previous = std::mem::replace(&mut *self.write(), next);
        // Dropped without the lock: it may hold many objects.
        drop(previous);
    }

    pub(super) fn read(&self) -> ShardedLockReadGuard<'_, Arc<StoreState>> {
        // User code runs only while no lock is held, so the state is valid.
        self.published.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> ShardedLockWriteGuard<'_, Arc<StoreState>> {
        self.published.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, WriterState> {
        // User code runs only while no lock is held, so the state is valid.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of slots for objects, used or not.
    #[cfg(test)]
    pub(super) fn slots(&self) -> u32 {
        self.lock().slots()
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiters.count()
    }
}

/// How a list differs from what is stored.
struct Survey {
    /// For each object of the list, whether this very object is stored already.
    stored: Vec<bool>,
    /// The stored objects that the list does not contain.
    missing: Vec<Object>,
    /// Whether the list contains a stored key more than once.
    repeated: bool,
}

impl Survey {
    fn new(state: &StoreState, objects: &[Object], part: TablePart<'_>) -> Self {
        let mut listed = Vec::new();
        let mut stored = Vec::with_capacity(objects.len());
        let mut repeated = false;
        for object in objects {
            let slot = state.locate(object.key().as_bytes()).slot;
            stored.push(slot.and_then(|slot| state.object(slot)).is_some_and(|known| is_same(known, object)));
            if let Some(slot) = slot {
                let slot = slot as usize;
                if listed.len() <= slot {
                    listed.resize(slot + 1, false);
                }
                repeated |= std::mem::replace(&mut listed[slot], true);
            }
        }
        let is_missing = |slot: u32| !listed.get(slot as usize).copied().unwrap_or_default();
        let stored_part: Box<dyn Iterator<Item = (u32, &Object)>> = match part {
            TablePart::Whole => Box::new(state.occupied()),
            TablePart::Scope(scope) => state.in_scope(scope),
            TablePart::Places(places) => Box::new(state.in_places(places)),
        };
        let missing = stored_part.filter(|(slot, _)| is_missing(*slot)).map(|(_, object)| object.clone()).collect();
        Survey { stored, missing, repeated }
    }
}

/// Returns whether both are the same object, not equal ones.
fn is_same(one: &Object, other: &Object) -> bool {
    std::ptr::eq(one.header(), other.header())
}

/// Returns the namespace of a delta, and the version that the store reaches there.
fn scoped_version(delta: &Delta) -> Option<(&str, &str)> {
    Some((delta.key()?.namespace().unwrap_or_default(), observed_version(delta)?))
}

/// Returns the version that the store reaches by a delta, if it has one.
fn observed_version(delta: &Delta) -> Option<&str> {
    match delta {
        Delta::Deleted(Deleted::Observed(object)) => Some(object.resource_version()),
        delta => delta.stored_object().map(|object| object.resource_version()),
    }
}
