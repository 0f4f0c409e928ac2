//! What survives: kills, power losses, full disks and failed syncs.

use std::task::{Context, Waker};

use super::*;
use crate::store::Unavailable;
use crate::store::durable::frame::FORMAT;

#[test]
fn dur_001_everything_is_there_after_a_restart_bit_for_bit() {
    for seed in 0..8 {
        let disk = MemoryDisk::default();
        let store = open_with(&disk, Fsync::Always, 16).unwrap();
        write_randomly(&store, seed, 100);
        store.compact(store.revision() - 5);
        write_randomly(&store, seed + 100, 10);
        let (expected, revision) = (content(&store), store.revision());
        store.close_log();
        let again = open_with(&disk, Fsync::Always, 16).unwrap();
        assert_eq!(content(&again), expected, "seed {seed}");
        assert_eq!(again.revision(), revision, "a clean stop loses no revision");
        let stats = |store: &Store| {
            let stats = store.stats();
            (stats.objects, stats.object_bytes, stats.events, stats.history_bytes)
        };
        assert_eq!(stats(&again), stats(&store), "seed {seed}");
    }
}

#[test]
fn dur_003_a_kill_loses_no_acknowledged_write_under_any_policy() {
    for (seed, fsync) in (0..9).zip([Fsync::Always, Fsync::Group(Duration::ZERO), Fsync::Never].into_iter().cycle()) {
        let mut disk = MemoryDisk::default();
        let mut revision = 0;
        for round in 0..4 {
            let store = open_with(&disk, fsync, 64).unwrap();
            assert!(round == 0 || store.revision() > revision, "revisions go on");
            write_randomly(&store, seed * 10 + round, 30);
            revision = store.revision();
            let expected = content(&store);
            disk = disk.after_kill();
            let again = open_with(&disk.after_kill(), fsync, 64).unwrap();
            assert_eq!(content(&again), expected, "seed {seed}, round {round}");
        }
    }
}

#[test]
fn dur_003_a_power_loss_loses_no_acknowledged_write_if_writes_are_synced() {
    for fsync in [Fsync::Always, Fsync::Group(Duration::ZERO)] {
        let disk = MemoryDisk::default();
        let store = open_with(&disk, fsync, 64).unwrap();
        write_randomly(&store, 1, 50);
        assert_eq!(content(&open(&disk.after_power_loss())), content(&store));
    }
}

#[test]
fn dur_004_a_torn_write_is_there_whole_or_not_at_all() {
    let disk = MemoryDisk::default();
    let store = open(&disk);
    let mut states = vec![(0, content(&store))];
    for number in 0..6 {
        change(&store, "pods", &format!("ns/o{}", number % 2), Some("some data"));
        settle(&store).unwrap();
        states.push((disk.bytes("log-0000000001").len(), content(&store)));
    }
    let whole = disk.bytes("log-0000000001");
    for length in 0..=whole.len() {
        let torn = disk.after_kill();
        torn.put("log-0000000001", whole[..length].to_vec());
        let expected = &states.iter().rev().find(|(end, _)| *end <= length).unwrap().1;
        assert_eq!(&content(&open(&torn)), expected, "{length} of {} bytes", whole.len());
        assert_eq!(&content(&open(&torn)), expected, "a second start finds the same");
    }
}

#[test]
fn dur_010_sto_25_a_flipped_byte_is_an_exact_prefix_or_a_refusal() {
    let disk = MemoryDisk::default();
    let store = open(&disk);
    let mut states = vec![content(&store)];
    for number in 0..4 {
        change(&store, "pods", &format!("ns/o{}", number % 2), (number != 2).then_some("data"));
        settle(&store).unwrap();
        states.push(content(&store));
    }
    let whole = disk.bytes("log-0000000001");
    let mut refused = 0;
    for index in 0..whole.len() {
        let damaged = disk.after_kill();
        let mut bytes = whole.clone();
        bytes[index] ^= 1 << (index % 8);
        damaged.put("log-0000000001", bytes);
        match open_with(&damaged, Fsync::Always, 4096) {
            Ok(store) => assert!(states.contains(&content(&store)), "byte {index}"),
            Err(RecoveryError::Damaged { .. } | RecoveryError::UnknownFormat { .. }) => refused += 1,
            Err(error) => panic!("byte {index}: {error}"),
        }
    }
    assert!(refused > whole.len() / 2, "most bytes are not in the last record");
}

#[test]
fn dur_005_revisions_that_a_power_loss_took_are_not_issued_again() {
    let disk = MemoryDisk::default();
    let store = open_with(&disk, Fsync::Never, 64).unwrap();
    change(&store, "pods", "ns/a", Some("kept"));
    settle(&store).unwrap();
    // A reservation is synced under every policy; the writes before it are, too.
    let kept = store.revision();
    for number in 0..20 {
        change(&store, "pods", "ns/a", Some(&number.to_string()));
    }
    settle(&store).unwrap();
    let seen = store.revision();
    let again = open_with(&disk.after_power_loss(), Fsync::Never, 64).unwrap();
    assert!(again.revision() > seen, "{} > {seen}", again.revision());
    assert_eq!(events(&again, "pods", Some(seen)).unwrap_err(), Unavailable::Compacted { floor: again.revision() });
    let after_restart = again.revision();
    assert!(change(&again, "pods", "ns/b", Some("new")).unwrap() > seen);
    settle(&again).unwrap();
    assert_eq!(events(&again, "pods", Some(after_restart)).unwrap().len(), 1);
    let third = open(&disk.after_kill());
    assert!(third.revision() > seen && kept <= seen);
}

#[test]
fn dur_005_reservations_reach_ahead_of_many_writes() {
    let disk = MemoryDisk::default();
    let store = open_with(&disk, Fsync::Never, 8).unwrap();
    let synced = disk.syncs();
    for number in 0..12_000 {
        change(&store, "pods", "ns/a", Some(&number.to_string()));
    }
    settle(&store).unwrap();
    let syncs = disk.syncs() - synced;
    assert!((1..=2).contains(&syncs), "one sync per 10,000 revisions: {syncs}");
    assert!(open(&disk.after_power_loss()).revision() > store.revision());
}

#[test]
fn dur_006_watches_resume_from_the_kept_history() {
    let disk = MemoryDisk::default();
    let store = open_with(&disk, Fsync::Always, 4).unwrap();
    for number in 0..10 {
        change(&store, "pods", "ns/a", Some(&number.to_string()));
    }
    settle(&store).unwrap();
    let last = store.revision();
    let again = open_with(&disk.after_kill(), Fsync::Always, 4).unwrap();
    for after in last - 4..=last {
        assert_eq!(events(&again, "pods", Some(after)).unwrap(), events(&store, "pods", Some(after)).unwrap());
    }
    assert_eq!(events(&again, "pods", Some(last - 5)).unwrap_err(), Unavailable::Compacted { floor: last - 4 });
}

/// What lists at every exact revision of the history return.
fn exact_lists(store: &Store, last: u64) -> Vec<String> {
    let mut all = Vec::new();
    for table in TABLES {
        let floor = store.read_with(&table.into()).floor(table);
        for revision in floor.saturating_sub(2)..=last {
            let page = store.list(table, Span { limit: 3, ..Span::default() }, At::Exactly(revision), |_, _| true);
            all.push(match page {
                Ok(page) => {
                    let versions: Vec<u64> = page.records.iter().map(|record| record.revision).collect();
                    format!("{table} {revision} {versions:?} {:?} {}", page.next_after, page.remaining)
                }
                Err(unavailable) => format!("{table} {revision} {unavailable:?}"),
            });
        }
    }
    all
}

#[test]
fn dur_007_every_revision_of_the_history_is_read_as_before_the_restart() {
    for seed in 0..8 {
        let disk = MemoryDisk::default();
        let store = open_with(&disk, Fsync::Always, 16).unwrap();
        write_randomly(&store, seed, 100);
        if seed % 2 == 0 {
            // The history is in a snapshot then.
            store.compact_log();
            write_randomly(&store, seed + 100, 5);
        }
        let last = store.revision();
        let expected = exact_lists(&store, last);
        assert!(expected.iter().any(|list| list.contains("Compacted")), "lists before the history are refused");
        let killed = open_with(&disk.after_kill(), Fsync::Always, 16).unwrap();
        assert_eq!(exact_lists(&killed, last), expected, "seed {seed}, after a kill");
        store.close_log();
        let stopped = open_with(&disk, Fsync::Always, 16).unwrap();
        assert_eq!(exact_lists(&stopped, last), expected, "seed {seed}, after a stop");
    }
}

#[test]
fn dur_002_nothing_is_seen_before_it_is_synced() {
    let disk = MemoryDisk::default();
    let store = open(&disk);
    let table: Arc<str> = "pods".into();
    let mut cursor = store.watch_from(&table, Interest::All, store.revision()).unwrap();
    let held = disk.hold_syncs();
    let revision = change(&store, "pods", "ns/a", Some("data")).unwrap();
    assert_eq!(store.unsynced_revision(), Some(revision));
    let mut idle = Context::from_waker(Waker::noop());
    assert!(store.poll_durable(revision, false, &mut idle).is_pending(), "the response waits");
    assert!(store.advance(&mut cursor, 9).unwrap().is_empty(), "the event waits");
    assert!(store.poll_revision(revision, &mut idle).is_pending());
    drop(held);
    settle(&store).unwrap();
    assert_eq!(store.unsynced_revision(), None);
    assert_eq!(store.advance(&mut cursor, 9).unwrap().len(), 1);
}

#[test]
fn dur_002_writes_during_a_sync_share_the_next_one() {
    let disk = MemoryDisk::default();
    let store = open(&disk);
    let before = disk.syncs();
    let held = disk.hold_syncs();
    for number in 0..100 {
        change(&store, "pods", &format!("ns/o{number}"), Some("data"));
    }
    drop(held);
    settle(&store).unwrap();
    assert!(disk.syncs() - before <= 2, "{}", disk.syncs() - before);
}

#[test]
fn dur_011_a_full_disk_makes_the_store_read_only_at_its_last_durable_state() {
    for space in [0, 1, 40, 300] {
        let disk = MemoryDisk::default();
        let store = open(&disk);
        write_randomly(&store, 3, 40);
        let (expected, revision) = (content(&store), store.revision());
        let mut cursor = store.watch_from(&"pods".into(), Interest::All, revision).unwrap();
        disk.set_space(space);
        let held = disk.hold_syncs();
        change(&store, "pods", "ns/o1", Some("changed"));
        change(&store, "pods", "ns/o1", None);
        change(&store, "secrets", "ns/new", Some("created"));
        drop(held);
        let refused = settle(&store);
        if space < 300 {
            assert!(matches!(refused, Err(WriteRefusal::ReadOnly(reason)) if reason.contains("storage")), "{space}");
            assert_eq!((content(&store), store.revision()), (expected.clone(), revision), "{space} bytes");
            assert!(store.advance(&mut cursor, 9).unwrap().is_empty());
            assert_eq!(change(&store, "pods", "ns/o2", Some("refused")), None);
            assert!(matches!(store.check_writable(), Err(WriteRefusal::ReadOnly(_))));
        }
        let again = open(&disk.after_kill());
        let found = content(&again);
        assert!(found == expected || found == content(&store), "{space} bytes");
    }
}

#[test]
fn dur_011_a_failed_sync_is_never_retried() {
    let disk = MemoryDisk::default();
    let store = open(&disk);
    change(&store, "pods", "ns/a", Some("kept"));
    settle(&store).unwrap();
    let expected = content(&store);
    disk.fail_syncs();
    change(&store, "pods", "ns/a", Some("lost"));
    let syncs = disk.syncs();
    assert_eq!(settle(&store), Err(WriteRefusal::ReadOnly("the disk is broken".into())));
    assert_eq!(content(&store), expected);
    store.close_log();
    assert!(disk.syncs() <= syncs + 1, "the failed one only");
    assert_eq!(content(&open(&disk.after_power_loss())), expected);
}

#[test]
fn short_writes_are_continued() {
    let disk = MemoryDisk::default();
    disk.set_longest_write(7);
    let store = open(&disk);
    write_randomly(&store, 5, 20);
    assert_eq!(content(&open(&disk.after_kill())), content(&store));
}

#[test]
fn dur_010_an_unknown_format_is_refused_with_both_versions() {
    let disk = MemoryDisk::default();
    drop(open(&disk));
    let mut bytes = disk.bytes("log-0000000001");
    bytes[8] = 9;
    disk.put("log-0000000001", bytes);
    let error = open_with(&disk, Fsync::Always, 64).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("version 9") && text.contains(&format!("version {FORMAT}")), "{text}");
}
