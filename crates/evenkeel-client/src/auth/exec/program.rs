//! Resolves the command of a plugin to the file to run.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use super::error::ExecProblem;

/// Why a command has no file to run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unresolved {
    NotFound,
    /// `PATH` leads to the current directory.
    CurrentDirectory(PathBuf),
}

/// Returns the absolute path of the file that a command names: of a path itself, of a name the first executable file in
/// the directories of `PATH`. Blocks on the file system.
///
/// As in Go, a name that is found through a relative directory is not run: an archive unpacked into the current
/// directory could contain it.
pub(super) fn resolve(command: &Path, path: Option<&OsStr>) -> Result<PathBuf, Unresolved> {
    let is_path = command.components().nth(1).is_some()
        || !matches!(command.components().next(), Some(Component::Normal(name)) if name == command.as_os_str());
    if is_path {
        let absolute = std::path::absolute(command).map_err(|_| Unresolved::NotFound)?;
        return executable(&clean(&absolute)).ok_or(Unresolved::NotFound);
    }
    for directory in std::env::split_paths(path.unwrap_or_default()) {
        let is_relative = directory.is_relative();
        // An empty entry is the current directory.
        let directory = if directory.as_os_str().is_empty() { PathBuf::from(".") } else { directory };
        let Some(found) = executable(&directory.join(command)) else { continue };
        return if is_relative { Err(Unresolved::CurrentDirectory(found)) } else { Ok(clean(&found)) };
    }
    Err(Unresolved::NotFound)
}

impl Unresolved {
    pub(super) fn into_problem(self, hint: Option<String>) -> ExecProblem {
        match self {
            Unresolved::NotFound => ExecProblem::NotFound { hint },
            Unresolved::CurrentDirectory(path) => ExecProblem::CurrentDirectory { path },
        }
    }
}

/// Removes `.` and repeated separators. `..` stays, because a link may precede it.
fn clean(path: &Path) -> PathBuf {
    path.components().filter(|component| !matches!(component, Component::CurDir)).collect()
}

#[cfg(unix)]
fn executable(path: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let metadata = std::fs::metadata(path).ok()?;
    (metadata.is_file() && metadata.permissions().mode() & 0o111 != 0).then(|| path.to_owned())
}

#[cfg(not(unix))]
fn executable(path: &Path) -> Option<PathBuf> {
    let with_extension = || path.extension().is_none().then(|| path.with_extension("exe"));
    let is_file = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    Some(path.to_owned()).filter(is_file).or_else(|| with_extension().filter(is_file))
}
