//! [`RemotePath`]: a path in a container, split for `tar -C`.

use super::CopyError;

/// A path in a container as the directory and the name in it. A path without a name is a directory and `.`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RemotePath {
    pub(super) directory: String,
    /// `None` for the directory itself.
    pub(super) name: Option<String>,
}

impl RemotePath {
    /// Splits a path. A slash at the end means the directory itself, also if its path is a symbolic link.
    pub(super) fn split(path: &str) -> Result<Self, CopyError> {
        if path.is_empty() || path.contains('\0') {
            return Err(CopyError::RemotePath { path: path.to_owned() });
        }
        let (directory, name) = match path.rsplit_once('/') {
            None => (".", path),
            Some(("", name)) => ("/", name),
            Some((directory, name)) => (directory, name),
        };
        Ok(match name {
            "" | "." | ".." => RemotePath { directory: path.to_owned(), name: None },
            name => RemotePath { directory: directory.to_owned(), name: Some(name.to_owned()) },
        })
    }

    /// Splits a path that must have a name. Slashes at the end are ignored.
    pub(super) fn split_named(path: &str) -> Result<(String, String), CopyError> {
        match RemotePath::split(path.trim_end_matches('/'))? {
            RemotePath { directory, name: Some(name) } => Ok((directory, name)),
            RemotePath { name: None, .. } => Err(CopyError::RemotePath { path: path.to_owned() }),
        }
    }

    /// Returns the argument of `tar`. It does not start with a hyphen, which would be an option.
    pub(super) fn argument(&self) -> String {
        match &self.name {
            None => ".".to_owned(),
            Some(name) => format!("./{name}"),
        }
    }
}
