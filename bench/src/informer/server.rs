//! The server of the informer benchmark: lists, watches and streaming lists of pods, all from bytes that are there before
//! anybody asks, so that it is never what is measured.
//!
//! It tells every client the same story from the beginning: all pods in their first state, then, when a storm is called
//! for, the same updates to the watches that are open. It speaks HTTP/1.1, and HTTP/2 to those who begin with it, and JSON
//! alone. Besides `GET /api/v1/pods`:
//!
//! - `POST /storm?updates=N` sends N updates to every open watch, as fast as it is read;
//! - `POST /relist` ends every open watch with 410, so that its client lists anew. A client that has seen a storm is led
//!   back to the first state by that;
//! - `GET /watches` tells how many watches were opened so far and how many of them wait for something to happen.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Write as _;
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{broadcast, mpsc};
use tokio::time::Instant;

use super::pods::Pods;
use crate::Failure;

/// Lists go out in pieces of this size.
const PIECE: usize = 64 << 10;
/// How many events a watch may be ahead of what its connection took.
const AHEAD: usize = 64;
/// Servers tell the current version about this often.
const BOOKMARKS: Duration = Duration::from_secs(60);

/// How many watches there are, as `GET /watches` tells.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Watches {
    pub(crate) opened: usize,
    pub(crate) waiting: usize,
}

/// Serves until the input ends. The first line of the output is the server's URL.
pub(crate) async fn serve(objects: usize) -> Result<(), Failure> {
    let server = Arc::new(Server::new(objects));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    std::thread::spawn(|| {
        // Whoever started the server holds the other end; however that one ends, the server does not outlive it.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let server = Arc::clone(&server);
                async move { Ok::<_, Infallible>(server.answer(request).await) }
            });
            // A client that goes away in the middle is none of the server's business.
            let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// Texts in one run of bytes.
struct Texts {
    bytes: Bytes,
    /// Where each text ends.
    ends: Vec<usize>,
}

impl Texts {
    fn new(count: usize, write: impl Fn(&mut String, usize)) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::with_capacity(count));
        for number in 0..count {
            write(&mut text, number);
            ends.push(text.len());
        }
        Texts { bytes: text.into(), ends }
    }

    /// Some of the texts, as one.
    fn slice(&self, texts: Range<usize>) -> Bytes {
        let end_of = |count: usize| if count == 0 { 0 } else { self.ends[count - 1] };
        self.bytes.slice(end_of(texts.start)..end_of(texts.end))
    }

    fn len(&self) -> usize {
        self.ends.len()
    }
}

/// What watches are told to do.
#[derive(Clone)]
enum Command {
    Storm(Arc<Texts>, usize),
    Relist,
}

struct Server {
    pods: Pods,
    /// The items of the list, each followed by a comma.
    items: Texts,
    /// The events that a streaming list begins with.
    added: Texts,
    /// The updates of the longest storm so far.
    storm: Mutex<Arc<Texts>>,
    commands: broadcast::Sender<Command>,
    opened: AtomicUsize,
    waiting: AtomicUsize,
}

impl Server {
    fn new(objects: usize) -> Self {
        let pods = Pods::new(objects);
        let items = Texts::new(objects, |out, number| {
            out.push('{');
            pods.write(out, number);
            out.push_str("},");
        });
        let added = Texts::new(objects, |out, number| event(out, "ADDED", |out| pods.write(out, number)));
        let storm = Mutex::new(Arc::new(Texts::new(0, |_, _| ())));
        let (commands, _) = broadcast::channel(16);
        Server { pods, items, added, storm, commands, opened: AtomicUsize::new(0), waiting: AtomicUsize::new(0) }
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let query = Query::of(request.uri().query().unwrap_or_default());
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/api/v1/pods") if query.is("watch") => self.watch(&query),
            (&Method::GET, "/api/v1/pods") => self.list(&query),
            (&Method::POST, "/storm") => self.storm(query.number("updates").unwrap_or(0)).await,
            (&Method::POST, "/relist") => self.command(Command::Relist),
            (&Method::GET, "/watches") => reply(StatusCode::OK, &json!(self.watches())),
            (method, path) => {
                let message = format!("the benchmark's server does not answer {method} {path}");
                reply(StatusCode::NOT_FOUND, &status(&message, "NotFound", 404))
            }
        }
    }

    fn watches(&self) -> Watches {
        Watches { opened: self.opened.load(Ordering::Acquire), waiting: self.waiting.load(Ordering::Acquire) }
    }

    /// All pods, or a page of them. As with API servers, a list of any version is never cut into pages.
    fn list(&self, query: &Query) -> Response<Body> {
        let first = query.number("continue").unwrap_or(0).min(self.items.len());
        let limit = query.number("limit").filter(|limit| *limit > 0 && query.get("resourceVersion") != Some("0"));
        let end = limit.map_or(self.items.len(), |limit| self.items.len().min(first + limit));
        let mut metadata = json!({"resourceVersion": self.pods.list_version().to_string()});
        if end < self.items.len() {
            metadata["continue"] = json!(end.to_string());
            metadata["remainingItemCount"] = json!(self.items.len() - end);
        }
        let head = format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{metadata},"items":["#);
        let mut items = self.items.slice(first..end);
        // Without the last comma.
        items.truncate(items.len().saturating_sub(1));
        json_body(StatusCode::OK, Body::Pieces([head.into(), items, Bytes::from_static(b"]}\n")].into()))
    }

    fn watch(self: Arc<Self>, query: &Query) -> Response<Body> {
        let commands = self.commands.subscribe();
        let (events, body) = mpsc::channel(AHEAD);
        let watch = Watch {
            server: Arc::clone(&self),
            events,
            initial: query.is("sendInitialEvents"),
            bookmarks: query.is("allowWatchBookmarks"),
            end: query.number("timeoutSeconds").map(|seconds| Instant::now() + Duration::from_secs(seconds as u64)),
        };
        self.opened.fetch_add(1, Ordering::AcqRel);
        tokio::spawn(watch.run(commands));
        json_body(StatusCode::OK, Body::Events(body))
    }

    async fn storm(self: Arc<Self>, updates: usize) -> Response<Body> {
        let server = Arc::clone(&self);
        let built = tokio::task::spawn_blocking(move || {
            let mut storm = server.storm.lock().unwrap_or_else(PoisonError::into_inner);
            if storm.len() < updates {
                *storm = Arc::new(Texts::new(updates, |out, update| {
                    event(out, "MODIFIED", |out| server.pods.write_update(out, update));
                }));
            }
            Arc::clone(&storm)
        });
        match built.await {
            Ok(storm) => self.command(Command::Storm(storm, updates)),
            Err(error) => {
                let status = status(&error.to_string(), "InternalError", 500);
                reply(StatusCode::INTERNAL_SERVER_ERROR, &status)
            }
        }
    }

    fn command(&self, command: Command) -> Response<Body> {
        let told = self.commands.send(command).unwrap_or(0);
        reply(StatusCode::OK, &json!({"watches": told}))
    }
}

/// One open watch.
struct Watch {
    server: Arc<Server>,
    events: mpsc::Sender<Bytes>,
    initial: bool,
    bookmarks: bool,
    end: Option<Instant>,
}

/// The client has gone away.
struct Gone;

/// What happens to a watch that waits.
enum Next {
    Do(Command),
    Bookmark,
    End,
}

impl Watch {
    async fn run(self, mut commands: broadcast::Receiver<Command>) {
        // There is nobody to tell that the client has gone away.
        let _ = self.serve(&mut commands).await;
    }

    async fn serve(&self, commands: &mut broadcast::Receiver<Command>) -> Result<(), Gone> {
        let mut version = self.server.pods.list_version();
        if self.initial {
            self.send_all(&self.server.added, self.server.added.len()).await?;
            self.send(bookmark_at(version, true)).await?;
        }
        loop {
            self.server.waiting.fetch_add(1, Ordering::AcqRel);
            let next = self.next(commands).await;
            self.server.waiting.fetch_sub(1, Ordering::AcqRel);
            match next {
                Next::Do(Command::Storm(updates, count)) => {
                    self.send_all(&updates, count).await?;
                    version = version.max(self.server.pods.list_version() + count);
                }
                Next::Do(Command::Relist) => {
                    let expired = status("too old resource version", "Expired", 410);
                    return self.send(line("ERROR", &expired)).await;
                }
                Next::Bookmark if self.bookmarks => self.send(bookmark_at(version, false)).await?,
                Next::Bookmark => {}
                Next::End => return Ok(()),
            }
        }
    }

    async fn next(&self, commands: &mut broadcast::Receiver<Command>) -> Next {
        let end = async {
            match self.end {
                Some(end) => tokio::time::sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            command = commands.recv() => command.map_or(Next::End, Next::Do),
            () = self.events.closed() => Next::End,
            () = end => Next::End,
            () = tokio::time::sleep(BOOKMARKS) => Next::Bookmark,
        }
    }

    /// Each event is a frame of its own, as API servers send them.
    async fn send_all(&self, events: &Texts, count: usize) -> Result<(), Gone> {
        for number in 0..count {
            self.send(events.slice(number..number + 1)).await?;
        }
        Ok(())
    }

    async fn send(&self, event: Bytes) -> Result<(), Gone> {
        self.events.send(event).await.map_err(|_| Gone)
    }
}

fn event(out: &mut String, kind: &str, pod: impl FnOnce(&mut String)) {
    out.push_str(r#"{"type":""#);
    out.push_str(kind);
    out.push_str(r#"","object":{"kind":"Pod","apiVersion":"v1","#);
    pod(out);
    out.push_str("}}\n");
}

fn bookmark_at(version: usize, end_of_initial: bool) -> Bytes {
    let mut metadata = json!({"resourceVersion": version.to_string(), "creationTimestamp": null});
    if end_of_initial {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    let pod = json!({
        "kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": null}, "status": {}
    });
    line("BOOKMARK", &pod)
}

/// An event as API servers write it: what it is comes first.
fn line(kind: &str, object: &Value) -> Bytes {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into()
}

fn status(message: &str, reason: &str, code: u16) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "code": code
    })
}

fn reply(code: StatusCode, value: &Value) -> Response<Body> {
    json_body(code, Body::Pieces([value.to_string().into()].into()))
}

fn json_body(code: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

/// What stands behind the question mark.
struct Query(Vec<(String, String)>);

impl Query {
    fn of(text: &str) -> Self {
        Query(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn is(&self, name: &str) -> bool {
        matches!(self.get(name), Some("true" | "1"))
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.get(name)?.parse().ok()
    }
}

/// The body of an answer.
enum Body {
    Pieces(VecDeque<Bytes>),
    Events(mpsc::Receiver<Bytes>),
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Body::Events(events) => events.poll_recv(cx).map(|event| event.map(|event| Ok(Frame::data(event)))),
            Body::Pieces(pieces) => {
                while pieces.front().is_some_and(Bytes::is_empty) {
                    pieces.pop_front();
                }
                let next = pieces.front_mut().map(|piece| piece.split_to(PIECE.min(piece.len())));
                Poll::Ready(next.map(|piece| Ok(Frame::data(piece))))
            }
        }
    }
}
