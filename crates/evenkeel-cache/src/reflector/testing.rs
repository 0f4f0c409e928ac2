//! A scripted source, a recording sink, and a harness that runs a reflector in virtual time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_core::{DecodeError, ObjectKey, ResourceInfo, ResourceVersion, Status, StreamError, Untyped, WatchEvent};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{DeltaSink, Reflector, ReflectorBuilder, ReflectorStatus, SinkError};
use crate::Object;
use crate::delta::Delta;
use crate::source::{
    BoxFuture, ListItems, ListPart, ListRequest, ListerWatcher, SourceError, WatchEvents, WatchRequest,
};

pub(crate) type Event = Result<WatchEvent<Untyped>, SourceError>;

pub(crate) fn pods() -> Arc<ResourceInfo> {
    thread_local! {
        static PODS: Arc<ResourceInfo> = Arc::new(ResourceInfo::new("", "v1", "Pod", "pods", true));
    }
    PODS.with(Arc::clone)
}

/// A pod of this name and version, with a uid of its own.
pub(crate) fn pod(name: &str, version: &str) -> Object {
    pod_from(&format!(
        r#"{{"metadata":{{"namespace":"ns","name":"{name}","uid":"uid-{name}","resourceVersion":"{version}"}}}}"#
    ))
}

pub(crate) fn pod_from(json: &str) -> Object {
    Object::from_json(&pods(), json.to_owned()).unwrap()
}

pub(crate) fn added(name: &str, version: &str) -> Event {
    Ok(WatchEvent::Added(pod(name, version)))
}

pub(crate) fn modified(name: &str, version: &str) -> Event {
    Ok(WatchEvent::Modified(pod(name, version)))
}

pub(crate) fn deleted(name: &str, version: &str) -> Event {
    Ok(WatchEvent::Deleted(pod(name, version)))
}

pub(crate) fn bookmark(version: &str) -> Event {
    Ok(WatchEvent::Bookmark { resource_version: ResourceVersion::new(version), initial_events_end: false })
}

/// The bookmark that ends the initial events.
pub(crate) fn all(version: &str) -> Event {
    Ok(WatchEvent::Bookmark { resource_version: ResourceVersion::new(version), initial_events_end: true })
}

pub(crate) fn error(status: Status) -> Event {
    Ok(WatchEvent::Error(Box::new(status)))
}

/// An object that cannot be decoded.
pub(crate) fn unreadable(name: &str) -> StreamError {
    StreamError::Object {
        offset: 0,
        item: None,
        key: Some(Box::new(ObjectKey::new(Some("ns"), name))),
        source: DecodeError::NoName { kind: None },
    }
}

pub(crate) fn too_many() -> Status {
    Status::failure(429, evenkeel_core::Reason::TOO_MANY_REQUESTS, "slow down")
}

/// A request to the source, or a write to the store.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Entry {
    /// A list request: version, token, limit.
    List(String, String, u32),
    /// A watch request from this version.
    Watch(String),
    /// A WatchList was requested.
    WatchList(String),
    Add(String),
    Update(String),
    Delete(String),
    Replace(Vec<String>, String),
    Resync,
    Bookmark(String),
    Flush,
    /// A watch was dropped.
    Stop,
}

/// The response of a list.
pub(crate) enum ListAnswer {
    Parts(Vec<Result<ListPart, SourceError>>),
    Refuse(SourceError),
    Hang,
}

/// The response of a watch.
pub(crate) enum WatchAnswer {
    /// These events, each after a time; then the watch is closed, or stays open.
    Events(Vec<(Duration, Event)>, Then),
    Refuse(SourceError),
    /// Events as the test sends them.
    Live(mpsc::UnboundedReceiver<Event>),
    Hang,
}

/// The state of a watch after its events.
#[derive(Clone, Copy)]
pub(crate) enum Then {
    Close(Duration),
    Open,
}

/// Returns a list of these objects, as one page.
pub(crate) fn list(objects: &[(&str, &str)], version: &str) -> ListAnswer {
    page(objects, version, "")
}

/// A page of a list.
pub(crate) fn page(objects: &[(&str, &str)], version: &str, token: &str) -> ListAnswer {
    let mut parts: Vec<_> = objects.iter().map(|(name, version)| Ok(ListPart::Object(pod(name, version)))).collect();
    parts.push(end(version, token));
    ListAnswer::Parts(parts)
}

pub(crate) fn end(version: &str, token: &str) -> Result<ListPart, SourceError> {
    Ok(ListPart::End { resource_version: ResourceVersion::new(version), continue_token: token.to_owned() })
}

/// A watch that sends these at once and stays open.
pub(crate) fn open(events: Vec<Event>) -> WatchAnswer {
    WatchAnswer::Events(events.into_iter().map(|event| (Duration::ZERO, event)).collect(), Then::Open)
}

/// A watch that sends these at once and is closed after a time.
pub(crate) fn closed(events: Vec<Event>, after: Duration) -> WatchAnswer {
    WatchAnswer::Events(events.into_iter().map(|event| (Duration::ZERO, event)).collect(), Then::Close(after))
}

pub(crate) fn refuse_list(status: Status) -> ListAnswer {
    ListAnswer::Refuse(status.into())
}

pub(crate) fn refuse_watch(status: Status) -> WatchAnswer {
    WatchAnswer::Refuse(status.into())
}

/// A log of entries with their times.
#[derive(Clone, Default)]
pub(crate) struct Diary(Arc<Mutex<Vec<(Instant, Entry)>>>);

impl Diary {
    fn note(&self, entry: Entry) {
        self.0.lock().unwrap().push((Instant::now(), entry));
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.0.lock().unwrap().iter().map(|(_, entry)| entry.clone()).collect()
    }

    /// Returns the requests to the source.
    pub(crate) fn requests(&self) -> Vec<Entry> {
        let is_request = |entry: &Entry| matches!(entry, Entry::List(..) | Entry::Watch(_) | Entry::WatchList(_));
        self.entries().into_iter().filter(is_request).collect()
    }

    /// Returns the times of the requests since the start.
    pub(crate) fn request_times(&self, start: Instant) -> Vec<Duration> {
        let entries = self.0.lock().unwrap();
        let is_request = |entry: &Entry| matches!(entry, Entry::List(..) | Entry::Watch(_) | Entry::WatchList(_));
        entries.iter().filter(|(_, entry)| is_request(entry)).map(|(at, _)| *at - start).collect()
    }

    /// Returns the writes, without flushes.
    pub(crate) fn writes(&self) -> Vec<Entry> {
        let is_write = |entry: &Entry| {
            !matches!(entry, Entry::List(..) | Entry::Watch(_) | Entry::WatchList(_) | Entry::Flush | Entry::Stop)
        };
        self.entries().into_iter().filter(is_write).collect()
    }

    pub(crate) fn count(&self, wanted: impl Fn(&Entry) -> bool) -> usize {
        self.entries().iter().filter(|entry| wanted(entry)).count()
    }
}

/// A source that follows a script, and hangs at its end.
#[derive(Clone, Default)]
pub(crate) struct Script {
    lists: Arc<Mutex<VecDeque<ListAnswer>>>,
    watches: Arc<Mutex<VecDeque<WatchAnswer>>>,
    pub(crate) diary: Diary,
    pub(crate) timeouts: Arc<Mutex<Vec<Duration>>>,
    pub(crate) exact: Arc<Mutex<Vec<bool>>>,
    no_watch_list: bool,
    is_metadata_only: bool,
}

impl Script {
    pub(crate) fn list(self, answer: ListAnswer) -> Self {
        self.lists.lock().unwrap().push_back(answer);
        self
    }

    pub(crate) fn watch(self, answer: WatchAnswer) -> Self {
        self.watches.lock().unwrap().push_back(answer);
        self
    }

    /// A watch whose events the test sends.
    pub(crate) fn live(&self) -> mpsc::UnboundedSender<Event> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.watches.lock().unwrap().push_back(WatchAnswer::Live(receiver));
        sender
    }

    pub(crate) fn no_watch_list(mut self) -> Self {
        self.no_watch_list = true;
        self
    }

    pub(crate) fn metadata_only(mut self) -> Self {
        self.is_metadata_only = true;
        self
    }
}

impl ListerWatcher for Script {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Box<dyn ListItems>, SourceError>> {
        self.exact.lock().unwrap().push(request.is_exact);
        self.diary.note(Entry::List(request.resource_version, request.continue_token, request.limit));
        let answer = self.lists.lock().unwrap().pop_front();
        Box::pin(async move {
            match answer {
                Some(ListAnswer::Parts(parts)) => Ok(Box::new(Parts(parts.into())) as Box<dyn ListItems>),
                Some(ListAnswer::Refuse(error)) => Err(error),
                Some(ListAnswer::Hang) | None => std::future::pending().await,
            }
        })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Box<dyn WatchEvents>, SourceError>> {
        self.timeouts.lock().unwrap().push(request.timeout);
        self.diary.note(match request.initial_events {
            true => Entry::WatchList(request.resource_version),
            false => Entry::Watch(request.resource_version),
        });
        let answer = self.watches.lock().unwrap().pop_front();
        let diary = self.diary.clone();
        Box::pin(async move {
            let (sender, receiver) = mpsc::unbounded_channel();
            match answer {
                Some(WatchAnswer::Events(events, then)) => {
                    tokio::spawn(async move {
                        for (after, event) in events {
                            if !after.is_zero() {
                                tokio::time::sleep(after).await;
                            }
                            let _ = sender.send(event);
                        }
                        match then {
                            Then::Close(after) => tokio::time::sleep(after).await,
                            Then::Open => sender.closed().await,
                        }
                    });
                    Ok(Box::new(Live { receiver, diary }) as Box<dyn WatchEvents>)
                }
                Some(WatchAnswer::Live(receiver)) => Ok(Box::new(Live { receiver, diary }) as Box<dyn WatchEvents>),
                Some(WatchAnswer::Refuse(error)) => Err(error),
                Some(WatchAnswer::Hang) | None => std::future::pending().await,
            }
        })
    }

    fn supports_watch_list(&self) -> bool {
        !self.no_watch_list
    }

    fn is_metadata_only(&self) -> bool {
        self.is_metadata_only
    }
}

struct Parts(VecDeque<Result<ListPart, SourceError>>);

impl ListItems for Parts {
    fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Result<ListPart, SourceError>> {
        self.0.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}

struct Live {
    receiver: mpsc::UnboundedReceiver<Event>,
    diary: Diary,
}

impl WatchEvents for Live {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.receiver.poll_recv(context)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.diary.note(Entry::Stop);
    }
}

/// A sink that records, and fails on demand.
#[derive(Clone, Default)]
pub(crate) struct Notes {
    pub(crate) objects: Arc<Mutex<Vec<Object>>>,
    pub(crate) diary: Diary,
    /// How many writes of which entry fail.
    pub(crate) failing: Arc<Mutex<Vec<&'static str>>>,
}

impl Notes {
    /// Returns the stored objects as `name@version`, sorted.
    pub(crate) fn stored(&self) -> Vec<String> {
        let mut names: Vec<_> = self.objects.lock().unwrap().iter().map(shown).collect();
        names.sort();
        names
    }

    fn check(&self, what: &'static str) -> Result<(), SinkError> {
        let mut failing = self.failing.lock().unwrap();
        match failing.iter().position(|failing| *failing == what) {
            Some(at) => {
                failing.remove(at);
                Err(SinkError::rejected(format!("{what} fails"), None))
            }
            None => Ok(()),
        }
    }

    fn put(&self, object: Object) {
        let mut objects = self.objects.lock().unwrap();
        objects.retain(|other| other.key() != object.key());
        objects.push(object);
    }
}

pub(crate) fn shown(object: &Object) -> String {
    format!("{}@{}", object.key().name(), object.resource_version())
}

impl DeltaSink for Notes {
    fn push(&mut self, delta: Delta) -> Result<(), SinkError> {
        match delta {
            Delta::Added(object) => {
                self.diary.note(Entry::Add(shown(&object)));
                self.check("add")?;
                self.put(object);
            }
            Delta::Updated(object) => {
                self.diary.note(Entry::Update(shown(&object)));
                self.check("update")?;
                self.put(object);
            }
            Delta::Deleted(deleted) => {
                self.diary.note(Entry::Delete(deleted.object().map(shown).unwrap_or_default()));
                self.check("delete")?;
                self.objects.lock().unwrap().retain(|other| other.key() != deleted.key());
            }
            Delta::ReplacedAll { objects, resource_version } => {
                let names = objects.iter().map(shown).collect();
                self.diary.note(Entry::Replace(names, resource_version.as_str().to_owned()));
                self.check("replace")?;
                *self.objects.lock().unwrap() = objects;
            }
            Delta::SyncAll => {
                self.diary.note(Entry::Resync);
                self.check("resync")?;
            }
            Delta::Bookmark(version) => self.diary.note(Entry::Bookmark(version.as_str().to_owned())),
            other => unreachable!("a reflector does not send {other:?}"),
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.diary.note(Entry::Flush);
        self.check("flush")
    }

    fn known(&self, key: &ObjectKey) -> Option<Object> {
        self.objects.lock().unwrap().iter().find(|object| object.key() == key).cloned()
    }
}

/// A running reflector, with everything observable of it.
pub(crate) struct ReflectorFixture {
    pub(crate) start: Instant,
    pub(crate) diary: Diary,
    pub(crate) store: Notes,
    pub(crate) status: ReflectorStatus,
    /// The failures: error and recovery.
    pub(crate) failures: Arc<Mutex<Vec<(String, super::Recovery)>>>,
    pub(crate) timeouts: Arc<Mutex<Vec<Duration>>>,
    pub(crate) exact: Arc<Mutex<Vec<bool>>>,
    task: tokio::task::JoinHandle<()>,
}

impl ReflectorFixture {
    /// Runs a reflector that lists, and leaves nothing to chance.
    pub(crate) fn listing(script: Script) -> Self {
        ReflectorFixture::with(script, |builder| builder.watch_list(false))
    }

    /// Runs a reflector with WatchList.
    pub(crate) fn streaming(script: Script) -> Self {
        ReflectorFixture::with(script, |builder| builder)
    }

    pub(crate) fn with(script: Script, how: impl FnOnce(ReflectorBuilder) -> ReflectorBuilder) -> Self {
        ReflectorFixture::on(script, Notes::default(), how)
    }

    pub(crate) fn on(script: Script, mut store: Notes, how: impl FnOnce(ReflectorBuilder) -> ReflectorBuilder) -> Self {
        store.diary = script.diary.clone();
        let failures: Arc<Mutex<Vec<_>>> = Arc::default();
        let record = Arc::clone(&failures);
        let (diary, timeouts, exact) = (script.diary.clone(), Arc::clone(&script.timeouts), Arc::clone(&script.exact));
        let builder = Reflector::builder(Arc::new(script), pods())
            .on_error(move |failure| record.lock().unwrap().push((failure.error.to_string(), failure.next)));
        let mut reflector = how(builder).build();
        reflector.driver.random = || 0.0;
        let status = reflector.status();
        let mut target = store.clone();
        let task = tokio::spawn(async move {
            reflector.run(&mut target).await;
        });
        ReflectorFixture { start: Instant::now(), diary, store, status, failures, timeouts, exact, task }
    }

    /// Advances the time.
    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Lets all ready tasks run without advancing the time.
    pub(crate) async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    pub(crate) async fn stop(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    pub(crate) fn errors(&self) -> Vec<String> {
        self.failures.lock().unwrap().iter().map(|(error, _)| error.clone()).collect()
    }

    pub(crate) fn nexts(&self) -> Vec<super::Recovery> {
        self.failures.lock().unwrap().iter().map(|(_, next)| *next).collect()
    }
}

impl Drop for ReflectorFixture {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Captures the log, as `LEVEL message`, while the guard lives.
#[derive(Clone, Default)]
pub(crate) struct Logs(Arc<Mutex<Vec<String>>>);

impl Logs {
    pub(crate) fn listen() -> (Self, tracing::subscriber::DefaultGuard) {
        let logs = Logs::default();
        (logs.clone(), tracing::subscriber::set_default(logs))
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl tracing::Subscriber for Logs {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("evenkeel_cache")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Message(String);
        impl tracing::field::Visit for Message {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().unwrap().push(format!("{} {}", event.metadata().level(), message.0));
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
