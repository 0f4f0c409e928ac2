//! Tests of the durable store on a simulated disk.

mod files;
mod log;
mod memory_disk;
mod server;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use self::memory_disk::MemoryDisk;
use super::{Fsync, LogSettings};
use crate::store::{At, Draft, Expect, Facts, History, Interest, RecoveryError, Span, Store, Write, WriteRefusal};

const TABLES: [&str; 3] = ["configmaps", "secrets", "pods"];

fn open_with(disk: &MemoryDisk, fsync: Fsync, history: usize) -> Result<Arc<Store>, RecoveryError> {
    let history = History { events: history, ..History::default() };
    let settings = LogSettings { fsync, ..LogSettings::default() };
    Store::open(history, Arc::new(disk.clone()), settings, Arc::default()).map(|opened| opened.store)
}

fn open(disk: &MemoryDisk) -> Arc<Store> {
    open_with(disk, Fsync::Always, 4096).unwrap()
}

/// Puts or deletes an object. Returns the revision.
fn change(store: &Store, table: &str, key: &str, data: Option<&str>) -> Option<u64> {
    let table: Arc<str> = table.into();
    let expect = store.get(&table, key).map_or(Expect::Absent, |record| Expect::Revision(record.revision));
    let write = match (data, expect) {
        (None, Expect::Absent) => return None,
        (None, _) => Write::Delete,
        (Some(data), _) => {
            let (namespace, name) = key.split_once('/').unwrap();
            let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"é\n": data},
                                "metadata": {"name": name, "namespace": namespace, "labels": {"l": data}}});
            let facts = Facts {
                uid: format!("uid-{key}").into(),
                labels: [("l".into(), data.into())].into(),
                fields: [name.into(), namespace.into()].into(),
                deleting: data.len() % 2 == 1,
                owned: false,
                schema_stamp: 7,
            };
            Write::Put(Draft::new(&object, facts, store.revision() + 1))
        }
    };
    Some(store.commit(&table, key, expect, write, Duration::ZERO).ok()?.0)
}

/// Waits until everything that is committed is durable.
fn settle(store: &Store) -> Result<(), WriteRefusal> {
    let revision = store.revision();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(poll_fn(|cx| store.poll_durable(revision, true, cx)))
}

/// Makes random writes from a seed. Every write is durable when this returns.
fn write_randomly(store: &Store, seed: u64, writes: u64) {
    for number in 0..writes {
        let chance = evenkeel_base::hash::spread(seed.wrapping_mul(1_000_003).wrapping_add(number));
        let table = TABLES[(chance % 3) as usize];
        let key = format!("ns/o{}", (chance >> 8) % 7);
        let data = "x".repeat(((chance >> 16) % 50) as usize);
        change(store, table, &key, if (chance >> 32).is_multiple_of(4) { None } else { Some(&data) });
    }
    settle(store).unwrap();
}

/// Everything that reads and watches show.
fn content(store: &Store) -> Vec<String> {
    let mut all = Vec::new();
    for table in TABLES {
        let page = store.list(table, Span::default(), At::Latest, |_, _| true).unwrap();
        for record in page.records {
            all.push(format!("{table} {} {} {:?}", record.revision, text(record.json()), record.facts));
        }
        all.extend(events(store, table, None).unwrap());
    }
    all
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The events of a table after a revision, or all in the history.
fn events(store: &Store, table: &str, after: Option<u64>) -> Result<Vec<String>, crate::store::Unavailable> {
    let floor = store.read_with(&table.into()).floor(table);
    let mut cursor = store.watch_from(&table.into(), Interest::All, after.unwrap_or(floor))?;
    let events = store.advance(&mut cursor, usize::MAX).unwrap();
    let show = |record: &Option<Arc<crate::store::Record>>| record.as_ref().map(|record| text(record.json()));
    Ok(events
        .iter()
        .map(|event| {
            format!("{} {} {:?} <- {:?}", event.revision, event.key, show(&event.current), show(&event.previous))
        })
        .collect())
}
