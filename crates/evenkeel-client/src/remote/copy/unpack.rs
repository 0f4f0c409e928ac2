//! Reads an archive that a container sends. Nothing in it is trusted.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use tar::{Archive, Entry, EntryType};

use super::destination::{Destination, Written};
use super::{CopyError, CopyLimits, CopyReport, SkipReason};

/// The bytes of one entry before its data: its header, and extensions such as long names, which are read into memory.
const MAX_HEADER: u64 = 1024 * 1024;
/// The bytes after the end of the archive. GNU tar pads to 10 KiB.
const MAX_TRAILER: u64 = 1024 * 1024;
/// The size of a header.
const BLOCK: u64 = 512;

/// What an archive is copied to.
#[derive(Debug)]
pub(super) struct Unpack {
    /// The path of the source, for errors.
    pub(super) source: PathBuf,
    /// The first component of every entry; `None` if there is none.
    pub(super) prefix: Option<String>,
    pub(super) destination: PathBuf,
    pub(super) limits: CopyLimits,
}

impl Unpack {
    /// Reads an archive to its end.
    pub(super) fn run(self, input: impl Read) -> Result<CopyReport, CopyError> {
        let watched = WatchedReader::new(input);
        let mut archive = Archive::new(&watched);
        let mut unpacking = Unpacking {
            destination: Destination::new(self.destination)?,
            source: self.source,
            prefix: self.prefix,
            limits: self.limits,
            entries: 0,
            consumed: 0,
            report: CopyReport::default(),
        };
        let mut entries = archive.entries().map_err(CopyError::Archive)?;
        loop {
            watched.start_header();
            let Some(entry) = entries.next() else { break };
            let entry = entry.map_err(|error| watched.fault(error, &self.limits))?;
            watched.end_header();
            unpacking.entry(entry)?;
        }
        if !watched.has_end() {
            return Err(CopyError::Truncated);
        }
        watched.end_header();
        let trailer = io::copy(&mut (&watched).take(MAX_TRAILER), &mut io::sink()).map_err(CopyError::Archive)?;
        if trailer == MAX_TRAILER {
            let problem = "there is data after its end";
            return Err(CopyError::Archive(io::Error::new(io::ErrorKind::InvalidData, problem)));
        }
        Ok(unpacking.report)
    }
}

struct Unpacking {
    destination: Destination,
    source: PathBuf,
    prefix: Option<String>,
    limits: CopyLimits,
    entries: u64,
    /// The bytes of all entries.
    consumed: u64,
    report: CopyReport,
}

impl Unpacking {
    fn entry<R: Read>(&mut self, mut entry: Entry<'_, R>) -> Result<(), CopyError> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(CopyError::TooManyEntries { limit: self.limits.entries });
        }
        let kind = entry.header().entry_type();
        if kind.is_pax_global_extensions() {
            return self.discard(&mut entry);
        }
        let name = entry.path_bytes();
        if name.len() > self.limits.path_length {
            return Err(CopyError::PathTooLong { limit: self.limits.path_length });
        }
        // The oldest format has no type for directories.
        let is_directory = kind.is_dir() || (kind.is_file() && name.ends_with(b"/"));
        let relative = relative(&entry.path().map_err(CopyError::Archive)?, self.prefix.as_deref())?;
        let mode = entry.header().mode().map_err(CopyError::Archive)?;
        if is_directory {
            self.destination.directory(&relative, mode)?;
            self.report.directories += 1;
            return self.discard(&mut entry);
        }
        let modified = entry.header().mtime().unwrap_or_default();
        if kind == EntryType::Link
            && let Some((mut file, size)) = self.link_target(&entry)
        {
            self.file(&relative, mode, modified, size, &mut file)?;
            return self.discard(&mut entry);
        }
        match kind {
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let size = entry.size();
                self.file(&relative, mode, modified, size, &mut entry)
            }
            _ if relative.as_os_str().is_empty() => Err(CopyError::NotCopyable { path: self.source.clone() }),
            kind => {
                let target = || {
                    let target = entry.link_name_bytes().unwrap_or_default();
                    let target = target.get(..self.limits.path_length).unwrap_or(&target);
                    PathBuf::from(String::from_utf8_lossy(target).into_owned())
                };
                let reason = match kind {
                    EntryType::Symlink => SkipReason::Symlink { target: target() },
                    EntryType::Link => SkipReason::HardLink { target: target() },
                    _ => SkipReason::Special,
                };
                self.report.skip(relative, reason);
                self.discard(&mut entry)
            }
        }
    }

    /// Returns the file that a hard link names, with its size, if this copy has written it.
    fn link_target<R: Read>(&self, entry: &Entry<'_, R>) -> Option<(File, u64)> {
        let target = entry.link_name().ok().flatten()?;
        let file = self.destination.written(&relative(&target, self.prefix.as_deref()).ok()?)?;
        let size = file.metadata().ok()?.len();
        Some((file, size))
    }

    fn file(
        &mut self,
        relative: &Path,
        mode: u32,
        modified: u64,
        size: u64,
        data: &mut impl Read,
    ) -> Result<(), CopyError> {
        let allowed = self.limits.bytes - self.consumed;
        if size > allowed {
            return Err(CopyError::TooManyBytes { limit: self.limits.bytes });
        }
        match self.destination.file(relative, mode, modified, size, data, allowed)? {
            Written::Complete(bytes) => {
                self.report.files += 1;
                self.report.bytes += bytes;
                self.consumed += bytes;
                Ok(())
            }
            Written::Short => Err(CopyError::Truncated),
            Written::TooLarge => Err(CopyError::TooManyBytes { limit: self.limits.bytes }),
        }
    }

    /// Reads the data of an entry that has none in a valid archive. It counts against the limit.
    fn discard<R: Read>(&mut self, entry: &mut Entry<'_, R>) -> Result<(), CopyError> {
        let allowed = self.limits.bytes - self.consumed;
        let discarded =
            io::copy(&mut entry.take(allowed.saturating_add(1)), &mut io::sink()).map_err(CopyError::Archive)?;
        if discarded > allowed {
            return Err(CopyError::TooManyBytes { limit: self.limits.bytes });
        }
        self.consumed += discarded;
        Ok(())
    }
}

/// Returns the path of an entry below the source. Every component must be a normal name.
fn relative(path: &Path, prefix: Option<&str>) -> Result<PathBuf, CopyError> {
    let outside = || CopyError::Outside { entry: path.to_owned() };
    let mut relative = PathBuf::new();
    let mut prefix = prefix;
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => match prefix.take() {
                Some(prefix) if name != prefix => return Err(outside()),
                Some(_) => {}
                // A colon is a drive or a stream of a file on Windows.
                None if cfg!(windows) && name.to_string_lossy().contains(':') => return Err(outside()),
                None => relative.push(name),
            },
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(outside()),
        }
    }
    if prefix.is_some() { Err(outside()) } else { Ok(relative) }
}

/// Limits the size of headers, and observes whether the archive has an end.
struct WatchedReader<R> {
    input: RefCell<R>,
    /// The bytes that may be read for the current header.
    budget: Cell<Option<u64>>,
    /// The zeros at the end of what was read since the start of the header.
    zeros: Cell<u64>,
    ended: Cell<bool>,
}

impl<R> WatchedReader<R> {
    fn new(input: R) -> Self {
        WatchedReader {
            input: RefCell::new(input),
            budget: Cell::new(None),
            zeros: Cell::new(0),
            ended: Cell::new(false),
        }
    }

    fn start_header(&self) {
        self.budget.set(Some(MAX_HEADER));
        self.zeros.set(0);
    }

    fn end_header(&self) {
        self.budget.set(None);
    }

    /// Returns whether the last header was the end of an archive.
    fn has_end(&self) -> bool {
        self.zeros.get() >= BLOCK
    }

    /// Returns why a header cannot be read.
    fn fault(&self, error: io::Error, limits: &CopyLimits) -> CopyError {
        if self.budget.get() == Some(0) {
            CopyError::PathTooLong { limit: limits.path_length }
        } else if self.ended.get() {
            CopyError::Truncated
        } else {
            CopyError::Archive(error)
        }
    }
}

impl<R: Read> Read for &WatchedReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let into = match self.budget.get() {
            None => into,
            Some(0) => return Err(io::Error::new(io::ErrorKind::FileTooLarge, "a header is too large")),
            Some(budget) => {
                let length = into.len().min(usize::try_from(budget).unwrap_or(usize::MAX));
                into.get_mut(..length).unwrap_or_default()
            }
        };
        let read = self.input.borrow_mut().read(into)?;
        if read == 0 && !into.is_empty() {
            self.ended.set(true);
        }
        if let Some(budget) = self.budget.get() {
            self.budget.set(Some(budget - read as u64));
            let data = into.get(..read).unwrap_or_default();
            match data.iter().rev().position(|byte| *byte != 0) {
                Some(zeros) => self.zeros.set(zeros as u64),
                None => self.zeros.set(self.zeros.get() + read as u64),
            }
        }
        Ok(read)
    }
}
