//! The replay of entries: from what the files contain to the content of a store.

use std::sync::Arc;
use std::time::Duration;

use super::entry::Entry;
use crate::store::chain::{Chain, Version};
use crate::store::ring::Ring;
use crate::store::{Event, History, Record, StoreState, Table};

/// The content that the entries read so far result in.
#[derive(Debug)]
pub(super) struct Replay {
    pub(super) state: StoreState,
    /// No revision above this one was issued.
    pub(super) bound: u64,
    /// Whether the last entry marks an orderly stop.
    pub(super) clean: bool,
    /// Whether there was no entry.
    pub(super) empty: bool,
}

impl Default for Replay {
    fn default() -> Self {
        Replay { state: StoreState::default(), bound: 0, clean: false, empty: true }
    }
}

impl Replay {
    /// Applies an entry. Returns whether it is valid in this place.
    pub(super) fn apply(&mut self, entry: Entry, history: History) -> bool {
        let state = &mut self.state;
        self.clean = false;
        self.empty = false;
        match entry {
            Entry::Reset { revision, compacted } => {
                *state = StoreState { revision, compacted, ..StoreState::default() };
            }
            Entry::Table { table, floor, evicted } => {
                state.tables.entry(table).or_insert_with(|| Table::new(0)).ring = Ring::restored(floor, evicted);
            }
            Entry::Object { table, key, record } => {
                let compacted = state.compacted;
                let table = state.tables.entry(table).or_insert_with(|| Table::new(compacted));
                // An intact log names an object once.
                if let Some(previous) = table.objects.get(&key).and_then(Chain::latest) {
                    table.live -= 1;
                    table.object_bytes -= previous.json().len();
                }
                table.live += 1;
                table.object_bytes += record.json().len();
                table.objects.insert(key, Chain::new(Version::Live(record)));
            }
            Entry::Put { table, key, record } => return self.event(table, key, Ok(record), history),
            Entry::Delete { table, key, revision } => return self.event(table, key, Err(revision), history),
            Entry::Compact { revision } => state.compact(revision),
            Entry::Lost { after, before } => {
                state.revision = state.revision.max(before);
                if let Some(floor) = state.lost.add(after, before) {
                    state.compact(floor);
                }
            }
            Entry::Reserve { bound } => self.bound = self.bound.max(bound),
            Entry::Clean { revision } => {
                state.revision = state.revision.max(revision);
                self.clean = true;
            }
        }
        true
    }

    /// Applies a write or, with its revision, a deletion.
    fn event(&mut self, table: Arc<str>, key: Box<str>, change: Result<Arc<Record>, u64>, history: History) -> bool {
        let state = &mut self.state;
        let compacted = state.compacted;
        let table = state.tables.entry(table).or_insert_with(|| Table::new(compacted));
        let previous = table.objects.get(&key).and_then(Chain::latest).cloned();
        let (revision, current) = match change {
            Ok(record) => (record.revision, Some(record)),
            Err(revision) => (revision, None),
        };
        if current.is_none() && previous.is_none() {
            return false;
        }
        let event = Event::new(revision, key, current, previous, Duration::ZERO);
        state.revision = state.revision.max(revision);
        table.apply(&Arc::new(event), history);
        true
    }
}
