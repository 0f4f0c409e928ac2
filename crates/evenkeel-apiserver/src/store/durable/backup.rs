//! Backups: the content of a store at one revision, in one file.

use std::io;
use std::path::Path;

use super::RecoveryError;
use super::disk::Folder;
use super::recover::read_snapshot;
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
