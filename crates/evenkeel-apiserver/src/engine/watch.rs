//! Watches: from a request to a stream of frames.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_core::{Reason, Status};
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::ApiEngine;
use super::filter::Filter;
use super::options::ListOptions;
use super::timers::Timer;
use super::view::{IncludeObject, View};
use crate::http_types::{Body, ConnectionCut, FrameStream, HandlerOutcome};
use crate::negotiate::{Media, MetaVersion, Transform};
use crate::protobuf_response::{self, Unwritable};
use crate::store::{At, Cursor, Event, Record, Span, Unavailable};

/// How often a watch that asked for bookmarks gets one.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A last bookmark comes this long before the watch ends.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// A watch without a timeout ends after this at the earliest, and after twice this at the latest.
const SHORTEST_DEFAULT: Duration = Duration::from_secs(1800);
/// How many events are taken from the history at a time.
const BATCH: usize = 64;

impl ApiEngine {
    /// Opens a watch. What is wrong with the options is told by the response's code; what is wrong with the resource
    /// version, by an ERROR event (WAT-9, WAT-10).
    pub(super) fn watch(
        self: &Arc<Self>,
        view: View,
        filter: Filter,
        options: &ListOptions,
        waited: bool,
    ) -> Result<HandlerOutcome, Status> {
        let requested =
            options.revision().map_err(|error| Status::failure(500, Reason::default(), error.to_string()))?;
        let table = Arc::clone(&view.resource.storage);
        let unversioned = requested.unwrap_or(0) == 0;
        // Who names no version gets the initial events without asking (WAT-5).
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
            Err(Unavailable::Future { .. }) if !waited => {
                return Ok(HandlerOutcome::AwaitRevision { revision: requested.unwrap_or_default(), allotted: None });
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
            last: None,
            ended: false,
        };
        Ok(HandlerOutcome::Response(stream_reply(Body::stream(stream), media)))
    }
}

fn next_bookmark(now: Duration, deadline: Duration) -> Duration {
    let last = deadline.saturating_sub(BOOKMARK_BEFORE_END);
    let regular = now + BOOKMARK_EVERY;
    if now < last && last < regular { last } else { regular }
}

fn stream_reply(body: Body, media: Media) -> http::Response<Body> {
    let mut reply = http::Response::new(body);
    reply.headers_mut().insert(CONTENT_TYPE, media.stream_content_type());
    reply
}

/// A watch that consists of one ERROR event.
fn error_stream(status: &Status, media: Media) -> http::Response<Body> {
    stream_reply(Body::whole(error_frame(status, media)), media)
}

/// The frame of an ERROR event.
fn error_frame(status: &Status, media: Media) -> Bytes {
    // A Status is strings and numbers: it can always be written.
    frame_of("ERROR", &serde_json::to_value(status).unwrap_or_default(), media)
}

/// The frame of an event with an object that names its kind and version. Empty, and that is logged, if the object has
/// no such form.
fn frame_of(event: &str, object: &Value, media: Media) -> Bytes {
    match media {
        Media::Protobuf => protobuf_response::event_of(event, object).unwrap_or_else(no_frame),
        Media::Json | Media::Yaml => line(event, object.to_string().as_bytes()),
    }
}

fn no_frame(why: Unwritable) -> Bytes {
    tracing::error!(%why, "a watch ends because it cannot show an object");
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

/// An open watch. Every frame is one whole event; reading is what drives it, and dropping it ends it.
struct WatchStream {
    engine: Arc<ApiEngine>,
    cursor: Cursor,
    filter: Filter,
    view: View,
    /// Objects still to be shown as ADDED before the changes begin.
    initial: std::vec::IntoIter<Arc<Record>>,
    /// The bookmark that ends the initial objects is still to be sent.
    end_of_initial: bool,
    /// Frames that are made but not read.
    ready: VecDeque<Bytes>,
    bookmark_at: Option<Duration>,
    deadline: Duration,
    timer: Option<(Duration, Timer)>,
    columns_sent: bool,
    /// The watch has been closed, and ends when it has shown what happened until then.
    last: Option<u64>,
    ended: bool,
}

impl FrameStream for WatchStream {
    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ConnectionCut>>> {
        let watch = self.get_mut();
        loop {
            if let Some(frame) = watch.ready.pop_front() {
                return Poll::Ready(Some(Ok(frame)));
            }
            if watch.ended {
                return Poll::Ready(None);
            }
            watch.view.now = watch.engine.env.wall();
            if watch.fill_initial() {
                continue;
            }
            watch.cursor.watch_waker.prepare(cx.waker());
            if watch.last.is_none() && watch.cursor.watch_waker.is_closed() {
                watch.last = Some(watch.engine.store.visible_revision());
            }
            let now = watch.engine.env.monotonic();
            watch.fill_changes(now);
            watch.ended |= watch.last.is_some_and(|last| watch.cursor.revision >= last);
            if watch.ready.is_empty() && !watch.ended {
                watch.set_timer(now);
                return Poll::Pending;
            }
        }
    }
}

impl WatchStream {
    /// Makes frames of the next initial objects. Answers whether there were any left to do. A reader so slow that what
    /// follows them is forgotten already gets no more of them (STO-20).
    fn fill_initial(&mut self) -> bool {
        let mut any = false;
        if self.initial.len() > 0 && !self.engine.store.can_advance(&self.cursor) {
            self.ended = true;
            return true;
        }
        for record in self.initial.by_ref().take(BATCH) {
            any = true;
            self.view.keep(&record);
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

    /// Makes frames of what has happened since the last look, or a bookmark if it is time for one.
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
            if events.len() < BATCH || !self.ready.is_empty() {
                break;
            }
        }
        if now >= self.deadline {
            self.ended = true;
        } else if self.ready.is_empty() && self.bookmark_at.is_some_and(|at| now >= at) {
            // A watch that began in the future is silent until the store gets there (WAT-6).
            if self.cursor.revision <= self.engine.store.visible_revision() {
                let bookmark = self.bookmark(false);
                self.ready.push_back(bookmark);
            }
            self.bookmark_at = Some(next_bookmark(now, self.deadline));
        }
    }

    /// The frame by which this watch shows a change, if it does (WAT-13).
    fn change(&mut self, event: &Arc<Event>) -> Option<Bytes> {
        let matching = |record: &Option<Arc<Record>>| {
            record.as_ref().filter(|record| self.filter.matches(&event.key, record)).cloned()
        };
        let (before, after) = (matching(&event.previous), matching(&event.current));
        let (kind, record, at) = match (before, after) {
            (None, Some(record)) => (EventType::Added, record, None),
            (Some(_), Some(record)) => (EventType::Modified, record, None),
            (Some(record), None) => (EventType::Deleted, record, Some(event.revision)),
            (None, None) => return None,
        };
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

    /// A bookmark at the cursor: everything up to there has been delivered.
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
                // Whoever waits for the end of the initial events finds it in the row's metadata (TAB-2).
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

    /// Arranges to be woken for the next bookmark or for the end.
    fn set_timer(&mut self, now: Duration) {
        let next = self.bookmark_at.map_or(self.deadline, |at| at.min(self.deadline));
        if self.timer.as_ref().is_none_or(|(at, _)| *at != next || *at <= now) {
            let timer = Timer::set(&self.engine.timers, next, &self.cursor.watch_waker);
            self.timer = Some((next, timer));
        }
    }
}

impl View {
    /// The frame of an event with this object; empty, and that is logged, if the object has no such form.
    fn frame(&self, kind: EventType, record: &Record, at: Option<u64>, columns_sent: &mut bool) -> Bytes {
        let event = kind.as_str();
        if self.representation.media == Media::Protobuf {
            let (api_version, kind) = self.shown_as();
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

/// What a Table watch shows with each row.
pub(super) fn include_object(text: Option<&str>) -> Result<IncludeObject, Status> {
    match text.unwrap_or_default() {
        "" | "Metadata" => Ok(IncludeObject::Metadata),
        "None" => Ok(IncludeObject::None),
        "Object" => Ok(IncludeObject::Object),
        other => Err(Status::bad_request(format!("unrecognized includeObject value: {other:?}"))),
    }
}
