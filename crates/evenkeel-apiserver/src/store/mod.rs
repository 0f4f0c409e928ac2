//! The store: every object of the server, its recent history, and the watches on it.
//!
//! There is one revision counter. Every committed write takes the next revision, which becomes the resource version of
//! the object. Resource versions are therefore unique across all resources and ordered by time, as in etcd. Writes that
//! change nothing or fail, and dry runs, take none.
//!
//! Each resource is a [`Table`]: an ordered map from key (`namespace/name` or `name`) to the versions of that object,
//! and a bounded ring of events. The ring alone decides how far back reads and watches reach: evicting an event also
//! evicts the versions that only it needed.
//!
//! Locking: one lock for all tables. A writer holds it to check its precondition, take a revision and link the prepared
//! record; a reader, to collect the records that its filter selects. Objects are encoded and parsed outside of the lock.
//! A commit wakes watches after it has released the lock; only rare operations (compaction, lag, the tick) wake them
//! under the lock.

mod chain;
mod durability;
pub(crate) mod durable;
mod epoch;
mod follow;
mod interest;
mod object_map;
mod record;
mod revision_waiters;
mod ring;
mod table;
mod template;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use chain::Chain;
use durability::Durability;
pub(crate) use durability::{OpenedStore, WriteRefusal};
pub use durable::{BackupSummary, Fsync, RecoveryError};
use durable::{Journal, JournalEntry};
use epoch::LostRevisions;
pub(crate) use epoch::first_revision;
use follow::RecentTables;
pub(crate) use follow::{Unread, UnreadOfAll};
use interest::Watchers;
pub(crate) use interest::{Interest, WatchWaker};
pub(crate) use record::{Draft, Facts, Record};
use revision_waiters::RevisionWaiters;
pub(crate) use ring::Event;
use table::Table;
pub(crate) use template::{TEMPLATE_TIME, TEMPLATE_UID, Template};

use crate::memory::Memory;

/// The bounds of the history of each resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct History {
    /// At most this many events per resource; older resource versions return 410.
    pub(crate) events: usize,
    /// Events older than this are evicted too.
    pub(crate) age: Option<Duration>,
    /// At most this many bytes for the events of all resources. The resource with the most bytes loses its oldest event
    /// first.
    pub(crate) bytes: usize,
}

impl Default for History {
    /// 4,096 events per resource, of any age, and 128 MiB for all resources.
    fn default() -> Self {
        History { events: 4096, age: None, bytes: 128 << 20 }
    }
}

/// The objects and their history. See the documentation of the module.
#[derive(Debug)]
pub(crate) struct Store {
    inner: RwLock<StoreState>,
    history: History,
    memory: Arc<Memory>,
    /// The log of a durable store.
    journal: Option<Journal>,
    /// A log with fewer bytes is not compacted.
    min_compaction: u64,
}

#[derive(Debug, Default)]
struct StoreState {
    revision: u64,
    /// By how many revisions cached reads and watches lag: a stale replica for tests.
    lag: u64,
    /// Cached reads and watches see nothing later than this revision: a replica that has stopped to follow, for tests.
    frozen: Option<u64>,
    /// The history is compacted up to here, also for resources without objects.
    compacted: u64,
    lost: LostRevisions,
    tables: BTreeMap<Arc<str>, Table>,
    recent: RecentTables,
    /// The bytes of the events of all tables.
    history_bytes: usize,
    /// The objects of all tables, and their bytes.
    live: usize,
    object_bytes: usize,
    durability: Durability,
    /// Requests that wait for a revision. Every tick wakes them all; a request that still waits registers again.
    waiting: RevisionWaiters,
}

/// The precondition of a commit on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    Absent,
    Revision(u64),
}

/// The change of a commit.
#[derive(Debug)]
pub(crate) enum Write {
    Put(Draft),
    Delete,
}

/// Another write committed first: the precondition does not hold, and the writer must read again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommitConflict;

/// The requested revision is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unavailable {
    /// Compacted. The history starts at `floor`.
    Compacted { floor: u64 },
    /// Not reached yet.
    Future { current: u64 },
}

/// The revision that a read requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// The latest revision.
    Latest,
    /// The revision of the replica.
    Any,
    /// The revision of the replica, but not older than this.
    NotOlderThan(u64),
    /// Exactly this revision.
    Exactly(u64),
}

/// Objects of one resource at one revision.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) revision: u64,
    pub(crate) records: Vec<Arc<Record>>,
    /// The key of the last record, if more match after it.
    pub(crate) next_after: Option<Box<str>>,
    /// How many objects of the range follow the last record, whether selected or not.
    pub(crate) remaining: usize,
}

/// The range of keys that a read requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span<'a> {
    /// The prefix of the keys: `namespace/` or empty.
    pub(crate) prefix: &'a str,
    /// Only keys after this one.
    pub(crate) after: Option<&'a str>,
    /// At most this many; 0 for all.
    pub(crate) limit: usize,
}

/// The position of a watch in the history. It owns no queue: unread events are in the ring, and the watch ends if the ring
/// evicts them. Dropping the cursor unregisters the watch.
#[derive(Debug)]
pub(crate) struct Cursor {
    table: Arc<str>,
    watchers: Arc<Watchers>,
    interest: Interest,
    id: u64,
    pub(crate) watch_waker: Arc<WatchWaker>,
    /// All events up to this revision are read.
    pub(crate) revision: u64,
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.watchers.remove(&self.interest, self.id);
    }
}

/// The ring has evicted events that the cursor has not read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CursorExpired;

/// The content of a store at one moment, including its history. The objects are shared with the store.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    revision: u64,
    compacted: u64,
    lost: LostRevisions,
    tables: Arc<BTreeMap<Arc<str>, Table>>,
}

/// Sizes, for tests and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// The latest revision.
    pub revision: u64,
    /// Existing objects.
    pub objects: usize,
    /// Events in the history.
    pub events: usize,
    /// The memory of the history in bytes: the earlier versions of objects, and the events with their encodings.
    pub history_bytes: usize,
    /// The existing objects in bytes of JSON.
    pub object_bytes: usize,
    /// Open watches.
    pub watchers: usize,
}

impl Store {
    pub(crate) fn new(history: History) -> Self {
        Store { inner: RwLock::default(), history, memory: Arc::default(), journal: None, min_compaction: u64::MAX }
    }

    /// Reports the size of the store to this budget.
    pub(crate) fn with_memory(self, memory: Arc<Memory>) -> Self {
        Store { memory, ..self }
    }

    fn read(&self) -> RwLockReadGuard<'_, StoreState> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, StoreState> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks for reading and creates the table if absent, so that a resource without objects can be watched.
    fn read_with(&self, table: &Arc<str>) -> RwLockReadGuard<'_, StoreState> {
        let inner = self.read();
        if inner.tables.contains_key(table) {
            return inner;
        }
        drop(inner);
        {
            let mut inner = self.write();
            let compacted = inner.compacted;
            inner.tables.entry(Arc::clone(table)).or_insert_with(|| Table::new(compacted));
        }
        self.read()
    }

    /// Returns the latest revision.
    pub(crate) fn revision(&self) -> u64 {
        self.read().revision
    }

    /// Returns the latest revision that watches may see.
    pub(crate) fn visible_revision(&self) -> u64 {
        self.read().visible()
    }

    /// Returns the latest version of one object.
    pub(crate) fn get(&self, table: &str, key: &str) -> Option<Arc<Record>> {
        self.read().tables.get(table)?.objects.get(key)?.latest().cloned()
    }

    /// Returns the number of objects of a resource, and their bytes.
    pub(crate) fn size(&self, table: &str) -> (usize, usize) {
        self.read().tables.get(table).map_or((0, 0), |table| (table.live, table.object_bytes))
    }

    /// Returns one object at the requested revision.
    pub(crate) fn get_at(&self, table: &str, key: &str, at: At) -> Result<Option<Arc<Record>>, Unavailable> {
        let inner = self.read();
        let revision = inner.resolve(table, at)?;
        let chain = inner.tables.get(table).and_then(|table| table.objects.get(key));
        Ok(chain.and_then(|chain| chain.at(revision)).cloned())
    }

    /// Returns the objects of a span that `select` accepts, in key order.
    pub(crate) fn list(
        &self,
        table: &str,
        span: Span<'_>,
        at: At,
        select: impl Fn(&str, &Record) -> bool,
    ) -> Result<Page, Unavailable> {
        self.read().list(table, span, at, select)
    }

    /// Commits a write if its precondition holds. Returns the revision and, for a put, the record.
    pub(crate) fn commit(
        &self,
        table: &Arc<str>,
        key: &str,
        expect: Expect,
        write: Write,
        now: Duration,
    ) -> Result<(u64, Option<Arc<Record>>), CommitConflict> {
        let (event, watchers, others, wake_all, waiting) = {
            let mut inner = self.write();
            let inner = &mut *inner;
            if inner.durability.is_read_only() {
                return Err(CommitConflict);
            }
            let revision = inner.revision + 1;
            let name = table;
            let table = inner.tables.entry(Arc::clone(table)).or_insert_with(|| Table::new(inner.compacted));
            let previous = table.objects.get(key).and_then(Chain::latest).cloned();
            match (&previous, expect) {
                (None, Expect::Absent) => {}
                (Some(record), Expect::Revision(expected)) if record.revision == expected => {}
                _ => return Err(CommitConflict),
            }
            inner.revision = revision;
            inner.recent.push(revision, name);
            let current = match write {
                Write::Put(draft) => Some(Arc::new(draft.commit(revision))),
                Write::Delete => None,
            };
            let event = Arc::new(Event::new(revision, key.into(), current, previous, now));
            let bytes = table.ring.bytes();
            let (live, object_bytes) = (table.live, table.object_bytes);
            table.apply(&event, self.history);
            inner.live = inner.live + table.live - live;
            inner.object_bytes = inner.object_bytes + table.object_bytes - object_bytes;
            let wake_all = table.is_wake_all_due(self.history);
            let watchers = Arc::clone(&table.watchers);
            inner.history_bytes = (inner.history_bytes + table.ring.bytes()).saturating_sub(bytes);
            inner.evict_bytes(self.history.bytes);
            self.memory.set_store(inner.live, inner.object_bytes, inner.history_bytes);
            if let Some(journal) = &self.journal {
                journal.push(JournalEntry::Event { table: Arc::clone(name), event: Arc::clone(&event) });
                let result = (revision, event.current.clone());
                inner.durability.hold(Arc::clone(name), event, watchers, wake_all);
                return Ok(result);
            }
            // On a lagging replica this revision makes an earlier event visible, which may be of any resource.
            let others: Vec<_> = match inner.lag {
                0 => Vec::new(),
                _ => inner.tables.values().map(|table| Arc::clone(&table.watchers)).collect(),
            };
            let visible = inner.visible();
            (event, watchers, others, wake_all, inner.waiting.take_reached(visible))
        };
        waiting.into_iter().for_each(Waker::wake);
        others.iter().for_each(|watchers| watchers.wake_all());
        wake(&watchers, &event, wake_all);
        Ok((event.revision, event.current.clone()))
    }

    /// Opens a watch on the events after a revision.
    pub(crate) fn watch_from(&self, table: &Arc<str>, interest: Interest, after: u64) -> Result<Cursor, Unavailable> {
        let inner = self.read_with(table);
        inner.check_history(table, after)?;
        if after > inner.revision {
            return Err(Unavailable::Future { current: inner.visible() });
        }
        Ok(inner.cursor(table, interest, after))
    }

    /// Returns the objects at the requested revision and opens a watch on the events after it.
    pub(crate) fn watch_with_state(
        &self,
        table: &Arc<str>,
        interest: Interest,
        span: Span<'_>,
        at: At,
        select: impl Fn(&str, &Record) -> bool,
    ) -> Result<(Vec<Arc<Record>>, Cursor), Unavailable> {
        let inner = self.read_with(table);
        let page = inner.list(table, span, at, select)?;
        Ok((page.records, inner.cursor(table, interest, page.revision)))
    }

    /// Opens a watch on the events after the requested revision.
    pub(crate) fn watch_after_state(
        &self,
        table: &Arc<str>,
        interest: Interest,
        at: At,
    ) -> Result<Cursor, Unavailable> {
        let inner = self.read_with(table);
        let revision = inner.resolve(table, at)?;
        Ok(inner.cursor(table, interest, revision))
    }

    /// Returns whether the history contains all events that a cursor has not read.
    pub(crate) fn can_advance(&self, cursor: &Cursor) -> bool {
        self.read().tables.get(&cursor.table).is_some_and(|table| table.ring.after(cursor.revision).is_some())
    }

    /// Reads up to `limit` events after the cursor and advances it. Without events it advances to the latest visible
    /// revision, so that a watch on a quiet resource does not fall behind.
    pub(crate) fn advance(&self, cursor: &mut Cursor, limit: usize) -> Result<Vec<Arc<Event>>, CursorExpired> {
        let inner = self.read();
        let visible = inner.visible();
        let Some(table) = inner.tables.get(&cursor.table) else {
            return Err(CursorExpired);
        };
        let events = table.ring.after(cursor.revision).ok_or(CursorExpired)?;
        let batch: Vec<_> = events.take_while(|event| event.revision <= visible).take(limit).map(Arc::clone).collect();
        match batch.last() {
            Some(last) if batch.len() == limit => cursor.revision = last.revision,
            _ => cursor.revision = cursor.revision.max(visible),
        }
        Ok(batch)
    }

    /// Returns ready when the store has reached a revision.
    pub(crate) fn poll_revision(&self, revision: u64, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.write();
        if inner.visible() >= revision {
            return Poll::Ready(());
        }
        inner.waiting.register(revision, cx.waker());
        Poll::Pending
    }

    /// Compacts the history: reads and watches before `revision` are refused from now on.
    pub(crate) fn compact(&self, revision: u64) {
        let mut inner = self.write();
        inner.compact(revision);
        self.log(|| JournalEntry::Compact(revision.min(inner.revision)));
        self.memory.set_store(inner.live, inner.object_bytes, inner.history_bytes);
    }

    /// Evicts events that exceed the age of the history, and wakes waiting requests. Called about once a second.
    pub(crate) fn tick(&self, now: Duration) {
        let mut inner = self.write();
        inner.waiting.take_all().into_iter().for_each(Waker::wake);
        let Some(age) = self.history.age else { return };
        for table in inner.tables.values_mut() {
            if std::mem::take(&mut table.since_wake_all) > 0 {
                table.watchers.wake_all();
            }
            while table.evict(|event| event.at.saturating_add(age) < now) {}
        }
        inner.count();
        self.memory.set_store(inner.live, inner.object_bytes, inner.history_bytes);
    }

    /// Keeps cached reads and watches at this revision; `None` lets them follow again.
    pub(crate) fn freeze(&self, revision: Option<u64>) {
        let mut inner = self.write();
        inner.frozen = revision;
        inner.wake_everything();
    }

    /// Makes cached reads and watches lag by this many revisions.
    pub(crate) fn set_lag(&self, revisions: u64) {
        let mut inner = self.write();
        inner.lag = revisions;
        inner.wake_everything();
    }

    /// Returns an image of the store. Costs a pointer per chunk of keys and per event of the history.
    pub(crate) fn image(&self) -> Image {
        self.read().image()
    }

    /// Loads an image into an empty store.
    pub(crate) fn load(&self, image: &Image) {
        let tables = image.copy_tables();
        let mut inner = self.write();
        inner.revision = image.revision;
        inner.compacted = image.compacted;
        inner.lost = image.lost.clone();
        inner.tables = tables;
        inner.count();
        inner.evict_bytes(self.history.bytes);
        self.memory.set_store(inner.live, inner.object_bytes, inner.history_bytes);
        self.log(|| JournalEntry::Replace(image.clone()));
    }

    /// Replaces the content by the objects of an image and closes all watches.
    ///
    /// The revision rises above all that either of the two has issued, and the history starts there: a client with an
    /// earlier revision receives 410 and lists again.
    pub(crate) fn replace(&self, image: &Image) {
        let tables = image.copy_tables();
        let old = {
            let mut inner = self.write();
            inner.revision = inner.revision.max(image.revision) + 1;
            let old = std::mem::replace(&mut inner.tables, tables);
            inner.compact(u64::MAX);
            inner.durability.forget_held();
            self.log(|| JournalEntry::Replace(inner.image()));
            self.memory.set_store(inner.live, inner.object_bytes, inner.history_bytes);
            old
        };
        old.values().for_each(|table| table.watchers.close_all());
    }

    /// Raises the revision to at least `first`. Reads and watches from the skipped revisions are refused as compacted:
    /// another process may have issued them.
    pub(crate) fn raise(&self, first: u64) {
        let mut inner = self.write();
        let reached = inner.revision;
        if first <= reached {
            return;
        }
        inner.revision = first;
        self.log(|| JournalEntry::Lost { after: reached, before: first });
        if let Some(floor) = inner.lost.add(reached, first) {
            inner.compact(floor);
        }
    }

    /// Refuses reads and watches from all revisions that were issued so far.
    pub(crate) fn drop_history(&self) {
        self.raise(self.revision() + 1);
        self.compact(self.revision());
    }

    /// Closes all watches of one resource.
    pub(crate) fn close_watches_of(&self, table: &str) {
        if let Some(table) = self.read().tables.get(table) {
            table.watchers.close_all();
        }
    }

    /// Closes all watches.
    pub(crate) fn close_watches(&self) {
        self.read().tables.values().for_each(|table| table.watchers.close_all());
    }

    /// Returns the number of objects of a resource; `None` if it has never had any.
    pub(crate) fn live(&self, table: &str) -> Option<usize> {
        self.read().tables.get(table).map(|table| table.live)
    }

    pub(crate) fn stats(&self) -> StoreStats {
        let inner = self.read();
        let mut stats =
            StoreStats { revision: inner.revision, history_bytes: inner.history_bytes, ..StoreStats::default() };
        for table in inner.tables.values() {
            stats.object_bytes += table.object_bytes;
            stats.objects += table.live;
            stats.events += table.ring.len();
            stats.watchers += table.watchers.len();
        }
        stats
    }
}

impl StoreState {
    /// Returns the revision of the lagging replica. What is not durable yet is not visible.
    fn visible(&self) -> u64 {
        let followed = self.revision.saturating_sub(self.lag).min(self.durability.durable());
        self.frozen.map_or(followed, |frozen| followed.min(frozen))
    }

    /// Wakes watches and requests that wait for a revision.
    fn wake_everything(&mut self) {
        self.waiting.take_all().into_iter().for_each(Waker::wake);
        self.tables.values().for_each(|table| table.watchers.wake_all());
    }

    fn image(&self) -> Image {
        Image {
            revision: self.revision,
            compacted: self.compacted,
            lost: self.lost.clone(),
            tables: Arc::new(copy_tables(&self.tables)),
        }
    }

    fn compact(&mut self, revision: u64) {
        let floor = revision.min(self.revision);
        self.compacted = self.compacted.max(floor);
        for table in self.tables.values_mut() {
            while table.evict(|event| event.revision <= floor) {}
            table.ring.raise_floor(floor);
            table.watchers.wake_all();
        }
        self.count();
    }

    /// Counts objects and history anew.
    fn count(&mut self) {
        self.history_bytes = self.tables.values().map(|table| table.ring.bytes()).sum();
        self.live = self.tables.values().map(|table| table.live).sum();
        self.object_bytes = self.tables.values().map(|table| table.object_bytes).sum();
    }

    /// Evicts the oldest events of the resources with the longest histories, in bytes, down to the limit. The event of the
    /// latest revision stays: watches read it from the history.
    fn evict_bytes(&mut self, limit: usize) {
        while self.history_bytes > limit {
            let revision = self.revision;
            let evictable =
                self.tables.values_mut().filter(|table| table.ring.oldest().is_some_and(|it| it < revision));
            let Some(largest) = evictable.max_by_key(|table| table.ring.bytes()) else { return };
            let before = largest.ring.bytes();
            largest.evict(|_| true);
            self.history_bytes = self.history_bytes.saturating_sub(before - largest.ring.bytes());
        }
    }

    /// Returns the first revision at which reads and watches of a table may start.
    fn floor(&self, table: &str) -> u64 {
        self.tables.get(table).map_or(self.compacted, |table| table.ring.floor())
    }

    /// Refuses a revision before the history of a table, and one that is lost.
    fn check_history(&self, table: &str, revision: u64) -> Result<(), Unavailable> {
        match (self.floor(table), self.lost.end_of(revision)) {
            (floor, _) if revision < floor => Err(Unavailable::Compacted { floor }),
            (_, Some(floor)) => Err(Unavailable::Compacted { floor }),
            _ => Ok(()),
        }
    }

    fn list(
        &self,
        table: &str,
        span: Span<'_>,
        at: At,
        select: impl Fn(&str, &Record) -> bool,
    ) -> Result<Page, Unavailable> {
        let revision = self.resolve(table, at)?;
        let mut page = Page { revision, records: Vec::new(), next_after: None, remaining: 0 };
        let Some(table) = self.tables.get(table) else { return Ok(page) };
        if span.prefix.is_empty() && span.limit == 0 {
            page.records.reserve(table.live);
        }
        let mut last: Option<&Box<str>> = None;
        let mut states = table.span(span).filter_map(|(key, chain)| chain.at(revision).map(|record| (key, record)));
        for (key, record) in states.by_ref() {
            if !select(key, record) {
                continue;
            }
            if span.limit > 0 && page.records.len() == span.limit {
                page.next_after = last.cloned();
                page.remaining = 1 + states.count();
                break;
            }
            page.records.push(Arc::clone(record));
            last = Some(key);
        }
        Ok(page)
    }

    /// Resolves the requested revision.
    fn resolve(&self, table: &str, at: At) -> Result<u64, Unavailable> {
        let (visible, floor) = (self.visible(), self.floor(table));
        match at {
            At::Latest => Ok(self.revision),
            At::Any => Ok(visible.max(floor)),
            At::NotOlderThan(revision) if revision > visible => Err(Unavailable::Future { current: visible }),
            At::NotOlderThan(_) => self.resolve(table, At::Any),
            At::Exactly(revision) if revision > self.revision => Err(Unavailable::Future { current: visible }),
            At::Exactly(revision) => self.check_history(table, revision).map(|()| revision),
        }
    }

    fn cursor(&self, table: &Arc<str>, interest: Interest, revision: u64) -> Cursor {
        let watchers = self.tables.get(table).map(|table| Arc::clone(&table.watchers)).unwrap_or_default();
        let watch_waker = Arc::new(WatchWaker::default());
        let id = watchers.add(&interest, Arc::clone(&watch_waker));
        Cursor { table: Arc::clone(table), watchers, interest, id, watch_waker, revision }
    }
}

/// Wakes the watches that an event concerns, or all.
fn wake(watchers: &Watchers, event: &Event, all: bool) {
    if all {
        return watchers.wake_all();
    }
    let states = event.previous.iter().chain(&event.current);
    watchers.wake(&event.key, states.map(|record| &*record.facts.fields));
}

impl Image {
    fn copy_tables(&self) -> BTreeMap<Arc<str>, Table> {
        copy_tables(&self.tables)
    }
}

fn copy_tables(tables: &BTreeMap<Arc<str>, Table>) -> BTreeMap<Arc<str>, Table> {
    tables.iter().map(|(name, table)| (Arc::clone(name), table.copy())).collect()
}
