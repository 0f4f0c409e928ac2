//! [`DiskCache`]: documents of discovery and OpenAPI that outlive the process.

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

/// The largest file that is written or read.
const MAX_FILE: u64 = 64 << 20;
/// How many files the directory may hold; beyond that the oldest go.
const MAX_FILES: usize = 4096;
/// The bytes of a SHA-256.
const DIGEST: usize = 32;

/// A directory with documents that servers sent, so that the next process need not ask for them again.
///
/// A document is taken from it without asking the server while it is younger than the time to live. An older one is
/// still good for asking: the server is sent the document's tag and answers in a few bytes if nothing has changed. After
/// [`CachedDiscovery::invalidate`](super::CachedDiscovery::invalidate) no file is taken on trust that was not written by
/// this process since.
///
/// The directory is the cache's own: it is made if need be, and nobody but its owner may look into it (0700, files
/// 0600). File names are hashes of the server's URL and the path, so one directory serves any number of servers, and no
/// name that a server makes up becomes a name of a file. Every file begins with a digest of the rest. Links are not
/// followed. Whatever is damaged, foreign, or cannot be read counts as absent, and what cannot be written is not
/// written: a cache that fails costs time and nothing else. Files appear whole or not at all, so any number of processes
/// may share the directory. It holds a few thousand files at most; the oldest go first.
///
/// Clones are the same cache.
#[derive(Clone)]
pub struct DiskCache {
    inner: Arc<Inner>,
}

struct Inner {
    directory: PathBuf,
    ttl: Duration,
    now: Box<dyn Fn() -> SystemTime + Send + Sync>,
    trust: Mutex<Trust>,
}

/// Which files may be believed.
#[derive(Default)]
struct Trust {
    /// Only those in `own`.
    only_own: bool,
    /// What this process wrote, or had confirmed by the server, since the last invalidation.
    own: HashSet<String>,
    /// A file of another process was taken on trust.
    foreign_used: bool,
}

/// What the cache has.
#[derive(Debug)]
pub(super) enum Found {
    /// A document that is taken as it is.
    Valid(Document),
    /// A document that the server should be asked about.
    Old(Document),
    /// Nothing.
    Nothing,
}

/// What stands before the document.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileHead {
    key: String,
    media_type: String,
    etag: Option<String>,
}

impl DiskCache {
    /// A cache in this directory. Nothing is touched before it is used.
    pub fn new(directory: impl Into<PathBuf>, ttl: Duration) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the age of files is counted on the wall clock")]
        let now = SystemTime::now;
        Self::with_clock(directory, ttl, now)
    }

    /// A cache that takes the time from somewhere else.
    pub fn with_clock(
        directory: impl Into<PathBuf>,
        ttl: Duration,
        now: impl Fn() -> SystemTime + Send + Sync + 'static,
    ) -> Self {
        let inner = Inner { directory: directory.into(), ttl, now: Box::new(now), trust: Mutex::default() };
        DiskCache { inner: Arc::new(inner) }
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.inner.directory
    }

    /// Whether everything that was taken from here since the last invalidation had been put here by this process.
    pub(super) fn is_fresh(&self) -> bool {
        !self.inner.trust().foreign_used
    }

    /// From now on trusts only what this process writes.
    pub(super) fn invalidate(&self) {
        *self.inner.trust() = Trust { only_own: true, ..Trust::default() };
    }

    pub(super) async fn load(&self, key: &str) -> Found {
        let (inner, key) = (Arc::clone(&self.inner), key.to_owned());
        // Fails if the runtime is shutting down: then nobody waits for the answer.
        tokio::task::spawn_blocking(move || inner.load(&key)).await.unwrap_or(Found::Nothing)
    }

    pub(super) async fn store(&self, key: &str, document: &Document) {
        let (inner, key, document) = (Arc::clone(&self.inner), key.to_owned(), document.clone());
        let stored = tokio::task::spawn_blocking(move || inner.store(&key, &document)).await;
        if let Ok(Err(error)) = stored {
            let directory = self.inner.directory.display();
            tracing::debug!(%directory, %error, "a document could not be cached; it will be fetched again");
        }
    }
}

impl fmt::Debug for DiskCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskCache").field("directory", &self.inner.directory).field("ttl", &self.inner.ttl).finish()
    }
}

impl Inner {
    fn trust(&self) -> MutexGuard<'_, Trust> {
        self.trust.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn load(&self, key: &str) -> Found {
        let name = file_name(key);
        let read = private_directory(&self.directory).and_then(|()| read_file(&self.directory.join(&name)));
        let (contents, modified) = match read {
            Ok(read) => read,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    let directory = self.directory.display();
                    tracing::debug!(%directory, name, %error, "a cached document is not used");
                }
                return Found::Nothing;
            }
        };
        let Some(document) = decode(key, contents) else { return Found::Nothing };
        // What comes from the future has an age that nobody knows.
        let young = (self.now)().duration_since(modified).is_ok_and(|age| age <= self.ttl);
        let mut trust = self.trust();
        let own = trust.own.contains(&name);
        if !young || (trust.only_own && !own) {
            return Found::Old(document);
        }
        trust.foreign_used |= !own;
        Found::Valid(document)
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
            // The first error is the one to tell.
            let _ = fs::remove_file(&temporary);
        }
        written?;
        self.trust().own.insert(name);
        prune(&self.directory)
    }
}

/// A name that tells nothing and that no server can choose.
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

/// Reads a regular file of ours with its time of change; refuses links and what others may write.
fn read_file(path: &Path) -> io::Result<(Vec<u8>, SystemTime)> {
    let before = fs::symlink_metadata(path)?;
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    // A link that was put there between the two looks would lead to another file.
    if !before.is_file() || !metadata.is_file() || !is_same(&before, &metadata) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no regular file"));
    }
    if is_open_to_others(&metadata) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "others than its owner may change it"));
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
    // Fails on whatever is there already, links included.
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

/// Makes sure that the directory is one, not a link to one, and its owner's alone.
fn private_directory(path: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "the cache's directory is none, or a link"));
    }
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o077 != 0 {
        // Only the owner can do this, so it fails for a directory that somebody else put there.
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
            // One that cannot be removed, or is gone, is met again at the next pruning.
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
