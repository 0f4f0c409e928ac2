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
fn what_is_gone_already_is_not_waited_for() {
    let (deletion_waiters, key) = (DeletionWaiters::default(), key());
    assert!(poll(std::pin::pin!(deletion_waiters.deleted(&key, "1", || false))).is_ready());
    assert!(deletion_waiters.lock().by_key.is_empty());
}

#[test]
fn whatever_says_that_the_object_is_gone_ends_the_wait() {
    let missed = Deleted::Missed { key: key(), last_known: None };
    let events = [
        Event::Delete(Deleted::Observed(pod("1"))),
        Event::Delete(missed),
        Event::Add { object: pod("2"), initial: false },
        Event::Update { old: pod("1"), new: pod("2") },
    ];
    for event in events {
        let (deletion_waiters, key, there) = (DeletionWaiters::default(), key(), AtomicBool::new(true));
        let mut gone = std::pin::pin!(deletion_waiters.deleted(&key, "1", || there.load(Ordering::Relaxed)));
        assert!(poll(gone.as_mut()).is_pending());
        deletion_waiters.notify(&Event::Update { old: pod("1"), new: pod("1") });
        assert!(poll(gone.as_mut()).is_pending(), "it is still there");
        there.store(false, Ordering::Relaxed);
        deletion_waiters.notify(&event);
        assert!(poll(gone.as_mut()).is_ready(), "{event:?}");
        assert!(deletion_waiters.lock().by_key.is_empty());
    }
}

/// A handler that is behind tells of the object that had the name before.
#[test]
fn old_news_of_another_object_do_not_end_the_wait() {
    let (deletion_waiters, key, there) = (DeletionWaiters::default(), key(), AtomicBool::new(true));
    let mut gone = std::pin::pin!(deletion_waiters.deleted(&key, "2", || there.load(Ordering::Relaxed)));
    assert!(poll(gone.as_mut()).is_pending());
    for old in [Event::Add { object: pod("1"), initial: false }, Event::Delete(Deleted::Observed(pod("1")))] {
        deletion_waiters.notify(&old);
        assert!(poll(gone.as_mut()).is_pending(), "{old:?}");
    }
    deletion_waiters.notify(&Event::Add { object: pod("2"), initial: false });
    assert!(poll(gone.as_mut()).is_pending());
    there.store(false, Ordering::Relaxed);
    deletion_waiters.notify(&Event::Delete(Deleted::Observed(pod("2"))));
    assert!(poll(gone.as_mut()).is_ready());
    assert!(deletion_waiters.lock().by_key.is_empty());
}

/// It goes after it was looked for, and before anybody waits for the events.
#[test]
fn what_goes_while_it_is_looked_for_is_not_missed() {
    let (deletion_waiters, key, looked) = (DeletionWaiters::default(), key(), AtomicBool::new(false));
    let is_there = || {
        let is_first = !looked.swap(true, Ordering::Relaxed);
        deletion_waiters.notify(&Event::Delete(Deleted::Observed(pod("1"))));
        is_first
    };
    assert!(poll(std::pin::pin!(deletion_waiters.deleted(&key, "1", is_there))).is_ready());
    assert!(looked.load(Ordering::Relaxed));
}

#[test]
fn a_wait_that_is_given_up_leaves_nothing_and_others_go_on() {
    let (deletion_waiters, key) = (DeletionWaiters::default(), key());
    let mut other = Box::pin(deletion_waiters.deleted(&key, "1", || true));
    assert!(poll(other.as_mut()).is_pending());
    {
        let mut gone = std::pin::pin!(deletion_waiters.deleted(&key, "1", || true));
        assert!(poll(gone.as_mut()).is_pending());
    }
    assert_eq!(deletion_waiters.lock().by_key[&key].len(), 1);
    drop(other);
    assert!(deletion_waiters.lock().by_key.is_empty());
}
