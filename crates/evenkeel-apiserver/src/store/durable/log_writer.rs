//! The log writer: entries in, frames out. It runs where it is called; the thread is in `journal`.

use std::io;
use std::sync::Arc;

use super::Fsync;
use super::disk::{Disk, LogFile, write_all};
use super::entry;
use super::frame::{FrameBuffer, PREAMBLE, preamble};
use super::journal::JournalEntry;
use super::recover::{DAMAGED, Recovered, log_name, snapshot_name};
use super::snapshot_file;
use crate::store::Image;

/// How far ahead revisions are reserved (DUR-005).
const RESERVED: u64 = 10_000;

/// A frame with more bytes is written before the rest of its batch.
const FULL_FRAME: usize = 32 << 20;

/// A log with more bytes that are not synced is synced in the background, so that the sync of a rotation is short.
const SYNC_AHEAD: u64 = 8 << 20;

/// The open log of a data directory.
pub(in crate::store) struct LogWriter {
    pub(super) disk: Arc<dyn Disk>,
    file: Box<dyn LogFile>,
    pub(super) fsync: Fsync,
    sequence: u64,
    /// The length of the log since the last snapshot.
    pub(super) bytes: u64,
    /// The bytes that no sync has been asked for.
    unsynced: u64,
    /// The length of the snapshot that the log was opened with.
    pub(super) snapshot_bytes: u64,
    /// The length of the snapshot that has replaced the content.
    pub(super) replaced_by: Option<u64>,
    /// No revision above this one is reported as durable before a higher bound is synced.
    bound: u64,
    /// The last revision that is written.
    pub(super) revision: u64,
    frame: FrameBuffer,
}

/// A new log has started with the content of an image, which is to be written beside it.
pub(super) struct Rotation {
    disk: Arc<dyn Disk>,
    sequence: u64,
    bound: u64,
    image: Image,
}

impl LogWriter {
    /// Opens the log of a recovered content and makes the revisions that may have been lost unusable.
    pub(in crate::store) fn open(disk: Arc<dyn Disk>, fsync: Fsync, recovered: &mut Recovered) -> io::Result<Self> {
        let Recovered { state, sequence, log_bytes, snapshot_bytes, bound, set_aside, .. } = recovered;
        let after = state.revision;
        let unclean = *bound > after;
        if unclean {
            state.revision = *bound + 1;
            if let Some(floor) = state.lost.add(after, state.revision) {
                state.compact(floor);
            }
        }
        let (revision, bound) = (state.revision, state.revision + RESERVED);
        if !set_aside.is_empty() {
            let written = snapshot_file::write(&*disk, &snapshot_name(*sequence), &state.image(), bound, || false)?;
            *snapshot_bytes = written.unwrap_or(*snapshot_bytes);
            for name in set_aside {
                disk.rename(name, &format!("{name}{DAMAGED}"))?;
            }
        }
        let file = open_log(&*disk, *sequence)?;
        let frame = FrameBuffer::new();
        let (sequence, bytes, snapshot_bytes, replaced_by) = (*sequence, *log_bytes, *snapshot_bytes, None);
        let mut log = LogWriter {
            disk,
            file,
            fsync,
            sequence,
            bytes,
            unsynced: 0,
            snapshot_bytes,
            replaced_by,
            bound,
            revision,
            frame,
        };
        if unclean {
            entry::lost(log.frame.payload(), after, revision);
        }
        entry::reserve(log.frame.payload(), bound);
        log.flush(true)?;
        Ok(log)
    }

    /// Writes a batch. When this returns, all of it is as durable as the policy demands. After an error nothing of it is
    /// known to be, and the log must not be written again: the file may end in the middle of a frame, and the operating
    /// system reports a failed fsync only once.
    pub(super) fn write(&mut self, batch: Vec<JournalEntry>) -> io::Result<Option<Rotation>> {
        let mut rotation = None;
        for entry in batch {
            let out = self.frame.payload();
            match entry {
                JournalEntry::Event { table, event } => {
                    match &event.current {
                        Some(record) => entry::put(out, &table, &event.key, record),
                        None => entry::delete(out, &table, &event.key, event.revision),
                    }
                    self.revision = event.revision;
                }
                JournalEntry::Compact(revision) => entry::compact(out, revision),
                JournalEntry::Lost { after, before } => {
                    entry::lost(out, after, before);
                    self.revision = before;
                }
                JournalEntry::Rotate(image) => rotation = Some(self.rotate(image)?),
                JournalEntry::Replace(image) => self.replace(&image)?,
            }
            if self.frame.len() > FULL_FRAME {
                self.flush(false)?;
            }
        }
        self.flush(false)?;
        Ok(rotation)
    }

    /// Marks the log as cleanly closed.
    pub(super) fn close(&mut self) -> io::Result<()> {
        entry::clean(self.frame.payload(), self.revision);
        self.flush(true)
    }

    /// Writes the frame and syncs it as the policy demands.
    fn flush(&mut self, sync: bool) -> io::Result<()> {
        let mut sync = sync || self.fsync != Fsync::Never;
        if self.revision > self.bound {
            self.bound = self.revision + RESERVED;
            entry::reserve(self.frame.payload(), self.bound);
            sync = true;
        }
        if !self.frame.is_empty() {
            let frame = self.frame.finish();
            self.bytes += frame.len() as u64;
            self.unsynced += frame.len() as u64;
            write_all(&mut *self.file, frame)?;
            self.frame.clear();
            if sync {
                self.sync()?;
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.unsynced = 0;
        self.file.sync()
    }

    /// Returns a handle of the log if many of its bytes are not synced. The caller syncs it, and does not write the log any
    /// more if that fails.
    pub(super) fn sync_ahead(&mut self) -> io::Result<Option<Box<dyn LogFile>>> {
        if self.unsynced < SYNC_AHEAD {
            return Ok(None);
        }
        self.unsynced = 0;
        self.file.duplicate().map(Some)
    }

    /// Starts the next log. Everything before is in the image.
    fn rotate(&mut self, image: Image) -> io::Result<Rotation> {
        // Only the last log may end in a torn write, so this one is synced under every policy.
        self.flush(true)?;
        self.sync()?;
        self.sequence += 1;
        self.file = open_log(&*self.disk, self.sequence)?;
        self.bytes = 0;
        Ok(Rotation { disk: Arc::clone(&self.disk), sequence: self.sequence, bound: self.bound, image })
    }

    /// Replaces the content by an image, atomically: the new snapshot is complete before its log starts.
    fn replace(&mut self, image: &Image) -> io::Result<()> {
        self.flush(true)?;
        self.revision = image.revision;
        self.bound = self.bound.max(self.revision + RESERVED);
        let sequence = self.sequence + 1;
        self.replaced_by = snapshot_file::write(&*self.disk, &snapshot_name(sequence), image, self.bound, || false)?;
        self.sequence = sequence;
        self.file = open_log(&*self.disk, sequence)?;
        self.bytes = 0;
        remove_before(&*self.disk, sequence);
        Ok(())
    }
}

impl Rotation {
    /// Writes the image and removes the files that it replaces. Returns the length of the snapshot. An error leaves the old
    /// files, and the next rotation tries again.
    pub(super) fn compact(self, is_cancelled: impl Fn() -> bool) -> Option<u64> {
        let name = snapshot_name(self.sequence);
        match snapshot_file::write(&*self.disk, &name, &self.image, self.bound, is_cancelled) {
            Ok(written) => written.inspect(|_| remove_before(&*self.disk, self.sequence)),
            Err(error) => {
                tracing::warn!(%error, file = name, "cannot compact the log; the old files stay");
                None
            }
        }
    }
}

/// Removes the snapshots and logs before a number. What cannot be removed now is removed at the next start.
fn remove_before(disk: &dyn Disk, sequence: u64) {
    let is_old = |name: &str| {
        let number = name.strip_prefix("log-").or_else(|| name.strip_prefix("snapshot-"));
        number.and_then(|number| number.parse::<u64>().ok()).is_some_and(|number| number < sequence)
    };
    for name in disk.list().unwrap_or_default().iter().filter(|name| is_old(name)) {
        if let Err(error) = disk.remove(name) {
            tracing::warn!(%error, file = name, "cannot remove a compacted file");
        }
    }
}

/// Opens a log for appending. A new one gets its preamble and its place in the directory, both synced.
fn open_log(disk: &dyn Disk, sequence: u64) -> io::Result<Box<dyn LogFile>> {
    let name = log_name(sequence);
    let is_new = match disk.read(&name) {
        Ok(mut file) => io::Read::read(&mut file, &mut [0; PREAMBLE])? == 0,
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(error),
    };
    let mut file = disk.append(&name)?;
    if is_new {
        write_all(&mut *file, &preamble())?;
        file.sync()?;
        disk.sync_directory()?;
    }
    Ok(file)
}
