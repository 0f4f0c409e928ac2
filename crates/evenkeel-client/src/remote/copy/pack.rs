//! Writes an archive of local files.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use tar::{Builder, EntryType, Header};

use super::bridge::BlockingWriter;
use super::{CopyError, CopyReport, SkipReason};

/// The length of a record of `tar`: it reads a whole one before it stops at the end of the archive.
const RECORD: usize = 20 * 512;

/// Read, write and execute; without setuid, setgid and the sticky bit.
const PERMISSIONS: u32 = 0o777;

/// Writes a file or a directory with everything below it, under this name, and the end of the archive.
///
/// The source itself may be a symbolic link; links below it are archived as links. The archive has an end only if it is
/// complete.
pub(super) fn pack(source: &Path, name: &str, output: BlockingWriter) -> Result<CopyReport, CopyError> {
    let mut packing = Packing { source, name, archive: Builder::new(output), report: CopyReport::default() };
    let packed = packing.run();
    if packed.is_err() {
        // The builder writes the end of the archive when it is dropped.
        packing.archive.get_mut().abort();
    }
    packed?;
    let mut output = packing.archive.into_inner().map_err(|_| CopyError::Interrupted)?;
    output.pad(RECORD).and_then(|()| output.finish()).map_err(|_| CopyError::Interrupted)?;
    Ok(packing.report)
}

struct Packing<'a> {
    source: &'a Path,
    name: &'a str,
    archive: Builder<BlockingWriter>,
    report: CopyReport,
}

impl Packing<'_> {
    fn run(&mut self) -> Result<(), CopyError> {
        let metadata = fs::metadata(self.source).map_err(|error| CopyError::local(self.source, error))?;
        if metadata.is_file() {
            return self.file(self.source, Path::new(""));
        }
        if !metadata.is_dir() {
            return Err(CopyError::NotCopyable { path: self.source.to_owned() });
        }
        // The relative paths of directories that are not read yet.
        let mut pending = vec![(PathBuf::new(), metadata)];
        while let Some((directory, metadata)) = pending.pop() {
            let path = self.local(&directory);
            let mut entries = fs::read_dir(&path).map_err(|error| CopyError::local(&path, error))?.peekable();
            // An existing destination keeps its mode and times: it may be a mount that the container's user does not own.
            if !directory.as_os_str().is_empty() || entries.peek().is_none() {
                self.append(&directory, EntryType::Directory, &metadata, 0, io::empty())?;
            }
            self.report.directories += 1;
            for entry in entries {
                let entry = entry.map_err(|error| CopyError::local(&path, error))?;
                self.entry(directory.join(entry.file_name()), &mut pending)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, relative: PathBuf, pending: &mut Vec<(PathBuf, Metadata)>) -> Result<(), CopyError> {
        let path = self.local(&relative);
        let metadata = fs::symlink_metadata(&path).map_err(|error| CopyError::local(&path, error))?;
        if metadata.is_dir() {
            pending.push((relative, metadata));
        } else if metadata.is_file() {
            self.file(&path, &relative)?;
        } else if metadata.is_symlink() {
            let target = fs::read_link(&path).map_err(|error| CopyError::local(&path, error))?;
            let mut header = header(EntryType::Symlink, &metadata, 0);
            let name = self.archived(&relative);
            self.archive.append_link(&mut header, name, target).map_err(|error| self.fault(&path, error))?;
            self.report.symlinks += 1;
        } else {
            self.report.skip(relative, SkipReason::Special);
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, relative: &Path) -> Result<(), CopyError> {
        let local = |error| CopyError::local(path, error);
        let file = File::open(path).map_err(local)?;
        let metadata = file.metadata().map_err(local)?;
        let size = metadata.len();
        // A file that grows is copied up to the size in its header; more would become the next header.
        let mut data = Counted { data: file.take(size), count: 0 };
        self.append(relative, EntryType::Regular, &metadata, size, &mut data)?;
        if data.count != size {
            return Err(CopyError::Shrunk { path: path.to_owned() });
        }
        self.report.files += 1;
        self.report.bytes += size;
        Ok(())
    }

    fn append(
        &mut self,
        relative: &Path,
        kind: EntryType,
        metadata: &Metadata,
        size: u64,
        data: impl Read,
    ) -> Result<(), CopyError> {
        let name = self.archived(relative);
        let mut header = header(kind, metadata, size);
        self.archive.append_data(&mut header, name, data).map_err(|error| self.fault(&self.local(relative), error))
    }

    fn local(&self, relative: &Path) -> PathBuf {
        if relative.as_os_str().is_empty() { self.source.to_owned() } else { self.source.join(relative) }
    }

    fn archived(&self, relative: &Path) -> PathBuf {
        let name = Path::new(OsStr::new(self.name));
        if relative.as_os_str().is_empty() { name.to_owned() } else { name.join(relative) }
    }

    fn fault(&self, path: &Path, error: io::Error) -> CopyError {
        match error.kind() {
            io::ErrorKind::ConnectionAborted => CopyError::Interrupted,
            _ => CopyError::local(path, error),
        }
    }
}

/// Returns a header with mode and time. The owner is not archived: it has no meaning in the container.
fn header(kind: EntryType, metadata: &Metadata, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode(metadata));
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    header.set_mtime(modified.unwrap_or_default().as_secs());
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(size);
    header
}

#[cfg(unix)]
fn mode(metadata: &Metadata) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & PERMISSIONS
}

#[cfg(not(unix))]
fn mode(metadata: &Metadata) -> u32 {
    let base = if metadata.is_dir() { PERMISSIONS } else { 0o666 };
    base & if metadata.permissions().readonly() { 0o555 } else { 0o755 }
}

struct Counted<R> {
    data: R,
    count: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.data.read(into)?;
        self.count += read as u64;
        Ok(read)
    }
}
