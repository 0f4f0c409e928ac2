//! [`FileCertificateStore`]: certificates in a directory, with the layout of client-go's `FileStore`.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use zeroize::Zeroizing;

use super::store::{CertificatePair, CertificateStore};
use crate::secret::Secret;
use crate::small_file;
use crate::tls::MAX_PEM;
use crate::transport::BoxError;

/// Stores certificates in a directory, in the layout of client-go's `FileStore`.
///
/// | file | content |
/// |---|---|
/// | `NAME-current.pem` | a link to the current pair; a plain file where there are no links |
/// | `NAME-TIME.pem` | the certificate and its key, of the current and of the previous pair |
/// | `NAME-pending.key` | the key of the pending request |
///
/// # Guarantees
/// - Files have mode 0600, and a directory that is created has mode 0700.
/// - `NAME-current.pem` is replaced atomically by a rename, after the pair is on disk. Other programs can read it at any
///   time, with client-go as well.
/// - Pairs older than the previous one are removed.
#[derive(Debug)]
pub struct FileCertificateStore {
    directory: PathBuf,
    name: String,
}

/// A file of the store, and what failed.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
struct FileProblem {
    path: PathBuf,
    problem: &'static str,
    #[source]
    source: Option<io::Error>,
}

impl FileCertificateStore {
    /// Returns the store of this name in this directory. Reads and creates nothing yet.
    ///
    /// # Errors
    /// The name is not a plain file name.
    pub fn new(directory: impl Into<PathBuf>, name: impl Into<String>) -> io::Result<Self> {
        let name = name.into();
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', '\0']) {
            let problem = format!("{name:?} cannot be the beginning of a file name");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        Ok(FileCertificateStore { directory: directory.into(), name })
    }

    /// Returns the path of the current pair.
    pub fn current_path(&self) -> PathBuf {
        self.path("current.pem")
    }

    fn path(&self, suffix: &str) -> PathBuf {
        self.directory.join(format!("{}-{suffix}", self.name))
    }

    /// Writes a private file that does not exist yet, and syncs it.
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let mut directories = DirBuilder::new();
        directories.recursive(true);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        {
            std::os::unix::fs::DirBuilderExt::mode(&mut directories, 0o700);
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        }
        directories.create(&self.directory)?;
        let mut file = options.open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }

    /// Replaces a private file atomically.
    fn replace(&self, path: &Path, text: &str) -> io::Result<()> {
        let temporary = self.path(&format!("{}.tmp", std::process::id()));
        let _ = fs::remove_file(&temporary);
        let replaced = self.write(&temporary, text).and_then(|()| fs::rename(&temporary, path));
        if replaced.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        replaced
    }

    /// Makes a pair the current one.
    #[cfg(unix)]
    fn select(&self, pair: &Path) -> io::Result<()> {
        let current = self.current_path();
        if fs::symlink_metadata(&current).is_ok_and(|found| !found.is_symlink()) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the current pair is a file and not a link"));
        }
        let updated = self.path("updated.pem");
        match fs::remove_file(&updated) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // A link to a file beside it survives a move of the directory.
        std::os::unix::fs::symlink(pair.file_name().unwrap_or(pair.as_os_str()), &updated)?;
        fs::rename(&updated, &current)
    }

    #[cfg(not(unix))]
    fn select(&self, pair: &Path) -> io::Result<()> {
        let text = small_file::read(pair, MAX_PEM)?;
        let text = std::str::from_utf8(&text).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        self.replace(&self.current_path(), text)
    }

    /// Removes all pairs but these.
    fn remove_others(&self, kept: &[Option<PathBuf>]) -> io::Result<()> {
        let prefix = format!("{}-", self.name);
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            let Some(stamp) = path
                .file_name()
                .and_then(|name| name.to_str())
                .and_then(|name| name.strip_prefix(&prefix)?.strip_suffix(".pem"))
            else {
                continue;
            };
            if stamp.starts_with(|c: char| c.is_ascii_digit()) && !kept.contains(&Some(path.clone())) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    fn failed(path: &Path, problem: &'static str) -> impl FnOnce(io::Error) -> BoxError {
        let path = path.to_owned();
        move |source| Box::new(FileProblem { path, problem, source: Some(source) })
    }
}

impl CertificateStore for FileCertificateStore {
    fn current(&self) -> Result<Option<CertificatePair>, BoxError> {
        let path = self.current_path();
        let text = match small_file::read(&path, MAX_PEM) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Self::failed(&path, "cannot be read")(error)),
        };
        let problem = |problem| Box::new(FileProblem { path: path.clone(), problem, source: None });
        let text = std::str::from_utf8(&text).map_err(|_| problem("is no text"))?;
        let (certificate, key) = split(text);
        if certificate.is_empty() || key.is_empty() {
            return Err(problem("does not contain a certificate and a key"));
        }
        Ok(Some(CertificatePair { certificate, key }))
    }

    fn update(&self, pair: &CertificatePair) -> Result<(), BoxError> {
        let current = self.current_path();
        let previous = fs::read_link(&current).ok().map(|target| self.directory.join(target));
        let path = self.path(&format!("{}.pem", stamp()));
        let end = if pair.certificate.ends_with('\n') { "" } else { "\n" };
        let text = Zeroizing::new(format!("{}{end}{}", pair.certificate, pair.key.expose()));
        self.write(&path, &text).map_err(Self::failed(&path, "cannot be written"))?;
        self.select(&path).map_err(Self::failed(&current, "cannot be replaced"))?;
        // The rename is durable only once the directory is synced. Not every file system supports that.
        #[cfg(unix)]
        if let Err(error) = File::open(&self.directory).and_then(|directory| directory.sync_all()) {
            tracing::debug!(%error, directory = %self.directory.display(), "cannot sync the directory to disk");
        }
        if let Err(error) = self.remove_others(&[Some(path), previous]) {
            tracing::warn!(%error, directory = %self.directory.display(), "cannot remove old certificates");
        }
        Ok(())
    }

    fn pending_key(&self) -> Result<Option<Secret>, BoxError> {
        let path = self.path("pending.key");
        match small_file::read(&path, MAX_PEM) {
            // One that was not written whole is of no use.
            Ok(text) => Ok(std::str::from_utf8(&text).ok().map(|text| split(text).1).filter(|key| !key.is_empty())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Self::failed(&path, "cannot be read")(error)),
        }
    }

    fn set_pending_key(&self, key: Option<&Secret>) -> Result<(), BoxError> {
        let path = self.path("pending.key");
        let done = match key {
            Some(key) => self.replace(&path, key.expose()),
            None => fs::remove_file(&path).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            }),
        };
        done.map_err(Self::failed(&path, "cannot be written"))
    }
}

/// Returns the certificates and the private keys of a PEM text.
fn split(text: &str) -> (String, Secret) {
    let (mut certificates, mut key) = (String::new(), Zeroizing::new(String::with_capacity(text.len())));
    let mut is_key = None;
    for line in text.lines() {
        if line.starts_with("-----BEGIN ") {
            is_key = Some(line.contains("PRIVATE KEY"));
        }
        let target = match is_key {
            Some(true) => &mut *key,
            Some(false) => &mut certificates,
            None => continue,
        };
        target.push_str(line);
        target.push('\n');
        if line.starts_with("-----END ") {
            is_key = None;
        }
    }
    (certificates, Secret::new(std::mem::take(&mut *key)))
}

/// Returns the time for a file name, to the nanosecond: two pairs of one second are two files.
#[expect(clippy::disallowed_methods, reason = "the name of a file")]
fn stamp() -> String {
    Timestamp::now().strftime("%Y-%m-%d-%H-%M-%S.%9f").to_string()
}
