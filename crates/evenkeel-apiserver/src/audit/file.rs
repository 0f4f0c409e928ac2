//! [`AuditFile`]: the audit log as a file of JSON lines, written by a thread of its own and rotated by size.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::metrics::Metrics;

/// The events and the bytes that wait for the disk. Beyond them, events are dropped and counted.
const MAX_QUEUED: usize = 4096;
const MAX_QUEUED_BYTES: usize = 16 << 20;
/// The time that a shutdown waits for the disk.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// The file of the audit log cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the audit log {}", path.display())]
pub struct AuditLogError {
    /// The path of the file.
    pub path: PathBuf,
    /// The error of the operating system.
    pub source: io::Error,
}

/// When a file is rotated, and how many old ones are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rotation {
    pub(crate) max_bytes: u64,
    pub(crate) backups: usize,
}

impl Default for Rotation {
    fn default() -> Self {
        Rotation { max_bytes: 100 << 20, backups: 5 }
    }
}

/// The sender's side of the log. The thread ends when it is dropped, after it has written what is queued.
#[derive(Debug)]
pub(crate) struct AuditFile {
    queue: SyncSender<Entry>,
    state: Arc<FileState>,
}

#[derive(Debug)]
struct FileState {
    queued_bytes: AtomicUsize,
    /// Whether the loss of events has been reported since the last event that was written.
    failing: AtomicBool,
    metrics: Arc<Metrics>,
}

enum Entry {
    Line(Bytes),
    /// Signals that everything before it is written.
    Flush(oneshot::Sender<()>),
}

impl AuditFile {
    pub(crate) fn open(path: &Path, rotation: Rotation, metrics: Arc<Metrics>) -> Result<Self, AuditLogError> {
        let state = Arc::new(FileState { queued_bytes: AtomicUsize::new(0), failing: AtomicBool::new(false), metrics });
        let failed = |source| AuditLogError { path: path.to_owned(), source };
        let log = RotatedFile::open(path.to_owned(), rotation).map_err(failed)?;
        let (queue, lines) = sync_channel(MAX_QUEUED);
        let writer = Arc::clone(&state);
        let thread = std::thread::Builder::new().name("audit-log".into());
        thread.spawn(move || writer.run(log, &lines)).map_err(failed)?;
        Ok(AuditFile { queue, state })
    }

    /// Queues a line. It never blocks: if the disk does not keep up, the line is dropped and counted.
    pub(crate) fn write(&self, line: Bytes) {
        let length = line.len();
        let queued = self.state.queued_bytes.fetch_add(length, Ordering::Relaxed) + length;
        if queued > MAX_QUEUED_BYTES || self.queue.try_send(Entry::Line(line)).is_err() {
            self.state.queued_bytes.fetch_sub(length, Ordering::Relaxed);
            self.state.lost(&"the disk does not keep up");
        }
    }

    /// Waits until everything that was queued is written, for at most two seconds.
    pub(crate) async fn flush(&self) {
        let (done, written) = oneshot::channel();
        // A full queue is a disk that hangs; a closed one has nothing left to write.
        if self.queue.try_send(Entry::Flush(done)).is_ok() {
            let _ = tokio::time::timeout(FLUSH_TIMEOUT, written).await;
        }
    }
}

impl FileState {
    fn run(&self, mut log: RotatedFile, lines: &Receiver<Entry>) {
        while let Ok(entry) = lines.recv() {
            match entry {
                Entry::Line(line) => {
                    self.queued_bytes.fetch_sub(line.len(), Ordering::Relaxed);
                    match log.write(&line) {
                        Ok(()) => {
                            if self.failing.swap(false, Ordering::Relaxed) {
                                tracing::warn!("audit log is written again");
                            }
                        }
                        Err(error) => self.lost(&error),
                    }
                }
                // The receiver may have given up.
                Entry::Flush(done) => drop(done.send(())),
            }
        }
    }

    /// Counts a lost event, and reports the first one after a success.
    fn lost(&self, why: &dyn std::fmt::Display) {
        self.metrics.audit_errors.fetch_add(1, Ordering::Relaxed);
        if !self.failing.swap(true, Ordering::Relaxed) {
            tracing::error!(%why, "audit log cannot be written; dropping events");
        }
    }
}

/// A file that is renamed to `NAME.1` when it is full; `NAME.1` is renamed to `NAME.2`, and so on.
#[derive(Debug)]
struct RotatedFile {
    path: PathBuf,
    rotation: Rotation,
    /// `None` after an error: the next write opens the file again.
    file: Option<(File, u64)>,
}

impl RotatedFile {
    fn open(path: PathBuf, rotation: Rotation) -> io::Result<Self> {
        let file = open(&path)?;
        Ok(RotatedFile { path, rotation, file: Some(file) })
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let (mut file, mut size) = match self.file.take() {
            Some(opened) => opened,
            None => open(&self.path)?,
        };
        if size > 0 && size + line.len() as u64 > self.rotation.max_bytes {
            drop(file);
            self.rotate()?;
            (file, size) = open(&self.path)?;
        }
        file.write_all(line)?;
        self.file = Some((file, size + line.len() as u64));
        Ok(())
    }

    fn rotate(&self) -> io::Result<()> {
        let numbered = |number: usize| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        if self.rotation.backups == 0 {
            return fs::remove_file(&self.path);
        }
        for number in (1..self.rotation.backups).rev() {
            match fs::rename(numbered(number), numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, numbered(1))
    }
}

/// Opens the log for appending; only its owner can read it.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

#[cfg(test)]
mod tests;
