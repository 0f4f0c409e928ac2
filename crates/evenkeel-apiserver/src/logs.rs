//! The logs of pods without a kubelet: tests write them here, clients read them at `pods/X/log`.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use jiff::Timestamp;

use crate::env::Env;

/// The size limit of a container's log, like a kubelet's default; the oldest lines are dropped first.
const MAX_BYTES: usize = 10 << 20;
/// The limit of containers with logs; beyond it, the oldest log is dropped.
const MAX_LOGS: usize = 10_000;

/// Writes the logs of pods. Cheap to clone.
///
/// A pod need not exist to have a log, but only the logs of pods that exist can be read. Each container keeps its last
/// 10 MiB.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = evenkeel_apiserver::ApiServer::start().await?;
/// server.logs().container("default", "web-0", "app").write("listening on :8080\n");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PodLogs {
    logs: Arc<Mutex<Logs>>,
    env: Arc<dyn Env>,
}

/// The log of one container; see [`PodLogs`].
#[derive(Clone)]
pub struct ContainerLog {
    logs: PodLogs,
    key: Key,
}

/// The stream that a line was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

type Key = (String, String, String);

#[derive(Default)]
struct Logs {
    containers: HashMap<Key, Runs>,
    /// In the order of creation.
    creation_order: VecDeque<Key>,
    readers: Vec<Waker>,
    closed: bool,
}

/// The current and the previous run of a container.
#[derive(Default)]
struct Runs {
    /// The number of the current run, counted from 0.
    number: u64,
    present: Run,
    previous: Option<Run>,
}

#[derive(Default)]
struct Run {
    lines: VecDeque<Line>,
    /// The number of lines dropped before the first kept one.
    dropped: u64,
    bytes: usize,
    /// Whether the last line has no newline yet.
    open: bool,
    ended: bool,
}

/// The position of a reader in the log of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogPosition {
    run: u64,
    line: u64,
}

/// The lines from a position onwards.
pub(crate) struct LogPart {
    pub(crate) lines: Vec<Line>,
    /// The position of the next part.
    pub(crate) next: LogPosition,
    /// Whether no line follows, because the run has ended or the server stops.
    pub(crate) ended: bool,
}

#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) time: Timestamp,
    pub(crate) stream: LogStream,
    /// Includes the newline, if it was written.
    pub(crate) text: String,
}

impl PodLogs {
    pub(crate) fn new(env: Arc<dyn Env>) -> Self {
        PodLogs { logs: Arc::default(), env }
    }

    /// Returns the log of a container.
    pub fn container(&self, namespace: &str, pod: &str, container: &str) -> ContainerLog {
        ContainerLog { logs: self.clone(), key: (namespace.into(), pod.into(), container.into()) }
    }

    /// Ends all followers.
    pub(crate) fn close(&self) {
        let mut logs = self.lock();
        logs.closed = true;
        logs.wake();
    }

    fn lock(&self) -> MutexGuard<'_, Logs> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ContainerLog {
    /// Appends to the container's standard output.
    pub fn write(&self, text: &str) {
        self.write_to(LogStream::Stdout, text);
    }

    /// Appends to this stream of the container.
    pub fn write_to(&self, stream: LogStream, text: &str) {
        let time = self.logs.env.wall();
        let mut logs = self.logs.lock();
        logs.runs(&self.key).present.write(time, stream, text);
        logs.wake();
    }

    /// Marks the container as ended: followers of its log reach the end.
    pub fn end(&self) {
        let mut logs = self.logs.lock();
        logs.runs(&self.key).present.ended = true;
        logs.wake();
    }

    /// Restarts the container with an empty log. The current run becomes the previous one.
    pub fn restart(&self) {
        let mut logs = self.logs.lock();
        let runs = logs.runs(&self.key);
        let mut ended = std::mem::take(&mut runs.present);
        ended.ended = true;
        runs.previous = Some(ended);
        runs.number += 1;
        logs.wake();
    }

    /// Reads the current or the previous run from its first line; `None` if there was no such run.
    pub(crate) fn read(&self, previous: bool) -> Option<LogPart> {
        let logs = self.logs.lock();
        let runs = logs.containers.get(&self.key)?;
        let run = if previous { runs.number.checked_sub(1)? } else { runs.number };
        Some(runs.read(LogPosition { run, line: 0 }, logs.closed))
    }

    /// Reads from a position, which stays in its run: a follower receives the rest of an ended run, and then the end,
    /// even if the container has restarted. Pending while there is nothing to read; a write wakes the reader. `None`
    /// if the log was dropped.
    ///
    /// Reading and registering the waker are one critical section, so that no write is missed in between.
    pub(crate) fn poll_read(&self, from: LogPosition, context: &mut Context<'_>) -> Poll<Option<LogPart>> {
        let mut logs = self.logs.lock();
        let Some(runs) = logs.containers.get(&self.key) else { return Poll::Ready(None) };
        let part = runs.read(from, logs.closed);
        if !part.lines.is_empty() || part.ended {
            return Poll::Ready(Some(part));
        }
        if !logs.readers.iter().any(|reader| reader.will_wake(context.waker())) {
            logs.readers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

impl Runs {
    fn read(&self, from: LogPosition, closed: bool) -> LogPart {
        let run = match &self.previous {
            _ if from.run == self.number => &self.present,
            Some(previous) if from.run + 1 == self.number => previous,
            // The run before the previous one is not kept.
            _ => return LogPart { lines: Vec::new(), next: from, ended: true },
        };
        let skip = usize::try_from(from.line.saturating_sub(run.dropped)).unwrap_or(usize::MAX);
        // An incomplete line is returned when its newline is written, or when the run has ended.
        let whole = run.lines.len() - usize::from(run.open && !run.ended && !closed);
        let lines = run.lines.iter().take(whole).skip(skip).cloned().collect();
        let next = LogPosition { run: from.run, line: run.dropped + whole as u64 };
        LogPart { lines, next, ended: run.ended || closed }
    }
}

impl Logs {
    fn runs(&mut self, key: &Key) -> &mut Runs {
        if !self.containers.contains_key(key) {
            self.creation_order.push_back(key.clone());
            if self.creation_order.len() > MAX_LOGS
                && let Some(oldest) = self.creation_order.pop_front()
            {
                self.containers.remove(&oldest);
            }
        }
        self.containers.entry(key.clone()).or_default()
    }

    fn wake(&mut self) {
        self.readers.drain(..).for_each(Waker::wake);
    }
}

impl Run {
    fn write(&mut self, time: Timestamp, stream: LogStream, text: &str) {
        for piece in text.split_inclusive('\n') {
            self.bytes += piece.len();
            match self.lines.back_mut() {
                Some(last) if self.open && last.stream == stream => last.text.push_str(piece),
                _ => self.lines.push_back(Line { time, stream, text: piece.to_owned() }),
            }
            self.open = !piece.ends_with('\n');
        }
        while self.bytes > MAX_BYTES
            && let Some(oldest) = self.lines.pop_front()
        {
            self.bytes -= oldest.text.len();
            self.dropped += 1;
        }
    }
}

impl std::fmt::Debug for PodLogs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PodLogs({} containers)", self.lock().containers.len())
    }
}

impl std::fmt::Debug for ContainerLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ContainerLog").field(&self.key).finish()
    }
}

#[cfg(test)]
mod tests;
