//! Atomic writes of kubeconfigs, readable by the owner only.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::Kubeconfig;
use super::load::directory_of;
use crate::config::ConfigError;

impl Kubeconfig {
    /// Writes the kubeconfig atomically to a file that only its owner can read (mode 0600): to a temporary file in the
    /// same directory, which is then renamed. A link to a file is followed. Missing directories are created for the
    /// owner only (0700).
    ///
    /// Replaces an existing file. Use [`KubeconfigFiles::edit`](super::KubeconfigFiles::edit) to change a file that
    /// other programs change as well.
    ///
    /// # Errors
    /// When the file cannot be written; its previous content is unchanged.
    pub fn write_to(&self, path: impl AsRef<Path>) -> Result<(), ConfigError> {
        let path = path.as_ref();
        let text = self.to_yaml()?;
        replace(&real(path), text.expose()).map_err(|error| ConfigError::write(path, error))
    }
}

/// Resolves the links of a path. If the file does not exist yet, resolves its directory: two names of one file must
/// not be treated as two files.
pub(super) fn real(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    let directory = directory_of(path).and_then(|directory| directory.canonicalize());
    match (directory, path.file_name()) {
        (Ok(directory), Some(name)) => directory.join(name),
        _ => path.to_owned(),
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let directory = directory_of(path)?;
    make_directories(&directory)?;
    warn_if_open(path);
    // The process id and a counter make the name unique; `create_new` enforces it.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let suffix = format!(".{}.{}.tmp", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let temporary = beside(path, &suffix)?;
    let written = private(OpenOptions::new().write(true).create_new(true)).open(&temporary).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let replaced = written.and_then(|()| fs::rename(&temporary, path));
    if replaced.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    replaced?;
    // The rename is durable only once the directory is synced. Not every file system supports that; the file is
    // renamed regardless.
    #[cfg(unix)]
    if let Err(error) = File::open(&directory).and_then(|directory| directory.sync_all()) {
        tracing::debug!(%error, directory = %directory.display(), "cannot sync the directory to disk");
    }
    Ok(())
}

/// An exclusive lock on a kubeconfig, held until it is dropped or the process ends. It is held on a hidden file beside
/// the kubeconfig, because each write replaces the kubeconfig itself. Waits for other holders.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    pub(super) fn take(path: &Path) -> io::Result<Self> {
        let file = Lock::open(path)?;
        file.lock()?;
        Ok(Lock { _file: file })
    }

    /// Returns `None` instead of waiting for another holder.
    pub(super) fn try_take(path: &Path) -> io::Result<Option<Self>> {
        let file = Lock::open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn open(path: &Path) -> io::Result<File> {
        private(OpenOptions::new().write(true).create(true).truncate(false)).open(beside(path, ".lock")?)
    }
}

pub(super) fn make_directories(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Returns the path of a hidden file beside this one.
fn beside(path: &Path, suffix: &str) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(suffix);
    Ok(path.with_file_name(hidden))
}

fn warn_if_open(path: &Path) {
    #[cfg(unix)]
    if let Ok(metadata) = fs::metadata(path) {
        let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777;
        if mode & 0o077 != 0 {
            tracing::warn!(
                path = %path.display(),
                mode = %format_args!("{mode:04o}"),
                "the kubeconfig was open to others than its owner; from now on it is not (0600)"
            );
        }
    }
    #[cfg(not(unix))]
    let _ = path;
}
