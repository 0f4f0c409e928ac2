//! Files: compaction, replaced content, salvage, and the lock of a folder.

use super::*;
use crate::store::durable::recover::read_only;
use crate::store::durable::{Folder, FolderError};

/// Starts a compaction and waits for its end.
fn compact(store: &Store) {
    store.compact_log();
    change(store, "pods", "ns/after", Some("the compaction"));
    settle(store).unwrap();
}

fn logs(disk: &MemoryDisk) -> Vec<String> {
    disk.names().into_iter().filter(|name| !name.starts_with("snapshot-")).collect()
}

#[test]
fn dur_009_a_compaction_keeps_the_content_and_removes_the_old_files() {
    for seed in 0..10 {
        let disk = MemoryDisk::default();
        let store = open_with(&disk, Fsync::Always, 16).unwrap();
        write_randomly(&store, seed, 200);
        let long = disk.bytes("log-0000000001").len();
        compact(&store);
        write_randomly(&store, seed + 1, 20);
        let expected = content(&store);
        store.close_log();
        assert_eq!(logs(&disk), ["log-0000000002"]);
        let all: usize = disk.names().iter().map(|name| disk.bytes(name).len()).sum();
        assert!(all < long, "{all} < {long}");
        let again = open_with(&disk, Fsync::Always, 16).unwrap();
        assert_eq!(content(&again), expected, "seed {seed}");
    }
}

#[test]
fn dur_009_an_interrupted_compaction_loses_nothing() {
    let disk = MemoryDisk::default();
    let store = open_with(&disk, Fsync::Never, 16).unwrap();
    write_randomly(&store, 1, 100);
    let old = disk.bytes("log-0000000001");
    compact(&store);
    write_randomly(&store, 2, 10);
    let expected = content(&store);
    store.close_log();
    let snapshot = disk.bytes("snapshot-0000000002");

    // Before the snapshot is complete: both logs, and a part of the snapshot.
    let interrupted = disk.after_kill();
    interrupted.put("log-0000000001", old.clone());
    crate::store::durable::disk::Disk::remove(&interrupted, "snapshot-0000000002").unwrap();
    interrupted.put("snapshot-0000000002.tmp", snapshot[..snapshot.len() / 2].to_vec());
    assert_eq!(content(&open_with(&interrupted, Fsync::Never, 16).unwrap()), expected);
    assert_eq!(interrupted.names(), ["log-0000000001", "log-0000000002"]);

    // After it, before the old log is removed.
    let interrupted = disk.after_kill();
    interrupted.put("log-0000000001", old);
    assert_eq!(content(&open_with(&interrupted, Fsync::Never, 16).unwrap()), expected);
    assert_eq!(interrupted.names(), ["log-0000000002", "snapshot-0000000002"]);
}

#[test]
fn dur_009_a_compaction_without_space_leaves_the_old_files() {
    let disk = MemoryDisk::default();
    let store = open(&disk);
    write_randomly(&store, 1, 200);
    disk.set_no_space_for("snapshot-");
    compact(&store);
    let expected = content(&store);
    store.close_log();
    let names = disk.names();
    assert!(names.contains(&"log-0000000001".into()) && names.contains(&"log-0000000002".into()), "{names:?}");
    assert_eq!(content(&open(&disk.after_kill())), expected);
}

/// Returns the bytes of a snapshot of the present content.
fn snapshot_bytes(store: &Store) -> usize {
    let scratch = MemoryDisk::default();
    crate::store::durable::snapshot_file::write(&scratch, "s", &store.image(), 0, || false).unwrap();
    scratch.total()
}

fn open_with_minimum(disk: &MemoryDisk, min_compaction: u64) -> Arc<Store> {
    let settings = LogSettings { fsync: Fsync::Never, min_compaction, ..LogSettings::default() };
    let history = History { events: 32, ..History::default() };
    Store::open(history, Arc::new(disk.clone()), settings, Arc::default()).unwrap().store
}

/// Writes as a client does that retries after a 429.
fn change_when_possible(store: &Store, key: &str, data: Option<&str>) {
    while store.check_writable() == Err(WriteRefusal::Behind) {
        std::thread::yield_now();
    }
    change(store, "pods", key, data);
    settle(store).unwrap();
}

#[test]
fn dur_009_the_disk_use_has_a_limit() {
    const MIN: usize = 32 << 10;
    // The live objects are longer than the minimum, and shorter.
    for (objects, length) in [(100, 500), (10, 100)] {
        let disk = MemoryDisk::default();
        let store = open_with_minimum(&disk, MIN as u64);
        let data = "x".repeat(length);
        for number in 0..2000 {
            change_when_possible(&store, &format!("ns/o{}", number % objects), Some(&data));
        }
        let content = snapshot_bytes(&store);
        // Beside the old files the new ones; a frame may exceed the limit of the log.
        let limit = 3 * content + 2 * MIN + 4 * length + 1024;
        assert!(disk.peak() <= limit, "{} bytes on disk, {content} of content, limit {limit}", disk.peak());
        assert!(disk.peak() > content + MIN, "the limit is not far off: {} of {limit}", disk.peak());
        for number in 0..objects {
            change_when_possible(&store, &format!("ns/o{number}"), None);
        }
        // A few more writes: a compaction starts after one.
        let mut writes = 0;
        while disk.total() > 3 * snapshot_bytes(&store) + 2 * MIN {
            change_when_possible(&store, "ns/small", Some("x"));
            writes += 1;
            assert!(writes < 500, "{} bytes after the deletion of all objects", disk.total());
        }
        let expected = content_of_pods(&store);
        assert_eq!(content_of_pods(&open_with_minimum(&disk.after_kill(), MIN as u64)), expected);
    }
}

fn content_of_pods(store: &Store) -> Vec<String> {
    events(store, "pods", None).unwrap()
}

/// A rotation syncs the log before the next one starts, and writes wait for that. Under `Never` nothing else syncs it.
#[test]
fn dur_009_a_long_log_is_synced_while_writes_go_on() {
    const MIB: usize = 1 << 20;
    let disk = MemoryDisk::default();
    let store = open_with(&disk, Fsync::Never, 16).unwrap();
    let log = "log-0000000001";
    let (long, synced) = ("x".repeat(MIB), disk.synced(log));
    let held = disk.hold_syncs_of("log-");
    while disk.bytes(log).len() < 12 * MIB {
        change(&store, "pods", "ns/long", Some(&long));
        settle(&store).unwrap();
    }
    assert_eq!(disk.synced(log), synced, "the sync has not ended, and the writes are acknowledged");
    drop(held);
    while disk.synced(log) < 8 * MIB {
        std::thread::yield_now();
    }
    disk.fail_syncs();
    while store.check_writable().is_ok() {
        change(&store, "pods", "ns/long", Some(&long));
        // The last one may be taken back.
        let _ = settle(&store);
    }
    assert!(matches!(store.check_writable(), Err(WriteRefusal::ReadOnly(_))), "a failed sync is not ignored");
}

#[test]
fn dur_009_writes_are_refused_while_a_compaction_falls_behind() {
    let disk = MemoryDisk::default();
    let store = open_with_minimum(&disk, 4096);
    let held = disk.hold_syncs_of("snapshot-");
    let mut writes = 0;
    while store.check_writable().is_ok() {
        change(&store, "pods", &format!("ns/o{}", writes % 5), Some("some data"));
        settle(&store).unwrap();
        writes += 1;
        assert!(writes < 1000, "the log grows without a limit");
    }
    assert_eq!(store.check_writable(), Err(WriteRefusal::Behind));
    let stats = store.journal_stats().unwrap();
    assert!(stats.is_compacting && stats.log < 3 * 4096, "{stats:?}");
    drop(held);
    change_when_possible(&store, "ns/after", Some("the compaction"));
}

#[test]
fn dur_010_a_missing_log_is_refused() {
    let disk = MemoryDisk::default();
    let store = open(&disk);
    write_randomly(&store, 1, 20);
    compact(&store);
    compact(&store);
    store.close_log();
    crate::store::durable::disk::Disk::remove(&disk, "log-0000000003").unwrap();
    disk.put("log-0000000004", Vec::new());
    assert!(matches!(open_with(&disk, Fsync::Always, 64), Err(RecoveryError::Missing { .. })));
}

#[test]
fn dur_012_a_replaced_content_is_there_after_a_restart() {
    let disk = MemoryDisk::default();
    let store = open(&disk);
    write_randomly(&store, 1, 30);
    let image = store.image();
    write_randomly(&store, 2, 30);
    store.replace(&image);
    change(&store, "pods", "ns/after", Some("the replacement"));
    settle(&store).unwrap();
    let expected = content(&store);
    assert_eq!(content(&open(&disk.after_power_loss())), expected);
    assert_eq!(disk.names(), ["log-0000000002", "snapshot-0000000002"]);
}

#[test]
fn dur_010_salvage_starts_from_the_last_good_record() {
    let disk = MemoryDisk::default();
    let store = open(&disk);
    let mut states = Vec::new();
    for number in 0..10 {
        change(&store, "pods", &format!("ns/o{number}"), Some("data"));
        settle(&store).unwrap();
        states.push((disk.bytes("log-0000000001").len(), content(&store), store.revision()));
    }
    let issued = store.revision();
    let (end, expected, revision) = &states[4];
    let damaged = disk.after_kill();
    let mut bytes = disk.bytes("log-0000000001");
    bytes[end + 30] ^= 1;
    damaged.put("log-0000000001", bytes);
    match open_with(&damaged, Fsync::Always, 4096) {
        Err(RecoveryError::Damaged { offset, last_good, lost, .. }) => {
            assert_eq!((offset, last_good, lost), (*end as u64, *revision, issued - revision));
        }
        other => panic!("{other:?}"),
    }
    let salvage = |disk: &MemoryDisk| {
        let settings = LogSettings { fsync: Fsync::Always, salvage: true, ..LogSettings::default() };
        Store::open(History::default(), Arc::new(disk.clone()), settings, Arc::default()).unwrap().store
    };
    let salvaged = salvage(&damaged);
    assert_eq!(&content(&salvaged), expected);
    assert!(salvaged.revision() > issued, "the lost revisions are not issued again");
    assert!(damaged.names().contains(&"log-0000000001.damaged".into()));
    drop(salvaged);
    assert_eq!(&content(&open(&damaged)), expected, "the next start is an ordinary one");
}

#[test]
fn dur_010_a_second_process_is_refused_and_learns_who_holds_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let first = Folder::open(&path).unwrap();
    match Folder::open(&path) {
        Err(FolderError::InUse(holder)) => assert_eq!(holder, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    drop(first);
    Folder::open(&path).unwrap();
}

#[test]
fn dur_012_a_backup_of_any_part_of_a_log_has_a_revision() {
    let disk = MemoryDisk::default();
    let store = open(&disk);
    change(&store, "pods", "ns/a", Some("data"));
    settle(&store).unwrap();
    let whole = disk.bytes("log-0000000001");
    let mut without_objects = 0;
    for length in 0..=whole.len() {
        let torn = disk.after_kill();
        torn.put("log-0000000001", whole[..length].to_vec());
        let Ok(Some(state)) = read_only(&torn, History::default()) else { continue };
        assert!(state.revision > 0, "{length} of {} bytes", whole.len());
        without_objects += usize::from(state.live == 0);
    }
    assert!(without_objects > 0, "the reserved revisions come first");
}
