//! The logs of pods that no kubelet runs: what a test writes here is what clients read at `pods/X/log`.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use jiff::Timestamp;

use crate::env::Env;

/// The most that a container's log keeps, as a kubelet does by default; the oldest lines go first.
const MAX_BYTES: usize = 10 << 20;
/// The most containers that have logs; who writes to more loses the log that was begun first.
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

/// Where a line was written to.
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
    /// In the order in which logs were begun.
    begun: VecDeque<Key>,
    readers: Vec<Waker>,
    closed: bool,
}

/// The present and the last run of a container.
#[derive(Default)]
struct Runs {
    /// The number of the present run, counted from 0.
    number: u64,
    present: Run,
    previous: Option<Run>,
}

#[derive(Default)]
struct Run {
    lines: VecDeque<Line>,
    /// How many lines have been dropped in front of those that are left.
    dropped: u64,
    bytes: usize,
    /// Whether the last line waits for its end.
    open: bool,
    ended: bool,
}

/// The position of a reader in the log of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogPosition {
    run: u64,
    line: u64,
}

/// The lines from a position on.
pub(crate) struct LogPart {
    pub(crate) lines: Vec<Line>,
    /// Where the next part starts.
    pub(crate) next: LogPosition,
    /// Whether no line follows, because the run has ended or the server stops.
    pub(crate) ended: bool,
}

#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) time: Timestamp,
    pub(crate) stream: LogStream,
    /// With its newline, if it has one yet.
    pub(crate) text: String,
}

impl PodLogs {
    pub(crate) fn new(env: Arc<dyn Env>) -> Self {
        PodLogs { logs: Arc::default(), env }
    }

    /// The log of a container.
    pub fn container(&self, namespace: &str, pod: &str, container: &str) -> ContainerLog {
        ContainerLog { logs: self.clone(), key: (namespace.into(), pod.into(), container.into()) }
    }

    /// Ends every reader who waits for more.
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
    /// Adds to what the container wrote to its standard output.
    pub fn write(&self, text: &str) {
        self.write_to(LogStream::Stdout, text);
    }

    /// Adds to what the container wrote to this stream.
    pub fn write_to(&self, stream: LogStream, text: &str) {
        let time = self.logs.env.wall();
        let mut logs = self.logs.lock();
        logs.runs(&self.key).present.write(time, stream, text);
        logs.wake();
    }

    /// The container has ended: followers of the log reach its end.
    pub fn end(&self) {
        let mut logs = self.logs.lock();
        logs.runs(&self.key).present.ended = true;
        logs.wake();
    }

    /// The container has ended and begins again, with an empty log. What it had is that of its previous run.
    pub fn restart(&self) {
        let mut logs = self.logs.lock();
        let runs = logs.runs(&self.key);
        let mut ended = std::mem::take(&mut runs.present);
        ended.ended = true;
        runs.previous = Some(ended);
        runs.number += 1;
        logs.wake();
    }

    /// Reads the present run, or the previous one, from its first line; `None` if there has been no such run.
    pub(crate) fn read(&self, previous: bool) -> Option<LogPart> {
        let logs = self.logs.lock();
        let runs = logs.containers.get(&self.key)?;
        let run = if previous { runs.number.checked_sub(1)? } else { runs.number };
        Some(runs.read(LogPosition { run, line: 0 }, logs.closed))
    }

    /// Reads on from a position, which stays in its run: a follower receives the rest of a run that has ended, and then the end,
    /// also if the container has restarted. Pending while there is nothing to read; a write wakes the reader. `None` if the log
    /// was dropped.
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
        // A line without its end is shown when it has one, or when none will come.
        let whole = run.lines.len() - usize::from(run.open && !run.ended && !closed);
        let lines = run.lines.iter().take(whole).skip(skip).cloned().collect();
        let next = LogPosition { run: from.run, line: run.dropped + whole as u64 };
        LogPart { lines, next, ended: run.ended || closed }
    }
}

impl Logs {
    fn runs(&mut self, key: &Key) -> &mut Runs {
        if !self.containers.contains_key(key) {
            self.begun.push_back(key.clone());
            if self.begun.len() > MAX_LOGS
                && let Some(oldest) = self.begun.pop_front()
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
