//! [`Edit`]: changes an unpublished state of the store, and [`WriterState`], which only writers need.

use std::sync::Arc;

use evenkeel_base::planted::{Defect, is_planted};
use evenkeel_core::{ResourceVersion, Untyped};

use super::index::Index;
use super::scopes::ScopeVersions;
use super::state::{IndexState, Location, StoreState, Totals};
use super::values::{Cell, Values};
use crate::Object;

/// State that only writers need.
#[derive(Debug)]
pub(super) struct WriterState {
    /// Those of the published state.
    pub(super) definitions: Arc<[Index<Untyped>]>,
    free_slots: Vec<u32>,
    slots: u32,
    indexes: Vec<IndexWriterState>,
    /// A buffer for the values of one object.
    scratch: Vec<(u32, u32)>,
}

#[derive(Debug, Default)]
struct IndexWriterState {
    /// By slot.
    held: Vec<Held>,
    free_ids: Vec<u32>,
    ids: u32,
}

/// The values of an object in an index: for each the value's id, and the object's position in its list.
#[derive(Clone, Debug, Default)]
enum Held {
    #[default]
    Nothing,
    One((u32, u32)),
    Many(Box<[(u32, u32)]>),
    Misfit,
}

impl Held {
    fn as_slice(&self) -> &[(u32, u32)] {
        match self {
            Held::Nothing | Held::Misfit => &[],
            Held::One(one) => std::slice::from_ref(one),
            Held::Many(all) => all,
        }
    }

    fn moved(&mut self, id: u32, to: u32) {
        match self {
            Held::One((own, place)) if *own == id => *place = to,
            Held::Many(all) => all.iter_mut().filter(|(own, _)| *own == id).for_each(|(_, place)| *place = to),
            _ => {}
        }
    }
}

impl WriterState {
    pub(super) fn new(definitions: Arc<[Index<Untyped>]>) -> Self {
        let indexes = definitions.iter().map(|_| IndexWriterState::default()).collect();
        WriterState { definitions, free_slots: Vec::new(), slots: 0, indexes, scratch: Vec::new() }
    }
}

/// Slots and value ids that a store retains for later writes, beside four times as many as are in use.
const SPARE_IDS: usize = if cfg!(test) { 16 } else { 4096 };

fn is_sparse(allocated: u32, used: usize) -> bool {
    allocated as usize > SPARE_IDS + 4 * used
}

impl WriterState {
    /// Returns whether most slots of the store, or most values of an index, are unused since a peak.
    pub(super) fn is_sparse(&self, state: &StoreState) -> bool {
        let mut indexes = self.indexes.iter().zip(&state.indexes);
        is_sparse(self.slots, state.totals.objects) || indexes.any(|(own, index)| is_sparse(own.ids, index.distinct))
    }

    /// Returns the same objects in as little memory as they need. No index function is called: the values are known.
    pub(super) fn compacted(&self, state: &StoreState) -> (StoreState, WriterState) {
        let mut compact = state.emptied();
        let mut writer_state = WriterState::new(Arc::clone(&self.definitions));
        let mut edit = Edit { state: &mut compact, writer_state: &mut writer_state };
        edit.state.reserve(state.totals.objects);
        let mut values = Values::default();
        for (slot, object) in state.occupied() {
            values.refill(self.indexes.iter().zip(&state.indexes).map(|(own, index)| {
                let held = own.held.get(slot as usize).unwrap_or(&Held::Nothing);
                (held.as_slice().iter().filter_map(|(id, _)| index.text(*id)), matches!(held, Held::Misfit))
            }));
            edit.put(object.clone(), &values, 0);
        }
        (compact, writer_state)
    }

    /// Returns the number of slots.
    #[cfg(test)]
    pub(super) fn slots(&self) -> u32 {
        self.slots
    }
}

/// Changes an unpublished state of the store.
pub(super) struct Edit<'a> {
    pub(super) state: &'a mut StoreState,
    pub(super) writer_state: &'a mut WriterState,
}

impl Edit<'_> {
    /// Stores an object, whose index values start at `cell`. Returns the previous object.
    pub(super) fn put(&mut self, object: Object, values: &Values, cell: usize) -> Option<Object> {
        let location = self.state.locate(object.key().as_bytes());
        self.put_at(location, object, values, cell)
    }

    /// Stores an object at the location of its key, which must be current.
    pub(super) fn put_at(
        &mut self,
        location: Location,
        object: Object,
        values: &Values,
        cell: usize,
    ) -> Option<Object> {
        let Location { hash, slot } = location;
        let slot =
            slot.unwrap_or_else(|| self.writer_state.free_slots.pop().unwrap_or_else(|| self.writer_state.next_slot()));
        let bytes = object.payload_bytes();
        let before = self.state.set(slot, Some(object));
        let totals = &mut self.state.totals;
        totals.payload_bytes += bytes;
        match &before {
            Some(before) => totals.payload_bytes -= before.payload_bytes(),
            None => {
                totals.objects += 1;
                self.state.link(hash, slot);
            }
        }
        for index in 0..self.state.indexes.len() {
            self.file(index, slot, Some(values.cell(cell + index)));
        }
        before
    }

    /// Removes an object, and returns it.
    pub(super) fn remove(&mut self, key: &[u8]) -> Option<Object> {
        let Location { hash, slot: Some(slot) } = self.state.locate(key) else { return None };
        for index in 0..self.state.indexes.len() {
            self.file(index, slot, None);
        }
        self.state.unlink(hash, slot);
        self.writer_state.free_slots.push(slot);
        let removed = self.state.set(slot, None)?;
        self.state.totals.objects -= 1;
        self.state.totals.payload_bytes -= removed.payload_bytes();
        Some(removed)
    }

    /// Adds an index with the values of the objects in the slots.
    pub(super) fn add_index(
        &mut self,
        definition: &Index<Untyped>,
        slots: impl Iterator<Item = (u32, usize)>,
        values: &Values,
    ) {
        let index = self.state.indexes.len();
        self.state.indexes.push(IndexState::new(definition));
        self.writer_state.indexes.push(IndexWriterState::default());
        for (slot, cell) in slots {
            self.file(index, slot, Some(values.cell(cell)));
        }
    }

    /// Updates one index for the object in a slot; `None` for an empty slot.
    fn file(&mut self, index: usize, slot: u32, cell: Option<Cell<'_>>) {
        let held = self.writer_state.held(index, slot);
        let only = cell.and_then(|cell| cell.only());
        if let (Held::One((id, _)), Some(only)) = (&*held, only)
            && self.state.indexes[index].text(*id) == Some(only)
        {
            return;
        }
        let held = std::mem::take(held);
        let misfit = cell.is_some_and(|cell| cell.misfit);
        self.count_misfits(index, matches!(held, Held::Misfit), misfit);

        // New values are entered before old ones are removed, so that a value that stays is not dropped.
        let before = held.as_slice();
        let mut now = std::mem::take(&mut self.writer_state.scratch);
        for text in cell.into_iter().flat_map(|cell| cell.iter()) {
            let hash = self.state.hash(text.as_bytes());
            match self.state.indexes[index].find(hash, text) {
                Some(id) if now.iter().any(|(own, _)| *own == id) => {}
                Some(id) => match before.iter().find(|(own, _)| *own == id) {
                    Some(kept) => now.push(*kept),
                    None => now.push((id, self.enter(index, id, slot))),
                },
                None => now.push((self.begin(index, hash, text, slot), 0)),
            }
        }
        *self.writer_state.held(index, slot) = match &*now {
            [] if misfit => Held::Misfit,
            [] => Held::Nothing,
            [one] => Held::One(*one),
            all => Held::Many(all.into()),
        };
        let is_left = cell.is_some() && is_planted(Defect::IndexEntryLeft);
        for (id, place) in before.iter().filter(|(id, _)| !is_left && !now.iter().any(|(own, _)| own == id)) {
            self.leave(index, *id, *place);
        }
        now.clear();
        self.writer_state.scratch = now;
    }

    fn count_misfits(&mut self, index: usize, before: bool, now: bool) {
        if before != now {
            let misfits = &mut self.state.indexes[index].misfits;
            *misfits = if now { *misfits + 1 } else { *misfits - 1 };
        }
    }

    fn begin(&mut self, index: usize, hash: u32, text: &str, slot: u32) -> u32 {
        let writer_state = &mut self.writer_state.indexes[index];
        let id = writer_state.free_ids.pop().unwrap_or_else(|| {
            writer_state.ids += 1;
            writer_state.ids - 1
        });
        self.state.indexes[index].begin(id, hash, text.into(), slot);
        id
    }

    fn enter(&mut self, index: usize, id: u32, slot: u32) -> u32 {
        let place = self.state.indexes[index].count(id) as u32;
        self.state.indexes[index].enter(id, slot);
        place
    }

    fn leave(&mut self, index: usize, id: u32, place: u32) {
        if self.state.indexes[index].count(id) > 1 {
            if let Some(moved) = self.state.indexes[index].leave(id, place) {
                self.writer_state.held(index, moved).moved(id, place);
            }
            return;
        }
        let hash = self.state.indexes[index].text(id).map(|text| self.state.hash(text.as_bytes()));
        if let Some(hash) = hash {
            self.state.indexes[index].end(id, hash);
            self.writer_state.indexes[index].free_ids.push(id);
        }
    }
}

impl WriterState {
    fn next_slot(&mut self) -> u32 {
        self.slots += 1;
        self.slots - 1
    }

    fn held(&mut self, index: usize, slot: u32) -> &mut Held {
        let held = &mut self.indexes[index].held;
        if held.len() <= slot as usize {
            held.resize(slot as usize + 1, Held::Nothing);
        }
        &mut held[slot as usize]
    }
}

impl Totals {
    /// Records observed versions. Returns those that cannot be compared.
    pub(super) fn saw<'a>(&mut self, versions: impl Iterator<Item = &'a str>) -> Vec<ResourceVersion> {
        advance(&mut self.version, versions)
    }

    /// Changes the versions of the scopes, if the store has scopes.
    pub(super) fn change_scopes<T: Default>(&mut self, change: impl FnOnce(&mut ScopeVersions) -> T) -> T {
        let Some(scopes) = &mut self.scopes else { return T::default() };
        let scopes = Arc::make_mut(scopes);
        let result = change(scopes);
        let lowest = scopes.lowest();
        if lowest != self.version {
            self.version = lowest;
        }
        result
    }
}

/// Advances a version by observed ones: a newer one replaces the current one, an older one does not, and of two that cannot be
/// compared the later one does. Empty versions are ignored. Returns the versions that cannot be compared.
pub(super) fn advance<'a>(
    current: &mut ResourceVersion,
    versions: impl Iterator<Item = &'a str>,
) -> Vec<ResourceVersion> {
    let mut opaque = Vec::new();
    let mut newest = current.as_str();
    for version in versions.filter(|version| !version.is_empty()) {
        if !is_number(version) {
            opaque.push(ResourceVersion::new(version));
        } else if is_number(newest) && (version.len(), version) <= (newest.len(), newest) {
            continue;
        }
        newest = version;
    }
    if newest != current.as_str() {
        *current = ResourceVersion::new(newest);
    }
    opaque
}

/// Returns whether [`ResourceVersion::compare`] can compare it, without an allocation.
fn is_number(version: &str) -> bool {
    !version.starts_with('0') && !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit())
}
