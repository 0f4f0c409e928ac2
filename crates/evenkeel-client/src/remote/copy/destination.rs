//! [`Destination`]: writes files and directories below one path, and nothing elsewhere.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, Metadata};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::NamedTempFile;

use super::CopyError;

/// Read, write and execute; without setuid, setgid and the sticky bit.
const PERMISSIONS: u32 = 0o777;
/// What the owner of a directory needs to write into it.
const OWNER_ALL: u32 = 0o700;
/// The size of the buffer that a file is copied with.
const BUFFER: usize = 64 * 1024;

/// The local end of a copy out of a container.
///
/// Relative paths passed to it consist of normal components only. No symbolic link below the destination is followed:
/// every directory of a path is checked, and a file replaces whatever has its name. Links are never created, so that a
/// directory that was checked stays one.
#[derive(Debug)]
pub(super) struct Destination {
    root: PathBuf,
    /// The directory that was checked last, relative to the root.
    checked: Option<PathBuf>,
    /// The hashes of the relative paths of all files. The hash is keyed, so that an archive cannot make them collide.
    written: HashSet<u64>,
    hasher: RandomState,
    buffer: Box<[u8]>,
}

/// How much of a file was written.
pub(super) enum Written {
    Complete(u64),
    /// The data ended before the file's size.
    Short,
    /// The data is larger than the allowed number of bytes.
    TooLarge,
}

impl Destination {
    /// Returns the destination. Creates nothing but its parent directories.
    pub(super) fn new(root: PathBuf) -> Result<Self, CopyError> {
        if let Some(parent) = root.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent).map_err(|error| CopyError::local(parent, error))?;
        }
        let (written, hasher) = (HashSet::new(), RandomState::new());
        Ok(Destination { root, checked: None, written, hasher, buffer: vec![0; BUFFER].into() })
    }

    /// Creates a directory and its parents, unless they exist. An empty path is the destination itself.
    pub(super) fn directory(&mut self, relative: &Path, mode: u32) -> Result<(), CopyError> {
        if self.checked.as_deref() == Some(relative) {
            return Ok(());
        }
        // The destination itself is the caller's path, which may contain links.
        let root = fs::metadata(&self.root);
        ensure_directory(&self.root, root, mode_at(Path::new(""), relative, mode))?;
        let mut path = self.root.clone();
        let mut below = PathBuf::new();
        for component in relative {
            path.push(component);
            below.push(component);
            ensure_directory(&path, fs::symlink_metadata(&path), mode_at(&below, relative, mode))?;
        }
        self.checked = Some(below);
        Ok(())
    }

    /// Writes a file under a temporary name, and renames it once it is complete. An empty path is the destination itself.
    pub(super) fn file(
        &mut self,
        relative: &Path,
        mode: u32,
        modified: u64,
        size: u64,
        data: &mut impl Read,
        allowed: u64,
    ) -> Result<Written, CopyError> {
        let path = if relative.as_os_str().is_empty() { self.root.clone() } else { self.root.join(relative) };
        let parent = match relative.parent() {
            Some(parent) => {
                self.directory(parent, PERMISSIONS)?;
                self.root.join(parent)
            }
            None => match self.root.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
                _ => PathBuf::from("."),
            },
        };
        let local = |error| CopyError::local(&path, error);
        let mut file = temporary(&parent, mode).map_err(local)?;
        let mut copied = 0_u64;
        loop {
            let read = data.read(&mut self.buffer).map_err(CopyError::Archive)?;
            if read == 0 {
                break;
            }
            copied += read as u64;
            if copied > allowed {
                return Ok(Written::TooLarge);
            }
            file.write_all(self.buffer.get(..read).unwrap_or_default()).map_err(local)?;
        }
        if copied != size {
            return Ok(Written::Short);
        }
        if let Some(modified) = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(modified)) {
            // A time that the file system cannot store does not make the copy worse.
            let _ = file.as_file().set_modified(modified);
        }
        file.persist(&path).map_err(|error| local(error.error))?;
        self.written.insert(self.hasher.hash_one(relative));
        Ok(Written::Complete(copied))
    }

    /// Opens a file that this copy has written; `None` if there is none.
    pub(super) fn written(&self, relative: &Path) -> Option<File> {
        let known = self.written.contains(&self.hasher.hash_one(relative));
        known.then(|| File::open(self.root.join(relative)).ok()).flatten()
    }
}

/// Returns the mode of a directory: that of the entry for the last one, the default for its parents.
fn mode_at(directory: &Path, last: &Path, mode: u32) -> u32 {
    if directory == last { mode & PERMISSIONS | OWNER_ALL } else { PERMISSIONS }
}

/// Checks that a directory exists, or creates it. The process's umask applies to the mode.
fn ensure_directory(path: &Path, found: io::Result<Metadata>, mode: u32) -> Result<(), CopyError> {
    match found {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(metadata) if metadata.is_symlink() => Err(CopyError::LocalLink { path: path.to_owned() }),
        Ok(_) => Err(CopyError::local(path, io::ErrorKind::NotADirectory.into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            directory_builder(mode).create(path).map_err(|error| CopyError::local(path, error))
        }
        Err(error) => Err(CopyError::local(path, error)),
    }
}

#[cfg(unix)]
fn directory_builder(mode: u32) -> DirBuilder {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = DirBuilder::new();
    builder.mode(mode);
    builder
}

#[cfg(not(unix))]
fn directory_builder(_: u32) -> DirBuilder {
    DirBuilder::new()
}

/// Creates a file that is removed when it is dropped. The process's umask applies to the mode.
fn temporary(directory: &Path, mode: u32) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".evenkeel-copy-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(mode & PERMISSIONS));
    }
    #[cfg(not(unix))]
    let _ = mode;
    builder.tempfile_in(directory)
}
