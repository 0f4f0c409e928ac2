//! [`Wakers`]: the tasks that wait for one condition.

use std::task::Waker;

/// Tasks to wake, each of them once.
#[derive(Debug, Default)]
pub(crate) struct Wakers(Vec<Waker>);

impl Wakers {
    pub(crate) fn add(&mut self, waker: &Waker) {
        if !self.0.iter().any(|known| known.will_wake(waker)) {
            self.0.push(waker.clone());
        }
    }

    pub(crate) fn push(&mut self, waker: Waker) {
        self.0.push(waker);
    }

    /// Moves the tasks of another condition here.
    pub(crate) fn append(&mut self, other: &mut Wakers) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn wake(&mut self) {
        self.0.drain(..).for_each(Waker::wake);
    }
}
