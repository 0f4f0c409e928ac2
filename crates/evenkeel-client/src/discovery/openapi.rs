//! [`OpenApi`]: the schemas of a server.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use kube_core::GroupVersion;
use serde::Deserialize;

use super::documents::{Document, DocumentRequest, Documents};
use super::error::DiscoveryError;
use super::single_flight::SingleFlight;
use super::wire::{MAX_GROUP_VERSIONS, is_path_segment, read_object};
use crate::error::Error;

const ROOT: &str = "/openapi/v3";
const JSON: &str = "application/json";
/// The maximal size of cached schemas; the oldest are removed first.
const MAX_REMEMBERED: usize = 64 << 20;

/// The OpenAPI v3 documents of a server: an index, and one document per group version. Created by
/// [`Client::openapi`](crate::Client::openapi). Clones share the cache.
///
/// Documents are cached until [`invalidate`](Self::invalidate), up to 64 MiB. Errors are not cached. If a document has
/// changed since the index was read, the index is read again.
#[derive(Clone)]
pub struct OpenApi {
    inner: Arc<OpenApiInner>,
}

struct OpenApiInner {
    documents: Documents,
    index: SingleFlight<OpenApiIndex>,
    schemas: Mutex<Schemas>,
}

/// The index of documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenApiIndex {
    /// The location of each document by its path, such as `api/v1`, `apis/apps/v1` and `version`.
    pub paths: BTreeMap<String, SchemaUrl>,
    /// Documents that are not fetched, because their URL is outside of the server, and why.
    pub refused: BTreeMap<String, String>,
}

/// The location of a document on its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaUrl {
    /// Below the server's base path.
    path: String,
    query: Vec<(String, String)>,
}

impl SchemaUrl {
    /// Returns the path below the server's base path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the hash of the document, if the server states it.
    pub fn hash(&self) -> Option<&str> {
        self.query.iter().find(|(name, _)| name == "hash").map(|(_, hash)| hash.as_str())
    }
}

impl OpenApiIndex {
    /// Returns the group versions that have a document, sorted.
    pub fn group_versions(&self) -> Vec<GroupVersion> {
        let mut all: Vec<_> = self.paths.keys().filter_map(|path| group_version_of(path)).collect();
        all.sort_by(|one, other| (&one.group, &one.version).cmp(&(&other.group, &other.version)));
        all
    }

    /// Returns the location of the document of a group version.
    pub fn url(&self, group_version: &GroupVersion) -> Result<&SchemaUrl, DiscoveryError> {
        let root = if group_version.group.is_empty() { "api" } else { "apis" };
        let path = format!("{root}/{}", group_version.api_version());
        if let Some(problem) = self.refused.get(&path) {
            let what = format!("the URL of the OpenAPI document of {}", group_version.api_version());
            return Err(DiscoveryError::Unusable { what, problem: problem.clone() });
        }
        self.paths.get(&path).ok_or_else(|| DiscoveryError::NoSchema { group_version: group_version.clone() })
    }
}

/// The cached documents, bounded by their size.
#[derive(Default)]
struct Schemas {
    known: HashMap<SchemaKey, Bytes>,
    order: VecDeque<SchemaKey>,
    bytes: usize,
}

/// The URL with its hash, and the media type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SchemaKey {
    path: String,
    hash: Option<String>,
    media_type: String,
}

impl Schemas {
    fn put(&mut self, key: SchemaKey, schema: Bytes) {
        self.bytes += schema.len();
        if let Some(old) = self.known.insert(key.clone(), schema) {
            self.bytes -= old.len();
        } else {
            self.order.push_back(key);
        }
        while self.bytes > MAX_REMEMBERED {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= self.known.remove(&oldest).map_or(0, |schema| schema.len());
        }
    }
}

impl OpenApi {
    pub(super) fn new(documents: Documents) -> Self {
        let inner = OpenApiInner { documents, index: SingleFlight::default(), schemas: Mutex::default() };
        OpenApi { inner: Arc::new(inner) }
    }

    /// Returns the index.
    pub async fn index(&self) -> Result<Arc<OpenApiIndex>, DiscoveryError> {
        self.inner.index.get(self.fetch_index()).await
    }

    /// Returns the document of a group version, in JSON.
    pub async fn schema(&self, group_version: &GroupVersion) -> Result<Bytes, DiscoveryError> {
        self.schema_as(group_version, JSON).await
    }

    /// Returns the document of a group version as a JSON value.
    pub async fn schema_value(&self, group_version: &GroupVersion) -> Result<serde_json::Value, DiscoveryError> {
        let schema = self.schema(group_version).await?;
        serde_json::from_slice(&schema).map_err(|error| DiscoveryError::Unusable {
            what: format!("the OpenAPI document of {}", group_version.api_version()),
            problem: format!("it is no JSON (line {}, column {})", error.line(), error.column()),
        })
    }

    /// Returns the document of a group version in another media type, such as
    /// `application/com.github.proto-openapi.spec.v3@v1.0+protobuf`, unchanged.
    pub async fn schema_as(&self, group_version: &GroupVersion, media_type: &str) -> Result<Bytes, DiscoveryError> {
        let index = self.index().await?;
        match self.fetch(index.url(group_version)?, media_type).await {
            Err(error) if is_moved(&error) => {
                self.inner.documents.revalidate_disk();
                let index = self.inner.index.renew(&index, self.fetch_index()).await?;
                self.fetch(index.url(group_version)?, media_type).await
            }
            outcome => outcome,
        }
    }

    /// Clears the cache, so that the next call fetches from the server.
    pub fn invalidate(&self) {
        self.inner.documents.revalidate_disk();
        *self.schemas() = Schemas::default();
        self.inner.index.clear();
    }

    fn schemas(&self) -> MutexGuard<'_, Schemas> {
        self.inner.schemas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn fetch_index(&self) -> Result<OpenApiIndex, DiscoveryError> {
        let base = self.inner.documents.client().config().server.base_path();
        let read = |document: &Document| read_index(&document.body, base);
        Ok(self.inner.documents.get(DocumentRequest::new(ROOT, JSON), read, |index| !index.paths.is_empty()).await?)
    }

    async fn fetch(&self, url: &SchemaUrl, media_type: &str) -> Result<Bytes, DiscoveryError> {
        let key = SchemaKey {
            path: url.path.clone(),
            hash: url.hash().map(str::to_owned),
            media_type: media_type.to_owned(),
        };
        if let Some(schema) = self.schemas().known.get(&key) {
            return Ok(schema.clone());
        }
        let wanted = DocumentRequest { path: &url.path, query: &url.query, accept: media_type, hash: url.hash() };
        let read = |document: &Document| Ok(document.body.clone());
        // Schemas have their own cache in memory.
        let on_disk = self.inner.documents.disk().is_some();
        let is_whole = |schema: &Bytes| on_disk && !schema.is_empty();
        let schema = self.inner.documents.get(wanted, read, is_whole).await?;
        self.schemas().put(key, schema.clone());
        Ok(schema)
    }
}

impl fmt::Debug for OpenApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remembered = self.schemas().known.len();
        f.debug_struct("OpenApi").field("remembered", &remembered).field("documents", &self.inner.documents).finish()
    }
}

/// Returns whether the server redirects to a newer document: the index is outdated.
fn is_moved(error: &DiscoveryError) -> bool {
    let DiscoveryError::Api(error) = error else { return false };
    match &**error {
        Error::Redirected { .. } => true,
        error => error.status().is_some_and(|status| status.code == 301),
    }
}

fn read_index(body: &[u8], base: &str) -> Result<OpenApiIndex, String> {
    #[derive(Deserialize)]
    struct WireIndex {
        #[serde(default)]
        paths: BTreeMap<String, WireItem>,
    }
    #[derive(Deserialize)]
    struct WireItem {
        #[serde(default, rename = "serverRelativeURL")]
        url: String,
    }
    let index: WireIndex = read_object("index of OpenAPI documents", body)?;
    if index.paths.len() > MAX_GROUP_VERSIONS {
        return Err(format!("it has {} documents, more than the limit", index.paths.len()));
    }
    let mut read = OpenApiIndex::default();
    for (path, item) in index.paths {
        match server_relative(&item.url, base) {
            Ok(url) => drop(read.paths.insert(path, url)),
            Err(problem) => drop(read.refused.insert(path, problem.to_owned())),
        }
    }
    Ok(read)
}

/// Validates a URL of the server.
///
/// It may start with the server's base path, or with `/openapi/v3` below it. Anything else would send credentials to
/// another program at that address.
fn server_relative(url: &str, base: &str) -> Result<SchemaUrl, &'static str> {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let path = match path.strip_prefix(base).filter(|rest| rest.starts_with('/')) {
        Some(rest) => rest,
        None if path.starts_with("/openapi/v3/") => path,
        None => return Err("it is outside of the server"),
    };
    // An empty first segment would be another host.
    if !path.split('/').skip(1).all(is_path_segment) {
        return Err("it has segments that are invalid in a path");
    }
    let query = form_urlencoded::parse(query.as_bytes());
    let query = query.map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
    Ok(SchemaUrl { path: path.to_owned(), query })
}

/// Returns the group version of a path of the index, if it has one.
fn group_version_of(path: &str) -> Option<GroupVersion> {
    let mut segments = path.split('/');
    let group = match segments.next()? {
        "api" => "",
        "apis" => segments.next()?,
        _ => return None,
    };
    let version = segments.next()?;
    let whole = segments.next().is_none() && !version.is_empty();
    whole.then(|| GroupVersion::gv(group, version))
}

#[cfg(test)]
mod tests;
