//! Recovery: from the files of a data directory to the content of a store.
//!
//! `snapshot-N` is the content at the moment when `log-N` was started. Recovery reads the newest snapshot and then the logs
//! from the one of its number on. Only the last log may end in a torn write, which was never acknowledged.

use std::io;

use super::disk::Disk;
use super::entry::{Entry, read_entries};
use super::frame::{FORMAT, FileEnd, read_frames};
use super::replay::Replay;
use crate::store::{History, StoreState};

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
    /// The bytes of the last snapshot.
    pub(super) snapshot_bytes: u64,
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

/// How often a data directory that another process changes is read.
const READ_ATTEMPTS: usize = 5;

/// The suffix of files that are not complete yet.
pub(super) const PARTIAL: &str = ".tmp";

/// The suffix of files that salvage has set aside.
pub(super) const DAMAGED: &str = ".damaged";

/// The files of a data directory.
struct DataFiles {
    names: Vec<String>,
    /// The numbers of the snapshots and logs, ascending.
    snapshots: Vec<u64>,
    logs: Vec<u64>,
}

impl DataFiles {
    fn list(disk: &dyn Disk) -> Result<Self, RecoveryError> {
        let names = disk.list().map_err(io_error("."))?;
        let numbers = |prefix: &str| {
            let mut numbers: Vec<u64> =
                names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
            numbers.sort_unstable();
            numbers
        };
        Ok(DataFiles { snapshots: numbers("snapshot-"), logs: numbers("log-"), names })
    }

    /// Returns the number of the newest snapshot.
    fn newest(&self) -> Option<u64> {
        self.snapshots.last().copied()
    }

    /// Returns the number of the first log that is not part of the newest snapshot.
    fn first(&self) -> u64 {
        self.newest().unwrap_or(1)
    }

    /// Returns the number of the last log.
    fn last(&self) -> u64 {
        self.logs.last().copied().unwrap_or(0).max(self.first())
    }
}

/// Reads the content of a data directory and truncates a torn write at its end.
pub(crate) fn recover(disk: &dyn Disk, history: History, salvage: bool) -> Result<Recovered, RecoveryError> {
    let files = DataFiles::list(disk)?;
    for name in files.names.iter().filter(|name| name.ends_with(PARTIAL)) {
        disk.remove(name).map_err(io_error(name))?;
    }
    let mut reader = Reader::new(disk, history, if salvage { OnDamage::Salvage } else { OnDamage::Fail });
    reader.read_files(&files)?;
    // Compaction removes these; it may have been interrupted.
    for number in files.logs.iter().filter(|number| **number < files.first()) {
        disk.remove(&log_name(*number)).map_err(io_error(&log_name(*number)))?;
    }
    for number in files.snapshots.iter().filter(|number| Some(**number) != files.newest()) {
        disk.remove(&snapshot_name(*number)).map_err(io_error(&snapshot_name(*number)))?;
    }
    let Reader { replay, log_bytes, snapshot_bytes, salvaged, set_aside, .. } = reader;
    let empty = replay.empty;
    let mut state = replay.state;
    state.count();
    state.evict_bytes(history.bytes);
    // A clean stop leaves no revision that is not in the log.
    let bound = if replay.clean { state.revision } else { replay.bound.max(state.revision) };
    let sequence = if salvaged.is_some() { files.last() + 1 } else { files.last() };
    Ok(Recovered { state, sequence, log_bytes, snapshot_bytes, bound, empty, set_aside })
}

/// Reads the content of a data directory and changes nothing. Another process may use the directory. Returns `None` if it
/// has no content.
pub(super) fn read_only(disk: &dyn Disk, history: History) -> Result<Option<StoreState>, RecoveryError> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let mut reader = Reader::new(disk, history, OnDamage::Report);
        match DataFiles::list(disk).and_then(|files| reader.read_files(&files)) {
            Ok(()) => {
                let Replay { mut state, bound, empty, .. } = reader.replay;
                state.count();
                // A server that has not written its first objects yet may have shown its revision, which is below the bound.
                if state.revision == 0 {
                    state.revision = bound;
                }
                return Ok((!empty).then_some(state));
            }
            // The other process has removed a file after a compaction, or has written the end of the log meanwhile.
            Err(error) if attempt < READ_ATTEMPTS && may_be_temporary(&error) => {
                tracing::debug!(%error, attempt, "the data directory changed while it was read; reading it again");
            }
            Err(error) => return Err(error),
        }
    }
}

fn may_be_temporary(error: &RecoveryError) -> bool {
    match error {
        RecoveryError::Io { source, file } => source.kind() == io::ErrorKind::NotFound && file != ".",
        RecoveryError::Missing { .. } | RecoveryError::Damaged { .. } => true,
        RecoveryError::UnknownFormat { .. } => false,
    }
}

/// Reads one snapshot.
pub(super) fn read_snapshot(disk: &dyn Disk, name: &str, history: History) -> Result<StoreState, RecoveryError> {
    let mut reader = Reader::new(disk, history, OnDamage::Fail);
    reader.read_file(name, false)?;
    Ok(reader.replay.state)
}

fn io_error(file: &str) -> impl FnOnce(io::Error) -> RecoveryError {
    let file = file.to_owned();
    move |source| RecoveryError::Io { file, source }
}

/// What happens at a damaged record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnDamage {
    /// An error. A torn write at the end of the last log is truncated.
    Fail,
    /// What follows is lost. A torn write at the end of the last log is truncated.
    Salvage,
    /// An error. A torn write at the end of the last log is ignored: no file is changed.
    Report,
}

struct Reader<'a> {
    disk: &'a dyn Disk,
    history: History,
    on_damage: OnDamage,
    replay: Replay,
    log_bytes: u64,
    snapshot_bytes: u64,
    salvaged: Option<u64>,
    set_aside: Vec<String>,
}

impl<'a> Reader<'a> {
    fn new(disk: &'a dyn Disk, history: History, on_damage: OnDamage) -> Self {
        let (replay, set_aside) = (Replay::default(), Vec::new());
        Reader { disk, history, on_damage, replay, log_bytes: 0, snapshot_bytes: 0, salvaged: None, set_aside }
    }

    /// Reads the newest snapshot and the logs after it.
    fn read_files(&mut self, files: &DataFiles) -> Result<(), RecoveryError> {
        if let Some(number) = files.newest() {
            self.read_file(&snapshot_name(number), false)?;
        }
        let last = files.last();
        for number in files.first()..=last {
            let name = log_name(number);
            if !files.logs.contains(&number) {
                // An empty directory, or one whose content was replaced: the snapshot is complete before its log is created.
                if number == last && files.logs.last().is_none_or(|log| Some(*log) < files.newest()) {
                    break;
                }
                return Err(RecoveryError::Missing { file: name });
            }
            if self.salvaged.is_some() {
                self.set_aside.push(name);
                continue;
            }
            self.read_file(&name, number == last)?;
        }
        Ok(())
    }

    fn read_file(&mut self, name: &str, may_be_torn: bool) -> Result<(), RecoveryError> {
        let file = self.disk.read(name).map_err(io_error(name))?;
        let mut bytes = 0;
        let replay = &mut self.replay;
        let end = read_frames(io::BufReader::with_capacity(1 << 20, file), |payload| {
            bytes += payload.len() as u64;
            read_entries(payload, |entry| replay.apply(entry, self.history)).is_some()
        });
        match name.starts_with("log-") {
            true => self.log_bytes += bytes,
            false => self.snapshot_bytes += bytes,
        }
        let (offset, following) = match end.map_err(io_error(name))? {
            FileEnd::Whole => return Ok(()),
            FileEnd::Torn { .. } if may_be_torn && self.on_damage == OnDamage::Report => return Ok(()),
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
        if self.on_damage != OnDamage::Salvage {
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
