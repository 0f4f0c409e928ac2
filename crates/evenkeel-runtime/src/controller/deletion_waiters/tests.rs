use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use evenkeel_cache::Deleted;
use evenkeel_core::{Obj, ResourceInfo};
use k8s_openapi::api::core::v1::Pod;

use super::*;

fn pod(uid: &str) -> Obj<Pod> {
    let json = format!(r#"{{"metadata": {{"namespace": "ns", "name": "a", "uid": "{uid}"}}}}"#);
    Obj::from_json(&Arc::new(ResourceInfo::of::<Pod>()), json).unwrap()
}

fn key() -> ObjectKey {
    ObjectKey::namespaced("ns", "a")
}

fn poll(future: std::pin::Pin<&mut impl Future<Output = ()>>) -> Poll<()> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_deleted_object_is_not_awaited() {
    let (deletion_waiters, key) = (DeletionWaiters::default(), key());
    assert!(poll(std::pin::pin!(deletion_waiters.deleted(&key, "1", || false))).is_ready());
    assert!(deletion_waiters.lock().by_key.is_empty());
}

#[test]
fn every_event_that_implies_the_deletion_ends_the_wait() {
    let missed = Deleted::Missed { key: key(), last_known: None };
    let events = [
        Event::Delete(Deleted::Observed(pod("1"))),
        Event::Delete(missed),
        Event::Add { object: pod("2"), initial: false },
        Event::Update { old: pod("1"), new: pod("2") },
    ];
    for event in events {
        let (deletion_waiters, key, present) = (DeletionWaiters::default(), key(), AtomicBool::new(true));
        let mut wait = std::pin::pin!(deletion_waiters.deleted(&key, "1", || present.load(Ordering::Relaxed)));
        assert!(poll(wait.as_mut()).is_pending());
        deletion_waiters.notify(&Event::Update { old: pod("1"), new: pod("1") });
        assert!(poll(wait.as_mut()).is_pending(), "the object still exists");
        present.store(false, Ordering::Relaxed);
        deletion_waiters.notify(&event);
        assert!(poll(wait.as_mut()).is_ready(), "{event:?}");
        assert!(deletion_waiters.lock().by_key.is_empty());
    }
}

/// A lagging handler reports an earlier object of the same name.
#[test]
fn events_of_an_earlier_object_do_not_end_the_wait() {
    let (deletion_waiters, key, present) = (DeletionWaiters::default(), key(), AtomicBool::new(true));
    let mut wait = std::pin::pin!(deletion_waiters.deleted(&key, "2", || present.load(Ordering::Relaxed)));
    assert!(poll(wait.as_mut()).is_pending());
    for old in [Event::Add { object: pod("1"), initial: false }, Event::Delete(Deleted::Observed(pod("1")))] {
        deletion_waiters.notify(&old);
        assert!(poll(wait.as_mut()).is_pending(), "{old:?}");
    }
    deletion_waiters.notify(&Event::Add { object: pod("2"), initial: false });
    assert!(poll(wait.as_mut()).is_pending());
    present.store(false, Ordering::Relaxed);
    deletion_waiters.notify(&Event::Delete(Deleted::Observed(pod("2"))));
    assert!(poll(wait.as_mut()).is_ready());
    assert!(deletion_waiters.lock().by_key.is_empty());
}

/// The deletion happens after the store is read, and before the waiter is polled.
#[test]
fn a_deletion_during_the_read_of_the_store_is_not_missed() {
    let (deletion_waiters, key, looked) = (DeletionWaiters::default(), key(), AtomicBool::new(false));
    let is_present = || {
        let is_first = !looked.swap(true, Ordering::Relaxed);
        deletion_waiters.notify(&Event::Delete(Deleted::Observed(pod("1"))));
        is_first
    };
    assert!(poll(std::pin::pin!(deletion_waiters.deleted(&key, "1", is_present))).is_ready());
    assert!(looked.load(Ordering::Relaxed));
}

#[test]
fn a_cancelled_wait_is_removed_and_others_continue() {
    let (deletion_waiters, key) = (DeletionWaiters::default(), key());
    let mut other = Box::pin(deletion_waiters.deleted(&key, "1", || true));
    assert!(poll(other.as_mut()).is_pending());
    {
        let mut wait = std::pin::pin!(deletion_waiters.deleted(&key, "1", || true));
        assert!(poll(wait.as_mut()).is_pending());
    }
    assert_eq!(deletion_waiters.lock().by_key[&key].len(), 1);
    drop(other);
    assert!(deletion_waiters.lock().by_key.is_empty());
}
