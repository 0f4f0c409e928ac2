//! Fetching documents: within a time, from a cache where that is allowed, and no bytes twice where the server has tags.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH};

use super::disk::{DiskCache, Found};
use crate::client::Client;
use crate::error::{CallName, Error};
use crate::rest::{Answer, Path};

/// How long one request may take unless the configuration says otherwise.
const TIMEOUT: Duration = Duration::from_secs(32);
/// How many documents are kept in memory for their tags: the two of aggregated discovery and the index of OpenAPI, with
/// room to spare.
const MAX_KEPT: usize = 8;
/// The largest document that is kept in memory.
const MAX_KEPT_BYTES: usize = 16 << 20;
/// The longest tag that is sent back.
const MAX_ETAG: usize = 1024;

/// What a server sent. `Debug` shows its size, not its bytes.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Document {
    pub(super) media_type: Box<str>,
    /// What the server calls this state of the document.
    pub(super) etag: Option<Box<str>>,
    pub(super) body: Bytes,
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Document({}, {} bytes, tag {:?})", self.media_type, self.body.len(), self.etag)
    }
}

/// Which document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) path: &'a str,
    pub(super) query: &'a [(String, String)],
    pub(super) accept: &'a str,
    /// What its tag is known to be, if it is known: a cached document with that tag is good at any age, and one with
    /// another at none.
    pub(super) hash: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    pub(super) fn new(path: &'a str, accept: &'a str) -> Self {
        Wanted { path, query: &[], accept, hash: None }
    }
}

/// Fetches documents. Clones share what they keep.
#[derive(Clone, Debug)]
pub(super) struct Documents {
    client: Client,
    pub(super) timeout: Duration,
    kept: Option<Arc<Kept>>,
}

/// What is kept of documents that were fetched.
#[derive(Debug)]
struct Kept {
    /// Documents with tags. They are never used without asking the server.
    memory: Mutex<HashMap<String, Document>>,
    disk: Option<DiskCache>,
}

impl Kept {
    fn memory(&self) -> MutexGuard<'_, HashMap<String, Document>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn find(&self, key: &str, hash: Option<&str>) -> Found {
        let found = match &self.disk {
            Some(disk) => disk.load(key).await,
            None => Found::Nothing,
        };
        match (found, hash) {
            (Found::Valid(document) | Found::Old(document), Some(hash)) => {
                let same = document.etag.as_deref().is_some_and(|etag| etag.trim_matches('"') == hash);
                if same { Found::Valid(document) } else { Found::Old(document) }
            }
            (Found::Nothing, _) => self.memory().get(key).cloned().map_or(Found::Nothing, Found::Old),
            (found, None) => found,
        }
    }

    async fn keep(&self, key: String, document: &Document) {
        if let Some(disk) = &self.disk {
            disk.store(&key, document).await;
        } else if document.etag.is_some() && document.body.len() <= MAX_KEPT_BYTES {
            let mut memory = self.memory();
            if memory.len() < MAX_KEPT || memory.contains_key(&key) {
                memory.insert(key, document.clone());
            }
        }
    }
}

impl Documents {
    /// Asks the server every time.
    pub(super) fn live(client: &Client) -> Self {
        let documents = Documents { client: client.clone(), timeout: TIMEOUT, kept: None };
        documents.within(client.config().timeout.unwrap_or_default())
    }

    /// Gives every request this much time; zero stands for the default.
    pub(super) fn within(mut self, timeout: Duration) -> Self {
        self.timeout = if timeout.is_zero() { TIMEOUT } else { timeout };
        self
    }

    /// Keeps what has a tag in memory, or everything on disk if there is one.
    pub(super) fn keeping(mut self, disk: Option<DiskCache>) -> Self {
        self.kept = Some(Arc::new(Kept { memory: Mutex::default(), disk }));
        self
    }

    pub(super) fn without_cache(mut self) -> Self {
        self.kept = None;
        self
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn disk(&self) -> Option<&DiskCache> {
        self.kept.as_ref()?.disk.as_ref()
    }

    /// From now on asks the server about whatever this process has not written to disk since.
    pub(super) fn distrust_disk(&self) {
        if let Some(disk) = self.disk() {
            disk.invalidate();
        }
    }

    /// The document, read by `read`, whose error is what is wrong with it. It is kept if `is_whole` says that it is worth
    /// it. What was kept and cannot be read any more counts as absent.
    pub(super) async fn get<T>(
        &self,
        wanted: Wanted<'_>,
        read: impl Fn(&Document) -> Result<T, String>,
        is_whole: impl Fn(&T) -> bool,
    ) -> Result<T, Error> {
        let Some(kept) = &self.kept else {
            let document = document(&self.ask(wanted, None).await?);
            return read(&document).map_err(|problem| self.unreadable(wanted, problem));
        };
        let key = format!("{} {} {}", self.client.config().server, wanted.path, wanted.accept);
        let known = match kept.find(&key, wanted.hash).await {
            Found::Nothing => None,
            Found::Old(document) => Some(document).filter(|document| document.etag.is_some()),
            Found::Valid(document) => match read(&document) {
                Ok(value) => return Ok(value),
                Err(_) => None,
            },
        };
        if let Some(known) = &known {
            match self.ask(wanted, known.etag.as_deref()).await {
                Ok(answer) => return self.take(kept, key, wanted, &answer, read, is_whole).await,
                Err(error) if !is_not_modified(&error) => return Err(error),
                Err(_) => {
                    if let Ok(value) = read(known) {
                        // Once more, so that its age is counted from now.
                        kept.keep(key, known).await;
                        return Ok(value);
                    }
                }
            }
        }
        let answer = self.ask(wanted, None).await?;
        self.take(kept, key, wanted, &answer, read, is_whole).await
    }

    async fn take<T>(
        &self,
        kept: &Kept,
        key: String,
        wanted: Wanted<'_>,
        answer: &Answer,
        read: impl Fn(&Document) -> Result<T, String>,
        is_whole: impl Fn(&T) -> bool,
    ) -> Result<T, Error> {
        let document = document(answer);
        let value = read(&document).map_err(|problem| self.unreadable(wanted, problem))?;
        if is_whole(&value) {
            kept.keep(key, &document).await;
        }
        Ok(value)
    }

    async fn ask(&self, wanted: Wanted<'_>, etag: Option<&str>) -> Result<Answer, Error> {
        let mut request = self.client.request(Method::GET, Path::raw(wanted.path)).accept(wanted.accept);
        for (name, value) in wanted.query {
            request = request.query(name.clone(), value.as_str());
        }
        if let Some(etag) = etag {
            request = request.header(IF_NONE_MATCH, etag);
        }
        match tokio::time::timeout(self.timeout, request.send()).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::Timeout { call: self.call(wanted), limit: self.timeout, previous: None }),
        }
    }

    fn call(&self, wanted: Wanted<'_>) -> CallName {
        CallName::new(&Method::GET, format!("{}{}", self.client.config().server.base_path(), wanted.path))
    }

    fn unreadable(&self, wanted: Wanted<'_>, problem: String) -> Error {
        Error::Unreadable { call: self.call(wanted), problem }
    }
}

fn is_not_modified(error: &Error) -> bool {
    error.status().is_some_and(|status| status.code == 304)
}

fn document(answer: &Answer) -> Document {
    let text = |name| answer.headers().get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
    Document {
        media_type: text(CONTENT_TYPE).unwrap_or_default().into(),
        etag: text(ETAG).filter(|etag| etag.len() <= MAX_ETAG).map(Into::into),
        body: answer.bytes().clone(),
    }
}
