//! Archives, valid and not, byte by byte.

use std::fs;
use std::path::{Path, PathBuf};

use tar::{EntryType, Header};
use tempfile::TempDir;

use crate::remote::copy::unpack::Unpack;
use crate::remote::copy::{CopyError, CopyLimits, CopyReport};

/// An archive that is built without the checks of a library.
#[derive(Clone, Default)]
pub(super) struct TestArchive(pub(super) Vec<u8>);

impl TestArchive {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn file(self, name: &str, data: &[u8]) -> Self {
        self.entry(EntryType::Regular, name, "", 0o644, data)
    }

    pub(super) fn directory(self, name: &str) -> Self {
        self.entry(EntryType::Directory, name, "", 0o755, b"")
    }

    pub(super) fn link(self, kind: EntryType, name: &str, target: &str) -> Self {
        self.entry(kind, name, target, 0o777, b"")
    }

    pub(super) fn entry(mut self, kind: EntryType, name: &str, link: &str, mode: u32, data: &[u8]) -> Self {
        let header = header(kind, name, link, mode, data.len() as u64);
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(data);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    /// Adds a header without data.
    pub(super) fn raw(mut self, header: &Header) -> Self {
        self.0.extend_from_slice(header.as_bytes());
        self
    }

    /// Adds the end.
    pub(super) fn end(mut self) -> Self {
        self.0.resize(self.0.len() + 1024, 0);
        self
    }
}

pub(super) fn header(kind: EntryType, name: &str, link: &str, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    let old = header.as_old_mut();
    old.name[..name.len()].copy_from_slice(name.as_bytes());
    old.linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(1_000_000_000);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(size);
    header.set_cksum();
    header
}

/// A directory with a file beside the destination, which no archive may change.
pub(super) struct Sandbox {
    directory: TempDir,
}

impl Sandbox {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("outside")).unwrap();
        fs::write(directory.path().join("outside/secret"), "secret").unwrap();
        Sandbox { directory }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn destination(&self) -> PathBuf {
        self.path("destination")
    }

    /// Unpacks `/data/src` to the destination, and checks that nothing else has changed.
    pub(super) fn unpack(&self, archive: &[u8]) -> Result<CopyReport, CopyError> {
        self.unpack_within(archive, CopyLimits::default())
    }

    pub(super) fn unpack_within(&self, archive: &[u8], limits: CopyLimits) -> Result<CopyReport, CopyError> {
        let unpack = Unpack {
            source: "/data/src".into(),
            prefix: Some("src".to_owned()),
            destination: self.destination(),
            limits,
        };
        let result = unpack.run(archive);
        self.check();
        result
    }

    fn check(&self) {
        assert_eq!(fs::read_to_string(self.path("outside/secret")).unwrap(), "secret");
        assert_eq!(names(&self.path("outside")), ["secret"]);
        let beside: Vec<_> = names(self.directory.path()).into_iter().filter(|name| name != "destination").collect();
        assert_eq!(beside, ["outside"]);
    }

    /// Returns the relative paths below the destination, sorted.
    pub(super) fn tree(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut pending = vec![self.destination()];
        while let Some(directory) = pending.pop() {
            for name in names(&directory) {
                let path = directory.join(name);
                if fs::symlink_metadata(&path).unwrap().is_dir() {
                    pending.push(path.clone());
                }
                found.push(path.strip_prefix(self.destination()).unwrap().to_str().unwrap().to_owned());
            }
        }
        found.sort();
        found
    }

    pub(super) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.destination().join(name)).unwrap()
    }
}

pub(super) fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
