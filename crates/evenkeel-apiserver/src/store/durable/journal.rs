//! The journal: appends commits to the log on a thread of its own, and reports what is durable.
//!
//! A commit pushes its event to a queue while it holds the lock of the store, so the log has the order of the revisions. The
//! thread takes all queued events, writes them as one frame, syncs the file as the policy demands, and reports the revision
//! that is now durable. Responses and watch events wait for that report. While one batch is synced, the next one gathers.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Fsync;
use super::disk::Disk;
use super::log_writer::{LogWriter, Rotation};
use crate::store::{Event, Image};

/// A batch with more bytes does not wait for more.
const FULL_BATCH: usize = 1 << 20;

/// A queue with more bytes refuses writes until the disk has caught up.
const MAX_QUEUED: usize = 64 << 20;

/// One entry on its way to the log.
#[derive(Debug)]
pub(in crate::store) enum JournalEntry {
    /// A committed write.
    Event { table: Arc<str>, event: Arc<Event> },
    /// The history is compacted up to this revision.
    Compact(u64),
    /// The revisions between these are lost.
    Lost { after: u64, before: u64 },
    /// Everything so far is in the image: a new log starts, and the image is written beside it.
    Rotate(Image),
    /// The image replaces the content.
    Replace(Image),
}

impl JournalEntry {
    fn bytes(&self) -> usize {
        let JournalEntry::Event { event, .. } = self else { return 64 };
        64 + event.current.as_ref().map_or(0, |record| record.json().len())
    }
}

/// Receives the reports of the thread.
pub(in crate::store) trait JournalObserver: Send + 'static {
    /// All revisions up to this one are durable.
    fn durable(&self, revision: u64);
    /// A write or an fsync has failed. Nothing after the last durable revision is known to be durable.
    fn failed(&self, error: &io::Error);
}

/// The queue and the thread of the log. Dropping it writes what is queued and stops the thread.
pub(in crate::store) struct Journal {
    shared: Arc<JournalShared>,
    running: Mutex<Option<RunningLog>>,
}

/// The thread, and the disk, whose lock is held until the journal is closed, also after a failure.
type RunningLog = (JoinHandle<()>, Arc<dyn Disk>);

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct JournalShared {
    queue: Mutex<JournalQueue>,
    filled: Condvar,
    /// Set when the journal closes: a compaction gives up.
    closed: AtomicBool,
    /// The length of the log since the last snapshot.
    log_bytes: AtomicU64,
    /// The length of the last snapshot.
    snapshot_bytes: AtomicU64,
    /// Set while a compaction runs.
    compacting: AtomicBool,
    /// Set while the log is synced ahead.
    syncing: AtomicBool,
    /// The error of a sync ahead.
    failure: Mutex<Option<io::Error>>,
}

/// The sizes of the files and of the queue, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JournalStats {
    /// The log since the last snapshot.
    pub(crate) log: u64,
    /// The last snapshot.
    pub(crate) snapshot: u64,
    /// Writes that are not in the log yet, and their limit.
    pub(crate) queued: usize,
    pub(crate) queued_limit: usize,
    /// A compaction runs: a new snapshot is written beside the old files.
    pub(crate) is_compacting: bool,
}

#[derive(Default)]
struct JournalQueue {
    entries: Vec<JournalEntry>,
    bytes: usize,
    closed: bool,
}

impl JournalShared {
    fn lock(&self) -> MutexGuard<'_, JournalQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Waits for entries and returns them. Returns none when the journal is closed and the queue is empty.
    fn take_batch(&self, group: Option<Duration>) -> Vec<JournalEntry> {
        let mut queue = self.lock();
        while queue.entries.is_empty() && !queue.closed {
            queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(window) = group {
            let waits = |queue: &mut JournalQueue| !queue.closed && queue.bytes < FULL_BATCH;
            let waited = self.filled.wait_timeout_while(queue, window, waits);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        queue.bytes = 0;
        std::mem::take(&mut queue.entries)
    }

    /// The thread: writes batches until the journal is closed or a write fails.
    fn run(self: &Arc<Self>, mut log: LogWriter, observer: &impl JournalObserver) {
        let group = match log.fsync {
            Fsync::Group(window) => Some(window),
            Fsync::Always | Fsync::Never => None,
        };
        let mut compaction: Option<JoinHandle<()>> = None;
        self.log_bytes.store(log.bytes, Ordering::Release);
        loop {
            let batch = self.take_batch(group);
            let written = match (batch.is_empty(), self.take_failure()) {
                (_, Some(error)) => Err(error),
                (true, None) => break,
                (false, None) => log.write(batch).and_then(|rotation| self.sync_ahead(&mut log).map(|()| rotation)),
            };
            match written {
                Ok(rotation) => {
                    compaction = rotation.and_then(|rotation| self.compact(rotation)).or(compaction);
                    self.log_bytes.store(log.bytes, Ordering::Release);
                    if let Some(bytes) = log.replaced_by.take() {
                        self.snapshot_bytes.store(bytes, Ordering::Release);
                    }
                    observer.durable(log.revision);
                }
                Err(error) => {
                    let mut queue = self.lock();
                    queue.closed = true;
                    queue.entries.clear();
                    drop(queue);
                    return observer.failed(&error);
                }
            }
        }
        if let Some(thread) = compaction {
            // A panic of the thread is reported by the hook.
            let _ = thread.join();
        }
        if let Err(error) = log.close() {
            tracing::warn!(%error, "cannot mark the log as cleanly closed; the next start skips the reserved revisions");
        }
    }

    fn take_failure(&self) -> Option<io::Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Syncs a log with many bytes that are not synced on a thread of its own, unless one does already. Writes go on.
    fn sync_ahead(self: &Arc<Self>, log: &mut LogWriter) -> io::Result<()> {
        if self.syncing.load(Ordering::Acquire) {
            return Ok(());
        }
        let Some(mut file) = log.sync_ahead()? else { return Ok(()) };
        self.syncing.store(true, Ordering::Release);
        let shared = Arc::clone(self);
        let sync = move || {
            if let Err(error) = file.sync() {
                *shared.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
            shared.syncing.store(false, Ordering::Release);
        };
        // The thread ends with its sync. If it cannot be started, the rotation syncs.
        if std::thread::Builder::new().name("evenkeel-sync".into()).spawn(sync).is_err() {
            self.syncing.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// Starts the compaction on a thread of its own. Without a thread the old files stay until the next one.
    fn compact(self: &Arc<Self>, rotation: Rotation) -> Option<JoinHandle<()>> {
        self.compacting.store(true, Ordering::Release);
        let running = RunningCompaction(Arc::clone(self));
        let thread = std::thread::Builder::new().name("evenkeel-compaction".into());
        let compact = move || {
            if let Some(bytes) = rotation.compact(|| running.0.is_closed()) {
                running.0.snapshot_bytes.store(bytes, Ordering::Release);
            }
        };
        thread.spawn(compact).ok()
    }
}

/// Dropped when a compaction ends, however it ends.
struct RunningCompaction(Arc<JournalShared>);

impl Drop for RunningCompaction {
    fn drop(&mut self) {
        self.0.compacting.store(false, Ordering::Release);
    }
}

impl Journal {
    /// Starts the thread.
    pub(in crate::store) fn start(log: LogWriter, observer: impl JournalObserver) -> io::Result<Self> {
        let shared = JournalShared { snapshot_bytes: log.snapshot_bytes.into(), ..JournalShared::default() };
        let shared = Arc::new(shared);
        let (queue, disk) = (Arc::clone(&shared), Arc::clone(&log.disk));
        let thread = std::thread::Builder::new().name("evenkeel-log".into());
        let thread = thread.spawn(move || queue.run(log, &observer))?;
        Ok(Journal { shared, running: Mutex::new(Some((thread, disk))) })
    }

    /// Queues an entry. The caller holds the lock of the store.
    pub(in crate::store) fn push(&self, entry: JournalEntry) {
        let mut queue = self.shared.lock();
        if queue.closed {
            return;
        }
        queue.bytes += entry.bytes();
        queue.entries.push(entry);
        if queue.entries.len() == 1 || queue.bytes >= FULL_BATCH {
            self.shared.filled.notify_one();
        }
    }

    /// Returns the sizes of the files and of the queue.
    pub(in crate::store) fn stats(&self) -> JournalStats {
        let shared = &self.shared;
        JournalStats {
            log: shared.log_bytes.load(Ordering::Acquire),
            snapshot: shared.snapshot_bytes.load(Ordering::Acquire),
            queued: shared.lock().bytes,
            queued_limit: MAX_QUEUED,
            is_compacting: shared.compacting.load(Ordering::Acquire),
        }
    }

    /// Writes what is queued, marks the log as cleanly closed, and releases the disk.
    pub(in crate::store) fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
        self.shared.lock().closed = true;
        self.shared.filled.notify_all();
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((thread, _disk)) = running
            // The thread itself may drop the last reference to the store.
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic of the thread is reported by the hook.
            let _ = thread.join();
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.close();
    }
}
