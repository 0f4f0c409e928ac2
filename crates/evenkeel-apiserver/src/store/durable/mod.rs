//! The durable form of a store: a log of its commits, and snapshots that replace old parts of the log.
//!
//! | where | what |
//! |---|---|
//! | `disk` | the file operations, as a trait |
//! | `backup` | the content in one file |
//! | `frame`, `entry` | the format of the files |
//! | `recover`, `replay` | from files to a store |
//! | `log_writer`, `snapshot_file` | from commits to files |
//! | `journal` | the queue and the thread between a store and its log |

mod backup;
mod disk;
mod entry;
mod frame;
#[cfg(feature = "internals")]
pub(crate) mod internals;
mod journal;
mod log_writer;
mod recover;
mod replay;
mod snapshot_file;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use backup::BackupSummary;
pub(in crate::store) use backup::write_backup;
pub(crate) use backup::{BackupError, copy, read_backup};
pub(crate) use disk::{Disk, Folder, FolderError};
pub(crate) use journal::JournalStats;
pub(in crate::store) use journal::{Journal, JournalEntry, JournalObserver};
pub(in crate::store) use log_writer::LogWriter;
pub use recover::RecoveryError;
pub(crate) use recover::{Recovered, recover};

/// The settings of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogSettings {
    pub(crate) fsync: Fsync,
    /// Starts from the last good record of a damaged file.
    pub(crate) salvage: bool,
    /// A log with fewer bytes is not compacted.
    pub(crate) min_compaction: u64,
}

impl Default for LogSettings {
    fn default() -> Self {
        LogSettings { fsync: Fsync::default(), salvage: false, min_compaction: 64 << 20 }
    }
}

/// When a durable server syncs its log.
///
/// Under every policy a response and a watch event leave only after the write is handed to the operating system, so
/// that a killed process loses nothing that a client has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fsync {
    /// Every write is on stable storage before its response leaves. Writes that arrive during a sync share the next one.
    Always,
    /// As `Always`, but a sync waits this long for more writes to share it.
    Group(Duration),
    /// The operating system decides when to sync. A power loss may lose acknowledged writes; the revisions of those are
    /// not issued again.
    Never,
}

impl Default for Fsync {
    /// Waits 5 ms for writes that share a sync.
    fn default() -> Self {
        Fsync::Group(Duration::from_millis(5))
    }
}
