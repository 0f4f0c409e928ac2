//! `GET pods/X/log`: what was written with [`PodLogs`](crate::PodLogs) (MSC-5).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use evenkeel_core::Status;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::ApiEngine;
use super::write::Target;
use crate::field::{self, FieldError};
use crate::http_types::{Body, ConnectionCut, FrameStream, HandlerOutcome};
use crate::logs::{ContainerLog, Line, LogPart, LogPosition, LogStream};
use crate::query::Query;

impl ApiEngine {
    pub(super) fn log(self: &Arc<Self>, target: Target<'_>, query: &Query) -> Result<HandlerOutcome, Status> {
        let Some(record) = self.store.get(&target.resource.storage, &target.key()) else {
            return Err(target.not_found());
        };
        let options = Options::read(query, target.name, self.env.wall())?;
        let container = container(&record.value(), target.name, query.non_empty("container"))?;
        let log = self.logs.container(target.namespace.unwrap_or_default(), target.name, &container);
        let Some(LogPart { mut lines, next, ended }) = log.read(options.previous) else {
            let what = if options.previous {
                format!("previous terminated container {container:?} in pod {:?} not found", target.name)
            } else {
                format!("container {container:?} in pod {:?} is waiting to start: ContainerCreating", target.name)
            };
            return Err(Status::bad_request(what));
        };
        lines.retain(|line| options.shows(line));
        if let Some(tail) = options.tail {
            lines.drain(..lines.len().saturating_sub(tail));
        }
        let mut follower = Follower { left: options.limit, log, next, options };
        let first = follower.write(&lines);
        let body = if follower.options.follow && !ended && follower.left != Some(0) {
            Body::stream(Follow { first: Some(first), follower })
        } else {
            Body::whole(first)
        };
        let mut answer = Response::new(body);
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        Ok(HandlerOutcome::Response(answer))
    }
}

/// Which container is meant.
fn container(pod: &Value, name: &str, asked: Option<&str>) -> Result<String, Status> {
    let names = |list: &str| -> Vec<String> {
        let containers = pod.pointer(list).and_then(Value::as_array).into_iter().flatten();
        containers.filter_map(|container| Some(container.get("name")?.as_str()?.to_owned())).collect()
    };
    let (main, init) = (names("/spec/containers"), names("/spec/initContainers"));
    match (asked, main.as_slice()) {
        (None, [only]) => Ok(only.clone()),
        (None, several) => {
            let mut message =
                format!("a container name must be specified for pod {name}, choose one of: [{}]", several.join(" "));
            if !init.is_empty() {
                message.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
            }
            Err(Status::bad_request(message))
        }
        (Some(asked), _) => {
            let ephemeral = names("/spec/ephemeralContainers");
            match [main, init, ephemeral].iter().flatten().any(|known| known == asked) {
                true => Ok(asked.to_owned()),
                false => Err(Status::bad_request(format!("container {asked} is not valid for pod {name}"))),
            }
        }
    }
}

/// Which part of a log is asked for, and how it is shown.
struct Options {
    follow: bool,
    previous: bool,
    timestamps: bool,
    since: Option<Timestamp>,
    tail: Option<usize>,
    limit: Option<usize>,
    stream: Option<LogStream>,
}

impl Options {
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
                Status::bad_request(format!("unable to decode query parameter sinceTime: {time:?} is no time"))
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
        Ok(Options {
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

/// Where a reader stands in a log.
struct Follower {
    log: ContainerLog,
    options: Options,
    /// The first line that has not been shown.
    next: LogPosition,
    /// How many bytes may still be shown.
    left: Option<usize>,
}

impl Follower {
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

/// A log that goes on.
struct Follow {
    first: Option<Bytes>,
    follower: Follower,
}

impl FrameStream for Follow {
    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, ConnectionCut>>> {
        if let Some(first) = self.first.take().filter(|first| !first.is_empty()) {
            return Poll::Ready(Some(Ok(first)));
        }
        let follower = &mut self.follower;
        loop {
            if follower.left == Some(0) {
                return Poll::Ready(None);
            }
            let part = ready!(follower.log.poll_read(follower.next, context));
            let Some(LogPart { mut lines, next, ended }) = part else { return Poll::Ready(None) };
            follower.next = next;
            lines.retain(|line| follower.options.shows(line));
            let text = follower.write(&lines);
            if !text.is_empty() {
                return Poll::Ready(Some(Ok(text)));
            }
            if ended {
                return Poll::Ready(None);
            }
        }
    }
}
