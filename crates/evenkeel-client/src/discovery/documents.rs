//! Fetches documents, with a timeout, a cache and ETags.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH};

use super::disk::{CacheLookup, DiskCache};
use crate::client::Client;
use crate::error::{Error, RequestName};
use crate::rest::{Path, Response};

/// The default timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(32);
/// The maximal number of documents in memory: the two of aggregated discovery and the OpenAPI index, with room to
/// spare.
const MAX_KEPT: usize = 8;
/// The maximal size of a document in memory.
const MAX_KEPT_BYTES: usize = 16 << 20;
/// The maximal length of an ETag.
const MAX_ETAG: usize = 1024;

/// A document. `Debug` shows its size, not its bytes.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Document {
    pub(super) media_type: Box<str>,
    /// The ETag.
    pub(super) etag: Option<Box<str>>,
    pub(super) body: Bytes,
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Document({}, {} bytes, tag {:?})", self.media_type, self.body.len(), self.etag)
    }
}

/// A request for a document.
#[derive(Clone, Copy, Debug)]
pub(super) struct DocumentRequest<'a> {
    pub(super) path: &'a str,
    pub(super) query: &'a [(String, String)],
    pub(super) accept: &'a str,
    /// The expected ETag, if known: a cached document with that tag is valid at any age, one with another never.
    pub(super) hash: Option<&'a str>,
}

impl<'a> DocumentRequest<'a> {
    pub(super) fn new(path: &'a str, accept: &'a str) -> Self {
        DocumentRequest { path, query: &[], accept, hash: None }
    }
}

/// Fetches documents. Clones share the cache.
#[derive(Clone, Debug)]
pub(super) struct Documents {
    client: Client,
    pub(super) timeout: Duration,
    cache: Option<Arc<DocumentCache>>,
}

/// The cache of documents.
#[derive(Debug)]
struct DocumentCache {
    /// Documents with ETags. They are always revalidated.
    memory: Mutex<HashMap<String, Document>>,
    disk: Option<DiskCache>,
}

impl DocumentCache {
    fn memory(&self) -> MutexGuard<'_, HashMap<String, Document>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn find(&self, key: &str, hash: Option<&str>) -> CacheLookup {
        let found = match &self.disk {
            Some(disk) => disk.load(key).await,
            None => CacheLookup::Nothing,
        };
        match (found, hash) {
            (CacheLookup::Valid(document) | CacheLookup::Old(document), Some(hash)) => {
                let same = document.etag.as_deref().is_some_and(|etag| etag.trim_matches('"') == hash);
                if same { CacheLookup::Valid(document) } else { CacheLookup::Old(document) }
            }
            (CacheLookup::Nothing, _) => self.memory().get(key).cloned().map_or(CacheLookup::Nothing, CacheLookup::Old),
            (found, None) => found,
        }
    }

    async fn store(&self, key: String, document: &Document) {
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
    /// Creates a fetcher without a cache.
    pub(super) fn live(client: &Client) -> Self {
        let documents = Documents { client: client.clone(), timeout: TIMEOUT, cache: None };
        documents.within(client.config().timeout.unwrap_or_default())
    }

    /// Sets the timeout of every request; zero for the default.
    pub(super) fn within(mut self, timeout: Duration) -> Self {
        self.timeout = if timeout.is_zero() { TIMEOUT } else { timeout };
        self
    }

    /// Adds a cache: in memory for documents with an ETag, or on disk for all.
    pub(super) fn keeping(mut self, disk: Option<DiskCache>) -> Self {
        self.cache = Some(Arc::new(DocumentCache { memory: Mutex::default(), disk }));
        self
    }

    pub(super) fn without_cache(mut self) -> Self {
        self.cache = None;
        self
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn disk(&self) -> Option<&DiskCache> {
        self.cache.as_ref()?.disk.as_ref()
    }

    /// Requires revalidation of files that this process has not written.
    pub(super) fn revalidate_disk(&self) {
        if let Some(disk) = self.disk() {
            disk.invalidate();
        }
    }

    /// Returns a document, decoded by `read`. It is cached if `is_whole` returns true. A cached document that cannot be
    /// decoded is ignored.
    pub(super) async fn get<T>(
        &self,
        target: DocumentRequest<'_>,
        read: impl Fn(&Document) -> Result<T, String>,
        is_whole: impl Fn(&T) -> bool,
    ) -> Result<T, Error> {
        let Some(cache) = &self.cache else {
            let document = document(&self.fetch(target, None).await?);
            return read(&document).map_err(|problem| self.unreadable(target, problem));
        };
        let key = format!("{} {} {}", self.client.config().server, target.path, target.accept);
        let known = match cache.find(&key, target.hash).await {
            CacheLookup::Nothing => None,
            CacheLookup::Old(document) => Some(document).filter(|document| document.etag.is_some()),
            CacheLookup::Valid(document) => match read(&document) {
                Ok(value) => return Ok(value),
                Err(_) => None,
            },
        };
        if let Some(known) = &known {
            match self.fetch(target, known.etag.as_deref()).await {
                Ok(response) => return self.take(cache, key, target, &response, read, is_whole).await,
                Err(error) if !is_not_modified(&error) => return Err(error),
                Err(_) => {
                    if let Ok(value) = read(known) {
                        // Stored again, so that its age starts now.
                        cache.store(key, known).await;
                        return Ok(value);
                    }
                }
            }
        }
        let response = self.fetch(target, None).await?;
        self.take(cache, key, target, &response, read, is_whole).await
    }

    async fn take<T>(
        &self,
        cache: &DocumentCache,
        key: String,
        target: DocumentRequest<'_>,
        response: &Response,
        read: impl Fn(&Document) -> Result<T, String>,
        is_whole: impl Fn(&T) -> bool,
    ) -> Result<T, Error> {
        let document = document(response);
        let value = read(&document).map_err(|problem| self.unreadable(target, problem))?;
        if is_whole(&value) {
            cache.store(key, &document).await;
        }
        Ok(value)
    }

    async fn fetch(&self, target: DocumentRequest<'_>, etag: Option<&str>) -> Result<Response, Error> {
        let mut request = self.client.request(Method::GET, Path::raw(target.path)).accept(target.accept);
        for (name, value) in target.query {
            request = request.query(name.clone(), value.as_str());
        }
        if let Some(etag) = etag {
            request = request.header(IF_NONE_MATCH, etag);
        }
        match tokio::time::timeout(self.timeout, request.send()).await {
            Ok(response) => response,
            Err(_) => Err(Error::Timeout { request: self.name(target), limit: self.timeout, previous: None }),
        }
    }

    fn name(&self, target: DocumentRequest<'_>) -> RequestName {
        RequestName::new(&Method::GET, format!("{}{}", self.client.config().server.base_path(), target.path))
    }

    fn unreadable(&self, target: DocumentRequest<'_>, problem: String) -> Error {
        Error::Unreadable { request: self.name(target), problem }
    }
}

fn is_not_modified(error: &Error) -> bool {
    error.status().is_some_and(|status| status.code == 304)
}

fn document(response: &Response) -> Document {
    let text = |name| response.headers().get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
    Document {
        media_type: text(CONTENT_TYPE).unwrap_or_default().into(),
        etag: text(ETAG).filter(|etag| etag.len() <= MAX_ETAG).map(Into::into),
        body: response.bytes().clone(),
    }
}
