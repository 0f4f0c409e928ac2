//! The service: takes one request of any transport to the engine and its response back.

use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_base::channels::UpgradedIo;
use evenkeel_base::log_throttle::LogThrottle;
use evenkeel_core::{Reason, Status};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, sleep, timeout_at};

#[cfg(feature = "client")]
use super::access_logs::AccessLogs;
use super::activity::Activity;
use super::aside::{AsideError, AsideThreads};
use super::auth::{self, Authenticator, ClientCertificate};
use super::fault_body::{CutAfterBytes, FaultInjectingWatch};
use super::flow::{self, InFlightLimits, Precedence};
use super::https::HttpsClient;
use super::impersonate::{EffectiveUser, ImpersonatingRequest};
use super::observation::{Observation, SessionEnd};
use super::request_body::{self, RequestBodyError};
use super::request_class::{RequestClass, allotted_time, may_be_watch};
use super::sessions::Sessions;
use super::{FaultEndpoint, Handler, RequestLog, compress, cross_site, outbound};
use crate::audit::AuditLog;
use crate::authorization::Forbidden;
use crate::engine::is_authenticated;
use crate::env::{self, Env};
use crate::faults::framing::Framing;
use crate::faults::subject::Subject;
use crate::faults::{Action, Faults, Plan, RequestOutcome};
use crate::http_types::{ApiRequest, Body, ConnectionCut, Continuation, HandlerCall, HandlerOutcome, Upgrade, User};
use crate::memory::{BodyMeter, ConnectionMemory, Memory};
use crate::metrics::Metrics;
use crate::negotiate::{status_response, status_response_to};
use crate::request_state::RequestState;

/// The timeout of a request that waits for a revision that the store has not reached.
const AWAIT_REVISION: Duration = Duration::from_secs(3);

/// The buffer of an upgraded in-process connection, in each direction.
const IN_PROCESS_BUFFER: usize = 64 * 1024;

/// The group of requests without credentials.
const UNAUTHENTICATED: &str = "system:unauthenticated";

pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// The state that all transports of one server share.
pub(crate) struct ServerShared {
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) auth: Authenticator,
    pub(crate) faults: Faults,
    pub(crate) fault_endpoint: Option<FaultEndpoint>,
    pub(crate) request_log: RequestLog,
    /// What users have used of the API, if it is recorded.
    #[cfg(feature = "client")]
    pub(crate) access_logs: Option<AccessLogs>,
    /// Limits the reports of slow requests, so that a client cannot fill the log.
    pub(crate) slow_requests: Mutex<LogThrottle>,
    pub(crate) metrics: Arc<Metrics>,
    /// The audit log, if it is enabled.
    pub(crate) audit: Option<Arc<AuditLog>>,
    /// The upgraded connections of in-process callers.
    pub(crate) sessions: Sessions,
    pub(crate) memory: Arc<Memory>,
    /// The monotonic time at which the server started.
    pub(crate) started: Duration,
    pub(crate) in_flight: InFlightLimits,
    pub(crate) aside: AsideThreads,
    /// Calls webhooks.
    pub(crate) https: Arc<HttpsClient>,
    /// The server shuts down: connections get no further responses.
    pub(crate) draining: AtomicBool,
}

impl ServerShared {
    /// Returns the time since the server's start.
    pub(crate) fn uptime(&self) -> Duration {
        self.env.monotonic().saturating_sub(self.started)
    }
}

/// The origin of a request.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// From inside this process, as this user, without authentication.
    InProcess(Arc<User>),
    /// Over a connection.
    Network(Arc<Peer>),
}

/// The peer of a connection.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) certificate: ClientCertificate,
    /// The upgraded connection.
    pub(crate) sessions: Sessions,
    pub(crate) activity: Arc<Activity>,
    /// The bodies in flight.
    pub(crate) memory: Arc<ConnectionMemory>,
}

/// The server as a tower service, without a socket.
///
/// A request gets exactly the response that it would get over HTTP, with two exceptions: nothing is compressed, and a
/// request without an `Authorization` header is the administrator's (or that of the user given to
/// [`InProcess::acting_as`]). A request with the header is authenticated like any other. Clones are cheap and
/// independent; the service is always ready. It works as long as any clone lives, on any tokio runtime with enabled
/// timers. When the server's handle is dropped, open streams end, and since no timer drives them, later watches get no
/// bookmarks and never time out.
///
/// Expensive requests (large bodies and objects, long lists, deletions of namespaces and definitions) run on threads of
/// their own, fewer than there are cores, and the users who send them take turns. On a runtime with one thread they run in
/// place, so that the same requests have the same order in every run.
///
/// An error means the same as a broken connection: a fault dropped the response.
#[derive(Clone)]
pub struct InProcess {
    shared: Arc<ServerShared>,
    caller: Caller,
    /// Faults of every request.
    injected: Arc<[Action]>,
}

impl InProcess {
    pub(crate) fn new(shared: Arc<ServerShared>, caller: Caller) -> Self {
        InProcess { shared, caller, injected: Arc::default() }
    }

    /// Returns the same service for requests of another user, with the group `system:authenticated` added.
    pub fn acting_as(&self, user: User) -> Self {
        InProcess { caller: Caller::InProcess(Arc::new(auth::authenticated(user))), ..self.clone() }
    }

    /// Returns the same service with faults that are injected into each of its requests, after those of the server's rules.
    pub fn injecting(&self, faults: impl Into<Arc<[Action]>>) -> Self {
        InProcess { injected: faults.into(), ..self.clone() }
    }

    pub(crate) async fn serve<B: http_body::Body>(self, request: Request<B>) -> Result<Response<Body>, ConnectionCut> {
        let (parts, body) = request.into_parts();
        let (method, uri) = (parts.method.clone(), parts.uri.clone());
        let mut observation = Observation::start(&self.shared, &self.caller, &method, &uri, &parts.headers);
        let audit_id = observation.audit_id().or_else(|| parts.headers.get(AUDIT_ID).cloned());
        let mut outcome = self.respond(parts, body, &mut observation).await;
        if let Ok(response) = &mut outcome {
            self.finish(response.headers_mut(), audit_id);
        }
        observation.finish(outcome)
    }

    async fn respond<B: http_body::Body>(
        &self,
        mut parts: Parts,
        body: B,
        observation: &mut Observation<'_>,
    ) -> Result<Response<Body>, ConnectionCut> {
        if let Some(endpoint) = self.shared.fault_endpoint.as_ref().filter(|_| FaultEndpoint::owns(parts.uri.path())) {
            return self.serve_fault_endpoint(endpoint, &parts, body).await;
        }
        let class = RequestClass::of(&parts.method, observation.info());
        if class != RequestClass::Probe && self.is_draining() {
            return Ok(flow::shutting_down());
        }
        let authenticated = self.user(&parts, !body.is_end_stream()).inspect(|user| observation.authenticated(user));
        let effective = authenticated.and_then(|user| self.effective_user(user, &mut parts, observation));
        let EffectiveUser { user, constraint } = match effective {
            Ok(effective) => effective,
            Err(status) => return Ok(status_response_to(&parts.headers, &parts.uri, &status)),
        };
        observation.acts_as(&user, constraint);
        let faults = &self.shared.faults;
        // Parsing the subject has a cost. Watches need it for rules that are added later.
        let subject = (may_be_watch(&parts) || faults.any() || !self.injected.is_empty())
            .then(|| Subject::of(&parts.method, &parts.uri, &parts.headers, &user.name));
        let plan = match &subject {
            Some(subject) => {
                let env = &self.shared.env;
                faults.plan(subject, &self.injected, self.shared.uptime(), &mut || env.random())
            }
            None => Plan::default(),
        };
        let mut seat = None;
        if !plan.delay.is_zero() || plan.outcome == RequestOutcome::Hang {
            // An injected delay is part of the request's handling.
            match self.shared.in_flight.admit(class, &self.flow(&user), &user).await {
                Ok(admitted) => seat = admitted,
                Err(refused) => return Ok(closing(refused.response())),
            }
            sleep(plan.delay).await;
        }
        match plan.outcome {
            RequestOutcome::Respond(status) => return Ok(status_response_to(&parts.headers, &parts.uri, &status)),
            RequestOutcome::Drop => return Err(ConnectionCut),
            RequestOutcome::Hang => std::future::pending::<()>().await,
            RequestOutcome::Handle | RequestOutcome::HandleThenDrop | RequestOutcome::ReadThenDrop => {}
        }
        let query = parts.uri.query();
        match self.shared.handler.authorize_request(&user, observation.info(), query) {
            Ok(reason) => observation.authorized(reason),
            Err(Forbidden { reason, status }) => {
                observation.forbidden(reason);
                return Ok(forbidden_response(&parts, &status));
            }
        }
        let deadline = Instant::now() + allotted_time(&parts.uri);
        let mut meter = BodyMeter::new(self.connection_memory().cloned());
        let body = match timeout_at(deadline, request_body::read(body, &mut meter)).await {
            Ok(Ok(body)) => body,
            Ok(Err(RequestBodyError::Disconnected)) => return Err(ConnectionCut),
            Ok(Err(RequestBodyError::Rejected(status))) => {
                return Ok(closing(status_response_to(&parts.headers, &parts.uri, &status)));
            }
            Err(_) => return Ok(closing(status_response_to(&parts.headers, &parts.uri, &timed_out()))),
        };
        if plan.outcome == RequestOutcome::ReadThenDrop {
            return Err(ConnectionCut);
        }
        observation.request_body(&body, &parts.headers);
        let on_upgrade = parts.extensions.remove::<OnUpgrade>();
        let request = Arc::new(ApiRequest {
            method: parts.method,
            uri: parts.uri,
            headers: parts.headers,
            body,
            user,
            state: RequestState::omitting(plan.omit_item),
        });
        let is_watch = subject.as_ref().is_some_and(Subject::is_watch);
        // A watch reads the history at its own pace, and ends if it falls behind: its frames are not metered.
        let connection = self.connection_memory().filter(|_| !is_watch);
        let handled = timeout_at(deadline, async {
            if let Some(connection) = connection.filter(|_| request.method == http::Method::GET) {
                poll_fn(|cx| connection.poll_response(cx)).await;
            }
            // A seat is taken after the body was read, so that a slow client holds none.
            if seat.is_none() {
                seat = self.shared.in_flight.admit(class, &self.flow(&request.user), &request.user).await?;
            }
            if Metrics::is_scrape(&request.method, request.uri.path()) {
                let (store, expensive) = (self.shared.handler.store_facts(), self.shared.aside.stats());
                return Ok(self.shared.metrics.response(&store, &expensive));
            }
            Ok(self.handle(&request, on_upgrade).await)
        });
        let mut response = match handled.await {
            Ok(Ok(response)) => response,
            Ok(Err(refused @ flow::TooManyRequests)) => refused.response(),
            Err(_) => status_response_to(&request.headers, &request.uri, &timed_out()),
        };
        drop(seat);
        observation.annotations(request.state.annotations());
        if plan.outcome == RequestOutcome::HandleThenDrop {
            return Err(ConnectionCut);
        }
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response);
        }
        if matches!(self.caller, Caller::Network(_)) && compress::accepts_gzip(&request.headers) {
            response = self.compress(response, &request).await;
        }
        if let Some(connection) = connection {
            response = response.map(|body| body.metered(connection));
        }
        let watch = subject.filter(|subject| subject.is_watch() && response.status() == StatusCode::OK);
        if let Some(subject) = watch {
            let framing = Framing::of(response.headers());
            let shared = Arc::clone(&self.shared);
            response = response.map(|body| {
                Body::stream(FaultInjectingWatch::new(body, shared, subject, plan.seen, plan.watch, framing))
            });
        }
        if let Some(bytes) = plan.reset_after {
            response = response.map(|body| Body::stream(CutAfterBytes::new(body, bytes)));
        }
        Ok(response)
    }

    async fn serve_fault_endpoint<B: http_body::Body>(
        &self,
        endpoint: &FaultEndpoint,
        parts: &Parts,
        body: B,
    ) -> Result<Response<Body>, ConnectionCut> {
        if let Caller::Network(peer) = &self.caller {
            let local = peer.address.ip().to_canonical().is_loopback();
            let admitted = if local {
                cross_site::check_host(&parts.uri, &parts.headers).and_then(|()| endpoint.admits(&parts.headers))
            } else {
                Err(Box::new(Status::failure(
                    403,
                    Reason::FORBIDDEN,
                    "forbidden: the fault endpoint is served on the loopback interface only",
                )))
            };
            if let Err(status) = admitted {
                return Ok(closing(status_response(&status)));
            }
        }
        let mut meter = BodyMeter::new(self.connection_memory().cloned());
        match request_body::read(body, &mut meter).await {
            Ok(body) => Ok(FaultEndpoint::handle(&self.shared.faults, &parts.method, parts.uri.path(), &body)),
            Err(RequestBodyError::Disconnected) => Err(ConnectionCut),
            Err(RequestBodyError::Rejected(status)) => Ok(closing(status_response(&status))),
        }
    }

    /// Returns the memory of the request's connection; in-process bodies are the caller's own memory.
    fn connection_memory(&self) -> Option<&Arc<ConnectionMemory>> {
        match &self.caller {
            Caller::InProcess(_) => None,
            Caller::Network(peer) => Some(&peer.memory),
        }
    }

    fn user(&self, parts: &Parts, has_body: bool) -> Result<User, Box<Status>> {
        let auth = &self.shared.auth;
        let authorization = parts.headers.get(header::AUTHORIZATION);
        let issued = |token: &[u8]| self.shared.handler.user_of_token(token);
        match &self.caller {
            Caller::InProcess(user) if authorization.is_none() => Ok(User::clone(user)),
            Caller::InProcess(_) => auth.authenticate(authorization, &ClientCertificate::Absent, issued),
            Caller::Network(peer) => {
                if auth.open {
                    if auth.checks_host {
                        cross_site::check_host(&parts.uri, &parts.headers)?;
                    }
                    cross_site::check(parts, has_body)?;
                }
                let probe = authorization.is_none()
                    && peer.certificate == ClientCertificate::Absent
                    && auth::is_health_probe(&parts.method, parts.uri.path());
                match auth.authenticate(authorization, &peer.certificate, issued) {
                    Err(_) if probe => Ok(auth::anonymous()),
                    Ok(user) if is_authenticated(&user) => {
                        peer.activity.authenticate();
                        Ok(user)
                    }
                    Ok(user) if auth.checks_host && !probe => {
                        cross_site::check_host(&parts.uri, &parts.headers).map(|()| user)
                    }
                    outcome => outcome,
                }
            }
        }
    }

    /// Returns the user that a request acts as.
    fn effective_user(
        &self,
        user: User,
        parts: &mut Parts,
        observation: &Observation<'_>,
    ) -> Result<EffectiveUser, Box<Status>> {
        let handler = &self.shared.handler;
        let query = parts.uri.query();
        let request = ImpersonatingRequest { info: observation.info(), query, version: handler.version() };
        request.effective_user(user, &mut parts.headers, &|access| handler.authorize(access))
    }

    /// Returns whether requests are refused because the server shuts down (APF-004).
    fn is_draining(&self) -> bool {
        matches!(self.caller, Caller::Network(_)) && self.shared.draining.load(Ordering::Relaxed)
    }

    /// Returns the flow of a request: requests of one flow wait for one another. It is the user, or the connection where
    /// all clients are the same user.
    fn flow<'a>(&self, user: &'a User) -> Cow<'a, str> {
        match &self.caller {
            Caller::Network(peer)
                if self.shared.auth.open || user.groups.iter().any(|group| group == UNAUTHENTICATED) =>
            {
                Cow::Owned(peer.address.to_string())
            }
            _ => Cow::Borrowed(&user.name),
        }
    }

    /// Passes the request to the engine, and again when the revision that it waits for is reached, or after the
    /// timeout. An expensive request runs aside.
    async fn handle(&self, request: &Arc<ApiRequest>, on_upgrade: Option<OnUpgrade>) -> Response<Body> {
        let handler = &self.shared.handler;
        let in_place = AsideThreads::runs_in_place(&self.caller);
        let mut deadline = None;
        let mut waited = false;
        loop {
            let mut outcome = handler.handle(request, HandlerCall { waited, may_take_long: in_place });
            let mut is_aside = false;
            let revision = loop {
                let mut has_begun = false;
                let rest: Continuation = match outcome {
                    HandlerOutcome::Response(response) => {
                        let https = &self.shared.https;
                        let drive = |stream| Body::stream(outbound::DrivenStream::new(stream, https));
                        return self.when_durable(request, response.map(|body| body.driven(drive))).await;
                    }
                    HandlerOutcome::Upgrade(upgrade) => return self.upgrade(request, upgrade, on_upgrade),
                    HandlerOutcome::AwaitRevision { revision } => break revision,
                    HandlerOutcome::TakesLong => {
                        is_aside = true;
                        let (handler, request) = (Arc::clone(handler), Arc::clone(request));
                        Box::new(move || handler.handle(&request, HandlerCall { waited, may_take_long: true }))
                    }
                    HandlerOutcome::Unfinished(rest) => {
                        has_begun = true;
                        tokio::task::yield_now().await;
                        rest
                    }
                    HandlerOutcome::NeedsCalls { calls, then } => {
                        has_begun = true;
                        outbound::make_calls(calls, &self.shared.https, &request.state).await;
                        then
                    }
                };
                let ran = match is_aside {
                    true => self.run_aside(request, has_begun, rest).await,
                    false => Ok(rest()),
                };
                outcome = match ran {
                    Ok(outcome) => outcome,
                    Err(AsideError::Refused(refused)) => return refused.response(),
                    Err(AsideError::Panicked(status)) => {
                        return status_response_to(&request.headers, &request.uri, &status);
                    }
                };
            };
            if waited {
                let status = Status::internal("the store waits for a revision without end");
                return status_response_to(&request.headers, &request.uri, &status);
            }
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + AWAIT_REVISION);
            let reached = timeout_at(deadline, poll_fn(|cx| handler.poll_revision(revision, cx))).await;
            waited = reached.is_err();
        }
    }

    /// Runs a part of a request aside. A request that has begun is not refused.
    async fn run_aside(
        &self,
        request: &ApiRequest,
        has_begun: bool,
        work: Continuation,
    ) -> Result<HandlerOutcome, AsideError> {
        let user = &request.user;
        let precedence = match () {
            () if has_begun => Precedence::Begun,
            () if flow::is_exempt(user) => Precedence::Exempt,
            () => Precedence::Ordinary,
        };
        self.shared.aside.run(&self.flow(user), precedence, work).await
    }

    /// Compresses a large response aside.
    async fn compress(&self, response: Response<Body>, request: &ApiRequest) -> Response<Body> {
        if !compress::is_large(&response) {
            return response;
        }
        let work = move || HandlerOutcome::Response(compress::gzip(response));
        match self.run_aside(request, true, Box::new(work)).await {
            Ok(HandlerOutcome::Response(response)) => response,
            _ => {
                status_response_to(&request.headers, &request.uri, &Status::internal("the response was not compressed"))
            }
        }
    }

    /// Returns a response when everything that it may show is durable (DUR-002).
    async fn when_durable(&self, request: &ApiRequest, response: Response<Body>) -> Response<Body> {
        let handler = &self.shared.handler;
        let Some(revision) = handler.unsynced_revision() else { return response };
        let writes = !request.method.is_safe();
        match poll_fn(|cx| handler.poll_durable(revision, writes, cx)).await {
            Ok(()) => response,
            Err(status) => status_response_to(&request.headers, &request.uri, &status),
        }
    }

    /// Starts the session of an upgraded connection.
    fn upgrade(&self, request: &ApiRequest, upgrade: Upgrade, on_upgrade: Option<OnUpgrade>) -> Response<Body> {
        let Upgrade { headers, run } = upgrade;
        let mut response = Response::new(Body::whole(""));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *response.headers_mut() = headers;
        let end = SessionEnd::default();
        response.extensions_mut().insert(end.clone());
        match (&self.caller, on_upgrade) {
            (Caller::InProcess(_), _) => {
                let (server, client) = tokio::io::duplex(IN_PROCESS_BUFFER);
                let session = run(Box::new(server));
                self.shared.sessions.spawn(async move {
                    let _end = end;
                    session.await;
                });
                response.extensions_mut().insert(UpgradedIo::new(client));
            }
            (Caller::Network(peer), Some(on_upgrade)) => {
                peer.activity.upgrade();
                peer.sessions.spawn(async move {
                    let _end = end;
                    match on_upgrade.await {
                        Ok(upgraded) => run(Box::new(TokioIo::new(upgraded))).await,
                        Err(error) => tracing::debug!(%error, "connection ended before its upgrade"),
                    }
                });
            }
            (Caller::Network(_), None) => {
                let status = Status::bad_request("unable to upgrade: only HTTP/1.1 connections can be upgraded");
                return status_response_to(&request.headers, &request.uri, &status);
            }
        }
        response
    }

    fn finish(&self, headers: &mut HeaderMap, audit_id: Option<HeaderValue>) {
        if !headers.contains_key(AUDIT_ID) {
            let id = audit_id.or_else(|| HeaderValue::try_from(env::uuid(|| self.shared.env.random())).ok());
            if let Some(id) = id {
                headers.insert(AUDIT_ID, id);
            }
        }
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    }
}

impl<B> tower_service::Service<Request<B>> for InProcess
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Send,
{
    type Response = Response<Body>;
    type Error = ConnectionCut;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, ConnectionCut>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), ConnectionCut>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Box::pin(self.clone().serve(request))
    }
}

impl std::fmt::Debug for InProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcess").field("caller", &self.caller).finish_non_exhaustive()
    }
}

/// The rest of the request's body has not been read, so HTTP/1 cannot reuse the connection.
fn closing(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Returns the response to a request that its user may not send.
fn forbidden_response(parts: &Parts, status: &Status) -> Response<Body> {
    let mut response = status_response_to(&parts.headers, &parts.uri, status);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Returns the error of a request that exceeded its deadline (URL-10).
fn timed_out() -> Status {
    Status::failure(504, Reason::TIMEOUT, "Timeout: request did not complete within the allotted timeout")
}
