//! Recovery: from the files of a data directory to the content of a store.
//!
//! `snapshot-N` is the content at the moment when `log-N` was started. Recovery reads the newest snapshot and then the logs
//! from the one of its number on. Only the last log may end in a torn write, which was never acknowledged.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::disk::Disk;
use super::entry::{Entry, read_entries};
use super::frame::{FORMAT, FileEnd, read_frames};
use crate::store::chain::{Chain, Version};
use crate::store::ring::Ring;
use crate::store::{Event, History, StoreState, Table};

/// Why the content of a data directory could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// A file could not be read or written.
    #[error("cannot read or write {file}")]
    Io {
        /// The name of the file.
        file: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Another version of evenkeel wrote the directory.
    #[error("{file} has format version {found}, and this build reads version {known}; use the build that wrote it")]
    UnknownFormat {
        /// The name of the file.
        file: String,
        /// The version in the file.
        found: u32,
        /// The version of this build.
        known: u32,
    },
    /// A record in the middle of a file is damaged: acknowledged writes would be lost.
    #[error(
        "{file} is damaged at byte {offset}; restore a backup, or start with `salvage` from the last good record, at \
         revision {last_good}, which loses up to {lost} revisions"
    )]
    Damaged {
        /// The name of the file.
        file: String,
        /// The position of the damage.
        offset: u64,
        /// The last revision before the damage.
        last_good: u64,
        /// How many revisions after the damage are known to have existed.
        lost: u64,
    },
    /// A file of the sequence is missing.
    #[error("{file} is missing; restore a backup")]
    Missing {
        /// The name of the file.
        file: String,
    },
}

/// The content of a data directory.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(in crate::store) state: StoreState,
    /// The number of the log to continue.
    pub(super) sequence: u64,
    /// The bytes of the logs since the last snapshot.
    pub(super) log_bytes: u64,
    /// No revision above this one was issued.
    pub(super) bound: u64,
    /// Whether the directory has no content yet.
    pub(in crate::store) empty: bool,
    /// The files that salvage replaces by a snapshot.
    pub(super) set_aside: Vec<String>,
}

pub(super) fn log_name(sequence: u64) -> String {
    format!("log-{sequence:010}")
}

pub(super) fn snapshot_name(sequence: u64) -> String {
    format!("snapshot-{sequence:010}")
}

/// The suffix of files that are not complete yet.
pub(super) const PARTIAL: &str = ".tmp";

/// The suffix of files that salvage has set aside.
pub(super) const DAMAGED: &str = ".damaged";

/// Reads the content of a data directory and truncates a torn write at its end.
pub(crate) fn recover(disk: &dyn Disk, history: History, salvage: bool) -> Result<Recovered, RecoveryError> {
    let names = disk.list().map_err(|source| RecoveryError::Io { file: ".".into(), source })?;
    let numbers = |prefix: &'static str| {
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    };
    let (snapshots, logs) = (numbers("snapshot-"), numbers("log-"));
    for name in names.iter().filter(|name| name.ends_with(PARTIAL)) {
        disk.remove(name).map_err(io_error(name))?;
    }
    let newest = snapshots.last().copied();
    let first = newest.unwrap_or(1);
    let mut reader = Reader::new(disk, history, salvage);
    if let Some(number) = newest {
        reader.read_file(&snapshot_name(number), false)?;
    }
    let last = logs.last().copied().unwrap_or(first).max(first);
    for number in first..=last {
        let name = log_name(number);
        if !logs.contains(&number) {
            // An empty directory, or one whose content was replaced: the snapshot is complete before its log is created.
            if number == last && logs.last().is_none_or(|log| Some(*log) < newest) {
                break;
            }
            return Err(RecoveryError::Missing { file: name });
        }
        if reader.salvaged.is_some() {
            reader.set_aside.push(name);
            continue;
        }
        reader.read_file(&name, number == last)?;
    }
    // Compaction removes these; it may have been interrupted.
    for number in logs.iter().filter(|number| **number < first) {
        disk.remove(&log_name(*number)).map_err(io_error(&log_name(*number)))?;
    }
    for number in snapshots.iter().filter(|number| Some(**number) != newest) {
        disk.remove(&snapshot_name(*number)).map_err(io_error(&snapshot_name(*number)))?;
    }
    let Reader { replay, log_bytes, salvaged, set_aside, .. } = reader;
    let empty = replay.empty;
    let mut state = replay.state;
    state.count();
    state.evict_bytes(history.bytes);
    // A clean stop leaves no revision that is not in the log.
    let bound = if replay.clean { state.revision } else { replay.bound.max(state.revision) };
    let sequence = if salvaged.is_some() { last + 1 } else { last };
    Ok(Recovered { state, sequence, log_bytes, bound, empty, set_aside })
}

/// Reads one snapshot.
pub(super) fn read_snapshot(disk: &dyn Disk, name: &str, history: History) -> Result<StoreState, RecoveryError> {
    let mut reader = Reader::new(disk, history, false);
    reader.read_file(name, false)?;
    Ok(reader.replay.state)
}

fn io_error(file: &str) -> impl FnOnce(io::Error) -> RecoveryError {
    let file = file.to_owned();
    move |source| RecoveryError::Io { file, source }
}

struct Reader<'a> {
    disk: &'a dyn Disk,
    history: History,
    salvage: bool,
    replay: Replay,
    log_bytes: u64,
    salvaged: Option<u64>,
    set_aside: Vec<String>,
}

impl<'a> Reader<'a> {
    fn new(disk: &'a dyn Disk, history: History, salvage: bool) -> Self {
        let (replay, set_aside) = (Replay::default(), Vec::new());
        Reader { disk, history, salvage, replay, log_bytes: 0, salvaged: None, set_aside }
    }

    fn read_file(&mut self, name: &str, may_be_torn: bool) -> Result<(), RecoveryError> {
        let file = self.disk.read(name).map_err(io_error(name))?;
        let mut bytes = 0;
        let replay = &mut self.replay;
        let end = read_frames(io::BufReader::with_capacity(1 << 20, file), |payload| {
            bytes += payload.len() as u64;
            read_entries(payload, |entry| replay.apply(entry, self.history)).is_some()
        });
        if name.starts_with("log-") {
            self.log_bytes += bytes;
        }
        let (offset, following) = match end.map_err(io_error(name))? {
            FileEnd::Whole => return Ok(()),
            FileEnd::Torn { offset } if may_be_torn => {
                tracing::info!(file = name, offset, "truncating a torn write, which was never acknowledged");
                return self.disk.truncate(name, offset).map_err(io_error(name));
            }
            FileEnd::UnknownFormat { found } => {
                return Err(RecoveryError::UnknownFormat { file: name.to_owned(), found, known: FORMAT });
            }
            FileEnd::NotALog => (0, Vec::new()),
            FileEnd::Torn { offset } => (offset, Vec::new()),
            FileEnd::Damaged { offset, following } => (offset, following),
        };
        let last_good = self.replay.state.revision;
        let lost = following.iter().filter_map(|payload| last_revision(payload)).max().unwrap_or(last_good);
        let lost = lost.saturating_sub(last_good);
        if !self.salvage {
            return Err(RecoveryError::Damaged { file: name.to_owned(), offset, last_good, lost });
        }
        tracing::warn!(file = name, offset, last_good, lost, "salvaging: writes after the damage are lost");
        self.salvaged = Some(lost);
        self.replay.clean = false;
        self.replay.bound = self.replay.bound.max(last_good + lost);
        // The damaged file is kept for an inspection, once its good part is in a snapshot.
        self.set_aside.push(name.to_owned());
        Ok(())
    }
}

/// Returns the highest revision of a frame.
fn last_revision(payload: &[u8]) -> Option<u64> {
    let mut last = None;
    let _ = read_entries(payload, |entry| {
        last = last.max(match entry {
            Entry::Put { record, .. } => Some(record.revision),
            Entry::Delete { revision, .. } => Some(revision),
            Entry::Reserve { bound } => Some(bound),
            _ => None,
        });
        true
    });
    last
}

/// The content that the entries read so far result in.
#[derive(Debug)]
struct Replay {
    state: StoreState,
    bound: u64,
    clean: bool,
    empty: bool,
}

impl Default for Replay {
    fn default() -> Self {
        Replay { state: StoreState::default(), bound: 0, clean: false, empty: true }
    }
}

impl Replay {
    /// Applies an entry. Returns whether it is valid in this place.
    fn apply(&mut self, entry: Entry, history: History) -> bool {
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
    fn event(
        &mut self,
        table: Arc<str>,
        key: Box<str>,
        change: Result<Arc<crate::store::Record>, u64>,
        history: History,
    ) -> bool {
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
