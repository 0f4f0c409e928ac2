//! [`FakeSource`]: objects in memory that can be listed and watched.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::StaticScope;
use evenkeel_core::{ResourceInfo, Status, Untyped, ValueError, WatchEvent};
use tokio::sync::{mpsc, watch};

use super::content::Content;
use super::fixture::{Fixture, at_version};
use super::stream::{FakeList, FakeWatch, Told};
use crate::Object;
use crate::source::{BoxFuture, ListItems, ListRequest, ListerWatcher, SourceError, WatchEvents, WatchRequest};

/// How many events may wait for a watch that does not read them.
const BUFFER: usize = 100;

/// Objects of one kind, in memory, that can be listed and watched: client-go's `FakeControllerSource`.
///
/// Cheap to clone; clones share everything. A test keeps one and gives one to what it tests.
///
/// - Every write takes the next version, starting with 1, gives it to the object, and says the object as it now is. Whether
///   the object was there before is not looked at: this is for playing tricks.
/// - Every write is remembered, so that a watch that begins in the past hears of it, until
///   [`reset_watch`](Self::reset_watch) or until 10,000 more have been made. A watch that begins before the first one that
///   is remembered, or right before it, is refused as expired.
/// - A list has all objects, by key. Limits, selectors and versions that a list asks for are not looked at, nor is the
///   timeout of a watch.
/// - No write ever waits. A watch that leaves [too many](Self::with_buffer) events unread is ended after those that fit,
///   as servers do; it finds the rest when it asks again.
/// - Watches that begin with all objects are not offered, unless [asked for](Self::with_watch_list).
/// - All requests are kept for [`requests`](Self::requests) for as long as the source lives.
///
/// ```
/// use evenkeel_cache::testing::FakeSource;
/// use k8s_openapi::api::core::v1::Pod;
/// use serde_json::json;
///
/// let source = FakeSource::of::<Pod>();
/// let pod = source.add(json!({"metadata": {"namespace": "ns", "name": "web-0"}}))?;
/// assert_eq!(pod.resource_version(), "1");
/// let gone = source.delete(&pod)?;
/// assert_eq!(gone.resource_version(), "2");
/// # Ok::<(), evenkeel_core::ValueError>(())
/// ```
#[derive(Clone)]
pub struct FakeSource {
    shared: Arc<Shared>,
    watch_list: bool,
    buffer: usize,
}

struct Shared {
    info: Arc<ResourceInfo>,
    state: Mutex<State>,
    /// How many watches are open.
    watches: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    content: Content,
    watches: BTreeMap<u64, mpsc::Sender<Told>>,
    next_watch: u64,
    requests: Vec<Request>,
    list_errors: Errors,
    watch_errors: Errors,
    is_shut_down: bool,
}

/// Errors to answer with.
#[derive(Default)]
struct Errors {
    next: VecDeque<SourceError>,
    always: Option<Status>,
}

impl Errors {
    fn pop(&mut self) -> Option<SourceError> {
        self.next.pop_front().or_else(|| self.always.clone().map(SourceError::from))
    }
}

/// What a [`FakeSource`] was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// For a list.
    List(ListRequest),
    /// For a watch.
    Watch(WatchRequest),
}

impl FakeSource {
    /// An empty source of objects of this kind.
    pub fn new(info: impl Into<Arc<ResourceInfo>>) -> Self {
        let shared = Shared { info: info.into(), state: Mutex::default(), watches: watch::Sender::new(0) };
        FakeSource { shared: Arc::new(shared), watch_list: false, buffer: BUFFER }
    }

    /// An empty source of objects of a kind that knows its own names.
    pub fn of<K>() -> Self
    where
        K: kube_core::Resource,
        K::DynamicType: Default,
        K::Scope: StaticScope,
    {
        Self::new(ResourceInfo::of::<K>())
    }

    /// The same source, offering watches that begin with all objects that are there (WatchList). This is said of one
    /// handle and the clones that are made of it.
    pub fn with_watch_list(mut self) -> Self {
        self.watch_list = true;
        self
    }

    /// The same source with room for this many unread events per watch, at least one; 100 unless said. This is said of one
    /// handle and the clones that are made of it.
    pub fn with_buffer(mut self, events: usize) -> Self {
        self.buffer = events.max(1);
        self
    }

    /// The kind of the objects.
    pub fn resource(&self) -> &Arc<ResourceInfo> {
        &self.shared.info
    }

    /// Puts an object in and tells the watches that it has come.
    pub fn add<M>(&self, object: impl Fixture<M>) -> Result<Object, ValueError> {
        self.change(WatchEvent::Added, object, true)
    }

    /// Puts an object in and tells the watches that it has changed.
    pub fn modify<M>(&self, object: impl Fixture<M>) -> Result<Object, ValueError> {
        self.change(WatchEvent::Modified, object, true)
    }

    /// Takes an object out and tells the watches that this was its last state. Which object is said by key and uid.
    pub fn delete<M>(&self, object: impl Fixture<M>) -> Result<Object, ValueError> {
        self.change(WatchEvent::Deleted, object, true)
    }

    /// [`add`](Self::add) of which the open watches hear nothing, as if the event had been lost. Lists, and watches that
    /// begin before it, tell of it.
    pub fn add_without_event<M>(&self, object: impl Fixture<M>) -> Result<Object, ValueError> {
        self.change(WatchEvent::Added, object, false)
    }

    /// [`modify`](Self::modify) of which the open watches hear nothing, as if the event had been lost.
    pub fn modify_without_event<M>(&self, object: impl Fixture<M>) -> Result<Object, ValueError> {
        self.change(WatchEvent::Modified, object, false)
    }

    /// [`delete`](Self::delete) of which the open watches hear nothing, as if the event had been lost.
    pub fn delete_without_event<M>(&self, object: impl Fixture<M>) -> Result<Object, ValueError> {
        self.change(WatchEvent::Deleted, object, false)
    }

    fn change<M>(
        &self,
        event: fn(Object) -> WatchEvent<Untyped>,
        object: impl Fixture<M>,
        tell: bool,
    ) -> Result<Object, ValueError> {
        let json = object.json()?;
        let mut state = self.state();
        let object = at_version(&self.shared.info, json, state.content.version() + 1)?;
        let event = state.content.change(event, object.clone());
        if tell {
            self.tell(&mut state, || Ok(event.clone()));
        }
        Ok(object)
    }

    /// Tells the watches that nothing has happened up to the version that the source has reached.
    pub fn bookmark(&self) {
        let mut state = self.state();
        let resource_version = state.content.resource_version();
        let event = WatchEvent::Bookmark { resource_version, initial_events_end: false };
        self.tell(&mut state, || Ok(event.clone()));
    }

    /// Sends the watches an event as it is. What the source has does not change.
    pub fn send(&self, event: WatchEvent<Untyped>) {
        self.tell(&mut self.state(), || Ok(event.clone()));
    }

    /// Sends the watches an error event. The stream stays open, as far as the source is concerned.
    pub fn send_error(&self, status: Status) {
        self.tell(&mut self.state(), || Ok(WatchEvent::Error(Box::new(status.clone()))));
    }

    /// Ends all watches with an error, after the events that wait for them.
    pub fn break_watches(&self, error: impl Fn() -> SourceError) {
        let mut state = self.state();
        self.tell(&mut state, || Err(error()));
        self.end_watches(&mut state);
    }

    /// Ends all watches in an orderly way, after the events that wait for them, and forgets what has happened so far: a
    /// watch that begins in the past is expired.
    pub fn reset_watch(&self) {
        let mut state = self.state();
        state.content.forget_history();
        self.end_watches(&mut state);
    }

    /// Answers the next list with this error. Several wait in line.
    pub fn fail_next_list(&self, error: impl Into<SourceError>) {
        self.state().list_errors.next.push_back(error.into());
    }

    /// Answers the next watch with this error. Several wait in line.
    pub fn fail_next_watch(&self, error: impl Into<SourceError>) {
        self.state().watch_errors.next.push_back(error.into());
    }

    /// Answers every list with this, until told otherwise.
    pub fn set_list_error(&self, error: Option<Status>) {
        self.state().list_errors.always = error;
    }

    /// Answers every watch with this, until told otherwise.
    pub fn set_watch_error(&self, error: Option<Status>) {
        self.state().watch_errors.always = error;
    }

    /// Ends all watches in an orderly way, after the events that wait for them. Lists and watches that are asked for
    /// afterwards are refused as if nobody listened any more; writes still work.
    pub fn shut_down(&self) {
        let mut state = self.state();
        state.is_shut_down = true;
        self.end_watches(&mut state);
    }

    /// What was asked so far, oldest first.
    pub fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    /// The objects, by key.
    pub fn objects(&self) -> Vec<Object> {
        self.state().content.objects()
    }

    /// The version of the last write; 0 before the first.
    pub fn version(&self) -> u64 {
        self.state().content.version()
    }

    /// How many watches are open.
    pub fn watches(&self) -> usize {
        *self.shared.watches.borrow()
    }

    /// Waits until this many watches are open, or more.
    pub async fn watched(&self, times: usize) {
        let mut watches = self.shared.watches.subscribe();
        // The sender lives in `self`, so there is always one.
        let _ = watches.wait_for(|open| *open >= times).await;
    }

    /// Tells all watches, and ends those that have no room for it.
    fn tell(&self, state: &mut State, told: impl Fn() -> Told) {
        state.watches.retain(|_, watch| watch.try_send(told()).is_ok());
        self.count(state);
    }

    fn end_watches(&self, state: &mut State) {
        state.watches.clear();
        self.count(state);
    }

    pub(super) fn watch_ended(&self, id: u64) {
        let mut state = self.state();
        state.watches.remove(&id);
        self.count(&state);
    }

    fn count(&self, state: &State) {
        self.shared.watches.send_if_modified(|open| std::mem::replace(open, state.watches.len()) != *open);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list_now(&self, request: ListRequest) -> Result<Box<dyn ListItems>, SourceError> {
        let mut state = self.state();
        state.requests.push(Request::List(request));
        if state.is_shut_down {
            return Err(nobody_listens());
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
            return Err(nobody_listens());
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

fn nobody_listens() -> SourceError {
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
