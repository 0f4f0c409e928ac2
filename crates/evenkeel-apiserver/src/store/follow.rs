//! Readers that follow the history of the store: indexes that are brought up to date when they are used.
//!
//! A follower remembers a revision and reads what was committed since, durable or not. Where the history does not reach
//! back that far (after a start, a restore or a compaction), it reads all objects once.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Event, Record, Span, Store};

/// How many commits [`RecentTables`] remembers.
const RECENT: usize = 4096;

/// What a reader that follows a resource has not read yet.
#[derive(Debug)]
pub(crate) enum Unread {
    /// The changes since it last read, oldest first.
    Changes(Vec<Arc<Event>>),
    /// All objects with their keys: the history does not reach back to its last read.
    Everything(Vec<(Box<str>, Arc<Record>)>),
}

/// What a reader that follows all resources has not read yet.
#[derive(Debug)]
pub(crate) enum UnreadOfAll {
    /// The changes since it last read with their tables, oldest first.
    Changes(Vec<(Arc<str>, Arc<Event>)>),
    /// The selected objects with their tables and keys, ordered by both.
    Everything(Vec<(Arc<str>, Box<str>, Arc<Record>)>),
}

/// The tables of the last commits, so that a follower of all resources reads those that changed.
#[derive(Debug, Default)]
pub(super) struct RecentTables {
    tables: VecDeque<(u64, Arc<str>)>,
    /// All later commits are in `tables`.
    forgotten: u64,
}

impl RecentTables {
    pub(super) fn push(&mut self, revision: u64, table: &Arc<str>) {
        if self.tables.len() == RECENT
            && let Some((oldest, _)) = self.tables.pop_front()
        {
            self.forgotten = oldest;
        }
        self.tables.push_back((revision, Arc::clone(table)));
    }

    /// Returns the tables that changed after a revision, each once; `None` if that is forgotten.
    fn since(&self, revision: u64) -> Option<Vec<&Arc<str>>> {
        if revision < self.forgotten {
            return None;
        }
        let start = self.tables.partition_point(|(committed, _)| *committed <= revision);
        let mut tables: Vec<&Arc<str>> = self.tables.range(start..).map(|(_, table)| table).collect();
        tables.sort_unstable();
        tables.dedup();
        Some(tables)
    }
}

impl Store {
    /// Returns what a reader of a resource has not read since a revision, and the revision up to which it has then read.
    pub(crate) fn unread(&self, table: &str, since: Option<u64>) -> (u64, Unread) {
        self.unread_under(table, "", since)
    }

    /// Like [`Store::unread`], for the objects whose keys have a prefix.
    pub(crate) fn unread_under(&self, table: &str, prefix: &str, since: Option<u64>) -> (u64, Unread) {
        let inner = self.read();
        let Some(table) = inner.tables.get(table) else {
            return (inner.revision, Unread::Everything(Vec::new()));
        };
        // A restored image has another history: its floor is above all revisions that were issued before.
        let known = since.filter(|since| *since >= table.ring.floor()).and_then(|since| table.ring.after(since));
        let unread = match known {
            Some(events) => {
                Unread::Changes(events.filter(|event| event.key.starts_with(prefix)).map(Arc::clone).collect())
            }
            None => {
                let all = table.span(Span { prefix, ..Span::default() });
                let live = all.filter_map(|(key, chain)| Some((key.clone(), Arc::clone(chain.latest()?))));
                Unread::Everything(live.collect())
            }
        };
        (inner.revision, unread)
    }

    /// Does the same for all resources. `select` chooses among the objects if everything is read.
    pub(crate) fn unread_of_all(&self, since: Option<u64>, select: impl Fn(&Record) -> bool) -> (u64, UnreadOfAll) {
        let inner = self.read();
        let changes = || {
            let since = since.filter(|since| *since >= inner.compacted)?;
            let tables = inner.recent.since(since).unwrap_or_else(|| inner.tables.keys().collect());
            let mut changes = Vec::new();
            for name in &tables {
                let Some(table) = inner.tables.get(*name) else { continue };
                let events = table.ring.after(since)?;
                changes.extend(events.map(|event| (Arc::clone(name), Arc::clone(event))));
            }
            if tables.len() > 1 {
                changes.sort_unstable_by_key(|(_, event)| event.revision);
            }
            Some(changes)
        };
        if let Some(changes) = changes() {
            return (inner.revision, UnreadOfAll::Changes(changes));
        }
        let mut objects = Vec::new();
        for (name, table) in &inner.tables {
            let live = table.objects.iter().filter_map(|(key, chain)| Some((key, chain.latest()?)));
            let selected = live.filter(|(_, record)| select(record));
            objects.extend(selected.map(|(key, record)| (Arc::clone(name), key.clone(), Arc::clone(record))));
        }
        let revision = inner.revision;
        drop(inner);
        objects.sort_unstable_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        (revision, UnreadOfAll::Everything(objects))
    }
}
