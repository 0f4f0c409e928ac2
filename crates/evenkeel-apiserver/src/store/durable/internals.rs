//! Logs in memory, for the fuzz targets: their frames, and what recovery makes of any bytes.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Read};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::disk::{Disk, LogFile};
use super::entry;
use super::frame::{FrameBuffer, preamble};
use super::recover::RecoveryError;
use crate::store::{Draft, Facts, History, Record};

/// An entry of a log.
#[derive(Clone, Debug, PartialEq)]
pub enum LogEntry {
    /// The content starts anew.
    Reset {
        /// The revision of the content.
        revision: u64,
        /// The history is compacted up to here.
        compacted: u64,
    },
    /// The history of a table.
    Table {
        /// The table.
        table: String,
        /// Where the history starts.
        floor: u64,
        /// The newest revision that is not in it.
        evicted: u64,
    },
    /// An object of a snapshot.
    Object(StoredObject),
    /// A write.
    Put(StoredObject),
    /// A deletion.
    Delete {
        /// The table.
        table: String,
        /// The key.
        key: String,
        /// The revision of the deletion.
        revision: u64,
    },
    /// A compaction of the history.
    Compact {
        /// Up to this revision.
        revision: u64,
    },
    /// Revisions that do not exist.
    Lost {
        /// The last revision before them.
        after: u64,
        /// The first revision after them.
        before: u64,
    },
    /// No revision above the bound is issued.
    Reserve {
        /// The bound.
        bound: u64,
    },
    /// An orderly stop.
    Clean {
        /// The last revision.
        revision: u64,
    },
}

/// An object in a log or a store.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredObject {
    /// The table.
    pub table: String,
    /// The key.
    pub key: String,
    /// The revision.
    pub revision: u64,
    /// The object.
    pub object: Value,
}

impl StoredObject {
    fn record(&self) -> Record {
        Draft::new(&self.object, Facts::default(), self.revision).preview(self.revision)
    }
}

/// Returns a log of these frames.
pub fn log_file(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = preamble().to_vec();
    frames.iter().for_each(|frame| file.extend_from_slice(frame));
    file
}

/// Returns the frame of these entries, and of a tail that need not be an entry.
pub fn log_frame(entries: &[LogEntry], tail: &[u8]) -> Vec<u8> {
    let mut frame = FrameBuffer::new();
    let out = frame.payload();
    for entry in entries {
        match entry {
            LogEntry::Reset { revision, compacted } => entry::reset(out, *revision, *compacted),
            LogEntry::Table { table, floor, evicted } => entry::table(out, table, *floor, *evicted),
            LogEntry::Object(object) => entry::object(out, &object.table, &object.key, &object.record()),
            LogEntry::Put(object) => entry::put(out, &object.table, &object.key, &object.record()),
            LogEntry::Delete { table, key, revision } => entry::delete(out, table, key, *revision),
            LogEntry::Compact { revision } => entry::compact(out, *revision),
            LogEntry::Lost { after, before } => entry::lost(out, *after, *before),
            LogEntry::Reserve { bound } => entry::reserve(out, *bound),
            LogEntry::Clean { revision } => entry::clean(out, *revision),
        }
    }
    out.extend_from_slice(tail);
    frame.finish().to_vec()
}

/// What recovery has read.
#[derive(Clone, Debug, PartialEq)]
pub struct RecoveredContent {
    /// The last revision.
    pub revision: u64,
    /// No revision above this one was issued.
    pub bound: u64,
    /// The number of objects that the store counts.
    pub live: usize,
    /// The objects, by table and key.
    pub objects: Vec<StoredObject>,
}

/// Recovers from the files of a directory, by name. Changes them as a start of the server does.
pub fn recover(files: &mut BTreeMap<String, Vec<u8>>, salvage: bool) -> Result<RecoveredContent, RecoveryError> {
    let disk = FilesInMemory(Mutex::new(std::mem::take(files)));
    let recovered = super::recover(&disk, History::default(), salvage);
    *files = disk.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    let recovered = recovered?;
    let mut objects = Vec::new();
    for (table, content) in &recovered.state.tables {
        for (key, chain) in content.objects.iter() {
            let Some(record) = chain.latest() else { continue };
            let (table, key) = (table.to_string(), key.to_string());
            objects.push(StoredObject { table, key, revision: record.revision, object: record.value() });
        }
    }
    Ok(RecoveredContent {
        revision: recovered.state.revision,
        bound: recovered.bound,
        live: recovered.state.live,
        objects,
    })
}

/// Files without a disk. Recovery appends to none.
struct FilesInMemory(Mutex<BTreeMap<String, Vec<u8>>>);

impl FilesInMemory {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for FilesInMemory {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().keys().cloned().collect())
    }

    fn read(&self, name: &str) -> io::Result<Box<dyn Read>> {
        let bytes = self.lock().get(name).cloned().ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(Cursor::new(bytes)))
    }

    fn append(&self, _name: &str) -> io::Result<Box<dyn LogFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn truncate(&self, name: &str, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.lock().get_mut(name).ok_or(io::ErrorKind::NotFound)?.truncate(length);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.lock();
        let bytes = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), bytes);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.lock().remove(name).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }
}
