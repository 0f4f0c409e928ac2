//! [`Pool`]: the connections to one server.
//!
//! Hand-written over hyper's connections, because hyper-util's pool was made for browsing. Requests that race for the
//! first connection each open one where TLS negotiates the version, so fifty watches that start together make fifty
//! handshakes. It does not count streams, so the hundred-and-first watch waits forever behind a server that allows a
//! hundred. It cannot replace connections gracefully when certificates change. And it does not handle a runtime that
//! ends, or is not polled, while the client lives on.
//!
//! Guarantees:
//! - **Two lanes.** Watches and bounded requests never share a connection.
//! - **One connection for many.** Requests that need a new connection at the same time share one dial, as far as
//!   HTTP/2 and the server allow; then the next connection is opened.
//! - **Bound to no runtime.** A pool is created anywhere. A connection lives on the runtime of the request it was
//!   opened for and serves only that runtime. It ends with its runtime.
//! - **No task without a connection.** Background work is done by the task that drives the connection. It ends with
//!   the connection, which ends when it was idle for a while, or when the last clone of the pool was dropped and the
//!   last body has been read.
//! - **No request is sent twice that a server may have processed**, except reads on a reused connection that the
//!   server closed without a response, as every HTTP client does.
//!
//! `state` decides, `connection` drives, `lease` is a connection in use; this file joins them.

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

use self::connection::{Http1Connection, Http2Connection, HttpSettings};
use self::dial::Dialing;
use self::informational::{InformationalLimit, TooManyInformational};
use self::lease::{Hold, Http1Lease, Http2Lease, Lease, PoolBody};
use self::state::{Alive, Expiry, Id, Todo};
use self::wire::Tally;
use super::connect::Dial;
use super::error::{TransportError, TransportFault};
use super::{Body, Lane};
use crate::config::{Connections, Limits, ServerUrl};

mod classify;
mod connection;
mod dial;
mod informational;
mod lease;
mod state;
mod upgrade;
mod wire;

#[cfg(test)]
mod tests;

/// How often a request is resent, each time on another connection, because the previous one ended before the server
/// processed it.
const MAX_RESENDS: usize = 3;

type PoolState = state::PoolState<Http1Connection, Http2Connection, Waiter>;

/// The connections to one server. Clones share them.
#[derive(Clone)]
pub(crate) struct Pool {
    inner: Arc<PoolShared>,
}

/// The counters of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolStats {
    /// Open connections.
    pub(crate) connections: usize,
    /// Requests with a connection whose responses have not been read completely.
    pub(crate) in_flight: usize,
    /// Dials so far.
    pub(crate) dials: usize,
}

struct PoolShared {
    scheme: Scheme,
    authority: Authority,
    port: u16,
    host_header: HeaderValue,
    speech: HttpSettings,
    connect_timeout: Duration,
    idle_timeout: Duration,
    max_idle: usize,
    max_headers: usize,
    dial: Arc<dyn Dial>,
    tally: Arc<Tally>,
    state: Mutex<PoolInner>,
    /// Closed when the pool is dropped, which cancels dials in progress.
    alive: watch::Sender<()>,
}

#[derive(Default)]
struct PoolInner {
    /// The youngest connection.
    last_id: Id,
    /// Usually one.
    runtimes: Vec<Runtime>,
}

struct Runtime {
    handle: Handle,
    calls: PoolState,
    streams: PoolState,
}

/// The runtime and lane of a pool state.
#[derive(Clone, Copy)]
struct LaneKey {
    runtime: runtime::Id,
    lane: Lane,
}

/// A request that waits for a connection.
struct Waiter(oneshot::Sender<Result<Lease, Arc<TransportError>>>);

impl Waiter {
    fn refuse(self, error: Arc<TransportError>) {
        // The request may have been dropped.
        let _ = self.0.send(Err(error));
    }
}

impl Alive for Waiter {
    fn is_alive(&self) -> bool {
        !self.0.is_closed()
    }
}

impl Pool {
    /// Returns a pool for this server, without connections. Needs no runtime; requests need one with I/O and time.
    pub(crate) fn new(
        server: &ServerUrl,
        connections: &Connections,
        limits: &Limits,
        dial: impl Dial + 'static,
    ) -> Self {
        let authority = server.authority().clone();
        // An authority consists of valid header characters; otherwise the header would be empty.
        let host_header = HeaderValue::from_str(authority.as_str()).unwrap_or(HeaderValue::from_static(""));
        Pool {
            inner: Arc::new(PoolShared {
                scheme: server.scheme().clone(),
                port: server.port(),
                host_header,
                speech: HttpSettings::new(connections, limits),
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

    /// Stops reusing all current connections and dials. Requests in flight on them finish; then they are closed.
    pub(crate) fn retire(&self) {
        let mut retired = Vec::new();
        {
            let mut state = self.inner.lock();
            let PoolInner { last_id, runtimes } = &mut *state;
            for runtime in runtimes {
                for lane in [Lane::Calls, Lane::Streams] {
                    let lane_key = LaneKey { runtime: runtime.handle.id(), lane };
                    retired.push((lane_key, runtime.handle.clone(), runtime.lane_state(lane).retire(*last_id)));
                }
            }
        }
        for (lane_key, handle, (connections, todo)) in retired {
            drop(connections);
            self.inner.carry_out(lane_key, &handle, todo);
        }
    }

    /// Returns the counters.
    pub(crate) fn stats(&self) -> PoolStats {
        let tally = &self.inner.tally;
        PoolStats {
            connections: tally.connections.load(Ordering::Relaxed),
            in_flight: tally.in_flight.load(Ordering::Relaxed),
            dials: tally.dials.load(Ordering::Relaxed),
        }
    }

    /// Sends a request and waits for the head of the response. Dropping the future cancels the request.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, TransportError> {
        let inner = &self.inner;
        inner.check_host(request.uri())?;
        let lane = mem::take(request.extensions_mut()).remove::<Lane>().unwrap_or_default();
        let handle = Handle::try_current().map_err(|error| inner.error(TransportFault::Other, error))?;
        let mut resends = 0;
        loop {
            let failed = match inner.lease(&handle, lane).await? {
                Lease::Http1Connection(lease) => inner.send_http1(lease, request).await,
                Lease::Http2Connection(lease) => inner.send_http2(lease, request).await,
            };
            let failed = match failed {
                Ok(response) => return Ok(response),
                Err(failed) => failed,
            };
            match failed.again {
                Some(again) if resends < MAX_RESENDS => {
                    tracing::debug!(host = %inner.tally.host, error = %failed.error, "connection lost before the request was processed; resending");
                    resends += 1;
                    request = again;
                }
                _ => return Err(failed.error),
            }
        }
    }
}

/// A request without a response.
struct Failed {
    error: TransportError,
    /// The request, if the server cannot have processed it.
    again: Option<Request<Body>>,
}

impl PoolShared {
    fn lock(&self) -> MutexGuard<'_, PoolInner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, fault: TransportFault, source: impl Into<super::BoxError>) -> TransportError {
        TransportError::new(fault, &self.tally.host, source)
    }

    /// Rejects a request for another host.
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
        mut lease: Http1Lease,
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
        // The server may close an idle connection at the moment of its reuse. Only its end is visible then; a read can
        // be repeated.
        let reused = one.used;
        let spare = if reused && is_read(request.method()) { spare(&request) } else { None };
        let informational = InformationalLimit::default();
        informational.apply(&mut request);
        let sent = tokio::select! {
            biased;
            () = informational.exceeded() => {
                let error = self.error(TransportFault::Protocol, TooManyInformational);
                return Err(Failed { error, again: None });
            }
            sent = one.sender.try_send_request(request) => sent,
        };
        match sent {
            Ok(response) => Ok(self.answer(response, Hold::Http1Connection(lease))),
            Err(mut failed) => {
                let mut again = failed.take_message();
                let error = failed.into_error();
                if again.is_none() && classify::is_silent_end(&error) {
                    again = spare;
                }
                if reused && again.is_some() {
                    self.with_state(lease.lane_key(), PoolState::forget_idle);
                }
                Err(Failed { error: classify::http1_error(&self.tally.host, error), again })
            }
        }
    }

    async fn send_http2(&self, lease: Http2Lease, mut request: Request<Body>) -> Result<Response<Body>, Failed> {
        let Http2Lease { mut many, slot } = lease;
        let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        let uri = Uri::builder().scheme(self.scheme.clone()).authority(self.authority.clone()).path_and_query(path);
        match uri.build() {
            Ok(uri) => *request.uri_mut() = uri,
            Err(error) => return Err(Failed { error: self.error(TransportFault::Other, error), again: None }),
        }
        *request.version_mut() = Version::HTTP_2;
        let spare = spare(&request);
        let sent = many.sender.try_send_request(request);
        // A request that waits for its response does not keep the connection open for others.
        drop(many);
        match sent.await {
            Ok(response) if response.headers().len() > self.max_headers => {
                let error = self.error(TransportFault::Protocol, classify::TooManyHeaders(self.max_headers));
                Err(Failed { error, again: None })
            }
            Ok(response) => Ok(self.answer(response, Hold::Http2Connection(slot))),
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
            // An empty body is dropped here, which frees its connection.
            if empty { Body::empty() } else { Body::new(body) }
        })
    }
}

impl PoolShared {
    /// Returns a connection for a request, existing or new.
    async fn lease(self: &Arc<Self>, handle: &Handle, lane: Lane) -> Result<Lease, TransportError> {
        let lane_key = LaneKey { runtime: handle.id(), lane };
        let (waiting, todo) = {
            let mut state = self.lock();
            let lane_state = state.lane_state(handle, lane, || self.new_lane_state());
            if let Some(grant) = lane_state.acquire() {
                drop(state);
                return Ok(Lease::new(self, lane_key, grant));
            }
            let (waiter, waiting) = oneshot::channel();
            (waiting, lane_state.wait(Waiter(waiter)))
        };
        self.carry_out(lane_key, handle, todo);
        match waiting.await {
            Ok(Ok(lease)) => Ok(lease),
            Ok(Err(error)) => Err(Arc::try_unwrap(error).unwrap_or_else(TransportError::shared)),
            Err(_) => Err(TransportError::bare(TransportFault::Closed, &self.tally.host)),
        }
    }

    fn new_lane_state(&self) -> PoolState {
        PoolState::new(self.max_idle, self.speech.max_streams)
    }

    fn next_id(&self) -> Id {
        let mut state = self.lock();
        state.last_id += 1;
        state.last_id
    }

    fn give_back(self: &Arc<Self>, lane_key: LaneKey, id: Id, one: Http1Connection) {
        self.with_state(lane_key, |lane_state| lane_state.give_back(id, one, Instant::now()));
    }

    /// Applies a change to a pool state and does what it returns. A state that was removed needs no change.
    fn with_state(
        self: &Arc<Self>,
        lane_key: LaneKey,
        tell: impl FnOnce(&mut PoolState) -> Todo<Http1Connection, Http2Connection, Waiter>,
    ) {
        let (handle, todo) = {
            let mut state = self.lock();
            let runtimes = &mut state.runtimes;
            let Some(at) = runtimes.iter().position(|runtime| runtime.handle.id() == lane_key.runtime) else { return };
            let Some(runtime) = runtimes.get_mut(at) else { return };
            let todo = tell(runtime.lane_state(lane_key.lane));
            if todo.grants.is_empty() && todo.dials == 0 {
                let gone = runtime.is_empty().then(|| runtimes.swap_remove(at));
                drop(state);
                drop(gone);
                return;
            }
            (runtime.handle.clone(), todo)
        };
        self.carry_out(lane_key, &handle, todo);
    }

    fn expire(&self, lane_key: LaneKey, id: Id, timeout: Duration) -> Expiry {
        let mut state = self.lock();
        let runtime = state.runtimes.iter_mut().find(|runtime| runtime.handle.id() == lane_key.runtime);
        runtime.map_or(Expiry::Expired, |runtime| runtime.lane_state(lane_key.lane).expire(id, Instant::now(), timeout))
    }

    fn carry_out(
        self: &Arc<Self>,
        lane_key: LaneKey,
        handle: &Handle,
        todo: Todo<Http1Connection, Http2Connection, Waiter>,
    ) {
        for (waiter, grant) in todo.grants {
            // A request that was dropped returns the lease by dropping it.
            let _ = waiter.0.send(Ok(Lease::new(self, lane_key, grant)));
        }
        for _ in 0..todo.dials {
            self.tally.count_dial(lane_key.lane);
            let dialing = Dialing::new(self, lane_key);
            handle.spawn(dialing.run(Arc::clone(&self.dial), self.alive.subscribe()));
        }
    }
}

impl PoolInner {
    fn lane_state(&mut self, handle: &Handle, lane: Lane, new: impl Fn() -> PoolState) -> &mut PoolState {
        let id = handle.id();
        let at = self.runtimes.iter().position(|runtime| runtime.handle.id() == id).unwrap_or_else(|| {
            self.runtimes.push(Runtime { handle: handle.clone(), calls: new(), streams: new() });
            self.runtimes.len() - 1
        });
        self.runtimes[at].lane_state(lane)
    }
}

impl Runtime {
    fn lane_state(&mut self, lane: Lane) -> &mut PoolState {
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

/// Returns whether the method is a read, which may be repeated.
fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Returns a copy of a request if its body can be cloned.
fn spare(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}
