//! [`Pool`]: the connections to one server.
//!
//! Written by hand over hyper's connections, because hyper-util's pool was made for browsing: requests that race for the
//! first connection each open one of their own where TLS decides on the version, so fifty watches that start together
//! make fifty handshakes; it does not count streams, so the hundred-and-first watch waits for ever behind a server that
//! allows a hundred; and it cannot replace connections gracefully when certificates change. Nor does it know that a
//! runtime may go away, or may not be polled, while the client lives on.
//!
//! What this one promises:
//! - **Two lanes.** Watches and calls never share a connection.
//! - **One connection for many.** Of requests that need a new connection at the same time, one makes it and all use it, as
//!   far as HTTP/2 and the server allow; then the next connection is made.
//! - **Bound to no runtime.** A pool is made anywhere. A connection lives on the runtime of the request it was made for and
//!   serves that runtime only. When a runtime ends, its connections do.
//! - **No task without a connection.** What there is to do in the background is done by the task that drives the connection
//!   in question. It ends with the connection, and the connection ends when nobody has used it for a while, or when the
//!   last clone of the pool is gone and the last body has been read.
//! - **No request is sent twice that a server may have seen**, save for reads on a connection that had been idle and that
//!   the server closed without a word, as every HTTP client does.
//!
//! `book` decides, `conn` drives, `lease` is a connection in use; this file joins them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, mem};

use http::header::{HOST, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, Response, Uri, Version};
use tokio::runtime::{self, Handle};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use self::book::{Alive, Expiry, Id, Todo};
use self::conn::{Many, One, Speech};
use self::dial::Dialing;
use self::lease::{Hold, Lease, ManyLease, OneLease, PoolBody};
use self::wire::Tally;
use super::connect::Dial;
use super::error::{TransportError, TransportFault};
use super::{Body, Lane};
use crate::config::{Connections, Limits, ServerUrl};

mod book;
mod classify;
mod conn;
mod dial;
mod lease;
mod wire;

#[cfg(test)]
mod tests;

/// How often a request is sent again, each time on another connection, because the one before was gone before the server
/// could look at it.
const MAX_RESENDS: usize = 3;

type Book = book::Book<One, Many, Waiter>;

/// The connections to one server. Clones share them.
#[derive(Clone)]
pub(crate) struct Pool {
    inner: Arc<Inner>,
}

/// What a pool has, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolStats {
    /// Connections that are open.
    pub(crate) connections: usize,
    /// Requests that have a connection and whose answers have not been read to their ends.
    pub(crate) in_flight: usize,
    /// How often a connection was begun to be made.
    pub(crate) dials: usize,
}

struct Inner {
    scheme: Scheme,
    authority: Authority,
    port: u16,
    host_header: HeaderValue,
    speech: Speech,
    connect_timeout: Duration,
    idle_timeout: Duration,
    max_idle: usize,
    max_headers: usize,
    dial: Arc<dyn Dial>,
    tally: Arc<Tally>,
    state: Mutex<State>,
    /// Closed when the pool is gone, which calls off the connections being made.
    alive: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    /// The youngest connection.
    last_id: Id,
    /// One, as a rule.
    runtimes: Vec<Runtime>,
}

struct Runtime {
    handle: Handle,
    calls: Book,
    streams: Book,
}

/// Which book.
#[derive(Clone, Copy)]
struct Place {
    runtime: runtime::Id,
    lane: Lane,
}

/// Who waits for a connection.
struct Waiter(oneshot::Sender<Result<Lease, Arc<TransportError>>>);

impl Waiter {
    fn refuse(self, error: Arc<TransportError>) {
        // Who is no longer there needs no answer.
        let _ = self.0.send(Err(error));
    }
}

impl Alive for Waiter {
    fn is_alive(&self) -> bool {
        !self.0.is_closed()
    }
}

impl Pool {
    /// Connections to this server, none yet. This needs no runtime; requests need one with I/O and time.
    pub(crate) fn new(
        server: &ServerUrl,
        connections: &Connections,
        limits: &Limits,
        dial: impl Dial + 'static,
    ) -> Self {
        let authority = server.authority().clone();
        // An authority is made of characters that a header may have; were it not, the server would be asked without one.
        let host_header = HeaderValue::from_str(authority.as_str()).unwrap_or(HeaderValue::from_static(""));
        Pool {
            inner: Arc::new(Inner {
                scheme: server.scheme().clone(),
                port: server.port(),
                host_header,
                speech: Speech::new(connections, limits),
                connect_timeout: connections.connect_timeout,
                idle_timeout: connections.idle_timeout,
                max_idle: connections.max_idle,
                max_headers: limits.header_count,
                dial: Arc::new(dial),
                tally: Arc::new(Tally {
                    host: authority.as_str().into(),
                    connections: AtomicUsize::new(0),
                    in_flight: AtomicUsize::new(0),
                    dials: AtomicUsize::new(0),
                }),
                authority,
                state: Mutex::default(),
                alive: watch::Sender::new(()),
            }),
        }
    }

    /// Uses no connection again that there is or that is being made. Whatever is under way on them comes to its end; then
    /// they are closed.
    pub(crate) fn retire(&self) {
        let mut retired = Vec::new();
        {
            let mut state = self.inner.lock();
            let State { last_id, runtimes } = &mut *state;
            for runtime in runtimes {
                for lane in [Lane::Calls, Lane::Streams] {
                    let place = Place { runtime: runtime.handle.id(), lane };
                    retired.push((place, runtime.handle.clone(), runtime.book(lane).retire(*last_id)));
                }
            }
        }
        for (place, handle, (connections, todo)) in retired {
            drop(connections);
            self.inner.carry_out(place, &handle, todo);
        }
    }

    /// What there is now.
    pub(crate) fn stats(&self) -> PoolStats {
        let tally = &self.inner.tally;
        PoolStats {
            connections: tally.connections.load(Ordering::Relaxed),
            in_flight: tally.in_flight.load(Ordering::Relaxed),
            dials: tally.dials.load(Ordering::Relaxed),
        }
    }

    /// Sends a request and waits for the head of its answer. Dropping the future calls the request off.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, TransportError> {
        let inner = &self.inner;
        inner.check_host(request.uri())?;
        let lane = mem::take(request.extensions_mut()).remove::<Lane>().unwrap_or_default();
        let handle = Handle::try_current().map_err(|error| inner.error(TransportFault::Other, error))?;
        let mut resends = 0;
        loop {
            let failed = match inner.lease(&handle, lane).await? {
                Lease::One(lease) => inner.send_http1(lease, request).await,
                Lease::Many(lease) => inner.send_http2(lease, request).await,
            };
            let failed = match failed {
                Ok(response) => return Ok(response),
                Err(failed) => failed,
            };
            match failed.again {
                Some(again) if resends < MAX_RESENDS => {
                    tracing::debug!(host = %inner.tally.host, error = %failed.error, "sending a request again");
                    resends += 1;
                    request = again;
                }
                _ => return Err(failed.error),
            }
        }
    }
}

/// A request that got no answer.
struct Failed {
    error: TransportError,
    /// The request, if the server cannot have seen it.
    again: Option<Request<Body>>,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, fault: TransportFault, source: impl Into<super::BoxError>) -> TransportError {
        TransportError::new(fault, &self.tally.host, source)
    }

    /// A request for another host must not end up here.
    fn check_host(&self, uri: &Uri) -> Result<(), TransportError> {
        let Some(authority) = uri.authority() else { return Ok(()) };
        let same = *authority == self.authority
            || authority.host().eq_ignore_ascii_case(self.authority.host())
                && authority.port_u16().unwrap_or(if uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 })
                    == self.port;
        if same {
            return Ok(());
        }
        Err(self.error(TransportFault::Other, format!("the request is for another host, {}", authority.host())))
    }

    async fn send_http1(
        self: &Arc<Self>,
        mut lease: OneLease,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, Failed> {
        let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        *request.uri_mut() = Uri::from(path);
        *request.version_mut() = Version::HTTP_11;
        request.headers_mut().entry(HOST).or_insert_with(|| self.host_header.clone());
        lease.sent_whole = request.body().try_clone().is_some();
        let Some(one) = lease.begin() else {
            let error = TransportError::bare(TransportFault::Closed, &self.tally.host);
            return Err(Failed { error, again: Some(request) });
        };
        // The server may close an idle connection in the very moment in which it is used again. If it does, all we see is
        // that it ended; a read can be repeated nevertheless.
        let reused = one.used;
        let spare = if reused && is_read(request.method()) { spare(&request) } else { None };
        match one.sender.try_send_request(request).await {
            Ok(response) => Ok(self.answer(response, Hold::One(lease))),
            Err(mut failed) => {
                let mut again = failed.take_message();
                let error = failed.into_error();
                if again.is_none() && classify::is_silent_end(&error) {
                    again = spare;
                }
                if reused && again.is_some() {
                    self.with_book(lease.place(), Book::forget_idle);
                }
                Err(Failed { error: classify::http1_error(&self.tally.host, error), again })
            }
        }
    }

    async fn send_http2(&self, lease: ManyLease, mut request: Request<Body>) -> Result<Response<Body>, Failed> {
        let ManyLease { mut many, slot } = lease;
        let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        let uri = Uri::builder().scheme(self.scheme.clone()).authority(self.authority.clone()).path_and_query(path);
        match uri.build() {
            Ok(uri) => *request.uri_mut() = uri,
            Err(error) => return Err(Failed { error: self.error(TransportFault::Other, error), again: None }),
        }
        *request.version_mut() = Version::HTTP_2;
        let spare = spare(&request);
        let sent = many.sender.try_send_request(request);
        // Whoever waits for an answer does not keep the connection open for others.
        drop(many);
        match sent.await {
            Ok(response) if response.headers().len() > self.max_headers => {
                let error = self.error(TransportFault::Protocol, classify::TooManyHeaders(self.max_headers));
                Err(Failed { error, again: None })
            }
            Ok(response) => Ok(self.answer(response, Hold::Many(slot))),
            Err(mut failed) => {
                let mut again = failed.take_message();
                let error = failed.into_error();
                if again.is_none() && classify::is_unprocessed(&error) {
                    again = spare;
                }
                Err(Failed { error: classify::http2_error(&self.tally.host, error), again })
            }
        }
    }

    fn answer(&self, response: Response<hyper::body::Incoming>, hold: Hold) -> Response<Body> {
        response.map(|incoming| {
            let empty = http_body::Body::is_end_stream(&incoming);
            let body = PoolBody::new(incoming, hold, Arc::clone(&self.tally));
            // An empty body is dropped here and now, and its connection free again.
            if empty { Body::empty() } else { Body::new(body) }
        })
    }
}

impl Inner {
    /// A connection for a request: one that is there, or one that will be.
    async fn lease(self: &Arc<Self>, handle: &Handle, lane: Lane) -> Result<Lease, TransportError> {
        let place = Place { runtime: handle.id(), lane };
        let (waiting, todo) = {
            let mut state = self.lock();
            let book = state.book_of(handle, lane, || self.new_book());
            if let Some(grant) = book.ask() {
                drop(state);
                return Ok(Lease::new(self, place, grant));
            }
            let (waiter, waiting) = oneshot::channel();
            (waiting, book.wait(Waiter(waiter)))
        };
        self.carry_out(place, handle, todo);
        match waiting.await {
            Ok(Ok(lease)) => Ok(lease),
            Ok(Err(error)) => Err(Arc::try_unwrap(error).unwrap_or_else(TransportError::shared)),
            Err(_) => Err(TransportError::bare(TransportFault::Closed, &self.tally.host)),
        }
    }

    fn new_book(&self) -> Book {
        Book::new(self.max_idle, self.speech.max_streams)
    }

    fn next_id(&self) -> Id {
        let mut state = self.lock();
        state.last_id += 1;
        state.last_id
    }

    fn give_back(self: &Arc<Self>, place: Place, id: Id, one: One) {
        self.with_book(place, |book| book.give_back(id, one, Instant::now()));
    }

    /// Tells a book what happened, and does what it answers. A book that is gone needs to know nothing.
    fn with_book(self: &Arc<Self>, place: Place, tell: impl FnOnce(&mut Book) -> Todo<One, Many, Waiter>) {
        let (handle, todo) = {
            let mut state = self.lock();
            let runtimes = &mut state.runtimes;
            let Some(at) = runtimes.iter().position(|runtime| runtime.handle.id() == place.runtime) else { return };
            let Some(runtime) = runtimes.get_mut(at) else { return };
            let todo = tell(runtime.book(place.lane));
            if todo.grants.is_empty() && todo.dials == 0 {
                let gone = runtime.is_empty().then(|| runtimes.swap_remove(at));
                drop(state);
                drop(gone);
                return;
            }
            (runtime.handle.clone(), todo)
        };
        self.carry_out(place, &handle, todo);
    }

    fn expire(&self, place: Place, id: Id, timeout: Duration) -> Expiry {
        let mut state = self.lock();
        let runtime = state.runtimes.iter_mut().find(|runtime| runtime.handle.id() == place.runtime);
        runtime.map_or(Expiry::Expired, |runtime| runtime.book(place.lane).expire(id, Instant::now(), timeout))
    }

    fn carry_out(self: &Arc<Self>, place: Place, handle: &Handle, todo: Todo<One, Many, Waiter>) {
        for (waiter, grant) in todo.grants {
            // Who is no longer there gives it back by dropping it.
            let _ = waiter.0.send(Ok(Lease::new(self, place, grant)));
        }
        for _ in 0..todo.dials {
            self.tally.count_dial(place.lane);
            let dialing = Dialing::new(self, place);
            handle.spawn(dialing.run(Arc::clone(&self.dial), self.alive.subscribe()));
        }
    }
}

impl State {
    fn book_of(&mut self, handle: &Handle, lane: Lane, new: impl Fn() -> Book) -> &mut Book {
        let id = handle.id();
        let at = self.runtimes.iter().position(|runtime| runtime.handle.id() == id).unwrap_or_else(|| {
            self.runtimes.push(Runtime { handle: handle.clone(), calls: new(), streams: new() });
            self.runtimes.len() - 1
        });
        self.runtimes[at].book(lane)
    }
}

impl Runtime {
    fn book(&mut self, lane: Lane) -> &mut Book {
        match lane {
            Lane::Calls => &mut self.calls,
            Lane::Streams => &mut self.streams,
        }
    }

    fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.streams.is_empty()
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("host", &self.inner.tally.host).field("stats", &self.stats()).finish()
    }
}

/// Reads have no effect, so that it does not matter how often they are sent.
fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// A copy of a request, if its body can be had twice.
fn spare(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}
