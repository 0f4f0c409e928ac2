//! The store: every object of the server, its recent past, and who waits for its future.
//!
//! There is one revision counter. Every committed write takes the next revision, and the object's resource version is
//! that revision; so resource versions are unique across all resources and ordered by time, as etcd's are. Writes that
//! change nothing, fail or only pretend (dry runs) take none.
//!
//! Each resource is a [`Table`]: an ordered map from key (`namespace/name` or `name`) to the versions of that object,
//! and a bounded ring of events. How far back reads and watches reach is decided by the ring alone: when an event is
//! forgotten, the versions that only it needed go with it.
//!
//! Locking: one lock for all tables. A writer holds it to check its precondition, take a revision, and link what it has
//! prepared; a reader, to collect the pointers that its filter selects. Objects are encoded and parsed outside, and a
//! commit wakes watchers when it has let go; only what happens rarely (compaction, lag, the tick) wakes under the lock.

mod chain;
mod interest;
mod record;
mod ring;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use chain::{Chain, Version};
use interest::Watchers;
pub(crate) use interest::{Interest, WatchWaker};
pub(crate) use record::{Draft, Facts, Record};
pub(crate) use ring::Event;
use ring::Ring;

/// How much of the past a resource remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct History {
    /// At most this many events per resource; older resource versions answer 410.
    pub(crate) events: usize,
    /// Events older than this are forgotten too.
    pub(crate) age: Option<Duration>,
}

impl Default for History {
    /// 4,096 events per resource, of any age.
    fn default() -> Self {
        History { events: 4096, age: None }
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Store {
    inner: RwLock<Inner>,
    history: History,
}

#[derive(Debug, Default)]
struct Inner {
    revision: u64,
    /// How many revisions cached reads and watches are behind: a stale replica for tests.
    lag: u64,
    /// History was thrown away up to here: a resource whose first object is yet to come remembers it too.
    compacted: u64,
    tables: HashMap<Arc<str>, Table>,
    /// Calls that wait for a revision. Every commit and every tick wakes and forgets them all; who is still waiting
    /// then comes back.
    waiting: Vec<Waker>,
}

#[derive(Debug)]
struct Table {
    objects: BTreeMap<Box<str>, Chain>,
    /// Keys whose latest version is an object.
    live: usize,
    ring: Ring,
    watchers: Arc<Watchers>,
    /// Events since every watcher was last woken.
    unannounced: usize,
}

/// What a commit expects to find under its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    Absent,
    Revision(u64),
}

/// What a commit does.
#[derive(Debug)]
pub(crate) enum Write {
    Put(Draft),
    Delete,
}

/// The key is not in the state that the commit expected: look again, and decide again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Raced;

/// The state asked for is no longer, or not yet, to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unavailable {
    /// Forgotten. Everything from `floor` on is remembered.
    Compacted { floor: u64 },
    /// Not reached yet.
    Future { current: u64 },
}

/// Which state of the store a read wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// The present.
    Latest,
    /// Whatever a replica has at hand.
    Any,
    /// The replica's state, but not older than this.
    NotOlderThan(u64),
    /// The state as of this revision.
    Exactly(u64),
}

/// Some objects of one resource, as of one revision.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) revision: u64,
    pub(crate) records: Vec<Arc<Record>>,
    /// The key of the last record, if more match after it.
    pub(crate) next_after: Option<Box<str>>,
    /// How many objects of the range follow the last record, selected or not.
    pub(crate) remaining: usize,
}

/// Which objects of a resource a read wants.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span<'a> {
    /// Keys that begin with this: `namespace/`, or nothing.
    pub(crate) prefix: &'a str,
    /// Only keys after this one.
    pub(crate) after: Option<&'a str>,
    /// At most this many; 0 for all.
    pub(crate) limit: usize,
}

/// A watcher's place in the history. It owns no queue: what it has not read is in the ring, and if the ring moves past
/// it, the watch ends. Dropping it forgets the watcher.
#[derive(Debug)]
pub(crate) struct Cursor {
    table: Arc<str>,
    watchers: Arc<Watchers>,
    interest: Interest,
    id: u64,
    pub(crate) watch_waker: Arc<WatchWaker>,
    /// Everything up to this revision has been read.
    pub(crate) revision: u64,
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.watchers.remove(&self.interest, self.id);
    }
}

/// The history has moved past the cursor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overtaken;

/// Everything that a store holds at one moment, its history included. The objects themselves are shared with the store.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    revision: u64,
    compacted: u64,
    tables: Arc<HashMap<Arc<str>, Table>>,
}

/// Sizes, for tests and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// The newest revision.
    pub revision: u64,
    /// Objects that exist.
    pub objects: usize,
    /// Events that are remembered.
    pub events: usize,
    /// Watches that are open.
    pub watchers: usize,
}

impl Store {
    pub(crate) fn new(history: History) -> Self {
        Store { inner: RwLock::default(), history }
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads with this table in place, so that a watch of a resource without objects has something to watch.
    fn read_with(&self, table: &Arc<str>) -> RwLockReadGuard<'_, Inner> {
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

    /// The newest revision.
    pub(crate) fn revision(&self) -> u64 {
        self.read().revision
    }

    /// The newest revision that watches have been shown.
    pub(crate) fn visible_revision(&self) -> u64 {
        self.read().visible()
    }

    /// The latest state of one object.
    pub(crate) fn get(&self, table: &str, key: &str) -> Option<Arc<Record>> {
        self.read().tables.get(table)?.objects.get(key)?.latest().cloned()
    }

    /// One object in a state chosen by `at`.
    pub(crate) fn get_at(&self, table: &str, key: &str, at: At) -> Result<Option<Arc<Record>>, Unavailable> {
        let inner = self.read();
        let revision = inner.resolve(table, at)?;
        let chain = inner.tables.get(table).and_then(|table| table.objects.get(key));
        Ok(chain.and_then(|chain| chain.at(revision)).cloned())
    }

    /// The objects of a span that `select` accepts, in key order.
    pub(crate) fn list(
        &self,
        table: &str,
        span: Span<'_>,
        at: At,
        select: impl Fn(&str, &Record) -> bool,
    ) -> Result<Page, Unavailable> {
        self.read().list(table, span, at, select)
    }

    /// Commits a write if the key is as expected. Answers with the revision and, for a put, the record.
    pub(crate) fn commit(
        &self,
        table: &Arc<str>,
        key: &str,
        expect: Expect,
        write: Write,
        now: Duration,
    ) -> Result<(u64, Option<Arc<Record>>), Raced> {
        let (event, watchers, others, everyone, waiting) = {
            let mut inner = self.write();
            let inner = &mut *inner;
            let revision = inner.revision + 1;
            let table = inner.tables.entry(Arc::clone(table)).or_insert_with(|| Table::new(inner.compacted));
            let previous = table.objects.get(key).and_then(Chain::latest).cloned();
            match (&previous, expect) {
                (None, Expect::Absent) => {}
                (Some(record), Expect::Revision(expected)) if record.revision == expected => {}
                _ => return Err(Raced),
            }
            inner.revision = revision;
            let current = match write {
                Write::Put(draft) => Some(Arc::new(draft.commit(revision))),
                Write::Delete => None,
            };
            let event = Arc::new(Event {
                revision,
                key: key.into(),
                current,
                previous,
                at: now,
                json: Default::default(),
                protobuf: Default::default(),
            });
            table.apply(&event, self.history);
            let everyone = table.is_announcement_due(self.history);
            let watchers = Arc::clone(&table.watchers);
            // A replica that lags shows with this revision what an earlier one did, to whichever resource.
            let others: Vec<_> = match inner.lag {
                0 => Vec::new(),
                _ => inner.tables.values().map(|table| Arc::clone(&table.watchers)).collect(),
            };
            (event, watchers, others, everyone, std::mem::take(&mut inner.waiting))
        };
        waiting.into_iter().for_each(Waker::wake);
        others.iter().for_each(|watchers| watchers.wake_everyone());
        if everyone {
            watchers.wake_everyone();
        } else {
            let states = event.previous.iter().chain(&event.current);
            watchers.wake(key, states.map(|record| &*record.facts.fields));
        }
        Ok((event.revision, event.current.clone()))
    }

    /// Opens a watch on changes after a revision.
    pub(crate) fn watch_from(&self, table: &Arc<str>, interest: Interest, after: u64) -> Result<Cursor, Unavailable> {
        let inner = self.read_with(table);
        match inner.floor(table) {
            floor if after < floor => Err(Unavailable::Compacted { floor }),
            _ => Ok(inner.cursor(table, interest, after)),
        }
    }

    /// Opens a watch on the changes that follow a state, together with that state.
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

    /// Opens a watch on the changes that follow a state, without that state.
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

    /// Whether the history still holds everything that a cursor has not read.
    pub(crate) fn can_advance(&self, cursor: &Cursor) -> bool {
        self.read().tables.get(&cursor.table).is_some_and(|table| table.ring.after(cursor.revision).is_some())
    }

    /// Reads up to `limit` events after the cursor and moves it. Nothing new: moves it to the present, so that a watch
    /// of a quiet resource keeps up with the others.
    pub(crate) fn advance(&self, cursor: &mut Cursor, limit: usize) -> Result<Vec<Arc<Event>>, Overtaken> {
        let inner = self.read();
        let visible = inner.visible();
        let Some(table) = inner.tables.get(&cursor.table) else {
            return Err(Overtaken);
        };
        let events = table.ring.after(cursor.revision).ok_or(Overtaken)?;
        let batch: Vec<_> = events.take_while(|event| event.revision <= visible).take(limit).map(Arc::clone).collect();
        match batch.last() {
            Some(last) if batch.len() == limit => cursor.revision = last.revision,
            _ => cursor.revision = cursor.revision.max(visible),
        }
        Ok(batch)
    }

    /// Ready when the store has reached a revision.
    pub(crate) fn poll_revision(&self, revision: u64, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.write();
        if inner.visible() >= revision {
            return Poll::Ready(());
        }
        if !inner.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            inner.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Forgets history: every read and watch at a revision before `revision` is refused from now on.
    pub(crate) fn compact(&self, revision: u64) {
        let mut inner = self.write();
        let floor = revision.min(inner.revision);
        inner.compacted = inner.compacted.max(floor);
        for table in inner.tables.values_mut() {
            while table.evict(|event| event.revision <= floor) {}
            table.ring.raise_floor(floor);
            table.watchers.wake_everyone();
        }
    }

    /// The work of every second: forgets events that are older than the history allows, and waiting calls that may
    /// have gone away.
    pub(crate) fn tick(&self, now: Duration) {
        let mut inner = self.write();
        std::mem::take(&mut inner.waiting).into_iter().for_each(Waker::wake);
        let Some(age) = self.history.age else { return };
        for table in inner.tables.values_mut() {
            if std::mem::take(&mut table.unannounced) > 0 {
                table.watchers.wake_everyone();
            }
            while table.evict(|event| event.at.saturating_add(age) < now) {}
        }
    }

    /// Holds cached reads and watches this many revisions behind the present.
    pub(crate) fn set_lag(&self, revisions: u64) {
        let mut inner = self.write();
        inner.lag = revisions;
        std::mem::take(&mut inner.waiting).into_iter().for_each(Waker::wake);
        inner.tables.values().for_each(|table| table.watchers.wake_everyone());
    }

    /// Takes a picture of everything, at the price of a pointer or two per key.
    pub(crate) fn image(&self) -> Image {
        let inner = self.read();
        Image { revision: inner.revision, compacted: inner.compacted, tables: Arc::new(inner.copy_tables()) }
    }

    /// Goes back (or forth) to a picture. Watches end: what they have seen may never have happened.
    pub(crate) fn load(&self, image: &Image) {
        let tables = image.tables.iter().map(|(name, table)| (Arc::clone(name), table.copy())).collect();
        let old = {
            let mut inner = self.write();
            inner.revision = image.revision;
            inner.compacted = image.compacted;
            std::mem::replace(&mut inner.tables, tables)
        };
        old.values().for_each(|table| table.watchers.close_everyone());
    }

    /// Ends all watches of one resource.
    pub(crate) fn close_watches_of(&self, table: &str) {
        if let Some(table) = self.read().tables.get(table) {
            table.watchers.close_everyone();
        }
    }

    /// Ends all watches.
    pub(crate) fn close_watches(&self) {
        self.read().tables.values().for_each(|table| table.watchers.close_everyone());
    }

    pub(crate) fn stats(&self) -> StoreStats {
        let inner = self.read();
        let mut stats = StoreStats { revision: inner.revision, ..StoreStats::default() };
        for table in inner.tables.values() {
            stats.objects += table.live;
            stats.events += table.ring.len();
            stats.watchers += table.watchers.len();
        }
        stats
    }
}

impl Inner {
    /// What a replica that lags has seen.
    fn visible(&self) -> u64 {
        self.revision.saturating_sub(self.lag)
    }

    fn copy_tables(&self) -> HashMap<Arc<str>, Table> {
        self.tables.iter().map(|(name, table)| (Arc::clone(name), table.copy())).collect()
    }

    /// Reads and watches of a table start here or later.
    fn floor(&self, table: &str) -> u64 {
        self.tables.get(table).map_or(0, |table| table.ring.floor())
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

    /// The revision at which a read happens.
    fn resolve(&self, table: &str, at: At) -> Result<u64, Unavailable> {
        let (visible, floor) = (self.visible(), self.floor(table));
        match at {
            At::Latest => Ok(self.revision),
            At::Any => Ok(visible.max(floor)),
            At::NotOlderThan(revision) if revision > visible => Err(Unavailable::Future { current: visible }),
            At::NotOlderThan(_) => self.resolve(table, At::Any),
            At::Exactly(revision) if revision > self.revision => Err(Unavailable::Future { current: visible }),
            At::Exactly(revision) if revision < floor => Err(Unavailable::Compacted { floor }),
            At::Exactly(revision) => Ok(revision),
        }
    }

    fn cursor(&self, table: &Arc<str>, interest: Interest, revision: u64) -> Cursor {
        let watchers = self.tables.get(table).map(|table| Arc::clone(&table.watchers)).unwrap_or_default();
        let watch_waker = Arc::new(WatchWaker::default());
        let id = watchers.add(&interest, Arc::clone(&watch_waker));
        Cursor { table: Arc::clone(table), watchers, interest, id, watch_waker, revision }
    }
}

impl Table {
    /// An empty resource whose history reaches back to `floor`.
    fn new(floor: u64) -> Self {
        Table {
            objects: BTreeMap::new(),
            live: 0,
            ring: Ring::new(floor),
            watchers: Arc::new(Watchers::default()),
            unannounced: 0,
        }
    }

    /// The same objects and the same history, watched by nobody.
    fn copy(&self) -> Self {
        Table {
            objects: self.objects.clone(),
            live: self.live,
            ring: self.ring.clone(),
            watchers: Arc::default(),
            unannounced: 0,
        }
    }

    fn span<'a>(&'a self, span: Span<'a>) -> impl Iterator<Item = (&'a Box<str>, &'a Chain)> {
        let from = match span.after {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(span.prefix),
        };
        self.objects.range::<str, _>((from, Bound::Unbounded)).take_while(move |(key, _)| key.starts_with(span.prefix))
    }

    fn apply(&mut self, event: &Arc<Event>, history: History) {
        let version = match &event.current {
            Some(record) => Version::Live(Arc::clone(record)),
            None => Version::Tombstone(event.revision),
        };
        self.live = self.live + usize::from(event.current.is_some()) - usize::from(event.previous.is_some());
        match self.objects.get_mut(&event.key) {
            Some(chain) => chain.push(version),
            None => {
                self.objects.insert(event.key.clone(), Chain::new(version));
            }
        }
        self.ring.push(Arc::clone(event));
        self.unannounced += 1;
        while self.ring.len() > history.events && self.evict(|_| true) {}
    }

    /// Twice per length of the ring everyone is woken, so that a watcher that sleeps because no event concerns it moves
    /// on, and is not taken for one that cannot keep up.
    fn is_announcement_due(&mut self, history: History) -> bool {
        let due = self.unannounced >= (history.events / 2).max(1);
        if due {
            self.unannounced = 0;
        }
        due
    }

    /// Forgets the oldest event if `forget` says so, and the versions that only reads before it could ask for.
    fn evict(&mut self, forget: impl FnOnce(&Event) -> bool) -> bool {
        let Some(event) = self.ring.evict_if(forget) else {
            return false;
        };
        if let Some(chain) = self.objects.get_mut(&event.key)
            && chain.trim(event.revision)
        {
            self.objects.remove(&event.key);
        }
        true
    }
}
