//! A disk in memory that fails on demand and forgets what was not synced.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::store::durable::disk::{Disk, LogFile};

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Default)]
pub(super) struct MemoryDisk(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<DiskState>,
    released: Condvar,
}

#[derive(Clone, Default)]
struct DiskState {
    files: BTreeMap<String, MemoryFile>,
    /// How many bytes still fit.
    space: Option<usize>,
    /// Files whose names start with this do not fit at all.
    no_space_for: Option<&'static str>,
    /// Every write takes at most this many bytes.
    longest_write: Option<usize>,
    fail_sync: bool,
    /// Syncs of files whose names start with this wait.
    held: Option<&'static str>,
    syncs: usize,
    /// The most bytes that all files had together.
    peak: usize,
}

#[derive(Clone, Default)]
struct MemoryFile {
    bytes: Vec<u8>,
    synced: usize,
}

impl DiskState {
    fn total(&self) -> usize {
        self.files.values().map(|file| file.bytes.len()).sum()
    }
}

impl MemoryDisk {
    fn lock(&self) -> MutexGuard<'_, DiskState> {
        self.0.state.lock().unwrap()
    }

    /// The disk as a killed process leaves it.
    pub(super) fn after_kill(&self) -> Self {
        let files = self.lock().files.clone();
        MemoryDisk(Arc::new(Shared {
            state: Mutex::new(DiskState { files, ..DiskState::default() }),
            ..Shared::default()
        }))
    }

    /// The disk as a power loss leaves it: only synced bytes remain.
    pub(super) fn after_power_loss(&self) -> Self {
        let disk = self.after_kill();
        disk.lock().files.values_mut().for_each(|file| file.bytes.truncate(file.synced));
        disk
    }

    pub(super) fn set_space(&self, bytes: usize) {
        self.lock().space = Some(bytes);
    }

    pub(super) fn set_no_space_for(&self, prefix: &'static str) {
        self.lock().no_space_for = Some(prefix);
    }

    pub(super) fn set_longest_write(&self, bytes: usize) {
        self.lock().longest_write = Some(bytes);
    }

    pub(super) fn fail_syncs(&self) {
        self.lock().fail_sync = true;
    }

    /// Makes syncs wait until the returned guard is dropped.
    pub(super) fn hold_syncs(&self) -> HeldSyncs {
        self.hold_syncs_of("")
    }

    /// Makes syncs of the files with this prefix wait until the returned guard is dropped.
    pub(super) fn hold_syncs_of(&self, prefix: &'static str) -> HeldSyncs {
        self.lock().held = Some(prefix);
        HeldSyncs(self.clone())
    }

    /// Returns the bytes of all files.
    pub(super) fn total(&self) -> usize {
        self.lock().total()
    }

    /// Returns the most bytes that all files had together.
    pub(super) fn peak(&self) -> usize {
        self.lock().peak
    }

    pub(super) fn syncs(&self) -> usize {
        self.lock().syncs
    }

    /// Returns how many bytes of a file a power loss leaves.
    pub(super) fn synced(&self, name: &str) -> usize {
        self.lock().files[name].synced
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.lock().files.keys().cloned().collect()
    }

    pub(super) fn bytes(&self, name: &str) -> Vec<u8> {
        self.lock().files[name].bytes.clone()
    }

    /// Replaces a file.
    pub(super) fn put(&self, name: &str, bytes: Vec<u8>) {
        let synced = bytes.len();
        self.lock().files.insert(name.to_owned(), MemoryFile { bytes, synced });
    }
}

pub(super) struct HeldSyncs(MemoryDisk);

impl Drop for HeldSyncs {
    fn drop(&mut self) {
        self.0.lock().held = None;
        self.0.0.released.notify_all();
    }
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Disk for MemoryDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names())
    }

    fn read(&self, name: &str) -> io::Result<Box<dyn Read>> {
        let bytes = self.lock().files.get(name).ok_or_else(not_found)?.bytes.clone();
        Ok(Box::new(io::Cursor::new(bytes)))
    }

    fn append(&self, name: &str) -> io::Result<Box<dyn LogFile>> {
        self.lock().files.entry(name.to_owned()).or_default();
        Ok(Box::new(OpenFile { disk: self.clone(), name: name.to_owned() }))
    }

    fn truncate(&self, name: &str, length: u64) -> io::Result<()> {
        let mut state = self.lock();
        let file = state.files.get_mut(name).ok_or_else(not_found)?;
        file.bytes.truncate(length as usize);
        file.synced = file.bytes.len();
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        let file = state.files.remove(from).ok_or_else(not_found)?;
        state.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.lock().files.remove(name).map(drop).ok_or_else(not_found)
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }
}

struct OpenFile {
    disk: MemoryDisk,
    name: String,
}

impl LogFile for OpenFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.lock();
        let length = bytes.len().min(state.longest_write.unwrap_or(usize::MAX)).min(state.space.unwrap_or(usize::MAX));
        if length == 0 || state.no_space_for.is_some_and(|prefix| self.name.starts_with(prefix)) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.space = state.space.map(|space| space - length);
        let file = state.files.get_mut(&self.name).ok_or_else(not_found)?;
        file.bytes.extend_from_slice(&bytes[..length]);
        state.peak = state.peak.max(state.total());
        Ok(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.lock();
        while state.held.is_some_and(|prefix| self.name.starts_with(prefix)) {
            state = self.disk.0.released.wait(state).unwrap();
        }
        state.syncs += 1;
        if state.fail_sync {
            return Err(io::Error::other("the disk is broken"));
        }
        let file = state.files.get_mut(&self.name).ok_or_else(not_found)?;
        file.synced = file.bytes.len();
        Ok(())
    }

    fn duplicate(&self) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(OpenFile { disk: self.disk.clone(), name: self.name.clone() }))
    }
}
