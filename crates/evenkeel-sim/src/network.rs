//! [`Network`]: the connection of one life of a process to the API server.
//!
//! A request takes some time, may fail on its way, and reaches the server even if its sender has gone meanwhile, as on a real
//! network.

use std::future::{Future, pending};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use evenkeel_apiserver::{Action, Body as ServerBody, ExpireForm, WatchAction};
use evenkeel_client::transport::Body;
use evenkeel_core::Status;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use crate::coverage::ClientPhase;
use crate::decisions::Stream;
use crate::executor::{Incarnation, ProcessId};
use crate::fault::{RequestClass, RequestFault, expired_page, request_fault};
use crate::world::{Cluster, CrashPhase, Link, STUCK, World};

type Failure = io::Error;

/// When a connection without a response breaks.
const HANG: Duration = Duration::from_secs(60);

/// The service behind the client of a process.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub(crate) cluster: Cluster,
    pub(crate) sender: Incarnation,
}

impl Service<Request<Body>> for Network {
    type Response = Response<DelayedBody>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

/// What a request is about.
pub(crate) struct Subject {
    class: RequestClass,
    phase: ClientPhase,
    pub(crate) verb: &'static str,
    pub(crate) resource: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    /// As in `create configmaps default/a`.
    words: String,
    /// The path of the collection in all namespaces.
    collection: String,
    /// The resource version that a list or watch names; 0 if it names none.
    version: u64,
    /// The continue token of a page.
    token: String,
}

/// What only the bookmark at the end of the initial events contains.
const INITIAL_END: &[u8] = b"k8s.io/initial-events-end";

impl Network {
    async fn send(self, request: Request<Body>) -> Result<Response<DelayedBody>, Failure> {
        let Network { cluster, sender } = self;
        let world = &cluster.world;
        let subject = Subject::of(&request);
        let write = world.note_request(sender.process, subject.written());
        let crash = world.points.crash.filter(|point| point.process == sender.process && Some(point.write) == write);
        let stale = world.points.stale.filter(|point| point.process == sender.process && Some(point.write) == write);
        if crash.is_some() || stale.is_some() {
            world.note_last_fault(if stale.is_some() { STUCK } else { Duration::ZERO });
        }
        let is_harness = sender.process == ProcessId::HARNESS;
        let in_flight = (!is_harness).then(|| InFlight::new(&cluster.world, sender.process, subject.phase));
        let fault = if is_harness { None } else { world.draw_fault(subject.class) };
        let planned = fault.map(|fault| {
            world.count(fault, subject.phase);
            world.decide(|decisions| request_fault(fault, decisions))
        });
        let fault_words = planned.as_ref().map(|(_, words)| words.clone());
        if !is_harness {
            world.record_request(sender.process, &subject, planned.as_ref().map(|(fault, _)| fault));
        }
        let mut injected: Vec<Action> = Vec::new();
        let latency = || if is_harness { Duration::ZERO } else { world.draw_latency() };
        let (mut delay, mut response_delay) = (latency(), Duration::ZERO);
        let mut initial_end = InitialEnd::Usual;
        match planned.map(|(fault, _)| fault) {
            None => {}
            Some(RequestFault::ExpirePage { has_token }) => {
                injected.push(expired_page(has_token.then(|| fresh_token(&subject.token)).flatten()));
            }
            Some(RequestFault::RefuseVersion) => world.refuse_version(&subject.collection, subject.version),
            Some(RequestFault::BeforeInitialEnd(None)) => initial_end = InitialEnd::Cut,
            Some(RequestFault::BeforeInitialEnd(Some(delay))) => initial_end = InitialEnd::Late(delay),
            Some(RequestFault::Inject(action)) => injected.push(action),
            Some(RequestFault::Delay(more)) => delay += more,
            Some(RequestFault::DelayResponse(more)) => response_delay = more,
            Some(RequestFault::Rival) => rival(&cluster, request.uri().path()).await,
            Some(RequestFault::Hang) => {
                world.trace(Some(sender), format!("{}: hangs", subject.words));
                sleep(HANG).await;
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no response; the connection is dead"));
            }
            Some(RequestFault::Refuse) => {
                let why = fault_words.unwrap_or_default();
                world.trace(Some(sender), format!("{}: {why}", subject.words));
                wait(delay).await;
                return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused"));
            }
        }
        let Some(service) = cluster.service() else {
            world.trace(Some(sender), format!("{}: there is no server", subject.words));
            return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "the scenario has no server"));
        };
        wait(delay).await;
        if let Link::Cut(left) = world.link(sender.process) {
            world.trace(Some(sender), format!("{}: does not arrive", subject.words));
            sleep(left).await;
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no response; the connection is dead"));
        }
        if subject.lists_version() && world.is_too_large(&subject.collection, subject.version) {
            let status = Status::too_large_resource_version(subject.version, subject.version - 1);
            injected.push(Action::Status(Box::new(status)));
        }
        if !is_harness {
            injected.extend(choose_replica(&cluster, &subject));
        }
        if crash.is_some_and(|point| point.phase == CrashPhase::BeforeCommit) {
            world.trace(Some(sender), format!("{}: crashes before it is done", subject.words));
            world.order_crash(sender.process);
            return pending().await;
        }
        // A task of its own: what is on its way is done, even if the sender has gone.
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|error| io::Error::other(error.to_string()))?.to_bytes();
        // A controller that applies the same again, now and then, changes nothing.
        let unrest = subject.written().filter(|written| world.counts_as_unrest(sender.process, written));
        let before = if unrest.is_some() { revision(&cluster).await } else { 0 };
        let mut service = service.injecting(injected);
        let handled = tokio::spawn(async move { service.call(Request::from_parts(parts, Full::new(body))).await });
        let response = match handled.await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) | Err(_) => {
                let why = fault_words.unwrap_or_else(|| "the connection breaks".to_owned());
                world.trace(Some(sender), format!("{}: {why}", subject.words));
                if subject.written().is_some() {
                    cluster.check_always().await;
                }
                return Err(io::Error::new(io::ErrorKind::ConnectionReset, "connection reset"));
            }
        };
        let code = response.status().as_u16();
        let note = fault_words.map(|words| format!(" ({words})")).unwrap_or_default();
        world.trace(Some(sender), format!("{}: {code}{note}", subject.words));
        if let Some(written) = unrest
            && (!response.status().is_success() || revision(&cluster).await != before)
        {
            world.note_unrest(sender.process, written);
        }
        if subject.written().is_some() {
            cluster.check_always().await;
        }
        if crash.is_some_and(|point| point.phase == CrashPhase::BeforeResponse) {
            world.trace(Some(sender), "crashes before it has the response");
            world.order_crash(sender.process);
            return pending().await;
        }
        wait(latency() + response_delay).await;
        match world.link(sender.process) {
            Link::Whole => {}
            Link::Late(late) => sleep(late).await,
            Link::Cut(left) => {
                world.trace(Some(sender), format!("{}: the response does not arrive", subject.words));
                sleep(left).await;
                return Err(io::Error::new(io::ErrorKind::ConnectionReset, "connection reset"));
            }
        }
        if crash.is_some_and(|point| point.phase == CrashPhase::AfterResponse) {
            world.trace(Some(sender), "crashes with the response");
            world.order_crash(sender.process);
        }
        if let Some(stale) = stale {
            let revision = revision(&cluster).await.saturating_sub(stale.behind).max(cluster.first_revision);
            world.trace(Some(sender), format!("restarts onto a replica that lacks {} revisions", stale.behind));
            cluster.freeze_replica(Some(revision));
            world.order_crash(sender.process);
            return pending().await;
        }
        let watch = in_flight.filter(|_| subject.class.is_watch());
        let late = watch.is_some().then(|| (cluster.clone(), sender.process));
        Ok(response.map(|body| DelayedBody { body, late, initial_end, held: None, is_cut: false, in_flight: watch }))
    }
}

/// Chooses the server that answers a request while there are two. Returns what that one does.
fn choose_replica(cluster: &Cluster, subject: &Subject) -> Option<Action> {
    let (world, class) = (&cluster.world, subject.class);
    let replicas = world.replicas()?;
    let is_list = matches!(class, RequestClass::List { .. } | RequestClass::Page | RequestClass::WatchList { .. });
    if !is_list && class != RequestClass::Watch {
        return None;
    }
    let history_from = match replicas.history_from {
        Some(from) if replicas.is_sticky => Some(from).filter(|_| !is_list),
        Some(from) => Some(from).filter(|_| world.decide(|decisions| decisions.uniform(Stream::Fault, 2)) == 0),
        None => None,
    };
    cluster.freeze_replica(history_from.is_none().then_some(replicas.stuck_at));
    let is_older = |from: u64| (1..from).contains(&subject.version);
    let is_too_old = class == RequestClass::Watch && history_from.is_some_and(is_older);
    is_too_old.then_some(Action::Watch(WatchAction::Expire { event: 0, form: ExpireForm::Http }))
}

/// Returns the token of a response to an expired page: it continues the list at the latest revision.
fn fresh_token(token: &str) -> Option<String> {
    let mut token: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    *token.get_mut("rv")? = (-1).into();
    Some(URL_SAFE_NO_PAD.encode(token.to_string()))
}

async fn wait(delay: Duration) {
    if !delay.is_zero() {
        sleep(delay).await;
    }
}

/// Returns the latest revision of the server.
pub(crate) async fn revision(cluster: &Cluster) -> u64 {
    let list = get(cluster, "/api/v1/nodes?limit=1").await;
    list.pointer("/metadata/resourceVersion").and_then(|text| text.as_str()?.parse().ok()).unwrap_or_default()
}

/// Reads a document from the server, past all faults.
pub(crate) async fn get(cluster: &Cluster, path: &str) -> Value {
    let Some(mut service) = cluster.service() else { return Value::Null };
    let Ok(request) = Request::get(path).body(Full::new(Bytes::new())) else { return Value::Null };
    let Ok(response) = service.call(request).await else { return Value::Null };
    let body = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    serde_json::from_slice(&body).unwrap_or_default()
}

/// Creates an object as it is, past all faults.
pub(crate) async fn create(cluster: &Cluster, object: &Value) -> Result<(), String> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (version, kind, namespace) = (text("/apiVersion"), text("/kind"), text("/metadata/namespace"));
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let resources = get(cluster, &root).await;
    let mut resources = resources.get("resources").and_then(Value::as_array).into_iter().flatten();
    let is_it = |resource: &&Value| {
        let name = resource.get("name").and_then(Value::as_str).unwrap_or_default();
        resource.get("kind").and_then(Value::as_str) == Some(kind) && !name.contains('/')
    };
    let resource =
        resources.find(is_it).ok_or_else(|| format!("{version} {kind} is not served: add its definition"))?;
    let plural = resource.get("name").and_then(Value::as_str).unwrap_or_default();
    let path = match resource.get("namespaced").and_then(Value::as_bool) {
        Some(true) if namespace.is_empty() => format!("{root}/namespaces/default/{plural}"),
        Some(true) => format!("{root}/namespaces/{namespace}/{plural}"),
        _ => format!("{root}/{plural}"),
    };
    cluster.world.note_request(ProcessId::HARNESS, Some(&format!("{root}/{plural}")));
    let request = Request::post(path).body(Full::new(Bytes::from(object.to_string())));
    let response = match (request, cluster.service()) {
        (Ok(request), Some(mut service)) => service.call(request).await.map_err(|error| error.to_string())?,
        (Ok(_), None) => return Err(format!("{kind}: the scenario has no server")),
        (Err(error), _) => return Err(error.to_string()),
    };
    if response.status().is_success() {
        return Ok(());
    }
    let body = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let status: Value = serde_json::from_slice(&body).unwrap_or_default();
    let message = status.get("message").and_then(Value::as_str).unwrap_or("refused");
    Err(format!("{kind} {}: {message}", text("/metadata/name")))
}

/// The annotation that a rival writer changes.
pub(crate) const RIVAL: &str = "sim.evenkeel.dev/rival";

/// Changes the object of a request as another client would.
async fn rival(cluster: &Cluster, path: &str) {
    let path = path.strip_suffix("/status").or_else(|| path.strip_suffix("/scale")).unwrap_or(path);
    let step = cluster.world.executor.steps();
    let patch = serde_json::json!({"metadata": {"annotations": {RIVAL: step.to_string()}}}).to_string();
    let request = Request::patch(path).header("content-type", "application/merge-patch+json");
    if let (Ok(request), Some(mut service)) = (request.body(Full::new(Bytes::from(patch))), cluster.service()) {
        // Fails if the object does not exist: then there is no rival.
        let _ = service.call(request).await;
    }
}

impl Subject {
    fn of(request: &Request<Body>) -> Self {
        let uri = request.uri();
        let query = uri.query().unwrap_or_default();
        let path: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
        let rest = match path.as_slice() {
            ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
            all => all,
        };
        let prefix = path.len() - rest.len();
        let (namespace, rest, depth) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest, 2),
            rest => (None, rest, 0),
        };
        let (resource, name) = (rest.first().copied().unwrap_or("/"), rest.get(1).copied());
        let subresource = rest.get(2).map(|part| format!("/{part}")).unwrap_or_default();
        let parameter = |name: &str| {
            let mut pairs = query.split('&').filter_map(|part| part.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value).unwrap_or_default()
        };
        let version = parameter("resourceVersion").parse().unwrap_or_default();
        let (names_version, token) = (version > 0, parameter("continue"));
        let is_watch = matches!(parameter("watch"), "true" | "1");
        let (verb, class) = match (request.method(), name) {
            (&Method::GET, _) if is_watch && parameter("sendInitialEvents") == "true" => {
                ("watch", RequestClass::WatchList { names_version })
            }
            (&Method::GET, _) if is_watch => ("watch", RequestClass::Watch),
            (&Method::GET, Some(_)) => ("get", RequestClass::Get),
            (&Method::GET, None) if !token.is_empty() => ("list", RequestClass::Page),
            (&Method::GET, None) => ("list", RequestClass::List { names_version }),
            (&Method::POST, None) => ("create", RequestClass::Write),
            (&Method::POST, Some(_)) => ("create", RequestClass::Write),
            (&Method::PUT, _) => ("update", RequestClass::NamedWrite),
            (&Method::PATCH, _) => ("patch", RequestClass::NamedWrite),
            (&Method::DELETE, Some(_)) => ("delete", RequestClass::NamedWrite),
            _ => ("delete all", RequestClass::Write),
        };
        let object = match (namespace, name) {
            (Some(namespace), Some(name)) => format!(" {namespace}/{name}"),
            (None, Some(name)) => format!(" {name}"),
            (Some(namespace), None) => format!(" in {namespace}"),
            (None, None) => String::new(),
        };
        let mut collection: Vec<&str> = path.get(..prefix).unwrap_or_default().to_vec();
        collection.push(path.get(prefix + depth).copied().unwrap_or_default());
        let phase = if resource == "leases" && name.is_some() { ClientPhase::Election } else { ClientPhase::of(class) };
        let collection = format!("/{}", collection.join("/"));
        Subject {
            class,
            phase,
            verb,
            resource: resource.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            words: format!("{verb} {resource}{subresource}{object}"),
            collection,
            version,
            token: token.to_owned(),
        }
    }

    /// Returns the collection, if the request writes to it.
    fn written(&self) -> Option<&str> {
        matches!(self.class, RequestClass::Write | RequestClass::NamedWrite).then_some(&self.collection)
    }

    /// Returns whether it is a list, or a watch with initial events, that names a resource version.
    fn lists_version(&self) -> bool {
        matches!(
            self.class,
            RequestClass::List { names_version: true } | RequestClass::WatchList { names_version: true }
        )
    }
}

/// What happens to the bookmark that ends the initial events of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InitialEnd {
    Usual,
    /// The watch ends before it.
    Cut,
    /// It is late.
    Late(Duration),
}

/// The body of a response whose pieces may be late.
#[derive(Debug)]
pub(crate) struct DelayedBody {
    body: ServerBody,
    /// Where delays are drawn, for watches.
    late: Option<(Cluster, ProcessId)>,
    initial_end: InitialEnd,
    is_cut: bool,
    held: Option<(Pin<Box<Sleep>>, Frame<Bytes>)>,
    in_flight: Option<InFlight>,
}

/// A process waits for a response, until this is dropped.
#[derive(Debug)]
struct InFlight {
    world: Arc<World>,
    process: ProcessId,
    phase: ClientPhase,
}

impl InFlight {
    fn new(world: &Arc<World>, process: ProcessId, phase: ClientPhase) -> Self {
        world.set_in_flight(process, phase);
        InFlight { world: Arc::clone(world), process, phase }
    }

    /// Notes what arrives: after its initial objects, a watch streams changes.
    fn receive(&mut self, frame: &Frame<Bytes>) {
        if self.phase == ClientPhase::WatchList && is_initial_end(frame) {
            *self = InFlight::new(&Arc::clone(&self.world), self.process, ClientPhase::Streaming);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.world.unset_in_flight(self.process, self.phase);
    }
}

impl http_body::Body for DelayedBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        if let Some((timer, _)) = &mut self.held {
            ready!(timer.as_mut().poll(cx));
            return Poll::Ready(self.held.take().map(|(_, frame)| Ok(frame)));
        }
        if self.is_cut {
            return Poll::Ready(None);
        }
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            None => return Poll::Ready(None),
            Some(Err(_)) => {
                let broken = io::Error::new(io::ErrorKind::ConnectionReset, "connection reset");
                return Poll::Ready(Some(Err(broken)));
            }
            Some(Ok(frame)) => frame,
        };
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.receive(&frame);
        }
        let mut delay = self.late.as_ref().map_or(Duration::ZERO, |(cluster, receiver)| {
            let usual = cluster.world.draw_latency();
            match cluster.world.link(*receiver) {
                Link::Whole => usual,
                Link::Late(late) | Link::Cut(late) => usual.max(late),
            }
        });
        if self.initial_end != InitialEnd::Usual && is_initial_end(&frame) {
            match self.initial_end {
                InitialEnd::Late(more) => delay += more,
                InitialEnd::Cut | InitialEnd::Usual => {
                    self.is_cut = true;
                    return Poll::Ready(None);
                }
            }
        }
        if delay.is_zero() {
            return Poll::Ready(Some(Ok(frame)));
        }
        self.held = Some((Box::pin(sleep(delay)), frame));
        self.poll_frame(cx)
    }
}

fn is_initial_end(frame: &Frame<Bytes>) -> bool {
    frame.data_ref().is_some_and(|data| data.windows(INITIAL_END.len()).any(|part| part == INITIAL_END))
}
