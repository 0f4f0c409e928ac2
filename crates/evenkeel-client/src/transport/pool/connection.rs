//! A connection from its handshake to its end: HTTP settings and the task that drives it.

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
use super::dial::Driven;
use super::state::Alive;
use super::wire::Wire;
use crate::config::{Connections, Limits};

/// The largest window that HTTP/2 allows.
const LARGEST_WINDOW: usize = (1 << 31) - 1;
/// A smaller window would slow a stream down.
const SMALLEST_STREAM_WINDOW: usize = 16 << 10;
/// Enough for the burst at the start of a watch; later events are sparse.
const WATCH_WINDOW: usize = 512 << 10;
/// Large, because a list arrives at full speed.
const CALL_WINDOW: usize = 4 << 20;
/// Room for sixteen unread lists.
const CALLS_WINDOW: usize = 64 << 20;

/// hyper grows its buffer up to this size for fast bodies; headers have their own limit.
const READ_BUFFER: usize = 400 << 10;

/// The HTTP settings of new connections.
pub(super) struct HttpSettings {
    http1: http1::Builder,
    calls: http2::Builder<TokioExecutor>,
    streams: http2::Builder<TokioExecutor>,
    /// The maximum number of streams per connection.
    pub(super) max_streams: usize,
}

/// The flow control windows of a stream and of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Windows {
    stream: u32,
    connection: u32,
}

impl Windows {
    /// Returns the windows for watches: all streams together cannot fill the window of their connection, so an unread
    /// stream delays no other.
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

impl HttpSettings {
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
        HttpSettings {
            http1,
            calls: http2(Windows::of_calls()),
            streams: http2(Windows::of_streams(max_streams)),
            max_streams,
        }
    }

    /// Performs the HTTP/1.1 handshake.
    pub(super) async fn handshake_http1(&self, wire: Wire) -> Result<(Http1Connection, Http1Driver), hyper::Error> {
        let (sender, connection) = self.http1.handshake(TokioIo::new(wire)).await?;
        let (home, returned) = mpsc::unbounded_channel();
        let shared_connection = SharedConnection::new(connection);
        Ok((
            Http1Connection { sender, home, shared_connection: Arc::downgrade(&shared_connection), used: false },
            Http1Driver { shared_connection, returned },
        ))
    }

    /// Performs the HTTP/1.1 handshake of a connection that is upgraded.
    pub(super) async fn upgradable_http1(
        &self,
        wire: Wire,
    ) -> Result<(http1::SendRequest<Body>, Connection), hyper::Error> {
        self.http1.handshake(TokioIo::new(wire)).await
    }

    /// Performs the HTTP/2 handshake. hyper spawns a task, which ends with the last stream.
    pub(super) async fn handshake_http2(
        &self,
        lane: Lane,
        mut wire: Wire,
    ) -> Result<(Http2Connection, Http2Driver), hyper::Error> {
        let settings = wire.watch_settings();
        let builder = match lane {
            Lane::Calls => &self.calls,
            Lane::Streams => &self.streams,
        };
        let (sender, connection) = builder.handshake(TokioIo::new(wire)).await?;
        Ok((Http2Connection { sender }, Http2Driver { connection, settings }))
    }
}

/// An HTTP/1.1 connection, for one request at a time.
pub(super) struct Http1Connection {
    pub(super) sender: http1::SendRequest<Body>,
    /// Returns the connection to its driver while it is not ready for the next request.
    home: mpsc::UnboundedSender<Http1Connection>,
    /// Lets the reader of a response drive the connection. Weak, because the driver owns it: hyper signals the end of
    /// a connection by dropping it.
    pub(super) shared_connection: Weak<SharedConnection>,
    /// Whether it has carried a request before.
    pub(super) used: bool,
}

impl Http1Connection {
    /// Returns the connection to its driver until it is ready.
    pub(super) fn return_to_driver(self) {
        let home = self.home.clone();
        // A driver that has ended has closed the connection.
        let _ = home.send(self);
    }
}

impl Alive for Http1Connection {
    fn is_alive(&self) -> bool {
        // Not `is_ready`: a new connection is not ready until its driver has run, but accepts one request all the
        // same.
        !self.sender.is_closed()
    }
}

/// An HTTP/2 connection, for many requests.
#[derive(Clone)]
pub(super) struct Http2Connection {
    pub(super) sender: http2::SendRequest<Body>,
}

impl Alive for Http2Connection {
    fn is_alive(&self) -> bool {
        !self.sender.is_closed()
    }
}

/// An HTTP/1.1 connection that its task and the reader of a response body drive in turns.
///
/// hyper hands a body over chunk by chunk, and a watch has a chunk per event. If one task reads chunks and another
/// consumes them, each event costs two task switches, often between threads: more than all other work on it. So the
/// reader of a body polls the connection itself. The last one to poll is woken on new data. A reader that holds a body
/// without reading it stalls the connection, and with it the rest of the request; so only a reader whose request was
/// sent completely polls. A reader that stops polling must call [`resume`](Self::resume).
pub(super) struct SharedConnection {
    state: Mutex<DrivenConnectionState>,
    task: Mutex<Option<Waker>>,
}

pub(super) type Connection = http1::Connection<TokioIo<Wire>, Body>;

struct DrivenConnectionState {
    /// `None` once it has ended.
    connection: Option<Connection>,
    /// The result, until the task has taken it.
    ended: Option<Result<(), hyper::Error>>,
}

impl SharedConnection {
    fn new(connection: Connection) -> Arc<Self> {
        let state = DrivenConnectionState { connection: Some(connection), ended: None };
        Arc::new(SharedConnection { state: Mutex::new(state), task: Mutex::new(None) })
    }

    /// Polls the connection for the reader of a response body. If another task polls it at this moment there is
    /// nothing to do: its result is handed over.
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

    /// Returns the driving to the task.
    pub(super) fn resume(&self) {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Polls the connection for the task. Returns its result once it has ended.
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

impl DrivenConnectionState {
    /// Polls the connection. Returns it if it has ended, to be dropped without the lock.
    fn turn(&mut self, context: &mut Context<'_>) -> Option<Connection> {
        let Poll::Ready(ended) = Pin::new(self.connection.as_mut()?).poll(context) else { return None };
        self.ended = Some(ended);
        self.connection.take()
    }
}

/// The driver of an HTTP/1.1 connection.
pub(super) struct Http1Driver {
    shared_connection: Arc<SharedConnection>,
    returned: mpsc::UnboundedReceiver<Http1Connection>,
}

impl Http1Driver {
    /// Drives the connection until it ends, or until it was idle for `idle_timeout`.
    pub(super) async fn run(mut self, driven: Driven, idle_timeout: Duration) {
        let mut alarm = pin!(sleep(idle_timeout));
        let mut settling = None;
        let ended = poll_fn(|context| {
            loop {
                if let Poll::Ready(ended) = self.shared_connection.drive(context) {
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
                    // The response was read long ago, and the server still does not read the rest of the request.
                    return Poll::Ready(Ok(()));
                }
                alarm.set(sleep(driven.expire(idle_timeout)));
            }
        })
        .await;
        driven.ended(ended);
    }
}

/// The driver of an HTTP/2 connection.
pub(super) struct Http2Driver {
    connection: http2::Connection<TokioIo<Wire>, Body, TokioExecutor>,
    settings: oneshot::Receiver<()>,
}

impl Http2Driver {
    /// Drives the connection until it accepts no more requests: idle for `idle_timeout`, GOAWAY, or no SETTINGS within
    /// `patience`.
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
