//! Many clients write while watches break; afterwards all state is released. Runs alone in its process, so that it can
//! count open files.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a panic fails the test, and it prints its figures")]

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, StoreStats};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

const WRITERS: u64 = 50;
const WATCHERS: usize = 12;
const KEYS: u64 = 200;
const OPERATIONS: u64 = 60;
const HISTORY: usize = 150;
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Written after all writers are done: a watcher that has received it has received all events.
const LAST: &str = "the-last";
/// The limit of every wait, so that a test that hangs names the cause.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// The server sent no response.
#[derive(Debug)]
struct Disconnected;

/// One connection, kept open between requests.
struct Connection(SendRequest<Full<Bytes>>);

impl Connection {
    async fn open(address: &str) -> Result<Self, Disconnected> {
        let stream = TcpStream::connect(address).await.map_err(|_| Disconnected)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|_| Disconnected)?;
        tokio::spawn(connection);
        Ok(Connection(sender))
    }

    async fn send(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response<Incoming>, Disconnected> {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request =
            Request::builder().method(method).uri(path).header("host", "localhost").header("content-type", media);
        let body = body.map(Value::to_string).unwrap_or_default();
        self.0.ready().await.map_err(|_| Disconnected)?;
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let reply = self.0.send_request(request).await.map_err(|_| Disconnected)?;
        // A server that shuts down refuses requests.
        if reply.status() == 429 { Err(Disconnected) } else { Ok(reply) }
    }

    async fn json(&mut self, method: &str, path: &str, body: Option<&Value>) -> Result<(u16, Value), Disconnected> {
        let reply = self.send(method, path, body).await?;
        let code = reply.status().as_u16();
        let bytes = reply.into_body().collect().await.map_err(|_| Disconnected)?.to_bytes();
        Ok((code, serde_json::from_slice(&bytes).unwrap()))
    }
}

/// Names, versions and data of the objects.
type KnownObjects = BTreeMap<String, (String, Value)>;

fn entry(object: &Value) -> (String, (String, Value)) {
    let text = |key: &str| object["metadata"][key].as_str().unwrap().to_owned();
    (text("name"), (text("resourceVersion"), object["data"].clone()))
}

async fn list(address: &str) -> Result<(String, KnownObjects), Disconnected> {
    let (code, list) = Connection::open(address).await?.json("GET", MAPS, None).await?;
    assert_eq!(code, 200);
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    Ok((revision, list["items"].as_array().unwrap().iter().map(entry).collect()))
}

/// Creates, changes and deletes. Other writers use the same keys, so any response of a healthy server is accepted.
/// Returns the number of writes.
async fn write(address: String, writer: u64, operations: u64) -> Result<u64, Disconnected> {
    let mut connection = Connection::open(&address).await?;
    let mut random = evenkeel_base::hash::spread(writer);
    let mut written = 0;
    for number in 0..operations {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = format!("key-{:03}", (random >> 33) % KEYS);
        let one = format!("{MAPS}/{key}");
        let data = json!({"by": writer.to_string(), "number": number.to_string()});
        let (code, _) = match (random >> 20) % 10 {
            0..4 => {
                let new = json!({"metadata": {"name": key}, "data": data});
                connection.json("POST", MAPS, Some(&new)).await?
            }
            4..6 => connection.json("PATCH", &one, Some(&json!({"data": data}))).await?,
            6..8 => match connection.json("GET", &one, None).await? {
                (200, mut object) => {
                    object["data"] = data;
                    connection.json("PUT", &one, Some(&object)).await?
                }
                other => other,
            },
            _ => connection.json("DELETE", &one, None).await?,
        };
        assert!(matches!(code, 200 | 201 | 404 | 409), "{code}");
        written += u64::from(code < 300);
    }
    Ok(written)
}

/// How often a watcher had to restart, by cause.
#[derive(Clone, Copy, Debug, Default)]
struct Restarts {
    ends: u64,
    cuts: u64,
    expired: u64,
}

/// Follows the objects as an informer does: list, watch, resume from the last version seen, relist when that is too
/// old.
struct Watcher {
    address: String,
    revision: Option<String>,
    state: KnownObjects,
    restarts: Restarts,
}

impl Watcher {
    fn new(address: &str) -> Self {
        Watcher {
            address: address.to_owned(),
            revision: None,
            state: KnownObjects::new(),
            restarts: Restarts::default(),
        }
    }

    /// Follows until the known objects satisfy the condition.
    async fn follow(mut self, enough: fn(&KnownObjects) -> bool) -> Result<Self, Disconnected> {
        loop {
            let revision = match &self.revision {
                Some(revision) => revision.clone(),
                None => {
                    let (revision, state) = list(&self.address).await?;
                    self.state = state;
                    self.revision = Some(revision.clone());
                    revision
                }
            };
            if enough(&self.state) {
                return Ok(self);
            }
            let mut connection = Connection::open(&self.address).await?;
            let path = format!("{MAPS}?watch=true&allowWatchBookmarks=true&resourceVersion={revision}");
            let reply = connection.send("GET", &path, None).await?;
            if reply.status() != 200 {
                assert_eq!(reply.status(), 410);
                self.expire();
                continue;
            }
            if self.read(reply.into_body(), enough).await {
                return Ok(self);
            }
        }
    }

    fn expire(&mut self) {
        self.restarts.expired += 1;
        self.revision = None;
    }

    /// Reads one watch until it ends or the condition holds. Returns whether it holds.
    async fn read(&mut self, mut body: Incoming, enough: fn(&KnownObjects) -> bool) -> bool {
        let mut text = Vec::new();
        loop {
            match body.frame().await {
                None => {
                    self.restarts.ends += 1;
                    return false;
                }
                // A partial event is dropped.
                Some(Err(_)) => {
                    self.restarts.cuts += 1;
                    return false;
                }
                Some(Ok(frame)) => text.extend_from_slice(&frame.into_data().unwrap_or_default()),
            }
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).unwrap();
                if event["type"] == "ERROR" {
                    assert_eq!(event["object"]["code"], 410, "{event}");
                    self.expire();
                    return false;
                }
                self.apply(&event);
            }
            if enough(&self.state) {
                return true;
            }
        }
    }

    fn apply(&mut self, event: &Value) {
        let object = &event["object"];
        let revision = object["metadata"]["resourceVersion"].as_str().unwrap();
        let number = |text: &str| text.parse::<u64>().unwrap();
        let before = self.revision.as_deref().map_or(0, number);
        match event["type"].as_str().unwrap() {
            "BOOKMARK" => assert!(number(revision) >= before),
            kind => {
                assert!(number(revision) > before, "{kind} {revision} after {before}: twice, or out of order");
                let (name, known) = entry(object);
                let was =
                    if kind == "DELETED" { self.state.remove(&name) } else { self.state.insert(name.clone(), known) };
                assert_eq!(was.is_some(), kind != "ADDED", "{kind} of {name}");
            }
        }
        self.revision = Some(revision.to_owned());
    }
}

fn files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Waits until the condition holds.
async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let wait = async {
        while !so() {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(WAIT_LIMIT, wait).await.is_ok(), "still waiting for {what}");
}

async fn all<T: Send + 'static>(what: &str, mut set: JoinSet<T>, mut each: impl FnMut(T)) {
    let join = async {
        while let Some(done) = set.join_next().await {
            each(done.unwrap());
        }
    };
    assert!(tokio::time::timeout(WAIT_LIMIT, join).await.is_ok(), "still waiting for {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn arc_4_flt_4_load_with_broken_watches_converges_and_leaves_nothing() {
    let files_before = files();
    converge().await.unwrap();
    until("the files", || files() <= files_before).await;
    until("the tasks", || tasks() == 0).await;
    stop_under_load().await;
    until("the files", || files() <= files_before).await;
    until("the tasks", || tasks() == 0).await;
}

/// Writes and watches until all watchers have converged.
async fn converge() -> Result<(), Disconnected> {
    let server = ApiServer::builder().history(HISTORY).start().await.unwrap();
    let address = server.url().trim_start_matches("http://").to_owned();
    let (files_idle, tasks_idle, at_start) = (files(), tasks(), server.stats());

    // Load: concurrent writers and watchers, and the watches break.
    let broken = server.faults().drop_watch_after(20);
    let mut watchers = JoinSet::new();
    for _ in 0..WATCHERS {
        watchers.spawn(Watcher::new(&address).follow(|state| state.contains_key(LAST)));
    }
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn(write(address.clone(), writer, OPERATIONS));
    }
    let (mut written, mut done) = (0, 0);
    all("the writers", writers, |writes| {
        written += writes.unwrap();
        done += 1;
        server.faults().cut_frame();
        if done % 10 == 0 {
            server.faults().compact_now();
        }
    })
    .await;
    assert!(written > WRITERS * OPERATIONS / 4, "{written} writes");
    let mut connection = Connection::open(&address).await?;
    connection.json("POST", MAPS, Some(&json!({"metadata": {"name": LAST}}))).await?;

    // All watchers have converged to the stored objects.
    let (_, truth) = list(&address).await?;
    let mut followers = Vec::new();
    all("the watchers", watchers, |watcher| followers.push(watcher.unwrap())).await;
    let mut restarts = Restarts::default();
    for watcher in &followers {
        assert!(watcher.state == truth, "{} objects, but {} are stored", watcher.state.len(), truth.len());
        restarts.ends += watcher.restarts.ends;
        restarts.cuts += watcher.restarts.cuts;
        restarts.expired += watcher.restarts.expired;
    }
    println!("{written} writes, {} objects left, {restarts:?}", truth.len());
    assert!(restarts.ends > 0 && restarts.cuts > 0, "{restarts:?}");

    // All objects are deleted, and every watcher receives it.
    server.faults().remove(broken);
    let mut watchers = JoinSet::new();
    for watcher in followers {
        watchers.spawn(watcher.follow(KnownObjects::is_empty));
    }
    let (code, _) = connection.json("DELETE", MAPS, None).await?;
    assert_eq!(code, 200);
    drop(connection);
    all("the watchers", watchers, |watcher| drop(watcher.unwrap())).await;
    assert!(list(&address).await?.1.is_empty());

    // No connection, watch, task, file or object is left, and the history is within its limit.
    until("the connections", || server.connections().open == 0).await;
    until("the watches", || server.stats().watchers == 0).await;
    until("the tasks", || tasks() == tasks_idle).await;
    until("the files", || files() <= files_idle).await;
    let StoreStats { objects, events, .. } = server.stats();
    assert_eq!(objects, at_start.objects);
    assert!(events <= HISTORY + at_start.events, "{events} events");
    server.faults().compact_now();
    assert_eq!(server.stats().events, 0, "a compacted history holds no events");
    server.shutdown().await;
    Ok(())
}

/// Stops the server under load: every client gets an error, and none waits.
async fn stop_under_load() {
    let server = ApiServer::builder().history(HISTORY).start().await.unwrap();
    let address = server.url().trim_start_matches("http://").to_owned();
    let mut clients = JoinSet::new();
    for _ in 0..WATCHERS {
        let watcher = Watcher::new(&address).follow(|state| state.contains_key(LAST));
        clients.spawn(async { watcher.await.is_err() });
    }
    for writer in 0..WRITERS {
        let writer = write(address.clone(), writer, u64::MAX);
        clients.spawn(async { writer.await.is_err() });
    }
    until("the load", || server.stats().revision > 500 && server.stats().watchers > 0).await;
    server.shutdown().await;
    all("the clients", clients, |failed| assert!(failed, "every client gets an error")).await;
}
