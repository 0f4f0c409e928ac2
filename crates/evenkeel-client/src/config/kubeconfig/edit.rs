//! Edits of kubeconfig files that other programs edit as well.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::load::{directory_of, read};
use super::merge::{Origins, merge};
use super::text::parse_bytes;
use super::write::{Lock, make_directories, real};
use super::{Kubeconfig, KubeconfigFiles};
use crate::config::{ConfigError, EntryKind};

/// A file as read before the edit.
struct Found {
    /// With links resolved, so that a link remains a link after the edit.
    path: PathBuf,
    /// `None` if it does not exist.
    bytes: Option<Zeroizing<Vec<u8>>>,
    config: Kubeconfig,
    changed: bool,
}

impl KubeconfigFiles {
    /// Reads the files, calls `change` with the merged kubeconfig, and writes back the files that changed.
    ///
    /// A changed or removed entry is written to the file it was read from. If a later file defines the same name, a
    /// removal makes that definition visible. New entries, and a new current context, are written to the first
    /// existing file, or to the first file if none exists. Paths stay as they are in the files. Unknown fields are
    /// kept, comments are not. Nothing is written if nothing changes.
    ///
    /// Two edits by this library never overlap: each waits for an operating system lock on all files. The lock is held
    /// on an empty hidden file beside each (`.config.lock`), which is not removed. Changes by programs that do not use
    /// that lock are detected: if a file differs from what was read, nothing is written. A change that such a program
    /// writes between this check and the write that follows is lost.
    ///
    /// Blocks the thread. `change` must not edit the same files: it would deadlock.
    ///
    /// # Errors
    /// If any of the files cannot be read, parsed or written. Each file is replaced atomically; of several files,
    /// those before the failed one are written.
    pub fn edit<T>(&self, change: impl FnOnce(&mut Kubeconfig) -> T) -> Result<T, ConfigError> {
        let Some(first) = self.paths().first() else {
            return Err(ConfigError::NotConfigured { looked: Vec::new(), contexts: Vec::new() });
        };
        let home = self.paths().get(self.default_file()).unwrap_or(first);
        directory_of(home).and_then(|it| make_directories(&it)).map_err(|error| ConfigError::write(home, error))?;

        let lock = self.lock()?;
        self.edit_locked(&lock, change)
    }

    /// Edits the files under a lock that is held already. See [`edit`](Self::edit).
    pub(crate) fn edit_locked<T>(
        &self,
        _lock: &KubeconfigLock,
        change: impl FnOnce(&mut Kubeconfig) -> T,
    ) -> Result<T, ConfigError> {
        let default = self.default_file();
        let mut files = self.paths().iter().map(|path| Found::read(path)).collect::<Result<Vec<_>, _>>()?;
        let (before, origins) = merge(files.iter().map(|file| (file.path.clone(), file.config.clone())));
        let mut after = before.clone();
        let answer = change(&mut after);
        Spread { files: &mut files, origins: &origins, default }.all(&before, after);
        for file in files.iter().filter(|file| file.changed) {
            file.check_unchanged()?;
        }
        for file in files.iter().filter(|file| file.changed) {
            file.config.write_to(&file.path)?;
        }
        Ok(answer)
    }

    /// Locks all files in a fixed order, so that two edits cannot deadlock.
    fn lock(&self) -> Result<KubeconfigLock, ConfigError> {
        let locks = self.lock_each(|path| Lock::take(path).map(Some))?;
        Ok(KubeconfigLock { _locks: locks.unwrap_or_default() })
    }

    /// Locks all files; returns `None` if another edit holds one of them. Blocks on the file system only.
    pub(crate) fn try_lock(&self) -> Result<Option<KubeconfigLock>, ConfigError> {
        Ok(self.lock_each(Lock::try_take)?.map(|locks| KubeconfigLock { _locks: locks }))
    }

    fn lock_each(&self, take: impl Fn(&Path) -> io::Result<Option<Lock>>) -> Result<Option<Vec<Lock>>, ConfigError> {
        let paths: BTreeSet<PathBuf> = self.paths().iter().map(|path| real(path)).collect();
        let mut locks = Vec::with_capacity(paths.len());
        for path in &paths {
            match take(path) {
                Ok(Some(lock)) => locks.push(lock),
                Ok(None) => return Ok(None),
                // A read-only directory cannot be locked. A write to it fails with its own error.
                Err(error) if cannot_write(&error) => {}
                Err(error) => return Err(ConfigError::write(path, error)),
            }
        }
        Ok(Some(locks))
    }

    /// Returns the index of the file for new entries.
    fn default_file(&self) -> usize {
        self.paths().iter().position(|path| path.exists()).unwrap_or(0)
    }
}

/// The lock of an edit, held until it is dropped.
#[derive(Debug)]
pub(crate) struct KubeconfigLock {
    _locks: Vec<Lock>,
}

fn cannot_write(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), NotADirectory | NotFound | PermissionDenied | ReadOnlyFilesystem)
}

impl Found {
    fn read(path: &Path) -> Result<Self, ConfigError> {
        let path = real(path);
        let bytes = read_if_there(&path)?;
        let config = bytes.as_ref().map(|bytes| parse_bytes(bytes, &path)).transpose()?.unwrap_or_default();
        Ok(Found { path, bytes, config, changed: false })
    }

    fn check_unchanged(&self) -> Result<(), ConfigError> {
        match read_if_there(&self.path)? == self.bytes {
            true => Ok(()),
            false => Err(ConfigError::Changed { path: self.path.clone() }),
        }
    }
}

fn read_if_there(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, ConfigError> {
    match read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ConfigError::read("the kubeconfig", path, error)),
    }
}

/// Distributes changes to the files that the entries were read from.
struct Spread<'a> {
    files: &'a mut [Found],
    origins: &'a Origins,
    default: usize,
}

impl Spread<'_> {
    fn all(&mut self, before: &Kubeconfig, after: Kubeconfig) {
        self.entries(EntryKind::Cluster, &before.clusters, after.clusters, |config| &mut config.clusters);
        self.entries(EntryKind::User, &before.users, after.users, |config| &mut config.users);
        self.entries(EntryKind::Context, &before.contexts, after.contexts, |config| &mut config.contexts);
        self.entries(EntryKind::Extension, &before.extensions, after.extensions, |config| &mut config.extensions);
        let context = after.current_context.filter(|name| !name.is_empty());
        if before.current_context != context {
            let owner = if context.is_none() { self.origins.current_context } else { None };
            self.change(owner, |config| config.current_context = context);
        }
    }

    fn entries<T: PartialEq>(
        &mut self,
        kind: EntryKind,
        before: &BTreeMap<String, T>,
        mut after: BTreeMap<String, T>,
        entries: fn(&mut Kubeconfig) -> &mut BTreeMap<String, T>,
    ) {
        for (name, old) in before {
            let owner = self.origins.index_of(kind, name);
            match after.remove(name) {
                Some(new) if new == *old => {}
                Some(new) => self.change(owner, |config| drop(entries(config).insert(name.clone(), new))),
                None => self.change(owner, |config| drop(entries(config).remove(name))),
            }
        }
        for (name, new) in after {
            self.change(None, |config| drop(entries(config).insert(name, new)));
        }
    }

    fn change(&mut self, owner: Option<usize>, change: impl FnOnce(&mut Kubeconfig)) {
        if let Some(file) = self.files.get_mut(owner.unwrap_or(self.default)) {
            change(&mut file.config);
            file.changed = true;
        }
    }
}
