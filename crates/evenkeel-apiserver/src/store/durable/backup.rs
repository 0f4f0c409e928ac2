//! Backups: the content of a store at one revision, in one file.

use std::io;
use std::path::Path;

use super::RecoveryError;
use super::disk::Folder;
use super::recover::{read_only, read_snapshot};
use super::snapshot_file;
use crate::store::{History, Image};

/// How far restored content is above the revisions of the backup (DUR-012). A server that goes on after its backup does not
/// issue as many.
const RAISED: u64 = 1_000_000_000;

/// Writes an image to a file, which appears when it is complete and on stable storage.
pub(in crate::store) fn write_backup(path: &Path, image: &Image) -> io::Result<()> {
    let (folder, name) = split(path)?;
    snapshot_file::write(&folder, &name, image, image.revision, || false).map(|_| ())
}

/// What a backup contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupSummary {
    /// The revision of the content.
    pub revision: u64,
    /// The number of objects.
    pub objects: usize,
}

/// Why a data directory could not be copied.
#[derive(Debug)]
pub(crate) enum BackupError {
    /// The directory has no content.
    Empty,
    Recovery(RecoveryError),
    /// The backup could not be written.
    Write(io::Error),
}

/// Writes the content of a data directory to a file. A server may use the directory: the backup has all writes that it has
/// acknowledged so far.
pub(crate) fn copy(data_dir: &Path, path: &Path) -> Result<BackupSummary, BackupError> {
    // A restore drops the history.
    let history = History { events: 1, ..History::default() };
    let state = read_only(&Folder::unlocked(data_dir), history).map_err(BackupError::Recovery)?;
    let state = state.ok_or(BackupError::Empty)?;
    write_backup(path, &state.image()).map_err(BackupError::Write)?;
    Ok(BackupSummary { revision: state.revision, objects: state.live })
}

/// Reads a backup. Its revision is raised and its history dropped, so that clients of the original relist.
pub(crate) fn read_backup(path: &Path, history: History) -> Result<Image, RecoveryError> {
    let error = |source| RecoveryError::Io { file: path.display().to_string(), source };
    let (folder, name) = split(path).map_err(error)?;
    let mut state = read_snapshot(&folder, &name, history)?;
    state.revision += RAISED;
    state.compact(u64::MAX);
    Ok(state.image())
}

fn split(path: &Path) -> io::Result<(Folder, String)> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    Ok((Folder::unlocked(path.parent().unwrap_or(Path::new("."))), name.to_owned()))
}
