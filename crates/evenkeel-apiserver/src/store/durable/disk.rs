//! The file operations of the log, so that tests inject torn writes, full disks and failed fsyncs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The files of one data directory.
pub(crate) trait Disk: Send + Sync + 'static {
    /// Returns the names of the files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens a file for reading from its start.
    fn read(&self, name: &str) -> io::Result<Box<dyn Read>>;
    /// Opens a file for appending and creates it if absent.
    fn append(&self, name: &str) -> io::Result<Box<dyn LogFile>>;
    /// Shortens a file and syncs it.
    fn truncate(&self, name: &str, length: u64) -> io::Result<()>;
    /// Renames a file and syncs the directory. An existing file of the new name is replaced atomically.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Syncs the directory, so that created files survive a power loss.
    fn sync_directory(&self) -> io::Result<()>;
}

/// A file that is open for appending.
pub(crate) trait LogFile: Send {
    /// Appends bytes. May write fewer than given.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Returns when all written bytes are on stable storage.
    fn sync(&mut self) -> io::Result<()>;
    /// Returns another handle of the same file, to sync it on another thread.
    fn duplicate(&self) -> io::Result<Box<dyn LogFile>>;
}

/// Appends all bytes.
pub(super) fn write_all(file: &mut dyn LogFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A folder of the operating system. Files are readable by their owner only.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Held until the folder is dropped: only one process writes to a data directory.
    _lock: Option<File>,
}

const LOCK: &str = "lock";

/// Why a folder could not be opened.
#[derive(Debug)]
pub(crate) enum FolderError {
    /// Another process uses it; its id if known.
    InUse(Option<u32>),
    Io(io::Error),
}

impl Folder {
    /// Returns an existing folder without locking it, for a single file.
    pub(super) fn unlocked(path: &Path) -> Self {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Folder { path: path.to_owned(), _lock: None }
    }

    /// Opens a folder, creates it if absent, and locks it for this process.
    pub(crate) fn open(path: &Path) -> Result<Self, FolderError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path).map_err(FolderError::Io)?;
        let file = path.join(LOCK);
        let mut lock = options().read(true).write(true).create(true).open(&file).map_err(FolderError::Io)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let holder = fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok());
                return Err(FolderError::InUse(holder));
            }
            Err(fs::TryLockError::Error(error)) => return Err(FolderError::Io(error)),
        }
        let written = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
        written.map_err(FolderError::Io)?;
        Ok(Folder { path: path.to_owned(), _lock: Some(lock) })
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

impl Disk for Folder {
    fn list(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name().into_string().unwrap_or_default()));
        names.collect()
    }

    fn read(&self, name: &str) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(File::open(self.path.join(name))?))
    }

    fn append(&self, name: &str) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(options().append(true).create(true).open(self.path.join(name))?))
    }

    fn truncate(&self, name: &str, length: u64) -> io::Result<()> {
        let file = options().write(true).open(self.path.join(name))?;
        file.set_len(length)?;
        file.sync_all()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))?;
        self.sync_directory()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        // Only Unix opens directories as files.
        #[cfg(unix)]
        File::open(&self.path)?.sync_all()?;
        Ok(())
    }
}

impl LogFile for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(self, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn duplicate(&self) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(self.try_clone()?))
    }
}
