//! When the files of a certificate are read. Sans-IO.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// Files are read this often even if they look unchanged: not every file system has exact times.
const REREAD: Duration = Duration::from_secs(10);

/// What shows that a file has changed: its length and its time of modification. `None` if it is missing.
pub(super) type FileStamp = Option<(u64, Option<SystemTime>)>;

/// The stamps of the certificate, the key and the certificate authority of clients.
pub(super) type FileStamps = [FileStamp; 3];

/// Decides whether files are read.
#[derive(Debug)]
pub(super) struct ReadSchedule {
    stamps: FileStamps,
    read_at: Instant,
}

impl ReadSchedule {
    /// Returns the schedule of files that had these stamps when they were read.
    pub(super) fn new(stamps: FileStamps, now: Instant) -> Self {
        ReadSchedule { stamps, read_at: now }
    }

    /// Returns whether to read the files now. The stamps must be older than the read, so that a write in between is seen as
    /// the next change.
    pub(super) fn is_due(&mut self, stamps: FileStamps, now: Instant) -> bool {
        let is_due = stamps != self.stamps || now.saturating_duration_since(self.read_at) >= REREAD;
        if is_due {
            *self = Self::new(stamps, now);
        }
        is_due
    }
}
