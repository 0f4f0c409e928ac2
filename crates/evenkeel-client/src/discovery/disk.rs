//! [`DiskCache`]: discovery and OpenAPI documents on disk.

use std::collections::HashSet;
use std::fmt::{self, Write as _};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::documents::Document;

/// The maximal size of a file.
const MAX_FILE: u64 = 64 << 20;
/// The maximal number of files; the oldest are removed first.
const MAX_FILES: usize = 4096;
/// The length of a SHA-256 digest.
const DIGEST: usize = 32;

/// A directory of documents, so that the next process need not fetch them.
///
/// A document younger than the time to live is used without a request. An older one is revalidated: the request carries
/// its ETag, and the response is short if nothing has changed. After
/// [`CachedDiscovery::invalidate`](super::CachedDiscovery::invalidate) only files that this process has written since
/// are used without a request.
///
/// The cache owns the directory: it creates it, readable by its owner only (0700, files 0600). File names are hashes of
/// the server's URL and the path, so that one directory serves any number of servers and no server can choose a file
/// name. Every file starts with a digest of the rest. Links are not followed. Files that are damaged, foreign or
/// unreadable are ignored, and write errors are ignored: a failing cache costs time only. Files are written atomically,
/// so that processes can share the directory. It holds a few thousand files at most; the oldest are removed first.
///
/// Clones share the cache.
#[derive(Clone)]
pub struct DiskCache {
    inner: Arc<DiskCacheInner>,
}

struct DiskCacheInner {
    directory: PathBuf,
    ttl: Duration,
    now: Box<dyn Fn() -> SystemTime + Send + Sync>,
    trust: Mutex<Trust>,
}

/// Which files are used without revalidation.
#[derive(Default)]
struct Trust {
    /// Only those in `own`.
    only_own: bool,
    /// The files that this process has written or revalidated since the last invalidation.
    own: HashSet<String>,
    /// Whether a file of another process was used.
    foreign_used: bool,
}

/// The result of a lookup.
#[derive(Debug)]
pub(super) enum CacheLookup {
    /// A document to use.
    Valid(Document),
    /// A document to revalidate.
    Old(Document),
    /// No document.
    Nothing,
}

/// The header of a file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileHead {
    key: String,
    media_type: String,
    etag: Option<String>,
}

impl DiskCache {
    /// Creates a cache in this directory. The directory is not touched before the first use.
    pub fn new(directory: impl Into<PathBuf>, ttl: Duration) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the age of files is counted on the wall clock")]
        let now = SystemTime::now;
        Self::with_clock(directory, ttl, now)
    }

    /// Creates a cache with another clock.
    pub fn with_clock(
        directory: impl Into<PathBuf>,
        ttl: Duration,
        now: impl Fn() -> SystemTime + Send + Sync + 'static,
    ) -> Self {
        let inner = DiskCacheInner { directory: directory.into(), ttl, now: Box::new(now), trust: Mutex::default() };
        DiskCache { inner: Arc::new(inner) }
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Path {
        &self.inner.directory
    }

    /// Returns whether every file that was used since the last invalidation was written by this process.
    pub(super) fn is_fresh(&self) -> bool {
        !self.inner.trust().foreign_used
    }

    /// Requires revalidation of all files that this process does not write from now on.
    pub(super) fn invalidate(&self) {
        *self.inner.trust() = Trust { only_own: true, ..Trust::default() };
    }

    pub(super) async fn load(&self, key: &str) -> CacheLookup {
        let (inner, key) = (Arc::clone(&self.inner), key.to_owned());
        // Fails while the runtime shuts down.
        tokio::task::spawn_blocking(move || inner.load(&key)).await.unwrap_or(CacheLookup::Nothing)
    }

    pub(super) async fn store(&self, key: &str, document: &Document) {
        let (inner, key, document) = (Arc::clone(&self.inner), key.to_owned(), document.clone());
        let stored = tokio::task::spawn_blocking(move || inner.store(&key, &document)).await;
        if let Ok(Err(error)) = stored {
            let directory = self.inner.directory.display();
            tracing::debug!(%directory, %error, "caching a document failed; it will be fetched again");
        }
    }
}

impl fmt::Debug for DiskCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskCache").field("directory", &self.inner.directory).field("ttl", &self.inner.ttl).finish()
    }
}

impl DiskCacheInner {
    fn trust(&self) -> MutexGuard<'_, Trust> {
        self.trust.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn load(&self, key: &str) -> CacheLookup {
        let name = file_name(key);
        let read = private_directory(&self.directory).and_then(|()| read_file(&self.directory.join(&name)));
        let (contents, modified) = match read {
            Ok(read) => read,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    let directory = self.directory.display();
                    tracing::debug!(%directory, name, %error, "cached document ignored");
                }
                return CacheLookup::Nothing;
            }
        };
        let Some(document) = decode(key, contents) else { return CacheLookup::Nothing };
        // A time in the future is not trusted.
        let young = (self.now)().duration_since(modified).is_ok_and(|age| age <= self.ttl);
        let mut trust = self.trust();
        let own = trust.own.contains(&name);
        if !young || (trust.only_own && !own) {
            return CacheLookup::Old(document);
        }
        trust.foreign_used |= !own;
        CacheLookup::Valid(document)
    }

    fn store(&self, key: &str, document: &Document) -> io::Result<()> {
        let contents = encode(key, document)?;
        make_directory(&self.directory)?;
        private_directory(&self.directory)?;
        let name = file_name(key);
        let temporary = self.directory.join(format!("tmp-{}-{:016x}", std::process::id(), fastrand::u64(..)));
        let written = write_file(&temporary, &contents, (self.now)())
            .and_then(|()| fs::rename(&temporary, self.directory.join(&name)));
        if written.is_err() {
            // The first error is returned.
            let _ = fs::remove_file(&temporary);
        }
        written?;
        self.trust().own.insert(name);
        prune(&self.directory)
    }
}

/// A file name that no server can choose.
fn file_name(key: &str) -> String {
    let mut name = String::with_capacity(2 * DIGEST);
    for byte in Sha256::digest(key) {
        // Writing to a String does not fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

fn encode(key: &str, document: &Document) -> io::Result<Vec<u8>> {
    let head = FileHead {
        key: key.to_owned(),
        media_type: document.media_type.to_string(),
        etag: document.etag.as_deref().map(str::to_owned),
    };
    let mut contents = vec![0; DIGEST];
    serde_json::to_writer(&mut contents, &head)?;
    contents.push(b'\n');
    contents.extend_from_slice(&document.body);
    if contents.len() as u64 > MAX_FILE {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the document is too large for the cache"));
    }
    let (digest, rest) = contents.split_at_mut(DIGEST);
    digest.copy_from_slice(&Sha256::digest(rest));
    Ok(contents)
}

fn decode(key: &str, contents: Vec<u8>) -> Option<Document> {
    let (digest, rest) = contents.split_at_checked(DIGEST)?;
    if Sha256::digest(rest)[..] != *digest {
        return None;
    }
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let head: FileHead = serde_json::from_slice(rest.get(..end)?).ok()?;
    if head.key != key {
        return None;
    }
    let body = Bytes::from(contents).slice(DIGEST + end + 1..);
    Some(Document { media_type: head.media_type.into(), etag: head.etag.map(Into::into), body })
}

/// Reads a regular file of this user, with its modification time; rejects links and files that others may write.
fn read_file(path: &Path) -> io::Result<(Vec<u8>, SystemTime)> {
    let before = fs::symlink_metadata(path)?;
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    // A link that was created between the two checks would open another file.
    if !before.is_file() || !metadata.is_file() || !is_same(&before, &metadata) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no regular file"));
    }
    if is_open_to_others(&metadata) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is writable by others than its owner"));
    }
    if metadata.len() > MAX_FILE {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large"));
    }
    let mut contents = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    file.take(MAX_FILE).read_to_end(&mut contents)?;
    Ok((contents, metadata.modified()?))
}

fn write_file(path: &Path, contents: &[u8], now: SystemTime) -> io::Result<()> {
    let mut options = OpenOptions::new();
    // Fails on existing files, links included.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(contents)?;
    file.set_modified(now)
}

fn make_directory(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Checks that the directory is a directory, not a link, and accessible to its owner only.
fn private_directory(path: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "the cache directory is a link or no directory"));
    }
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o077 != 0 {
        // Fails for a directory of another user.
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    }
    Ok(())
}

#[cfg(unix)]
fn is_same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn is_same(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    true
}

#[cfg(unix)]
fn is_open_to_others(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o022 != 0
}

#[cfg(not(unix))]
fn is_open_to_others(_: &fs::Metadata) -> bool {
    false
}

/// Removes the oldest files beyond the limit.
fn prune(directory: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        // Another process may be removing files too.
        if let Ok(modified) = entry.metadata().and_then(|metadata| metadata.modified()) {
            files.push((modified, entry.path()));
        }
    }
    let excess = files.len().saturating_sub(MAX_FILES);
    if excess > 0 {
        files.sort_unstable();
        for (_, path) in files.iter().take(excess) {
            // A file that cannot be removed is tried again at the next pruning.
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
