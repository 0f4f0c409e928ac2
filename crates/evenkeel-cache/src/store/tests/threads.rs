//! Readers beside writers.

use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;

use super::{object, version};
use crate::Obj;
use crate::store::{Index, Snapshot, Store};

const PAIRS: usize = 20;

fn pair(number: usize, revision: usize) -> [Obj<ConfigMap>; 2] {
    let state = format!("state-{}", revision % 7);
    ["left", "right"].map(|side| object(&format!("{side}/{number}"), &(revision + 1).to_string(), &state))
}

/// Both objects of each pair have the same state, or neither exists; and the indexes match the objects.
fn check(seen: &Snapshot<ConfigMap>) {
    let mut found = 0;
    for number in 0..PAIRS {
        let side = |side: &str| seen.get(format!("{side}/{number}")).map(|object| object.resource_version());
        assert_eq!(side("left"), side("right"), "pair {number}");
        found += 2 * usize::from(side("left").is_some());
    }
    assert_eq!((seen.len(), seen.iter().count()), (found, found));
    let namespaces = ["left", "right"].map(|side| seen.by_index("namespace", side).unwrap().count());
    assert_eq!(namespaces, [found / 2; 2]);
    for state in 0..7 {
        let value = format!("state-{state}");
        for object in seen.by_index("group", &value).unwrap() {
            assert_eq!(object.path("data.group").unwrap().unwrap().text(), value);
        }
    }
    assert_eq!(
        (0..7).map(|state| seen.by_index("group", &format!("state-{state}")).unwrap().count()).sum::<usize>(),
        found
    );
}

#[test]
fn txn_001_readers_see_all_of_a_transaction_or_none() {
    let store: Store<ConfigMap> = Store::new([Index::namespace(), Index::by_path("group", "data.group").unwrap()]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut kept = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    let snapshot = store.snapshot();
                    check(&snapshot);
                    // Some snapshots are kept for a while, so that writers cannot reuse their version.
                    kept.push(snapshot);
                    if kept.len() > 5 {
                        kept.iter().for_each(check);
                        kept.clear();
                    }
                    // Readers that hold no snapshot.
                    assert!(store.get("left/0").is_none_or(|object| object.key().name() == "0"));
                    assert_eq!(store.list().len() % 2, 0);
                }
            });
        }
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let store = &store;
                scope.spawn(move || {
                    for revision in 0..600 {
                        // Each writer has its own pairs.
                        let number = (revision * 7 + writer) % PAIRS / 2 * 2 + writer;
                        store.transaction(|tx| {
                            let [left, right] = pair(number, revision);
                            if revision % 5 == 4 {
                                tx.remove(left.key());
                                tx.remove(right.key());
                            } else {
                                tx.put(left);
                                tx.put(right);
                            }
                        });
                        if revision % 100 == 99 {
                            store.replace((0..PAIRS / 2).flat_map(|number| pair(number, revision)), version("1"));
                        }
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    check(&store.snapshot());
}
