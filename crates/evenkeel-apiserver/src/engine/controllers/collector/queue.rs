//! [`WorkQueue`]: the objects that the collector has to decide about, by the time at which they are due.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::graph::Uid;

/// Each object is in the queue once; objects that are due at the same time are in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct WorkQueue {
    order: BTreeMap<(Duration, u64), Uid>,
    places: HashMap<Uid, (Duration, u64)>,
    arrivals: u64,
}

impl WorkQueue {
    /// Adds an object. One that is in the queue keeps the earlier time.
    pub(super) fn push(&mut self, uid: &Uid, due: Duration) {
        if let Some((known, _)) = self.places.get(uid) {
            if *known <= due {
                return;
            }
            self.remove(uid);
        }
        self.arrivals += 1;
        let place = (due, self.arrivals);
        self.places.insert(Arc::clone(uid), place);
        self.order.insert(place, Arc::clone(uid));
    }

    pub(super) fn remove(&mut self, uid: &str) {
        if let Some(place) = self.places.remove(uid) {
            self.order.remove(&place);
        }
    }

    /// Returns whether an object is due.
    pub(super) fn has_due(&self, now: Duration) -> bool {
        self.order.first_key_value().is_some_and(|((due, _), _)| *due <= now)
    }

    /// Removes the first object that is due.
    pub(super) fn pop(&mut self, now: Duration) -> Option<Uid> {
        if !self.has_due(now) {
            return None;
        }
        let (_, uid) = self.order.pop_first()?;
        self.places.remove(&uid);
        Some(uid)
    }

    /// Returns how many objects were ever added.
    pub(super) fn arrivals(&self) -> u64 {
        self.arrivals
    }
}
