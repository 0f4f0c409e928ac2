//! [`OpenApi`]: the schemas of what a server serves.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use kube_core::GroupVersion;
use serde::Deserialize;

use super::documents::{Document, Documents, Wanted};
use super::error::DiscoveryError;
use super::shared::Shared;
use super::wire::{MAX_GROUP_VERSIONS, can_stand_in_path, read_object};
use crate::error::Error;

const ROOT: &str = "/openapi/v3";
const JSON: &str = "application/json";
/// The most bytes of schemas that are remembered; the oldest go first.
const MAX_REMEMBERED: usize = 64 << 20;

/// The OpenAPI v3 documents of a server: an index, and one document per version of a group. Made by
/// [`Client::openapi`](crate::Client::openapi). Clones share what they remember.
///
/// What was fetched is remembered until [`invalidate`](Self::invalidate), as far as it fits into 64 MiB. Failures are not
/// remembered. If a document has changed since the index was read, the index is read again.
#[derive(Clone)]
pub struct OpenApi {
    inner: Arc<Inner>,
}

struct Inner {
    documents: Documents,
    index: Shared<OpenApiIndex>,
    schemas: Mutex<Schemas>,
}

/// The documents that there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenApiIndex {
    /// Where the document of each path is. The paths are like `api/v1` and `apis/apps/v1`; there are others, such as
    /// `version`.
    pub paths: BTreeMap<String, SchemaUrl>,
    /// Paths whose document is not fetched, because its URL leads away from the server, and what is wrong with it.
    pub refused: BTreeMap<String, String>,
}

/// Where a document is, on the server that named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaUrl {
    /// Behind the server's base path.
    path: String,
    query: Vec<(String, String)>,
}

impl SchemaUrl {
    /// The path, behind the server's base path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The hash of the document, if the server names it.
    pub fn hash(&self) -> Option<&str> {
        self.query.iter().find(|(name, _)| name == "hash").map(|(_, hash)| hash.as_str())
    }
}

impl OpenApiIndex {
    /// The group versions that have a document, sorted.
    pub fn group_versions(&self) -> Vec<GroupVersion> {
        let mut all: Vec<_> = self.paths.keys().filter_map(|path| group_version_of(path)).collect();
        all.sort_by(|one, other| (&one.group, &one.version).cmp(&(&other.group, &other.version)));
        all
    }

    /// Where the document of a group version is.
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

/// What was fetched. Bounded by its bytes.
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
        let inner = Inner { documents, index: Shared::default(), schemas: Mutex::default() };
        OpenApi { inner: Arc::new(inner) }
    }

    /// Which documents there are.
    pub async fn index(&self) -> Result<Arc<OpenApiIndex>, DiscoveryError> {
        self.inner.index.get(self.fetch_index()).await
    }

    /// The document of a group version, in JSON.
    pub async fn schema(&self, group_version: &GroupVersion) -> Result<Bytes, DiscoveryError> {
        self.schema_as(group_version, JSON).await
    }

    /// The document of a group version, in JSON, as a tree.
    pub async fn schema_value(&self, group_version: &GroupVersion) -> Result<serde_json::Value, DiscoveryError> {
        let schema = self.schema(group_version).await?;
        serde_json::from_slice(&schema).map_err(|error| DiscoveryError::Unusable {
            what: format!("the OpenAPI document of {}", group_version.api_version()),
            problem: format!("it is no JSON (line {}, column {})", error.line(), error.column()),
        })
    }

    /// The document of a group version in a media type of your choice, such as
    /// `application/com.github.proto-openapi.spec.v3@v1.0+protobuf`, as the server sends it.
    pub async fn schema_as(&self, group_version: &GroupVersion, media_type: &str) -> Result<Bytes, DiscoveryError> {
        let index = self.index().await?;
        match self.fetch(index.url(group_version)?, media_type).await {
            Err(error) if is_moved(&error) => {
                self.inner.documents.distrust_disk();
                let index = self.inner.index.renew(&index, self.fetch_index()).await?;
                self.fetch(index.url(group_version)?, media_type).await
            }
            outcome => outcome,
        }
    }

    /// Forgets everything, so that the next call asks the server.
    pub fn invalidate(&self) {
        self.inner.documents.distrust_disk();
        *self.schemas() = Schemas::default();
        self.inner.index.clear();
    }

    fn schemas(&self) -> MutexGuard<'_, Schemas> {
        self.inner.schemas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn fetch_index(&self) -> Result<OpenApiIndex, DiscoveryError> {
        let base = self.inner.documents.client().config().server.base_path();
        let read = |document: &Document| read_index(&document.body, base);
        Ok(self.inner.documents.get(Wanted::new(ROOT, JSON), read, |index| !index.paths.is_empty()).await?)
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
        let wanted = Wanted { path: &url.path, query: &url.query, accept: media_type, hash: url.hash() };
        let read = |document: &Document| Ok(document.body.clone());
        // In memory there is a place for schemas already.
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

/// The server points to the document's new state: our index is of yesterday.
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
        return Err(format!("it names {} documents, more than are accepted", index.paths.len()));
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

/// A URL that the server chose, if it leads to where the server is and to nowhere else.
///
/// It may begin with the server's base path, or with `/openapi/v3` behind it. Anything else would have us send our
/// credentials to whatever else there is at that address.
fn server_relative(url: &str, base: &str) -> Result<SchemaUrl, &'static str> {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let path = match path.strip_prefix(base).filter(|rest| rest.starts_with('/')) {
        Some(rest) => rest,
        None if path.starts_with("/openapi/v3/") => path,
        None => return Err("it leads away from the server"),
    };
    // An empty segment at the beginning would name another host.
    if !path.split('/').skip(1).all(can_stand_in_path) {
        return Err("it has parts that cannot stand in a path");
    }
    let query = form_urlencoded::parse(query.as_bytes());
    let query = query.map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
    Ok(SchemaUrl { path: path.to_owned(), query })
}

/// The group version that a path of the index belongs to, if it belongs to one.
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
