//! A connection from its handshake to its end: what speaks HTTP on it, and the task that drives it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::super::{Body, Lane};
use super::book::Alive;
use super::dial::Driven;
use super::wire::Wire;
use crate::config::{Connections, Limits};

/// The most that HTTP/2 lets a window be.
const LARGEST_WINDOW: usize = (1 << 31) - 1;
/// Below this a stream would crawl.
const SMALLEST_STREAM_WINDOW: usize = 16 << 10;
/// Watches trickle; this is enough for the flood at their beginning.
const WATCH_WINDOW: usize = 512 << 10;
/// A list comes as fast as it can.
const CALL_WINDOW: usize = 4 << 20;
/// Sixteen lists that nobody reads may lie around in memory.
const CALLS_WINDOW: usize = 64 << 20;

/// As large as hyper lets its buffer grow when bodies come fast; headers have a limit of their own.
const READ_BUFFER: usize = 400 << 10;

/// How connections are spoken on.
pub(super) struct Speech {
    http1: http1::Builder,
    calls: http2::Builder<TokioExecutor>,
    streams: http2::Builder<TokioExecutor>,
    /// How many streams we put on one connection.
    pub(super) max_streams: usize,
}

/// The windows of a stream and of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Windows {
    stream: u32,
    connection: u32,
}

impl Windows {
    /// For watches: all streams together cannot fill the window of their connection, so that a reader who does not read
    /// holds up nobody but himself.
    fn of_streams(max_streams: usize) -> Self {
        let stream = WATCH_WINDOW.min(LARGEST_WINDOW / max_streams.max(1));
        Windows { stream: saturated(stream), connection: saturated(stream.saturating_mul(max_streams)) }
    }

    fn of_calls() -> Self {
        Windows { stream: saturated(CALL_WINDOW), connection: saturated(CALLS_WINDOW) }
    }
}

fn saturated(size: usize) -> u32 {
    u32::try_from(size.min(LARGEST_WINDOW)).unwrap_or(u32::MAX >> 1)
}

impl Speech {
    pub(super) fn new(connections: &Connections, limits: &Limits) -> Self {
        let max_streams = connections.max_streams.clamp(1, LARGEST_WINDOW / SMALLEST_STREAM_WINDOW);
        let mut http1 = http1::Builder::new();
        http1
            .max_headers(limits.header_count)
            .max_header_size(limits.headers)
            .max_buf_size(limits.headers.max(READ_BUFFER));
        let http2 = |windows: Windows| {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder
                .timer(TokioTimer::new())
                .initial_stream_window_size(windows.stream)
                .initial_connection_window_size(windows.connection)
                .max_header_list_size(u32::try_from(limits.headers).unwrap_or(u32::MAX))
                .keep_alive_interval(connections.ping_after)
                .keep_alive_timeout(connections.ping_timeout)
                .keep_alive_while_idle(true);
            builder
        };
        Speech {
            http1,
            calls: http2(Windows::of_calls()),
            streams: http2(Windows::of_streams(max_streams)),
            max_streams,
        }
    }

    /// Begins HTTP/1.1.
    pub(super) async fn speak_http1(&self, wire: Wire) -> Result<(One, DriveOne), hyper::Error> {
        let (sender, connection) = self.http1.handshake(TokioIo::new(wire)).await?;
        let (home, returned) = mpsc::unbounded_channel();
        let engine = Engine::new(connection);
        Ok((One { sender, home, engine: Arc::downgrade(&engine), used: false }, DriveOne { engine, returned }))
    }

    /// Begins HTTP/2. From here on hyper has a task of its own, which ends when the last stream has.
    pub(super) async fn speak_http2(&self, lane: Lane, mut wire: Wire) -> Result<(Many, DriveMany), hyper::Error> {
        let settings = wire.watch_settings();
        let builder = match lane {
            Lane::Calls => &self.calls,
            Lane::Streams => &self.streams,
        };
        let (sender, connection) = builder.handshake(TokioIo::new(wire)).await?;
        Ok((Many { sender }, DriveMany { connection, settings }))
    }
}

/// An HTTP/1.1 connection, for one request at a time.
pub(super) struct One {
    pub(super) sender: http1::SendRequest<Body>,
    /// The way back to the driver, for a connection that is not quite ready for its next request.
    home: mpsc::UnboundedSender<One>,
    /// What makes it go, for who reads an answer on it. It is the driver's: hyper tells that a connection has ended by dropping
    /// it, so nobody else may hold it.
    pub(super) engine: Weak<Engine>,
    /// Whether it has carried a request before.
    pub(super) used: bool,
}

impl One {
    /// Lets the driver keep it until it is ready.
    pub(super) fn go_home(self) {
        let home = self.home.clone();
        // A driver that is gone has closed the connection.
        let _ = home.send(self);
    }
}

impl Alive for One {
    fn is_alive(&self) -> bool {
        // Not whether it is ready: a new one is not until its driver has run, but takes one request all the same.
        !self.sender.is_closed()
    }
}

/// An HTTP/2 connection, for many requests.
#[derive(Clone)]
pub(super) struct Many {
    pub(super) sender: http2::SendRequest<Body>,
}

impl Alive for Many {
    fn is_alive(&self) -> bool {
        !self.sender.is_closed()
    }
}

/// An HTTP/1.1 connection, driven by its task, and by whoever waits for the body of an answer.
///
/// hyper hands a body over chunk by chunk, and a watch has a chunk per event. If one task reads chunks and another takes them,
/// each event costs two switches between them, and often between threads: more than everything else that is done with it. So
/// who waits for a chunk looks for it himself. Whoever has looked last is woken when there is more: if he has a body and does
/// not read it, that has to wait, and so has what is still to be sent of the request, which is why only those look whose request
/// was sent whole. Who ceases to look must [tell](Self::resume) the task.
pub(super) struct Engine {
    state: Mutex<State>,
    task: Mutex<Option<Waker>>,
}

type Connection = http1::Connection<TokioIo<Wire>, Body>;

struct State {
    /// Until it has ended.
    connection: Option<Connection>,
    /// How it ended, until the task has heard of it.
    ended: Option<Result<(), hyper::Error>>,
}

impl Engine {
    fn new(connection: Connection) -> Arc<Self> {
        let state = State { connection: Some(connection), ended: None };
        Arc::new(Engine { state: Mutex::new(state), task: Mutex::new(None) })
    }

    /// Goes on as far as it can, for who waits for the body of an answer. If somebody else does so at this moment, there is
    /// nothing to do: what he finds is handed over.
    pub(super) fn look(&self, context: &mut Context<'_>) {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let over = state.turn(context);
        drop(state);
        if over.is_some() {
            self.resume();
        }
    }

    /// Leaves everything to the task again.
    pub(super) fn resume(&self) {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Goes on as far as it can, for the task. Answers with how it ended.
    fn drive(&self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let over = state.turn(context);
        let ended = state.ended.take();
        drop(state);
        drop(over);
        match ended {
            Some(ended) => Poll::Ready(ended),
            None => Poll::Pending,
        }
    }
}

impl State {
    /// Goes on as far as it can. Answers with the connection if that was the end of it, to be dropped outside of the lock.
    fn turn(&mut self, context: &mut Context<'_>) -> Option<Connection> {
        let Poll::Ready(ended) = Pin::new(self.connection.as_mut()?).poll(context) else { return None };
        self.ended = Some(ended);
        self.connection.take()
    }
}

/// What drives an HTTP/1.1 connection.
pub(super) struct DriveOne {
    engine: Arc<Engine>,
    returned: mpsc::UnboundedReceiver<One>,
}

impl DriveOne {
    /// Drives the connection until it ends, which it also does when nobody has used it for `idle_timeout`.
    pub(super) async fn run(mut self, driven: Driven, idle_timeout: Duration) {
        let mut alarm = pin!(sleep(idle_timeout));
        let mut settling = None;
        let ended = poll_fn(|context| {
            loop {
                if let Poll::Ready(ended) = self.engine.drive(context) {
                    return Poll::Ready(ended);
                }
                if settling.is_none()
                    && let Poll::Ready(Some(one)) = self.returned.poll_recv(context)
                {
                    settling = Some(one);
                }
                if let Some(mut one) = settling.take() {
                    match one.sender.poll_ready(context) {
                        Poll::Pending => settling = Some(one),
                        Poll::Ready(Ok(())) => driven.give_back(one),
                        Poll::Ready(Err(_)) => drop(one),
                    }
                }
                if alarm.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                if settling.is_some() {
                    // The answer was read long ago, and the server still does not take the rest of the request.
                    return Poll::Ready(Ok(()));
                }
                alarm.set(sleep(driven.expire(idle_timeout)));
            }
        })
        .await;
        driven.ended(ended);
    }
}

/// What drives an HTTP/2 connection.
pub(super) struct DriveMany {
    connection: http2::Connection<TokioIo<Wire>, Body, TokioExecutor>,
    settings: oneshot::Receiver<()>,
}

impl DriveMany {
    /// Drives the connection until it takes no more requests: because nobody has used it for `idle_timeout`, because the
    /// server says so, or because it never said anything within `patience`.
    pub(super) async fn run(mut self, driven: Driven, idle_timeout: Duration, patience: Duration) {
        let mut alarm = pin!(sleep(patience));
        let mut heard = false;
        let mut allowed = None;
        let ended = poll_fn(|context| {
            loop {
                if let Poll::Ready(ended) = Pin::new(&mut self.connection).poll(context) {
                    return Poll::Ready(ended);
                }
                if !heard && matches!(Pin::new(&mut self.settings).poll(context), Poll::Ready(Ok(()))) {
                    heard = true;
                    alarm.set(sleep(idle_timeout));
                }
                if heard {
                    let now = self.connection.current_max_send_streams();
                    if allowed.replace(now) != Some(now) {
                        driven.allow(now);
                    }
                }
                if alarm.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                if !heard {
                    return Poll::Ready(Ok(()));
                }
                alarm.set(sleep(driven.expire(idle_timeout)));
            }
        })
        .await;
        driven.ended(ended);
    }
}

#[cfg(test)]
mod tests;
