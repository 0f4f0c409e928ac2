//! Transactions, the store's version, and waiting for it.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use evenkeel_core::ResourceVersion;
use k8s_openapi::api::core::v1::ConfigMap;

use super::{all, object, untyped, version};
use crate::Deleted;
use crate::delta::Delta;
use crate::store::table::Table;
use crate::store::{Index, Store, StoreStopped};

fn store() -> Store<ConfigMap> {
    Store::new([Index::namespace()])
}

fn missed(key: &str) -> Deleted<ConfigMap> {
    Deleted::Missed { key: key.parse().unwrap(), last_known: None }
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn txn_001_writes_apply_in_order_and_at_once() {
    let store = store();
    store.put(object("x", "1", ""));
    let before = store.snapshot();
    let previous = store.transaction(|tx| {
        tx.put(object("x", "2", ""));
        tx.put(object("y", "3", ""));
        tx.put(object("y", "4", ""));
        tx.delete(Deleted::Observed(object("x", "5", "")));
        tx.remove(&"z".parse().unwrap());
        assert_eq!(all(&store), ["x@1"], "nothing is written before all is said");
    });
    let versions: Vec<Option<&str>> =
        previous.iter().map(|object| object.as_ref().map(|object| object.resource_version())).collect();
    assert_eq!(versions, [Some("1"), None, Some("3"), Some("2"), None]);
    assert_eq!((all(&store), before.len()), (vec!["y@4".to_owned()], 1));
}

#[test]
fn txn_002_results_are_in_the_order_of_the_writes() {
    // Computing a key cannot fail: every object has one.
    let previous = store().transaction(|tx| (0..5).for_each(|name| tx.put(object(&name.to_string(), "1", ""))));
    assert_eq!(previous.len(), 5);
    assert!(previous.iter().all(Option::is_none));
}

#[test]
fn txn_005_no_writes_have_no_effect() {
    let store = store();
    store.put(object("x", "7", ""));
    assert!(store.transaction(|_| {}).is_empty());
    assert_eq!((all(&store), store.resource_version()), (vec!["x@7".to_owned()], version("7")));
}

#[test]
fn txn_007_the_version_follows_writes_lists_and_bookmarks() {
    let store = store();
    assert_eq!(store.resource_version(), version(""));
    store.put(object("x", "2", ""));
    assert_eq!(store.resource_version(), version("2"));
    store.delete(Deleted::Observed(object("x", "3", "")));
    assert_eq!(store.resource_version(), version("3"));
    store.bookmark(&version("5"));
    assert_eq!(store.resource_version(), version("5"));
    store.replace([object("x", "1", "")], version("4"));
    assert_eq!(store.resource_version(), version("4"), "a list says where the store is, even if that is earlier");
    store.replace([], version(""));
    assert_eq!(store.resource_version(), version(""));
}

#[test]
fn txn_008_an_older_object_does_not_lower_the_version() {
    let store = store();
    store.put(object("x", "20", ""));
    store.put(object("y", "10", ""));
    store.bookmark(&version("9"));
    assert_eq!(store.resource_version(), version("20"));
    store.put(object("z", "100", ""));
    assert_eq!(store.resource_version(), version("100"), "by number, not by text");
}

#[test]
fn txn_008_the_last_of_incomparable_versions_wins() {
    let store = store();
    for (written, expected) in [("b", "b"), ("a", "a"), ("7", "7"), ("x", "x"), ("6", "6"), ("5", "6")] {
        store.put(object("x", written, ""));
        assert_eq!(store.resource_version(), version(expected));
    }
}

#[test]
fn txn_009_an_object_without_a_version_does_not_change_it() {
    let store = store();
    store.put(object("x", "5", ""));
    store.put(object("y", "", ""));
    store.delete(missed("x"));
    store.remove(&"y".parse().unwrap());
    store.delete(Deleted::Missed { key: "x".parse().unwrap(), last_known: Some(object("x", "9", "")) });
    assert_eq!(store.resource_version(), version("5"));
}

#[test]
fn txn_010_the_newest_version_of_a_transaction_wins() {
    let store = store();
    store.transaction(|tx| {
        tx.put(object("x", "3", ""));
        tx.put(object("y", "9", ""));
        tx.put(object("z", "4", ""));
        tx.delete(missed("w"));
    });
    assert_eq!(store.resource_version(), version("9"));
}

#[test]
fn ihc_30_a_tombstone_at_the_end_does_not_hide_the_version_before_it() {
    let store = store();
    store.put(object("y", "5", ""));
    store.transaction(|tx| {
        tx.put(object("x", "9", ""));
        tx.delete(missed("y"));
    });
    assert_eq!(all(&store), ["x@9"]);
    assert_eq!(store.resource_version(), version("9"));
}

#[test]
fn waiting_for_a_reached_version_returns_at_once() {
    let store = store();
    store.put(object("x", "10", ""));
    for reached in ["10", "9", "", "0"] {
        assert_eq!(poll(pin!(store.at_least(&version(reached)))), Poll::Ready(Ok(())), "{reached:?}");
    }
    assert_eq!(poll(pin!(store.at_least(&version("11")))), Poll::Pending);
}

#[tokio::test]
async fn every_write_that_reaches_the_version_wakes_its_waiters() {
    type Bring = fn(&Store<ConfigMap>);
    let ways: [Bring; 4] = [
        |store| drop(store.put(object("x", "12", ""))),
        |store| drop(store.delete(Deleted::Observed(object("x", "13", "")))),
        |store| store.bookmark(&version("12")),
        |store| store.replace([], version("40")),
    ];
    for bring in ways {
        let store = store();
        store.put(object("x", "10", ""));
        let (waiting, wanted) = (store.clone(), version("12"));
        let waiter = tokio::spawn(async move { waiting.at_least(&wanted).await });
        tokio::task::yield_now().await;
        store.put(object("y", "11", ""));
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        bring(&store);
        assert_eq!(waiter.await.unwrap(), Ok(()));
    }
}

#[test]
fn an_incomparable_version_is_reached_when_it_is_observed() {
    let store = store();
    store.put(object("x", "abc", ""));
    let (passed, never) = (version("def"), version("other"));
    let (mut passed, mut never) = (pin!(store.at_least(&passed)), pin!(store.at_least(&never)));
    assert_eq!(poll(pin!(store.at_least(&version("abc")))), Poll::Ready(Ok(())));
    assert!(poll(passed.as_mut()).is_pending() && poll(never.as_mut()).is_pending());
    store.transaction(|tx| {
        tx.put(object("x", "def", ""));
        tx.put(object("x", "ghi", ""));
    });
    assert_eq!(poll(passed), Poll::Ready(Ok(())));
    assert!(poll(never).is_pending());
}

#[test]
fn a_dropped_future_is_removed_from_the_waiters() {
    let table = Table::new(Vec::new());
    let wanted = version("9");
    {
        let mut waiting = pin!(table.at_least(None, &wanted));
        assert!(poll(waiting.as_mut()).is_pending());
        assert_eq!(table.waiting(), 1);
    }
    assert_eq!(table.waiting(), 0);
}

#[test]
fn waiters_fail_when_the_store_stops() {
    let table = Table::new(Vec::new());
    table.commit(&[Delta::Updated(untyped("x", "5", ""))]);
    let wanted = version("9");
    let mut waiting = pin!(table.at_least(None, &wanted));
    assert!(poll(waiting.as_mut()).is_pending());
    table.stop_waiting();
    let stopped = StoreStopped { version: wanted.clone() };
    assert_eq!(poll(waiting), Poll::Ready(Err(stopped.clone())));
    assert_eq!(poll(pin!(table.at_least(None, &wanted))), Poll::Ready(Err(stopped)));
    assert_eq!(poll(pin!(table.at_least(None, &ResourceVersion::new("5")))), Poll::Ready(Ok(())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_wake_up_is_lost_between_many_threads() {
    let store = store();
    let waiters: Vec<_> = (1..=200)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move { store.at_least(&version(&number.to_string())).await })
        })
        .collect();
    let writer = store.clone();
    let writer = std::thread::spawn(move || {
        for number in 1..=200 {
            writer.put(object("x", &number.to_string(), ""));
        }
    });
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap(), Ok(()));
    }
    writer.join().unwrap();
}
