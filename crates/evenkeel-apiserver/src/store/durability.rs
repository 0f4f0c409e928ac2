//! What of a durable store may be seen: commits are published when the log has them.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use super::durable::{
    Disk, Journal, JournalEntry, JournalObserver, JournalStats, LogSettings, LogWriter, Recovered, RecoveryError,
    recover, write_backup,
};
use super::interest::Watchers;
use super::revision_waiters::RevisionWaiters;
use super::{Event, History, Store, StoreState, wake};
use crate::memory::Memory;

/// Why a durable store takes no writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WriteRefusal {
    /// A write or an fsync failed, or the store is closed.
    ReadOnly(Arc<str>),
    /// The disk is too far behind.
    Behind,
}

/// The part of a store's state that a log adds. A store in memory has the default, which is durable up to every revision.
#[derive(Debug)]
pub(super) struct Durability {
    durable: u64,
    /// Committed events that are not durable yet, oldest first.
    held: VecDeque<HeldEvent>,
    /// Requests whose response waits for the log.
    waiting: RevisionWaiters,
    read_only: Option<Arc<str>>,
}

#[derive(Debug)]
struct HeldEvent {
    table: Arc<str>,
    event: Arc<Event>,
    watchers: Arc<Watchers>,
    wake_all: bool,
}

impl Default for Durability {
    fn default() -> Self {
        Durability { durable: u64::MAX, held: VecDeque::new(), waiting: RevisionWaiters::default(), read_only: None }
    }
}

impl Durability {
    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.read_only.is_some()
    }

    /// Drops the events that are held back: the content that they led to is replaced.
    pub(super) fn forget_held(&mut self) {
        self.held.clear();
    }

    /// Holds an event back until it is durable.
    pub(super) fn hold(&mut self, table: Arc<str>, event: Arc<Event>, watchers: Arc<Watchers>, wake_all: bool) {
        self.held.push_back(HeldEvent { table, event, watchers, wake_all });
    }
}

/// Passes the reports of the log to its store.
struct StoreReports(Weak<Store>);

impl JournalObserver for StoreReports {
    fn durable(&self, revision: u64) {
        if let Some(store) = self.0.upgrade() {
            store.publish(revision);
            if store.is_compaction_due() {
                store.compact_log();
            }
        }
    }

    fn failed(&self, error: &io::Error) {
        tracing::error!(%error, "cannot write the log; the store is read-only until a restart");
        if let Some(store) = self.0.upgrade() {
            store.fail(&error.to_string());
        }
    }
}

impl Store {
    /// Opens the store of a data directory.
    pub(crate) fn open(
        history: History,
        disk: Arc<dyn Disk>,
        settings: LogSettings,
        memory: Arc<Memory>,
    ) -> Result<OpenedStore, RecoveryError> {
        let io_error = |source| RecoveryError::Io { file: "the log".into(), source };
        let LogSettings { fsync, salvage, min_compaction } = settings;
        let mut recovered = recover(&*disk, history, salvage)?;
        let log = LogWriter::open(disk, fsync, &mut recovered).map_err(io_error)?;
        let Recovered { mut state, empty, .. } = recovered;
        state.durability.durable = state.revision;
        memory.set_store(state.live, state.object_bytes, state.history_bytes);
        let mut failure = None;
        let store = Arc::new_cyclic(|store| {
            let journal = Journal::start(log, StoreReports(Weak::clone(store)));
            let journal = journal.map_err(|error| failure = Some(error)).ok();
            Store { inner: state.into(), history, memory, journal, min_compaction }
        });
        match failure {
            Some(error) => Err(io_error(error)),
            None => Ok(OpenedStore { store, empty }),
        }
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.journal.is_some()
    }

    /// Queues an entry for the log. The caller holds the lock.
    pub(super) fn log(&self, entry: impl FnOnce() -> JournalEntry) {
        if let Some(journal) = &self.journal {
            journal.push(entry());
        }
    }

    /// Returns the revision that a response of now may show and that [`Store::poll_durable`] waits for, unless it is known
    /// to be durable.
    pub(crate) fn unsynced_revision(&self) -> Option<u64> {
        self.journal.as_ref()?;
        let inner = self.read();
        let certain = inner.revision <= inner.durability.durable && inner.durability.read_only.is_none();
        (!certain).then_some(inner.revision)
    }

    /// Returns ready when a revision is durable, or with the reason why it never will be. A write of a store that has
    /// failed fails, too: it may be among those that were taken back.
    pub(crate) fn poll_durable(
        &self,
        revision: u64,
        writes: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), WriteRefusal>> {
        let mut inner = self.write();
        let durability = &mut inner.durability;
        let is_durable = durability.durable >= revision;
        match &durability.read_only {
            Some(reason) if writes || !is_durable => {
                return Poll::Ready(Err(WriteRefusal::ReadOnly(Arc::clone(reason))));
            }
            _ if is_durable => return Poll::Ready(Ok(())),
            _ => {}
        }
        durability.waiting.register(revision, cx.waker());
        Poll::Pending
    }

    /// Refuses writes to a store whose log cannot take more.
    pub(crate) fn check_writable(&self) -> Result<(), WriteRefusal> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let inner = self.read();
        if let Some(reason) = &inner.durability.read_only {
            return Err(WriteRefusal::ReadOnly(Arc::clone(reason)));
        }
        let files = journal.stats();
        let is_outgrown = files.is_compacting && files.log > self.max_log(&inner);
        if files.queued >= files.queued_limit || is_outgrown { Err(WriteRefusal::Behind) } else { Ok(()) }
    }

    /// Returns the sizes of the files of a durable store.
    pub(crate) fn journal_stats(&self) -> Option<JournalStats> {
        self.journal.as_ref().map(Journal::stats)
    }

    /// Writes the content of now to a file. Returns its revision.
    pub(crate) fn backup(&self, path: &Path) -> io::Result<u64> {
        let image = self.image();
        write_backup(path, &image)?;
        Ok(image.revision)
    }

    /// Writes what is queued, marks the log as cleanly closed, and takes no writes from now on.
    pub(crate) fn close_log(&self) {
        if let Some(journal) = &self.journal {
            journal.close();
            self.fail("the server has stopped");
        }
    }

    /// Makes the commits up to a revision visible.
    fn publish(&self, revision: u64) {
        let (held, waiting) = {
            let mut inner = self.write();
            let inner = &mut *inner;
            let durability = &mut inner.durability;
            durability.durable = durability.durable.max(revision);
            let count = durability.held.partition_point(|held| held.event.revision <= revision);
            let held: Vec<HeldEvent> = durability.held.drain(..count).collect();
            let mut waiting = durability.waiting.take_reached(durability.durable);
            let visible = inner.visible();
            waiting.append(&mut inner.waiting.take_reached(visible));
            if inner.lag > 0 {
                // This revision makes an earlier event visible, which may be of any resource.
                inner.tables.values().for_each(|table| table.watchers.wake_all());
            }
            (held, waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
        held.iter().for_each(|held| wake(&held.watchers, &held.event, held.wake_all));
    }

    /// Takes back what is not durable and refuses writes from now on.
    fn fail(&self, reason: &str) {
        let waiting = {
            let mut inner = self.write();
            let inner = &mut *inner;
            let durability = &mut inner.durability;
            if durability.read_only.is_some() {
                return;
            }
            durability.read_only = Some(reason.into());
            for held in durability.held.drain(..).rev() {
                if let Some(table) = inner.tables.get_mut(&held.table) {
                    table.undo(&held.event);
                }
            }
            // No response has shown a later revision.
            inner.revision = inner.revision.min(durability.durable);
            let mut waiting = durability.waiting.take_all();
            waiting.append(&mut inner.waiting.take_all());
            inner.count();
            self.memory.set_store(inner.live, inner.object_bytes, inner.history_bytes);
            waiting
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Returns the length at which a log is compacted. While a compaction runs, writes are refused at the same length of the
    /// next log, so that the files have a limit however slow the disk is.
    fn max_log(&self, inner: &StoreState) -> u64 {
        self.min_compaction.max(inner.object_bytes as u64 / 2)
    }

    /// Returns whether the log, or what of the snapshot is out of date, has become too long.
    fn is_compaction_due(&self) -> bool {
        let Some(files) = self.journal_stats().filter(|files| !files.is_compacting) else { return false };
        let inner = self.read();
        let content = (inner.object_bytes + inner.history_bytes) as u64;
        // A failed compaction is not repeated at every write.
        let is_shrunk =
            files.snapshot + files.log > self.min_compaction + 3 * content && files.log > self.min_compaction / 16;
        files.log >= self.max_log(&inner) || is_shrunk
    }

    /// Starts a compaction.
    pub(super) fn compact_log(&self) {
        // Excludes commits: the image has all of them that are in the log.
        let inner = self.read();
        self.log(|| JournalEntry::Rotate(inner.image()));
    }
}

/// A store and how it was found.
#[derive(Debug)]
pub(crate) struct OpenedStore {
    pub(crate) store: Arc<Store>,
    /// Whether the data directory had no content.
    pub(crate) empty: bool,
}
