//! The data directory of a durable server: its lock, its log and its keys.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::kubeconfig::write_private;
use crate::listener::tls::IdentityKeys;
use crate::memory::Memory;
use crate::store::durable::{self, BackupError, Folder, FolderError, LogSettings};
use crate::store::{BackupSummary, Fsync, History, OpenedStore, RecoveryError, Store};
use crate::token_keys::{LegacyKey, TokenKeys};

/// Why a data directory could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataDirError {
    /// Another process uses the directory.
    #[error(
        "{} is in use by {}; stop that process, or use another directory", path.display(),
        holder.map_or_else(|| "another process".to_owned(), |id| format!("process {id}"))
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The id of the process, if it is known.
        holder: Option<u32>,
    },
    /// The directory or a key in it could not be read or written.
    #[error("cannot read or write {}", path.display())]
    Io {
        /// The directory or file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The content of the directory could not be read.
    #[error("cannot read the data in {}", path.display())]
    Recovery {
        /// The directory.
        path: PathBuf,
        /// What is wrong with the content.
        source: RecoveryError,
    },
    /// The directory has no content to copy.
    #[error("{} has no data of an API server: pass the directory of `data_dir` or --data-dir", path.display())]
    NoContent {
        /// The directory.
        path: PathBuf,
    },
    /// The backup would be one of the files of the data directory.
    #[error("{} is in the data directory: write the backup to another one", path.display())]
    InsideDataDir {
        /// The file.
        path: PathBuf,
    },
    /// The directory has content, and a snapshot or a backup to start from was given, too.
    #[error("{} has content: start without the snapshot or backup, or use an empty directory", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
}

/// Writes the content of a [`Builder::data_dir`](crate::Builder::data_dir) at one revision to a file for
/// [`Builder::restore_backup`](crate::Builder::restore_backup). A server may use the directory meanwhile, in this process or in
/// another one. Blocks while it reads and writes.
///
/// Guarantees: every write that the server acknowledged before the call is in the backup. The file appears when it is complete
/// and on stable storage, is readable by its owner only, and replaces an existing one. The directory is not changed.
///
/// # Errors
/// The directory has no content or cannot be read, or the file cannot be written. An existing file is unchanged then.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let (data, backup) = (folder.path().join("data"), folder.path().join("backup"));
/// use evenkeel_apiserver::{ApiServer, backup_data_dir};
///
/// let server = ApiServer::builder().data_dir(&data).start().await?;
/// let summary = backup_data_dir(&data, &backup)?;
/// println!("{} objects at revision {}", summary.objects, summary.revision);
/// let restored = ApiServer::builder().restore_backup(&backup).start().await?;
/// # Ok(())
/// # }
/// ```
pub fn backup_data_dir(data_dir: impl AsRef<Path>, backup: impl AsRef<Path>) -> Result<BackupSummary, DataDirError> {
    let (data_dir, backup) = (data_dir.as_ref(), backup.as_ref());
    let folder = fs::canonicalize(data_dir).map_err(|source| DataDirError::Io { path: data_dir.to_owned(), source })?;
    let parent = match backup.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if fs::canonicalize(parent).is_ok_and(|parent| parent == folder) {
        return Err(DataDirError::InsideDataDir { path: backup.to_owned() });
    }
    durable::copy(&folder, backup).map_err(|error| match error {
        BackupError::Empty => DataDirError::NoContent { path: data_dir.to_owned() },
        BackupError::Recovery(source) => DataDirError::Recovery { path: data_dir.to_owned(), source },
        BackupError::Write(source) => DataDirError::Io { path: backup.to_owned(), source },
    })
}

/// The history that a server serves after it has been restarted on its [`Builder::data_dir`](crate::Builder::data_dir).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HistoryAfterRestart {
    /// The history of the last server: watches resume, and lists at an exact version and continue tokens are served.
    #[default]
    Keep,
    /// None: every resource version of the last server is 410, and every informer relists. This is how clients meet a server
    /// whose history does not reach back, for example after a long outage.
    Drop,
}

/// The settings of a data directory.
#[derive(Clone, Debug)]
pub(crate) struct DataDir {
    pub(crate) path: PathBuf,
    pub(crate) fsync: Fsync,
    pub(crate) salvage: bool,
}

impl DataDir {
    /// Locks the directory and reads its content.
    pub(crate) fn open(&self, history: History, memory: Arc<Memory>) -> Result<OpenedStore, DataDirError> {
        let folder = Folder::open(&self.path).map_err(|error| match error {
            FolderError::InUse(holder) => DataDirError::InUse { path: self.path.clone(), holder },
            FolderError::Io(source) => DataDirError::Io { path: self.path.clone(), source },
        })?;
        let settings = LogSettings { fsync: self.fsync, salvage: self.salvage, ..LogSettings::default() };
        Store::open(history, Arc::new(folder), settings, memory)
            .map_err(|source| DataDirError::Recovery { path: self.path.clone(), source })
    }

    /// Returns the keys of service-account tokens, which the first server of the directory makes. A directory of an older release
    /// has an HS256 key, whose tokens stay valid.
    pub(crate) fn token_keys(&self) -> Result<TokenKeys, DataDirError> {
        let invalid = |path: PathBuf, error: String| DataDirError::Io {
            source: io::Error::new(io::ErrorKind::InvalidData, error),
            path,
        };
        let old = self.path.join("service-account.key");
        let legacy = match read(&old)? {
            None => None,
            Some(text) => match unhex(&text) {
                Some(key) => Some(key),
                None => return Err(invalid(old, "not a key of 128 hexadecimal digits".to_owned())),
            },
        };
        let path = self.path.join("service-account.pem");
        let pem = match read(&path)? {
            Some(kept) => kept,
            None => {
                let new = TokenKeys::generate_pem().map_err(|error| invalid(path.clone(), error.to_string()))?;
                write_private(&path, &new).map_err(|source| DataDirError::Io { path: path.clone(), source })?;
                new
            }
        };
        TokenKeys::from_pem(&pem, legacy).map_err(|error| invalid(path, error.to_string()))
    }

    /// Returns the keys of TLS, if an earlier server has kept them.
    pub(crate) fn identity_keys(&self) -> Result<Option<IdentityKeys>, DataDirError> {
        let [ca_pem, ca_key_pem, serving_key_pem] = IDENTITY.map(|name| read(&self.path.join(name)));
        Ok(match (ca_pem?, ca_key_pem?, serving_key_pem?) {
            (Some(ca_pem), Some(ca_key_pem), Some(serving_key_pem)) => {
                Some(IdentityKeys { ca_pem, ca_key_pem, serving_key_pem })
            }
            _ => None,
        })
    }

    /// Keeps the keys of TLS for later servers.
    pub(crate) fn keep_identity(&self, keys: &IdentityKeys) -> Result<(), DataDirError> {
        for (name, text) in IDENTITY.iter().zip([&keys.ca_pem, &keys.ca_key_pem, &keys.serving_key_pem]) {
            let path = self.path.join(name);
            write_private(&path, text).map_err(|source| DataDirError::Io { path, source })?;
        }
        Ok(())
    }
}

/// The files of the certificate authority, its key, and the serving key.
const IDENTITY: [&str; 3] = ["ca.crt", "ca.key", "serving.key"];

fn read(path: &Path) -> Result<Option<String>, DataDirError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(DataDirError::Io { path: path.to_owned(), source }),
    }
}

fn unhex(text: &str) -> Option<LegacyKey> {
    let text = text.trim();
    let digits = |index: usize| u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok();
    let mut key = [0; 64];
    for (index, byte) in key.iter_mut().enumerate() {
        *byte = digits(index)?;
    }
    (text.len() == 128).then_some(key)
}
