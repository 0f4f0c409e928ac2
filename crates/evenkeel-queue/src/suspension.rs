//! Groups of keys that leave a queue for a while or for good: [`Suspension`], [`InFlight`] and [`WorkQueue::remove_if`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::machine::{GroupId, SuspendedAdds};
use crate::shared::Shared;
use crate::sync::Arc;
use crate::waiters::WaiterId;
use crate::{Key, WorkQueue};

/// Keys that are resumed under one lock.
const BATCH: usize = 1000;

/// A suspension in effect: see [`WorkQueue::suspend`]. Dropping it resumes the keys.
#[must_use = "dropping the suspension resumes the keys"]
pub struct Suspension<K: Key> {
    shared: Arc<Shared<K>>,
    id: GroupId,
}

/// Runs that were in flight when this was made: see [`WorkQueue::in_flight`]. A future that is ready when all of them have ended.
pub struct InFlight<K: Key> {
    shared: Arc<Shared<K>>,
    group: GroupId,
    id: Option<WaiterId>,
}

impl<K: Key> WorkQueue<K> {
    /// Suspends the keys that match, until the suspension is dropped.
    ///
    /// # Guarantees
    /// - When this returns, no key that matches is handed out any more, whether it was ready, delayed, or left to be added.
    /// - With [`SuspendedAdds::Refuse`], adds of such keys are ignored, and so are the returns of those in flight. What was queued
    ///   before stays until it is [removed](Self::remove_if).
    /// - With [`SuspendedAdds::Hold`], adds take effect. Delays pass meanwhile.
    /// - When it is dropped, held keys are ready again in the order in which they would have been handed out, with their priorities.
    /// - Suspensions are independent: a key is handed out when none matches it, and accepted when none that refuses does. To change
    ///   one, make the new one before the old one is dropped.
    ///
    /// # Not guaranteed
    /// - Keys in flight are not affected: [`in_flight`](Self::in_flight) waits for them.
    /// - A queue that drains does not wait for suspended keys. One that is shutting down drops them when they are resumed.
    /// - The [statistics](Self::stats) count a suspended key as ready until a worker meets it.
    ///
    /// The queue calls `matches` under its lock, for adds and hand-outs: it must be quick, must not call the queue, and must give the
    /// same answer for a key each time. Suspending takes constant time; dropping locks the queue for a thousand held keys at a time.
    ///
    /// ```
    /// use evenkeel_queue::{SuspendedAdds, WorkQueue};
    ///
    /// let queue = WorkQueue::new();
    /// queue.add("a/1");
    /// queue.add("b/1");
    /// let suspension = queue.suspend(SuspendedAdds::Hold, |key| key.starts_with("a/"));
    /// assert_eq!(queue.try_next().unwrap().key(), &"b/1");
    /// assert!(queue.try_next().is_none());
    /// drop(suspension);
    /// assert_eq!(queue.try_next().unwrap().key(), &"a/1");
    /// ```
    pub fn suspend(&self, adds: SuspendedAdds, matches: impl Fn(&K) -> bool + Send + Sync + 'static) -> Suspension<K> {
        let matches = Box::new(matches);
        let id = self.shared.change(false, |machine, _| machine.suspend(adds, matches));
        Suspension { shared: self.shared.clone(), id }
    }

    /// Removes the keys that match, and their failures. Returns how many there were.
    ///
    /// Ready, delayed, suspended and backing-off keys are removed, and keys that are not queued but have failures. A key in flight
    /// stays in flight; that it was added meanwhile, its delay and its failures are removed.
    ///
    /// The queue is locked for about a thousand keys at a time. Keys that are added meanwhile may stay: [suspend](Self::suspend) them
    /// first. `matches` is called under the lock, as that of a suspension. A custom ready order
    /// returns all its keys for each thousand, and receives those that stay again in the same order.
    ///
    /// ```
    /// use std::time::Duration;
    /// use evenkeel_queue::WorkQueue;
    ///
    /// let queue = WorkQueue::new();
    /// queue.add("a/1");
    /// queue.add_after("a/2", Duration::from_secs(60));
    /// queue.add("b/1");
    /// assert_eq!(queue.remove_if(|key| key.starts_with("a/")), 2);
    /// assert_eq!((queue.len(), queue.stats().delayed), (1, 0));
    /// ```
    pub fn remove_if(&self, matches: impl Fn(&K) -> bool) -> usize {
        let mut count = 0;
        for page in 0.. {
            let Some(removed) = self.shared.change(false, |machine, _| machine.remove_page(page, &matches)) else {
                break;
            };
            count += removed.len();
            // The limiter is user code, and so are the destructors of keys: they run without the lock.
            removed.iter().for_each(|key| self.shared.limiter.forget(key));
        }
        count
    }

    /// Returns the runs in flight whose keys match. Awaiting the result waits until they have ended.
    ///
    /// Runs that start later are not waited for: [suspend](Self::suspend) the keys first, so that there are none. `matches` is called
    /// under the lock, once for each key in flight.
    ///
    /// ```
    /// use evenkeel_queue::{SuspendedAdds, WorkQueue};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let queue = WorkQueue::new();
    /// queue.add("a/1");
    /// let item = queue.try_next().unwrap();
    /// let _suspension = queue.suspend(SuspendedAdds::Refuse, |key| key.starts_with("a/"));
    /// let running = queue.in_flight(|key| key.starts_with("a/"));
    /// assert_eq!(running.count(), 1);
    /// item.forget();
    /// running.await;
    /// # }
    /// ```
    pub fn in_flight(&self, matches: impl Fn(&K) -> bool) -> InFlight<K> {
        let (group, _) = self.shared.change(false, |machine, _| machine.await_runs(&matches));
        InFlight { shared: self.shared.clone(), group, id: None }
    }
}

impl<K: Key> Drop for Suspension<K> {
    fn drop(&mut self) {
        // The predicate is dropped without the lock.
        let (_matches, held) = self.shared.change(false, |machine, _| machine.resume(self.id));
        for slots in held.chunks(BATCH) {
            self.shared.change(false, |machine, _| machine.resume_held(slots));
        }
    }
}

impl<K: Key> InFlight<K> {
    /// Returns the number of runs that have not ended.
    pub fn count(&self) -> usize {
        self.shared.look(|state| state.machine.awaited_runs(self.group))
    }
}

impl<K: Key> Future for InFlight<K> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        match this.shared.poll_runs(this.group, &mut this.id, context.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

impl<K: Key> Drop for InFlight<K> {
    fn drop(&mut self) {
        let group = self.group;
        self.shared.change(false, |machine, _| machine.forget_runs(group));
        self.shared.leave_drain(&mut self.id);
    }
}

impl<K: Key> fmt::Debug for Suspension<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Suspension").finish_non_exhaustive()
    }
}

impl<K: Key> fmt::Debug for InFlight<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlight").field("count", &self.count()).finish_non_exhaustive()
    }
}
