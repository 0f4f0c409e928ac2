//! [`FakeSource`]: an in-memory source of lists and watches.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::StaticScope;
use evenkeel_core::{ResourceInfo, Status, Untyped, ValueError, WatchEvent};
use tokio::sync::{mpsc, watch};

use super::content::Content;
use super::fixture::{Fixture, at_version};
use super::stream::{FakeList, FakeWatch, WatchItem};
use crate::Object;
use crate::source::{BoxFuture, ListItems, ListRequest, ListerWatcher, SourceError, WatchEvents, WatchRequest};

/// Number of unread events of a watch.
const BUFFER: usize = 100;

/// In-memory objects of one kind that can be listed and watched: client-go's `FakeControllerSource`.
///
/// Cheap to clone; clones share everything. A test keeps one and gives one to what it tests.
///
/// - Every write assigns the next resource version, starting with 1, and returns the object with it. A write does not check
///   whether the object exists.
/// - Writes are kept as history for watches that start in the past, until [`reset_watch`](Self::reset_watch) or until 10,000
///   more writes. A watch that starts before the oldest kept write, or right before it, is refused as expired.
/// - A list returns all objects, by key. It ignores limits, selectors and versions; a watch ignores its timeout.
/// - No write waits. A watch that leaves [too many](Self::with_buffer) events unread is closed after those that fit, as
///   servers do; the next watch replays the rest.
/// - WatchList is not supported, unless [enabled](Self::with_watch_list).
/// - All requests are kept for [`requests`](Self::requests) for the life of the source.
///
/// ```
/// use evenkeel_cache::testing::FakeSource;
/// use k8s_openapi::api::core::v1::Pod;
/// use serde_json::json;
///
/// let source = FakeSource::of::<Pod>();
/// let pod = source.add(json!({"metadata": {"namespace": "ns", "name": "web-0"}}))?;
/// assert_eq!(pod.resource_version(), "1");
/// let deleted = source.delete(&pod)?;
/// assert_eq!(deleted.resource_version(), "2");
/// # Ok::<(), evenkeel_core::ValueError>(())
/// ```
#[derive(Clone)]
pub struct FakeSource {
    shared: Arc<FakeSourceShared>,
    watch_list: bool,
    buffer: usize,
}

struct FakeSourceShared {
    info: Arc<ResourceInfo>,
    state: Mutex<FakeSourceState>,
    /// Number of open watches.
    watches: watch::Sender<usize>,
}

#[derive(Default)]
struct FakeSourceState {
    content: Content,
    watches: BTreeMap<u64, mpsc::Sender<WatchItem>>,
    next_watch: u64,
    requests: Vec<Request>,
    list_errors: InjectedErrors,
    watch_errors: InjectedErrors,
    is_shut_down: bool,
}

/// Errors to return.
#[derive(Default)]
struct InjectedErrors {
    next: VecDeque<SourceError>,
    always: Option<Status>,
}

impl InjectedErrors {
    fn pop(&mut self) -> Option<SourceError> {
        self.next.pop_front().or_else(|| self.always.clone().map(SourceError::from))
    }
}

/// A request that a [`FakeSource`] received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A list.
    List(ListRequest),
    /// A watch.
    Watch(WatchRequest),
}

impl FakeSource {
    /// Returns an empty source of this kind.
    pub fn new(info: impl Into<Arc<ResourceInfo>>) -> Self {
        let shared = FakeSourceShared { info: info.into(), state: Mutex::default(), watches: watch::Sender::new(0) };
        FakeSource { shared: Arc::new(shared), watch_list: false, buffer: BUFFER }
    }

    /// Returns an empty source of the kind of a Rust type.
    pub fn of<K>() -> Self
    where
        K: kube_core::Resource,
        K::DynamicType: Default,
        K::Scope: StaticScope,
    {
        Self::new(ResourceInfo::of::<K>())
    }

    /// Returns the same source with WatchList support. It applies to this handle and its later clones.
    pub fn with_watch_list(mut self) -> Self {
        self.watch_list = true;
        self
    }

    /// Returns the same source with room for this many unread events per watch, at least one. Default: 100. It applies to
    /// this handle and its later clones.
    pub fn with_buffer(mut self, events: usize) -> Self {
        self.buffer = events.max(1);
        self
    }

    /// Returns the kind of the objects.
    pub fn resource(&self) -> &Arc<ResourceInfo> {
        &self.shared.info
    }

    /// Stores an object and sends `ADDED` to the watches.
    pub fn add<M>(&self, object: impl Fixture<M>) -> Result<Object, ValueError> {
        self.change(WatchEvent::Added, object, true)
    }

    /// Stores an object and sends `MODIFIED` to the watches.
    pub fn modify<M>(&self, object: impl Fixture<M>) -> Result<Object, ValueError> {
        self.change(WatchEvent::Modified, object, true)
    }

    /// Removes the object with this key and uid, and sends `DELETED` with this last state to the watches.
    pub fn delete<M>(&self, object: impl Fixture<M>) -> Result<Object, ValueError> {
        self.change(WatchEvent::Deleted, object, true)
    }

    /// As [`add`](Self::add), without an event for open watches. Lists and later watches from before the write include it.
    pub fn add_without_event<M>(&self, object: impl Fixture<M>) -> Result<Object, ValueError> {
        self.change(WatchEvent::Added, object, false)
    }

    /// As [`modify`](Self::modify), without an event for open watches.
    pub fn modify_without_event<M>(&self, object: impl Fixture<M>) -> Result<Object, ValueError> {
        self.change(WatchEvent::Modified, object, false)
    }

    /// As [`delete`](Self::delete), without an event for open watches.
    pub fn delete_without_event<M>(&self, object: impl Fixture<M>) -> Result<Object, ValueError> {
        self.change(WatchEvent::Deleted, object, false)
    }

    fn change<M>(
        &self,
        event: fn(Object) -> WatchEvent<Untyped>,
        object: impl Fixture<M>,
        notify: bool,
    ) -> Result<Object, ValueError> {
        let json = object.json()?;
        let mut state = self.state();
        let object = at_version(&self.shared.info, json, state.content.version() + 1)?;
        let event = state.content.change(event, object.clone());
        if notify {
            self.send_all(&mut state, || Ok(event.clone()));
        }
        Ok(object)
    }

    /// Sends the watches a bookmark at the current version.
    pub fn bookmark(&self) {
        let mut state = self.state();
        let resource_version = state.content.resource_version();
        let event = WatchEvent::Bookmark { resource_version, initial_events_end: false };
        self.send_all(&mut state, || Ok(event.clone()));
    }

    /// Sends the watches an event as it is. The objects of the source do not change.
    pub fn send(&self, event: WatchEvent<Untyped>) {
        self.send_all(&mut self.state(), || Ok(event.clone()));
    }

    /// Sends the watches an error event. The source keeps the streams open.
    pub fn send_error(&self, status: Status) {
        self.send_all(&mut self.state(), || Ok(WatchEvent::Error(Box::new(status.clone()))));
    }

    /// Ends all watches with an error, after the events that are queued for them.
    pub fn break_watches(&self, error: impl Fn() -> SourceError) {
        let mut state = self.state();
        self.send_all(&mut state, || Err(error()));
        self.end_watches(&mut state);
    }

    /// Ends all watches cleanly, after the events that are queued for them, and drops the history: a watch that starts in the
    /// past is expired.
    pub fn reset_watch(&self) {
        let mut state = self.state();
        state.content.forget_history();
        self.end_watches(&mut state);
    }

    /// Fails the next list with this error. Several calls queue up.
    pub fn fail_next_list(&self, error: impl Into<SourceError>) {
        self.state().list_errors.next.push_back(error.into());
    }

    /// Fails the next watch with this error. Several calls queue up.
    pub fn fail_next_watch(&self, error: impl Into<SourceError>) {
        self.state().watch_errors.next.push_back(error.into());
    }

    /// Fails every list with this error; `None` ends that.
    pub fn set_list_error(&self, error: Option<Status>) {
        self.state().list_errors.always = error;
    }

    /// Fails every watch with this error; `None` ends that.
    pub fn set_watch_error(&self, error: Option<Status>) {
        self.state().watch_errors.always = error;
    }

    /// Ends all watches cleanly, after the events that are queued for them. Later lists and watches fail with a refused
    /// connection; writes still work.
    pub fn shut_down(&self) {
        let mut state = self.state();
        state.is_shut_down = true;
        self.end_watches(&mut state);
    }

    /// Returns the requests so far, oldest first.
    pub fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    /// Returns the objects, by key.
    pub fn objects(&self) -> Vec<Object> {
        self.state().content.objects()
    }

    /// Returns the version of the last write; 0 before the first.
    pub fn version(&self) -> u64 {
        self.state().content.version()
    }

    /// Returns the number of open watches.
    pub fn watches(&self) -> usize {
        *self.shared.watches.borrow()
    }

    /// Waits until this many watches are open, or more.
    pub async fn watched(&self, times: usize) {
        let mut watches = self.shared.watches.subscribe();
        // The sender is a field of `self`, so the wait does not fail.
        let _ = watches.wait_for(|open| *open >= times).await;
    }

    /// Sends to all watches, and ends those without room.
    fn send_all(&self, state: &mut FakeSourceState, item: impl Fn() -> WatchItem) {
        state.watches.retain(|_, watch| watch.try_send(item()).is_ok());
        self.count(state);
    }

    fn end_watches(&self, state: &mut FakeSourceState) {
        state.watches.clear();
        self.count(state);
    }

    pub(super) fn watch_ended(&self, id: u64) {
        let mut state = self.state();
        state.watches.remove(&id);
        self.count(&state);
    }

    fn count(&self, state: &FakeSourceState) {
        self.shared.watches.send_if_modified(|open| std::mem::replace(open, state.watches.len()) != *open);
    }

    fn state(&self) -> MutexGuard<'_, FakeSourceState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list_now(&self, request: ListRequest) -> Result<Box<dyn ListItems>, SourceError> {
        let mut state = self.state();
        state.requests.push(Request::List(request));
        if state.is_shut_down {
            return Err(connection_refused());
        }
        if let Some(error) = state.list_errors.pop() {
            return Err(error);
        }
        let objects = state.content.objects().into_iter();
        Ok(Box::new(FakeList { objects, version: state.content.resource_version() }))
    }

    fn watch_now(&self, request: WatchRequest) -> Result<Box<dyn WatchEvents>, SourceError> {
        let mut state = self.state();
        state.requests.push(Request::Watch(request.clone()));
        if state.is_shut_down {
            return Err(connection_refused());
        }
        if let Some(error) = state.watch_errors.pop() {
            return Err(error);
        }
        let replay: VecDeque<WatchEvent<Untyped>> = state.content.replay(&request, self.watch_list)?;
        let (sender, live) = mpsc::channel(self.buffer);
        let id = state.next_watch;
        state.next_watch += 1;
        state.watches.insert(id, sender);
        self.count(&state);
        Ok(Box::new(FakeWatch { source: self.clone(), id, replay, live }))
    }
}

fn connection_refused() -> SourceError {
    SourceError::ConnectionRefused("the source is shut down".into())
}

impl ListerWatcher for FakeSource {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Box<dyn ListItems>, SourceError>> {
        Box::pin(async move { self.list_now(request) })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Box<dyn WatchEvents>, SourceError>> {
        Box::pin(async move { self.watch_now(request) })
    }

    fn supports_watch_list(&self) -> bool {
        self.watch_list
    }
}

impl fmt::Debug for FakeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeSource")
            .field("kind", &self.shared.info.kind())
            .field("version", &self.version())
            .field("watches", &self.watches())
            .finish_non_exhaustive()
    }
}
