//! [`RawClient`]: one request at a time, without retries, all of them recorded.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::client::{Client, Error, Path};
use http::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::checks::{
    Content, Freshness, History, ListRecord, ObjectState, Reply, Request, Selection, StreamFrame, StreamStart,
};

const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";
/// A client waits for a response, or for the next event after the time of its watch, at most this long.
const PATIENCE: Duration = Duration::from_secs(12);

/// A list that a client has read.
pub(super) struct ReadList {
    /// Its number in the history.
    pub(super) number: usize,
    pub(super) version: u64,
    /// All its pages have arrived.
    pub(super) is_whole: bool,
}

/// How a watch ended.
pub(super) struct WatchEnd {
    /// The number of the watch in the history.
    pub(super) number: usize,
    /// From which version it can be continued; `None` if the client must list.
    pub(super) resume: Option<u64>,
}

/// A client of ConfigMaps.
pub(super) struct RawClient {
    pub(super) name: String,
    pub(super) client: Client,
    pub(super) history: Arc<History>,
}

impl RawClient {
    /// Sends a request for one object.
    pub(super) async fn send(&self, key: &str, request: Request) -> Reply {
        let number = self.history.sent(&self.name, key, request.clone());
        let path = format!("{COLLECTION}/{key}");
        let (method, body) = match &request {
            Request::Get(_) => (Method::GET, None),
            Request::Create(content) => (Method::POST, Some(object(key, content, None))),
            Request::Update { content, expected } => (Method::PUT, Some(object(key, content, *expected))),
            Request::Delete { expected } => {
                let preconditions = expected.map(|version| json!({"resourceVersion": version.to_string()}));
                let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
                (Method::DELETE, Some(options))
            }
        };
        let path = if method == Method::POST { COLLECTION } else { path.as_str() };
        let mut sending = self.client.request(method, Path::raw(path)).max_retries(0).timeout(PATIENCE);
        if let Request::Get(freshness) = &request {
            sending = sending.query("resourceVersion", version_of(*freshness));
        }
        if let Some(body) = &body {
            sending = sending.json(body);
        }
        let reply = match sending.send().await {
            Err(error) => reply_of(&error),
            Ok(response) => match (&request, response.json::<Value>()) {
                (Request::Delete { .. }, Ok(_)) => Reply::Deleted,
                (_, Ok(body)) => parse(&body).map_or(Reply::Unknown, |(_, state)| Reply::Object(state)),
                (_, Err(_)) => Reply::Unknown,
            },
        };
        self.history.received(number, reply.clone());
        reply
    }

    /// Lists, in pages if there is a limit. Returns `None` if the first page failed.
    pub(super) async fn list(&self, selection: Selection, freshness: Freshness, limit: usize) -> Option<ReadList> {
        let sent = self.history.now();
        let mut page = self.page(&selection, freshness, limit, "").await?;
        let (version, is_whole) = (page.version, page.token.is_empty());
        let received = self.history.now();
        let number = self.history.listed(ListRecord {
            client: self.name.clone(),
            sent,
            received,
            freshness,
            selection: selection.clone(),
            version,
            last_key: page.last_key(),
            objects: page.objects,
        });
        let mut list = ReadList { number, version, is_whole };
        while !list.is_whole {
            page = match self.page(&selection, Freshness::Latest, limit, &page.token).await {
                Some(next) if next.version == version => next,
                _ => return Some(list),
            };
            list.is_whole = page.token.is_empty();
            let last_key = page.last_key();
            self.history.continued(number, std::mem::take(&mut page.objects), last_key);
        }
        Some(list)
    }

    async fn page(&self, selection: &Selection, freshness: Freshness, limit: usize, token: &str) -> Option<Page> {
        let request = self.client.request(Method::GET, Path::raw(COLLECTION)).max_retries(0).timeout(PATIENCE);
        let request = select(request, selection).query("resourceVersion", version_of(freshness));
        let request = match (limit, token) {
            (0, _) => request,
            (limit, "") => request.query("limit", limit),
            (limit, token) => request.query("limit", limit).query("continue", token),
        };
        Page::of(&request.send().await.ok()?.json().ok()?)
    }

    /// Watches for so many seconds.
    pub(super) async fn watch(&self, selection: &Selection, start: StreamStart, seconds: u32) -> WatchEnd {
        let request = self.client.request(Method::GET, Path::raw(COLLECTION)).max_retries(0);
        let request = request.query("watch", true).query("allowWatchBookmarks", true).query("timeoutSeconds", seconds);
        let (request, after) = match &start {
            StreamStart::After(version, _) => (request.query("resourceVersion", version.to_string()), Some(*version)),
            StreamStart::Initial(freshness) => {
                let request = request.query("sendInitialEvents", true).query("resourceVersionMatch", "NotOlderThan");
                (request.query("resourceVersion", version_of(*freshness)), None)
            }
        };
        let number = self.history.watches(&self.name, selection.clone(), start);
        let mut end = WatchEnd { number, resume: after };
        let Ok(Ok(stream)) = timeout(PATIENCE, select(request, selection).stream()).await else { return end };
        let mut lines = stream.lines(1 << 20);
        let patience = Duration::from_secs(u64::from(seconds)) + PATIENCE;
        while let Ok(Some(Ok(line))) = timeout(patience, lines.next()).await {
            // A line that cannot be read ends the watch: what follows it may be lost, too.
            let Ok(event) = serde_json::from_slice::<Value>(&line) else { return end };
            if event.get("type").and_then(Value::as_str) == Some("ERROR") {
                return WatchEnd { number, resume: None };
            }
            let Some(frame) = frame(&event) else { continue };
            let ends_initial = matches!(frame, StreamFrame::Bookmark { ends_initial: true, .. });
            if end.resume.is_some() || ends_initial {
                end.resume = Some(frame.version());
            }
            self.history.frame(number, frame);
        }
        end
    }
}

/// A page of a list.
struct Page {
    version: u64,
    objects: BTreeMap<String, ObjectState>,
    token: String,
}

impl Page {
    fn of(list: &Value) -> Option<Self> {
        let metadata = list.get("metadata")?;
        let token = metadata.get("continue").and_then(Value::as_str).unwrap_or_default().to_owned();
        let objects = list.get("items").and_then(Value::as_array).into_iter().flatten().filter_map(parse).collect();
        Some(Page { version: version(metadata)?, objects, token })
    }

    /// Returns the last key if more follow.
    fn last_key(&self) -> Option<String> {
        self.objects.keys().next_back().filter(|_| !self.token.is_empty()).cloned()
    }
}

fn object(key: &str, content: &Content, version: Option<u64>) -> Value {
    let selected = if content.is_selected { "yes" } else { "no" };
    let version = version.map(|version| version.to_string());
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": key, "labels": {"selected": selected}, "resourceVersion": version},
        "data": {"value": content.value},
    })
}

fn version_of(freshness: Freshness) -> String {
    match freshness {
        Freshness::Latest => String::new(),
        Freshness::Any => "0".to_owned(),
        Freshness::NotOlderThan(version) => version.to_string(),
    }
}

fn select(request: evenkeel::client::Request, selection: &Selection) -> evenkeel::client::Request {
    match selection {
        Selection::All => request,
        Selection::Labelled => request.query("labelSelector", "selected=yes"),
        Selection::Named(key) => request.query("fieldSelector", format!("metadata.name={key}")),
    }
}

fn reply_of(error: &Error) -> Reply {
    let Error::Api { status, .. } = error else { return Reply::Unknown };
    match status.code {
        404 => Reply::NotFound,
        409 if status.reason.as_str() == "AlreadyExists" => Reply::AlreadyExists,
        409 => Reply::Conflict,
        401 | 429 => Reply::NotDone,
        500.. => Reply::Unknown,
        code => Reply::Unexpected(code),
    }
}

fn version(metadata: &Value) -> Option<u64> {
    metadata.get("resourceVersion")?.as_str()?.parse().ok()
}

/// Returns the key and the state of a ConfigMap; `None` for anything else.
fn parse(object: &Value) -> Option<(String, ObjectState)> {
    let metadata = object.get("metadata")?;
    let text = |value: &Value, field: &str| Some(value.get(field)?.as_str()?.to_owned());
    let is_selected = metadata.get("labels")?.get("selected")?.as_str()? == "yes";
    let content = Content { value: text(object.get("data")?, "value")?, is_selected };
    let state = ObjectState { version: version(metadata)?, uid: text(metadata, "uid")?, content };
    Some((text(metadata, "name")?, state))
}

/// Returns the frame of an event; `None` if it means nothing to a client of ConfigMaps.
fn frame(event: &Value) -> Option<StreamFrame> {
    let object = event.get("object")?;
    let put = |frame: fn(String, ObjectState) -> StreamFrame| parse(object).map(|(key, state)| frame(key, state));
    match event.get("type")?.as_str()? {
        "ADDED" => put(StreamFrame::Added),
        "MODIFIED" => put(StreamFrame::Modified),
        "DELETED" => put(StreamFrame::Deleted),
        "BOOKMARK" => {
            let metadata = object.get("metadata")?;
            let ends_initial = metadata.pointer("/annotations/k8s.io~1initial-events-end").is_some();
            Some(StreamFrame::Bookmark { version: version(metadata)?, ends_initial })
        }
        _ => None,
    }
}
