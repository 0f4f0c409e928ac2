//! Entries: what frames contain.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_core::json::JsonValue;

use crate::store::record::{Facts, Layout, Record};

/// One entry of a frame.
#[derive(Debug)]
pub(super) enum Entry {
    /// The content starts anew at this revision, with the history compacted up to `compacted`.
    Reset { revision: u64, compacted: u64 },
    /// The history of a table starts at `floor`; the event at `evicted` is the newest that is not in it.
    Table { table: Arc<str>, floor: u64, evicted: u64 },
    /// An object whose event is not in the history.
    Object { table: Arc<str>, key: Box<str>, record: Arc<Record> },
    /// A write of an object.
    Put { table: Arc<str>, key: Box<str>, record: Arc<Record> },
    /// The deletion of an object.
    Delete { table: Arc<str>, key: Box<str>, revision: u64 },
    /// The history is compacted up to this revision.
    Compact { revision: u64 },
    /// No state of the revisions between these exists.
    Lost { after: u64, before: u64 },
    /// No revision above this one is issued before a higher bound is on stable storage.
    Reserve { bound: u64 },
    /// The server stopped in order. No client knows a revision above this one.
    Clean { revision: u64 },
}

const RESET: u8 = 1;
const TABLE: u8 = 2;
const OBJECT: u8 = 3;
const PUT: u8 = 4;
const DELETE: u8 = 5;
const COMPACT: u8 = 6;
const LOST: u8 = 7;
const RESERVE: u8 = 8;
const CLEAN: u8 = 9;

/// Appends an entry with up to two numbers.
fn numbers(out: &mut Vec<u8>, tag: u8, values: &[u64]) {
    out.push(tag);
    values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
}

pub(super) fn reset(out: &mut Vec<u8>, revision: u64, compacted: u64) {
    numbers(out, RESET, &[revision, compacted]);
}

pub(super) fn table(out: &mut Vec<u8>, table: &str, floor: u64, evicted: u64) {
    numbers(out, TABLE, &[floor, evicted]);
    text(out, table);
}

pub(super) fn object(out: &mut Vec<u8>, table: &str, key: &str, record: &Record) {
    write_record(out, OBJECT, table, key, record);
}

pub(super) fn put(out: &mut Vec<u8>, table: &str, key: &str, record: &Record) {
    write_record(out, PUT, table, key, record);
}

pub(super) fn delete(out: &mut Vec<u8>, table: &str, key: &str, revision: u64) {
    numbers(out, DELETE, &[revision]);
    text(out, table);
    text(out, key);
}

pub(super) fn compact(out: &mut Vec<u8>, revision: u64) {
    numbers(out, COMPACT, &[revision]);
}

pub(super) fn lost(out: &mut Vec<u8>, after: u64, before: u64) {
    numbers(out, LOST, &[after, before]);
}

pub(super) fn reserve(out: &mut Vec<u8>, bound: u64) {
    numbers(out, RESERVE, &[bound]);
}

pub(super) fn clean(out: &mut Vec<u8>, revision: u64) {
    numbers(out, CLEAN, &[revision]);
}

fn text(out: &mut Vec<u8>, text: &str) {
    bytes(out, text.as_bytes());
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    // Names are short, and objects are a few MiB at most.
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn write_record(out: &mut Vec<u8>, tag: u8, table: &str, key: &str, record: &Record) {
    let (facts, layout) = (&record.facts, record.layout());
    numbers(out, tag, &[record.revision, facts.schema_stamp, u64::from(facts.deleting)]);
    text(out, table);
    text(out, key);
    text(out, &facts.uid);
    for part in [layout.body, layout.metadata.0, layout.metadata.1, layout.version.0, layout.version.1] {
        out.extend_from_slice(&part.to_le_bytes());
    }
    for length in [facts.labels.len(), facts.fields.len()] {
        out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    }
    for (label, value) in &facts.labels {
        text(out, label);
        text(out, value);
    }
    facts.fields.iter().for_each(|field| text(out, field));
    bytes(out, record.json());
}

/// Reads the entries of a frame. `take` returns whether an entry is valid. Returns `None` at an entry that is not.
pub(super) fn read_entries(payload: &[u8], mut take: impl FnMut(Entry) -> bool) -> Option<()> {
    let mut input = Input(payload);
    while !input.0.is_empty() {
        let entry = input.entry()?;
        if !take(entry) {
            return None;
        }
    }
    Some(())
}

/// The rest of a payload.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    fn entry(&mut self) -> Option<Entry> {
        let tag = *self.take(1)?.first()?;
        Some(match tag {
            RESET => Entry::Reset { revision: self.u64()?, compacted: self.u64()? },
            TABLE => {
                let (floor, evicted) = (self.u64()?, self.u64()?);
                Entry::Table { table: self.text()?.into(), floor, evicted }
            }
            OBJECT => {
                let (table, key, record) = self.record()?;
                Entry::Object { table, key, record }
            }
            PUT => {
                let (table, key, record) = self.record()?;
                Entry::Put { table, key, record }
            }
            DELETE => {
                let revision = self.u64()?;
                Entry::Delete { table: self.text()?.into(), key: self.text()?.into(), revision }
            }
            COMPACT => Entry::Compact { revision: self.u64()? },
            LOST => Entry::Lost { after: self.u64()?, before: self.u64()? },
            RESERVE => Entry::Reserve { bound: self.u64()? },
            CLEAN => Entry::Clean { revision: self.u64()? },
            _ => return None,
        })
    }

    fn record(&mut self) -> Option<(Arc<str>, Box<str>, Arc<Record>)> {
        let (revision, schema_stamp, deleting) = (self.u64()?, self.u64()?, self.u64()? != 0);
        let (table, key, uid) = (self.text()?.into(), self.text()?.into(), self.text()?.into());
        let layout =
            Layout { body: self.u32()?, metadata: (self.u32()?, self.u32()?), version: (self.u32()?, self.u32()?) };
        let (labels, fields) = (self.u32()?, self.u32()?);
        let labels = (0..labels).map(|_| Some((self.text()?.into(), self.text()?.into()))).collect::<Option<_>>()?;
        let fields = (0..fields).map(|_| Some(self.text()?.into())).collect::<Option<_>>()?;
        let json = Bytes::copy_from_slice(self.bytes()?);
        let owned = json.get(layout.metadata.0 as usize..layout.metadata.1 as usize).is_some_and(has_owners);
        let facts = Facts { uid, labels, fields, deleting, owned, schema_stamp };
        Some((table, key, Arc::new(Record::restored(json, layout, revision, facts)?)))
    }
}

/// Returns whether metadata has owner references. Records do not store it.
fn has_owners(metadata: &[u8]) -> bool {
    let metadata = std::str::from_utf8(metadata).unwrap_or_default();
    let references = JsonValue::at_path(metadata, "ownerReferences").ok().flatten();
    references.is_some_and(|references| !matches!(references.json(), "[]" | "null"))
}
