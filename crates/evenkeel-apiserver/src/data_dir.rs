//! The data directory of a durable server: its lock, its log and its keys.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::kubeconfig::write_private;
use crate::listener::tls::IdentityKeys;
use crate::memory::Memory;
use crate::store::durable::{Folder, FolderError};
use crate::store::{Fsync, History, OpenedStore, RecoveryError, Store};

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
    /// The directory has content, and a snapshot or a backup to start from was given, too.
    #[error("{} has content: start without the snapshot or backup, or use an empty directory", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
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
        Store::open(history, Arc::new(folder), self.fsync, self.salvage, memory)
            .map_err(|source| DataDirError::Recovery { path: self.path.clone(), source })
    }

    /// Returns the signing key of service-account tokens, or keeps the given one.
    pub(crate) fn signing_key(&self, new: [u8; 64]) -> Result<[u8; 64], DataDirError> {
        let path = self.path.join("service-account.key");
        let kept = self.kept(&path, || hex(&new))?;
        unhex(&kept).ok_or_else(|| DataDirError::Io {
            source: io::Error::new(io::ErrorKind::InvalidData, "not a key of 128 hexadecimal digits"),
            path,
        })
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

    fn kept(&self, path: &Path, new: impl FnOnce() -> String) -> Result<String, DataDirError> {
        if let Some(kept) = read(path)? {
            return Ok(kept);
        }
        let text = new();
        write_private(path, &text).map_err(|source| DataDirError::Io { path: path.to_owned(), source })?;
        Ok(text)
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 64]> {
    let text = text.trim();
    let digits = |index: usize| u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok();
    let mut key = [0; 64];
    for (index, byte) in key.iter_mut().enumerate() {
        *byte = digits(index)?;
    }
    (text.len() == 128).then_some(key)
}
