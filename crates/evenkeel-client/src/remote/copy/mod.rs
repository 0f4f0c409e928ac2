//! Copies of files and directories into and out of containers, through `tar` in the container.
//!
//! ```text
//! copy_to:   local files ──► pack ──► channel ──► standard input  ──► tar -x   (container)
//! copy_from: local files ◄── unpack ◄── channel ◄── standard output ◄── tar -c (container)
//! ```
//!
//! `pack` and `unpack` are blocking code on a thread of tokio's blocking pool: files are blocking I/O anyway. `bridge`
//! connects them to the session by a bounded channel. `request` is the edge: it runs `tar` and joins both halves.
//! `destination` is the only code that writes files.

mod bridge;
mod destination;
mod error;
mod pack;
mod remote_path;
mod request;
#[cfg(test)]
mod tests;
mod unpack;

use std::path::PathBuf;

pub use self::error::CopyError;
pub use self::request::{CopyFrom, CopyTo};

/// The number of skipped entries that a report lists.
const MAX_SKIPPED: usize = 1000;

/// The limits of a copy out of a container, whose content is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyLimits {
    /// The bytes of all files. Default: 16 GiB.
    pub bytes: u64,
    /// The number of files, directories and skipped entries. Default: one million.
    pub entries: u64,
    /// The length of a path, in bytes. Default: 4096.
    pub path_length: usize,
}

impl Default for CopyLimits {
    fn default() -> Self {
        CopyLimits { bytes: 16 << 30, entries: 1_000_000, path_length: 4096 }
    }
}

/// What was copied, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyReport {
    /// The number of files.
    pub files: u64,
    /// The number of directories, without those that only occur in the paths of files.
    pub directories: u64,
    /// The number of symbolic links; zero for copies out of containers, which skip them.
    pub symlinks: u64,
    /// The bytes of all files.
    pub bytes: u64,
    /// The first 1000 entries that were not copied.
    pub skipped: Vec<SkippedEntry>,
    /// The number of entries that were not copied.
    pub skipped_count: u64,
}

/// An entry that was not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedEntry {
    /// Its path below the source.
    pub path: PathBuf,
    /// Why it was not copied.
    pub reason: SkipReason,
}

/// Why an entry was not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// It is a symbolic link.
    Symlink {
        /// The path that it points to, as the container states it.
        target: PathBuf,
    },
    /// It is a hard link to something that was not copied. Other hard links are copied as files.
    HardLink {
        /// The path of the file, as the container states it.
        target: PathBuf,
    },
    /// It is a device, a named pipe, a socket, or of an unknown type.
    Special,
}

impl CopyReport {
    fn skip(&mut self, path: PathBuf, reason: SkipReason) {
        self.skipped_count += 1;
        if self.skipped.len() < MAX_SKIPPED {
            self.skipped.push(SkippedEntry { path, reason });
        }
    }
}
