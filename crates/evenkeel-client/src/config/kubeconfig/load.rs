//! The kubeconfig files: their paths and how they are loaded.

use std::io;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::merge::{Origins, merge};
use super::text::{MAX_BYTES, parse_bytes};
use super::{Kubeconfig, Overrides, Selected};
use crate::config::{ConfigError, EntryKind, Environment};
use crate::small_file;

/// The kubeconfig files in order of precedence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeconfigFiles {
    paths: Vec<PathBuf>,
    chosen_by: ChosenBy,
    confined: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChosenBy {
    /// Named explicitly, so it must exist.
    Name,
    /// Listed by the environment; some may be missing.
    Environment,
    /// The default path, if the file exists.
    Habit,
}

/// The content of the files at the time of loading. Later changes to the files have no effect.
#[derive(Debug)]
#[non_exhaustive]
pub struct Loaded {
    /// The merged kubeconfig, with paths resolved against the directory of the file that names them.
    pub config: Kubeconfig,
    /// The files that could not be read or parsed. [`Loaded::config`] holds the other files nevertheless.
    pub errors: Vec<ConfigError>,
    /// The files that do not exist.
    pub missing: Vec<PathBuf>,
    origins: Origins,
}

impl KubeconfigFiles {
    /// Uses this one file and ignores the environment. Loading requires that it exists; editing creates it.
    pub fn explicit(path: impl Into<PathBuf>) -> Self {
        KubeconfigFiles { paths: vec![path.into()], chosen_by: ChosenBy::Name, confined: false }
    }

    /// Uses the files that `KUBECONFIG` lists, each once; if it is not set, `.kube/config` in the home directory.
    pub fn from_environment(environment: &Environment) -> Self {
        let (paths, chosen_by) = match environment.kubeconfig.as_deref().filter(|list| !list.is_empty()) {
            Some(list) => (std::env::split_paths(list).collect(), ChosenBy::Environment),
            None => {
                let home = environment.home.as_deref().filter(|home| !home.as_os_str().is_empty());
                (home.map(|home| home.join(".kube").join("config")).into_iter().collect(), ChosenBy::Habit)
            }
        };
        let mut unique: Vec<PathBuf> = Vec::new();
        for path in Vec::into_iter(paths) {
            if !path.as_os_str().is_empty() && !unique.contains(&path) {
                unique.push(path);
            }
        }
        KubeconfigFiles { paths: unique, chosen_by, confined: false }
    }

    /// Rejects paths outside the kubeconfig's own directory, after resolving links; for kubeconfigs written by others.
    /// Paths are used with their links resolved, so changing a link later has no effect.
    pub fn confined(mut self) -> Self {
        self.confined = true;
        self
    }

    /// Returns the files in order of precedence.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Reads and merges all files: the first file that defines a name wins, with its whole entry.
    pub fn load(&self) -> Loaded {
        let (mut files, mut errors, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        for path in &self.paths {
            match self.load_one(path) {
                Ok(config) => files.push((path.clone(), config)),
                Err(error) if error.is_not_found() && self.chosen_by != ChosenBy::Name => missing.push(path.clone()),
                Err(error) => errors.push(error),
            }
        }
        if self.chosen_by == ChosenBy::Environment && !missing.is_empty() && missing.len() == self.paths.len() {
            tracing::warn!(files = ?missing, "none of the files that KUBECONFIG names exists");
        }
        let (config, origins) = merge(files);
        Loaded { config, errors, missing, origins }
    }

    fn load_one(&self, path: &Path) -> Result<Kubeconfig, ConfigError> {
        let bytes = read(path).map_err(|error| ConfigError::read("the kubeconfig", path, error))?;
        let mut config = parse_bytes(&bytes, path)?;
        warn_if_readable_by_all(path, &config);
        let directory = directory_of(path).map_err(|error| ConfigError::read("the kubeconfig", path, error))?;
        if self.confined {
            config.confine(&directory)?;
        } else {
            config.resolve_paths(&directory);
        }
        Ok(config)
    }
}

impl Loaded {
    /// Returns the kubeconfig if every file was read, else all errors.
    pub fn into_config(self) -> Result<Kubeconfig, ConfigError> {
        ConfigError::collect(self.errors)?;
        Ok(self.config)
    }

    /// Selects from the kubeconfig if every file was read. The file that the user was read from is known then.
    pub(crate) fn select(self, overrides: &Overrides) -> Result<Selected, ConfigError> {
        ConfigError::collect(self.errors)?;
        let mut selected = self.config.select(overrides)?;
        let file = self.origins.of(EntryKind::User, &selected.user_name);
        selected.user_file = file.and_then(|file| std::path::absolute(file).ok());
        Ok(selected)
    }

    /// Returns the file that an entry was read from.
    pub fn origin(&self, kind: EntryKind, name: &str) -> Option<&Path> {
        self.origins.of(kind, name)
    }
}

/// Reads a file, up to one byte beyond the limit so that the parser notices the excess.
///
/// Pipes and devices are an error: opening a pipe blocks until a writer opens it, and neither can be read again. `/dev/null` is an
/// empty file: `KUBECONFIG=/dev/null` is a common way to have no kubeconfig.
pub(super) fn read(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    if path == Path::new("/dev/null") {
        return Ok(Zeroizing::default());
    }
    small_file::read_up_to(path, MAX_BYTES as u64 + 1)
}

/// Warns if every user of the machine can read the credentials of a kubeconfig.
#[cfg(unix)]
fn warn_if_readable_by_all(path: &Path, config: &Kubeconfig) {
    use std::os::unix::fs::PermissionsExt as _;
    const OTHERS_READ: u32 = 0o004;
    let is_readable = || std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & OTHERS_READ != 0);
    if config.users.values().any(super::User::has_credentials) && is_readable() {
        tracing::warn!(
            file = ?path,
            "kubeconfig contains credentials and is readable by every user of this machine; restrict it with chmod 600"
        );
    }
}

#[cfg(not(unix))]
fn warn_if_readable_by_all(_: &Path, _: &Kubeconfig) {}

/// Returns the absolute directory of a file.
pub(super) fn directory_of(path: &Path) -> io::Result<PathBuf> {
    let mut directory = std::path::absolute(path)?;
    directory.pop();
    Ok(directory)
}
