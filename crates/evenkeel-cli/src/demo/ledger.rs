//! The two columns that must agree: what was done, and what the watch saw.

use std::collections::BTreeMap;
use std::fmt;

/// A kind of change, in the words of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Modified,
    Deleted,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Change::Added => "ADDED",
            Change::Modified => "MODIFIED",
            Change::Deleted => "DELETED",
        })
    }
}

/// One change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) change: Change,
    pub(crate) name: String,
    pub(crate) value: String,
}

/// How many changes of each kind there were.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) added: usize,
    pub(crate) modified: usize,
    pub(crate) deleted: usize,
}

impl Counts {
    fn add(&mut self, change: Change) {
        *match change {
            Change::Added => &mut self.added,
            Change::Modified => &mut self.modified,
            Change::Deleted => &mut self.deleted,
        } += 1;
    }

    pub(crate) fn total(&self) -> usize {
        self.added + self.modified + self.deleted
    }
}

/// One column: what happened to each object, in order.
#[derive(Debug, Default)]
struct Column {
    entries: BTreeMap<String, Vec<Entry>>,
    counts: Counts,
}

impl Column {
    fn write(&mut self, entry: Entry) {
        self.counts.add(entry.change);
        self.entries.entry(entry.name.clone()).or_default().push(entry);
    }

    fn of(&self, name: &str) -> &[Entry] {
        self.entries.get(name).map_or(&[], Vec::as_slice)
    }
}

/// Both columns, and how often the watch broke in between.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    done: Column,
    seen: Column,
    breaks: usize,
}

impl Ledger {
    pub(crate) fn did(&mut self, entry: Entry) {
        self.done.write(entry);
    }

    pub(crate) fn saw(&mut self, entry: Entry) {
        self.seen.write(entry);
    }

    pub(crate) fn broke(&mut self) {
        self.breaks += 1;
    }

    /// Whether as much has been seen as was done. It may run ahead: an event can arrive before its write returns.
    pub(crate) fn is_even(&self) -> bool {
        self.seen.counts.total() >= self.done.counts.total()
    }

    pub(crate) fn done(&self) -> Counts {
        self.done.counts
    }

    pub(crate) fn seen(&self) -> Counts {
        self.seen.counts
    }

    pub(crate) fn breaks(&self) -> usize {
        self.breaks
    }

    /// How many objects there have been.
    pub(crate) fn objects(&self) -> usize {
        self.done.entries.len()
    }

    /// Whether the watch saw exactly what was done to each object, in order; if not, the first difference.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        for name in self.done.entries.keys().chain(self.seen.entries.keys()) {
            let (done, seen) = (self.done.of(name), self.seen.of(name));
            if done != seen {
                return Err(format!("{name} did not converge: done [{}], seen [{}]", words(done), words(seen)));
            }
        }
        Ok(())
    }
}

fn words(entries: &[Entry]) -> String {
    let words: Vec<String> = entries.iter().map(|entry| format!("{} {}", entry.change, entry.value)).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(change: Change, value: &str) -> Entry {
        Entry { change, name: "a".into(), value: value.into() }
    }

    #[test]
    fn a_ledger_is_right_only_when_both_columns_agree() {
        let mut ledger = Ledger::default();
        ledger.did(entry(Change::Added, "1"));
        assert!(!ledger.is_even());
        ledger.saw(entry(Change::Added, "1"));
        assert!(ledger.is_even());
        assert_eq!(ledger.verdict(), Ok(()));
        ledger.did(entry(Change::Modified, "2"));
        ledger.saw(entry(Change::Modified, "3"));
        let verdict = ledger.verdict().unwrap_err();
        assert_eq!(verdict, "a did not converge: done [ADDED 1, MODIFIED 2], seen [ADDED 1, MODIFIED 3]");
    }

    #[test]
    fn an_event_that_nobody_caused_is_a_difference() {
        let mut ledger = Ledger::default();
        ledger.saw(entry(Change::Deleted, "1"));
        assert!(ledger.is_even());
        assert!(ledger.verdict().is_err());
    }
}
