//! Which files there are, and what is in them.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::Kubeconfig;
use super::merge::{Origins, merge};
use super::text::{MAX_BYTES, parse_bytes};
use crate::config::{ConfigError, EntryKind, Environment};

/// The kubeconfig files that count, the most important one first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeconfigFiles {
    paths: Vec<PathBuf>,
    chosen_by: ChosenBy,
    confined: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChosenBy {
    /// Someone named this file, so it has to be there.
    Name,
    /// The environment lists these; some of them may be missing.
    Environment,
    /// It is where kubeconfigs usually are, if there is one.
    Habit,
}

/// What was in the files, read once: later changes to the files change nothing here.
#[derive(Debug)]
#[non_exhaustive]
pub struct Loaded {
    /// All of it, with the paths in it resolved against the directory of the file that names them.
    pub config: Kubeconfig,
    /// The files that could not be read or understood. The rest is in [`Loaded::config`] nevertheless.
    pub errors: Vec<ConfigError>,
    /// The files that do not exist.
    pub missing: Vec<PathBuf>,
    origins: Origins,
}

impl KubeconfigFiles {
    /// This one file, whatever the environment says. It has to exist to be loaded; editing creates it.
    pub fn explicit(path: impl Into<PathBuf>) -> Self {
        KubeconfigFiles { paths: vec![path.into()], chosen_by: ChosenBy::Name, confined: false }
    }

    /// The files that `KUBECONFIG` lists, each once; if it is not set, `.kube/config` in the home directory.
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

    /// Refuses files that point outside their own directory (links are followed first): for kubeconfigs that someone
    /// else put there. Paths are then used with their links resolved, so a link that is changed later changes nothing.
    pub fn confined(mut self) -> Self {
        self.confined = true;
        self
    }

    /// The files, the most important one first.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Reads all files and merges them: the first file that defines a name wins, with its whole entry.
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
    /// The kubeconfig if every file could be read, else everything that is wrong.
    pub fn into_config(self) -> Result<Kubeconfig, ConfigError> {
        ConfigError::collect(self.errors)?;
        Ok(self.config)
    }

    /// The file that an entry comes from.
    pub fn origin(&self, kind: EntryKind, name: &str) -> Option<&Path> {
        self.origins.of(kind, name)
    }
}

/// The bytes of a file, up to the limit and one more, so that the parser notices an excess. It may be
/// a pipe, as a shell makes one of `<(…)`.
pub(super) fn read(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let file = File::open(path)?;
    // Room for all of it at once, so that no half-filled buffer with secrets is left behind while growing.
    let room = usize::try_from(file.metadata()?.len()).unwrap_or(MAX_BYTES).min(MAX_BYTES);
    let mut bytes = Zeroizing::new(Vec::with_capacity(room + 1));
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The directory of a file, absolute.
pub(super) fn directory_of(path: &Path) -> io::Result<PathBuf> {
    let mut directory = std::path::absolute(path)?;
    directory.pop();
    Ok(directory)
}
