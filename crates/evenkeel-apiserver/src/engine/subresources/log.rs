//! `GET pods/X/log`: serves the lines written with [`PodLogs`](crate::PodLogs) (MSC-5).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use evenkeel_core::Status;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::engine::ApiEngine;
use crate::engine::request::ResourceRequest;
use crate::engine::request_error::RequestError;
use crate::engine::target::WriteScope;
use crate::field::{self, FieldError};
use crate::http_types::{Body, ConnectionCut, FrameStream, HandlerOutcome};
use crate::logs::{ContainerLog, Line, LogPart, LogPosition, LogStream};
use crate::query::Query;

impl ApiEngine {
    /// Serves `GET pods/X/log`.
    pub(super) fn log(self: &Arc<Self>, request: &ResourceRequest<'_>) -> Result<HandlerOutcome, RequestError> {
        let (target, query) = (request.target(WriteScope::Main), request.query);
        let Some(record) = self.store.get(&target.resource.storage, &target.key()) else {
            return Err(target.not_found().into());
        };
        let options = LogOptions::read(query, target.name, self.env.wall())?;
        let pod = record.value();
        let container = container(&pod, target.name, query.non_empty("container"))?;
        let log = self.logs.container(target.namespace.unwrap_or_default(), target.name, &container);
        let Some(LogPart { mut lines, next, ended }) = log.read(options.previous) else {
            if pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default().is_empty() {
                let mut response = Response::new(Body::whole(Bytes::new()));
                *response.status_mut() = StatusCode::NO_CONTENT;
                return Ok(HandlerOutcome::Response(response));
            }
            let what = if options.previous {
                format!("previous terminated container {container:?} in pod {:?} not found", target.name)
            } else {
                format!("container {container:?} in pod {:?} is waiting to start: ContainerCreating", target.name)
            };
            return Err(Status::bad_request(what).into());
        };
        lines.retain(|line| options.shows(line));
        if let Some(tail) = options.tail {
            lines.drain(..lines.len().saturating_sub(tail));
        }
        let mut reader = LogReader { left: options.limit, log, next, options };
        let first = reader.write(&lines);
        let body = if reader.options.follow && !ended && reader.left != Some(0) {
            Body::stream(LogFollower { first: Some(first), reader })
        } else {
            Body::whole(first)
        };
        let mut response = Response::new(body);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        Ok(HandlerOutcome::Response(response))
    }
}

/// Returns the container that the request names, or the only one.
pub(super) fn container(pod: &Value, name: &str, requested: Option<&str>) -> Result<String, Status> {
    let names = |list: &str| -> Vec<String> {
        let containers = pod.pointer(list).and_then(Value::as_array).into_iter().flatten();
        containers.filter_map(|container| Some(container.get("name")?.as_str()?.to_owned())).collect()
    };
    let (main, init) = (names("/spec/containers"), names("/spec/initContainers"));
    match (requested, main.as_slice()) {
        (None, [only]) => Ok(only.clone()),
        (None, several) => {
            let mut message =
                format!("a container name must be specified for pod {name}, choose one of: [{}]", several.join(" "));
            if !init.is_empty() {
                message.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
            }
            Err(Status::bad_request(message))
        }
        (Some(requested), _) => {
            let ephemeral = names("/spec/ephemeralContainers");
            match [main, init, ephemeral].iter().flatten().any(|known| known == requested) {
                true => Ok(requested.to_owned()),
                false => Err(Status::bad_request(format!("container {requested} is not valid for pod {name}"))),
            }
        }
    }
}

/// The part of a log that is requested, and its format.
struct LogOptions {
    follow: bool,
    previous: bool,
    timestamps: bool,
    since: Option<Timestamp>,
    tail: Option<usize>,
    limit: Option<usize>,
    stream: Option<LogStream>,
}

impl LogOptions {
    fn read(query: &Query, pod: &str, now: Timestamp) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let tail = query.int("tailLines")?;
        if tail.is_some_and(|tail| tail < 0) {
            errors.push(FieldError::invalid("tailLines", &json!(tail), "must be greater than or equal to 0"));
        }
        let limit = query.int("limitBytes")?;
        if limit.is_some_and(|limit| limit < 1) {
            errors.push(FieldError::invalid("limitBytes", &json!(limit), "must be greater than 0"));
        }
        let seconds = query.int("sinceSeconds")?;
        let time = query.non_empty("sinceTime");
        let since = match (seconds, time) {
            (Some(_), Some(_)) => {
                errors.push(FieldError::forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified"));
                None
            }
            (Some(seconds), None) if seconds < 1 => {
                errors.push(FieldError::invalid("sinceSeconds", &json!(seconds), "must be greater than 0"));
                None
            }
            (Some(seconds), None) => now.checked_sub(SignedDuration::from_secs(seconds)).ok(),
            (None, Some(time)) => Some(time.parse().map_err(|_| {
                Status::bad_request(format!("unable to decode query parameter sinceTime: {time:?} is not a time"))
            })?),
            (None, None) => None,
        };
        let stream = match query.non_empty("stream") {
            None | Some("All") => None,
            Some("Stdout") => Some(LogStream::Stdout),
            Some("Stderr") => Some(LogStream::Stderr),
            Some(other) => {
                errors.push(FieldError::not_supported("stream", &json!(other), &["All", "Stderr", "Stdout"]));
                None
            }
        };
        if stream.is_some() && tail.is_some() {
            let detail = "`tailLines` and specific `stream` are mutually exclusive for now";
            errors.push(FieldError::forbidden("", detail));
        }
        if !errors.is_empty() {
            return Err(field::invalid("", "PodLogOptions", pod, &errors));
        }
        Ok(LogOptions {
            follow: query.bool("follow")?.unwrap_or_default(),
            previous: query.bool("previous")?.unwrap_or_default(),
            timestamps: query.bool("timestamps")?.unwrap_or_default(),
            since,
            tail: tail.and_then(|tail| usize::try_from(tail).ok()),
            limit: limit.and_then(|limit| usize::try_from(limit).ok()),
            stream,
        })
    }

    fn shows(&self, line: &Line) -> bool {
        self.since.is_none_or(|since| line.time >= since) && self.stream.is_none_or(|stream| line.stream == stream)
    }
}

/// A reader of a log and its position.
struct LogReader {
    log: ContainerLog,
    options: LogOptions,
    /// The position of the first unread line.
    next: LogPosition,
    /// How many bytes the limit still allows.
    left: Option<usize>,
}

impl LogReader {
    fn write(&mut self, lines: &[Line]) -> Bytes {
        let mut text = Vec::new();
        for line in lines {
            if self.options.timestamps {
                text.extend_from_slice(line.time.strftime("%Y-%m-%dT%H:%M:%S%.fZ ").to_string().as_bytes());
            }
            text.extend_from_slice(line.text.as_bytes());
        }
        if let Some(left) = &mut self.left {
            text.truncate(*left);
            *left -= text.len();
        }
        text.into()
    }
}

/// A log that is followed.
struct LogFollower {
    first: Option<Bytes>,
    reader: LogReader,
}

impl FrameStream for LogFollower {
    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, ConnectionCut>>> {
        if let Some(first) = self.first.take().filter(|first| !first.is_empty()) {
            return Poll::Ready(Some(Ok(first)));
        }
        let reader = &mut self.reader;
        loop {
            if reader.left == Some(0) {
                return Poll::Ready(None);
            }
            let part = ready!(reader.log.poll_read(reader.next, context));
            let Some(LogPart { mut lines, next, ended }) = part else { return Poll::Ready(None) };
            reader.next = next;
            lines.retain(|line| reader.options.shows(line));
            let text = reader.write(&lines);
            if !text.is_empty() {
                return Poll::Ready(Some(Ok(text)));
            }
            if ended {
                return Poll::Ready(None);
            }
        }
    }
}
