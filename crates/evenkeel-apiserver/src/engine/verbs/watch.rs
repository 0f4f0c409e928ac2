//! Watch: from a request to a stream of frames.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_base::planted::{Defect, is_planted};
use evenkeel_core::{Reason, Status};
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use crate::engine::ApiEngine;
use crate::engine::convert::webhook::Batch;
use crate::engine::filter::ObjectFilter;
use crate::engine::options::ListOptions;
use crate::engine::request::ResourceRequest;
use crate::engine::request_error::RequestError;
use crate::engine::timers::Timer;
use crate::engine::view::{IncludeObject, View};
use crate::http_types::{Body, CallingStream, ConnectionCut, FrameStream, HandlerOutcome, StreamStep};
use crate::negotiate::{Endpoint, Media, MetaVersion, Transform};
use crate::outbound::OutboundCall;
use crate::protobuf_response::{self, Unwritable};
use crate::request_state::RequestState;
use crate::store::{At, Cursor, Event, Record, Span, Unavailable};

/// The interval between bookmarks.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The time between the last bookmark and the end of the watch.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// The shortest life of a watch without a timeout. The longest is twice this.
const SHORTEST_DEFAULT: Duration = Duration::from_secs(1800);
/// How many events are read from the history at a time.
const BATCH: usize = 64;

impl ApiEngine {
    /// Serves a watch. An invalid option fails the request; an unavailable resource version is an ERROR event (WAT-9,
    /// WAT-10).
    pub(crate) fn watch(self: &Arc<Self>, request: &ResourceRequest<'_>) -> Result<HandlerOutcome, RequestError> {
        let view = self.view(request, Endpoint::Watch)?;
        let options = ListOptions::from_query(request.query, true)?;
        if !self.settings.version.has_watch_list() {
            options.refuse_initial_events()?;
        }
        let filter = self.filter(request)?;
        let requested =
            options.revision().map_err(|error| Status::failure(500, Reason::default(), error.to_string()))?;
        let table = Arc::clone(&view.resource.storage);
        let unversioned = requested.unwrap_or(0) == 0;
        // A watch without a version receives the initial events by default (WAT-5).
        let initial_events = options.send_initial_events.unwrap_or(unversioned);
        let at = match requested {
            None => At::Latest,
            Some(0) => At::Any,
            Some(revision) => At::NotOlderThan(revision),
        };
        let interest = filter.interest();
        let opened = if initial_events {
            let prefix = filter.key.as_deref().unwrap_or(&filter.prefix);
            let span = Span { prefix, ..Span::default() };
            self.store.watch_with_state(&table, interest, span, at, |key, record| filter.matches(key, record))
        } else {
            let opened = match requested {
                Some(after) if after > 0 => self.store.watch_from(&table, interest, after),
                _ => self.store.watch_after_state(&table, interest, at),
            };
            opened.map(|cursor| (Vec::new(), cursor))
        };
        let (present, cursor) = match opened {
            Ok(opened) => opened,
            // A version that this server has not issued comes from another server or from before a restart with a clock
            // that was set back. Every client lists again after 410.
            Err(Unavailable::Future { current }) if !initial_events => {
                let message = format!("too large resource version: {} ({current})", requested.unwrap_or_default());
                return Ok(HandlerOutcome::Response(error_stream(
                    &Status::expired(message),
                    view.representation.media,
                )));
            }
            Err(Unavailable::Future { .. }) if !request.waited => {
                return Ok(HandlerOutcome::AwaitRevision { revision: requested.unwrap_or_default() });
            }
            Err(Unavailable::Future { current }) => {
                let status = Status::too_large_resource_version(requested.unwrap_or_default(), current);
                return Ok(HandlerOutcome::Response(error_stream(&status, view.representation.media)));
            }
            Err(Unavailable::Compacted { floor }) => {
                let message = format!("too old resource version: {} ({floor})", requested.unwrap_or_default());
                return Ok(HandlerOutcome::Response(error_stream(
                    &Status::expired(message),
                    view.representation.media,
                )));
            }
        };
        if !self.is_still_served(&view.resource) {
            cursor.watch_waker.close();
        }
        let now = self.env.monotonic();
        let lifetime = match options.timeout_seconds {
            Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs()),
            _ => SHORTEST_DEFAULT + Duration::from_millis(self.env.random() % 1_800_000),
        };
        let media = view.representation.media;
        let bookmarks = options.allow_bookmarks;
        let deadline = now.saturating_add(lifetime);
        let converts = self.has_converter(&view.resource);
        let stream = WatchStream {
            engine: Arc::clone(self),
            cursor,
            filter,
            view,
            initial: present.into_iter(),
            end_of_initial: bookmarks && initial_events && self.settings.version.has_watch_list(),
            ready: VecDeque::new(),
            bookmark_at: bookmarks.then(|| next_bookmark(now, deadline)),
            deadline,
            timer: None,
            columns_sent: false,
            last_revision: None,
            ended: false,
            conversion: converts.then(Conversion::default),
        };
        let body = match converts {
            true => Body::calling(stream),
            false => Body::stream(stream),
        };
        Ok(HandlerOutcome::Response(stream_response(body, media)))
    }
}

fn next_bookmark(now: Duration, deadline: Duration) -> Duration {
    let last = deadline.saturating_sub(BOOKMARK_BEFORE_END);
    let regular = now + BOOKMARK_EVERY;
    if now < last && last < regular { last } else { regular }
}

fn stream_response(body: Body, media: Media) -> http::Response<Body> {
    let mut response = http::Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, media.stream_content_type());
    response
}

/// Returns a watch that consists of one ERROR event.
fn error_stream(status: &Status, media: Media) -> http::Response<Body> {
    stream_response(Body::whole(error_frame(status, media)), media)
}

/// Returns the frame of an ERROR event.
fn error_frame(status: &Status, media: Media) -> Bytes {
    // A Status is strings and numbers, which always have a form.
    frame_of("ERROR", &serde_json::to_value(status).unwrap_or_default(), media)
}

/// Returns the frame of an event with an object that names its kind and version. Logs an error and returns an empty
/// frame if the object has no such form.
fn frame_of(event: &str, object: &Value, media: Media) -> Bytes {
    match media {
        Media::Protobuf => protobuf_response::event_of(event, object).unwrap_or_else(no_frame),
        Media::Json | Media::Yaml => line(event, object.to_string().as_bytes()),
    }
}

fn no_frame(why: Unwritable) -> Bytes {
    tracing::error!(%why, "object has no form for this watch; closing the watch");
    Bytes::new()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventType {
    Added,
    Modified,
    Deleted,
    Bookmark,
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            EventType::Added => "ADDED",
            EventType::Modified => "MODIFIED",
            EventType::Deleted => "DELETED",
            EventType::Bookmark => "BOOKMARK",
        }
    }
}

/// An open watch. Every frame is one event. Polling drives the watch; dropping it ends it.
struct WatchStream {
    engine: Arc<ApiEngine>,
    cursor: Cursor,
    filter: ObjectFilter,
    view: View,
    /// Initial objects that are not yet sent as ADDED.
    initial: std::vec::IntoIter<Arc<Record>>,
    /// Whether the bookmark at the end of the initial events is not yet sent.
    end_of_initial: bool,
    /// Frames that are not yet read.
    ready: VecDeque<Bytes>,
    bookmark_at: Option<Duration>,
    deadline: Duration,
    timer: Option<(Duration, Timer)>,
    columns_sent: bool,
    /// Set when the watch is closed: the last revision that it sends.
    last_revision: Option<u64>,
    ended: bool,
    /// Set if objects are converted before they are sent.
    conversion: Option<Conversion>,
}

/// The events of a watch whose objects are not yet converted. A watch holds one batch at a time.
#[derive(Default)]
struct Conversion {
    waiting: Vec<UnconvertedEvent>,
    state: RequestState,
}

struct UnconvertedEvent {
    kind: EventType,
    record: Arc<Record>,
    at: Option<u64>,
}

impl CallingStream for WatchStream {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<StreamStep> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Poll::Ready(StreamStep::Frame(frame));
            }
            match self.convert_waiting() {
                Err(calls) => return Poll::Ready(StreamStep::Calls(calls)),
                Ok(true) => continue,
                Ok(false) => {}
            }
            match ready!(self.poll_frames(cx)) {
                Some(frame) => return Poll::Ready(StreamStep::Frame(frame)),
                // The last events may wait for their conversion.
                None if self.waits_for_conversion() => {}
                None => return Poll::Ready(StreamStep::End),
            }
        }
    }

    fn state(&self) -> &RequestState {
        static NONE: LazyLock<RequestState> = LazyLock::new(RequestState::default);
        self.conversion.as_ref().map_or(&NONE, |conversion| &conversion.state)
    }
}

impl FrameStream for WatchStream {
    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ConnectionCut>>> {
        self.get_mut().poll_frames(cx).map(|frame| frame.map(Ok))
    }
}

impl WatchStream {
    /// Returns the next frame, or `None` at the end. Returns `None` early if events wait for their conversion.
    fn poll_frames(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let watch = self;
        loop {
            if let Some(frame) = watch.ready.pop_front() {
                return Poll::Ready(Some(frame));
            }
            if watch.ended || watch.waits_for_conversion() {
                return Poll::Ready(None);
            }
            watch.view.now = watch.engine.env.wall();
            if watch.fill_initial() {
                continue;
            }
            watch.cursor.watch_waker.prepare(cx.waker());
            if watch.last_revision.is_none() && watch.cursor.watch_waker.is_closed() {
                watch.last_revision = Some(watch.engine.store.visible_revision());
            }
            let now = watch.engine.env.monotonic();
            watch.fill_changes(now);
            watch.ended |= watch.last_revision.is_some_and(|last| watch.cursor.revision >= last);
            if watch.ready.is_empty() && !watch.waits_for_conversion() && !watch.ended {
                watch.set_timer(now);
                return Poll::Pending;
            }
        }
    }

    /// Converts the waiting events by one call and makes their frames. Returns whether there were any, or the calls that are
    /// needed. A failed conversion ends the watch with an ERROR event (CWH-007).
    fn convert_waiting(&mut self) -> Result<bool, Vec<OutboundCall>> {
        let Some(conversion) = self.conversion.as_mut().filter(|conversion| !conversion.waiting.is_empty()) else {
            return Ok(false);
        };
        let records = conversion.waiting.iter().map(|event| Arc::clone(&event.record)).collect();
        match self.engine.records_in_version(&self.view.resource, records, Batch::List, &conversion.state) {
            Err(RequestError::NeedsCalls(calls)) => return Err(calls),
            Err(RequestError::Refused(status)) => {
                *conversion = Conversion::default();
                self.ready.push_back(error_frame(&status, self.view.representation.media));
                self.ended = true;
            }
            Ok(converted) => {
                let waiting = std::mem::take(conversion).waiting;
                for (event, record) in waiting.into_iter().zip(converted) {
                    let frame = self.view.frame(event.kind, &record, event.at, &mut self.columns_sent);
                    if frame.is_empty() {
                        self.ended = true;
                        break;
                    }
                    self.ready.push_back(frame);
                }
            }
        }
        Ok(true)
    }

    /// Makes frames of the next initial objects. Returns whether any were left. Ends the watch of a reader so slow that
    /// the history after the initial objects is compacted (STO-20).
    fn fill_initial(&mut self) -> bool {
        let mut any = false;
        if self.initial.len() > 0 && !self.engine.store.can_advance(&self.cursor) {
            self.ended = true;
            return true;
        }
        for record in self.initial.by_ref().take(BATCH) {
            any = true;
            if let Some(conversion) = &mut self.conversion {
                conversion.waiting.push(UnconvertedEvent { kind: EventType::Added, record, at: None });
                continue;
            }
            self.view.cache(&record);
            let frame = self.view.frame(EventType::Added, &record, None, &mut self.columns_sent);
            if frame.is_empty() {
                self.ended = true;
                return true;
            }
            self.ready.push_back(frame);
        }
        if !any && self.end_of_initial {
            self.end_of_initial = false;
            let bookmark = self.bookmark(true);
            self.ready.push_back(bookmark);
            any = true;
        }
        any
    }

    /// Makes frames of the events since the cursor, or a bookmark if one is due.
    fn fill_changes(&mut self, now: Duration) {
        loop {
            let Ok(events) = self.engine.store.advance(&mut self.cursor, BATCH) else {
                self.ended = true;
                return;
            };
            for event in &events {
                match self.change(event) {
                    Some(frame) if frame.is_empty() => {
                        self.ended = true;
                        return;
                    }
                    Some(frame) => self.ready.push_back(frame),
                    None => {}
                }
            }
            if events.len() < BATCH || !self.ready.is_empty() || self.waits_for_conversion() {
                break;
            }
        }
        if now >= self.deadline {
            self.ended = true;
        } else if self.ready.is_empty() && !self.waits_for_conversion() && self.bookmark_at.is_some_and(|at| now >= at)
        {
            // A watch that starts ahead of a lagging replica sends nothing until the replica reaches it (WAT-6).
            if self.cursor.revision <= self.engine.store.visible_revision() {
                let bookmark = self.bookmark(false);
                self.ready.push_back(bookmark);
            }
            self.bookmark_at = Some(next_bookmark(now, self.deadline));
        }
    }

    /// Returns the frame of a change, if the filter selects it (WAT-13).
    fn change(&mut self, event: &Arc<Event>) -> Option<Bytes> {
        let matching = |record: &Option<Arc<Record>>| {
            record.as_ref().filter(|record| self.filter.matches(&event.key, record)).cloned()
        };
        let (before, after) = (matching(&event.previous), matching(&event.current));
        let (kind, record, at) = match (before, after) {
            (None, Some(record)) => (EventType::Added, record, None),
            (Some(_), Some(record)) => (EventType::Modified, record, None),
            (Some(previous), None) => {
                let new_state = event.current.clone().filter(|_| is_planted(Defect::ExitWithNewState));
                (EventType::Deleted, new_state.unwrap_or(previous), Some(event.revision))
            }
            (None, None) => return None,
        };
        if let Some(conversion) = &mut self.conversion {
            conversion.waiting.push(UnconvertedEvent { kind, record, at });
            return None;
        }
        let natural = match (&event.previous, &event.current) {
            (None, _) => EventType::Added,
            (Some(_), Some(_)) => EventType::Modified,
            (Some(_), None) => EventType::Deleted,
        };
        let frames = || match self.view.representation.media {
            Media::Protobuf => event.protobuf.get_or_init(Box::default),
            Media::Json | Media::Yaml => &event.json,
        };
        let shared = match self.view.representation.transform {
            Transform::None if self.view.is_stored_form(&record) => Some(&frames().whole),
            Transform::PartialObjectMetadata(MetaVersion::V1) => Some(&frames().metadata),
            _ => None,
        };
        match shared {
            Some(cell) if kind == natural => {
                let frame = cell.get_or_init(|| self.view.frame(kind, &record, at, &mut true));
                Some(frame.clone())
            }
            _ => Some(self.view.frame(kind, &record, at, &mut self.columns_sent)),
        }
    }

    /// Returns a bookmark at the cursor: all events up to there are sent.
    fn bookmark(&mut self, initial_events_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": self.cursor.revision.to_string()});
        if initial_events_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let resource = &self.view.resource;
        let object = match self.view.representation.transform {
            Transform::None => {
                json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata})
            }
            Transform::Table(_) => {
                let object = json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata});
                // A client finds the end of the initial events in the metadata of the row (TAB-2).
                let include = match self.view.include {
                    IncludeObject::None if initial_events_end => IncludeObject::Metadata,
                    include => include,
                };
                let version = json!({"resourceVersion": self.cursor.revision.to_string()});
                let columns = !std::mem::replace(&mut self.columns_sent, true);
                self.view.table(vec![self.view.row_of(object, include)], version, columns)
            }
            Transform::PartialObjectMetadata(_) | Transform::PartialObjectMetadataList(_) => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": self.view.meta_version(),
                       "metadata": metadata})
            }
        };
        frame_of(EventType::Bookmark.as_str(), &object, self.view.representation.media)
    }

    fn waits_for_conversion(&self) -> bool {
        self.conversion.as_ref().is_some_and(|conversion| !conversion.waiting.is_empty())
    }

    /// Sets the timer for the next bookmark or the end of the watch.
    fn set_timer(&mut self, now: Duration) {
        let next = self.bookmark_at.map_or(self.deadline, |at| at.min(self.deadline));
        if self.timer.as_ref().is_none_or(|(at, _)| *at != next || *at <= now) {
            let timer = Timer::set(&self.engine.timers, next, &self.cursor.watch_waker);
            self.timer = Some((next, timer));
        }
    }
}

impl View {
    /// Returns the frame of an event with this object. Logs an error and returns an empty frame if the object has no
    /// such form.
    fn frame(&self, kind: EventType, record: &Record, at: Option<u64>, columns_sent: &mut bool) -> Bytes {
        let event = kind.as_str();
        if self.representation.media == Media::Protobuf {
            let (api_version, kind) = self.kind_in_form();
            let message = self.message(record, at);
            return message
                .map_or_else(no_frame, |message| protobuf_response::event(event, api_version, kind, &message));
        }
        match self.representation.transform {
            Transform::None => line(event, &self.json(record, at)),
            Transform::PartialObjectMetadata(_) | Transform::PartialObjectMetadataList(_) => {
                line(event, &self.metadata(record, at))
            }
            Transform::Table(_) => {
                let version = json!({"resourceVersion": at.unwrap_or(record.revision).to_string()});
                let columns = !std::mem::replace(columns_sent, true);
                let table = self.table(vec![self.row(record, at)], version, columns);
                line(event, table.to_string().as_bytes())
            }
        }
    }
}

/// `{"type":"…","object":…}` and a newline.
fn line(event: &str, object: &[u8]) -> Bytes {
    let mut frame = Vec::with_capacity(object.len() + event.len() + 26);
    frame.extend_from_slice(b"{\"type\":\"");
    frame.extend_from_slice(event.as_bytes());
    frame.extend_from_slice(b"\",\"object\":");
    frame.extend_from_slice(object);
    frame.extend_from_slice(b"}\n");
    frame.into()
}
