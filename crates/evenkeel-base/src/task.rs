//! The tasks of a library, in an order that a simulation decides.
//!
//! [`scheduled`] marks the future of a task. Without a [`TaskScheduler`] on the thread it is the future itself. With one, the
//! task is polled only when the scheduler lets it run, which makes the order of tasks a decision that can be recorded and
//! repeated, and lets the scheduler end all tasks of a simulated process at once.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;

/// The number of a task of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u64);

/// What a task does when it is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It runs until it waits.
    Run,
    /// It waits until the scheduler wakes it.
    Wait,
    /// It drops its future and never completes: its process has crashed.
    Drop,
}

/// Decides which of the tasks of a thread runs next.
pub trait TaskScheduler: Send + Sync {
    /// Registers a new task, which belongs to the process of the current one.
    fn spawned(&self) -> TaskId;

    /// Decides what a woken task does. The waker wakes it again. [`ran`](Self::ran) follows, unless it waits.
    fn turn(&self, task: TaskId, waker: &Waker) -> Turn;

    /// Notes that the task has run or was dropped with its process: it waits, or it has ended.
    fn ran(&self, task: TaskId, ended: bool);

    /// Notes that the task was dropped before it ended.
    fn dropped(&self, task: TaskId);

    /// Returns the time of day of the current process since the Unix epoch.
    fn time_of_day(&self) -> std::time::Duration;
}

thread_local! {
    static SCHEDULER: RefCell<Option<Arc<dyn TaskScheduler>>> = const { RefCell::new(None) };
}

/// Removes the scheduler of the thread when it is dropped.
#[derive(Debug)]
pub struct InstalledScheduler(());

impl Drop for InstalledScheduler {
    fn drop(&mut self) {
        SCHEDULER.with_borrow_mut(Option::take);
    }
}

/// Makes a scheduler decide about the tasks that are spawned on this thread from now on. It replaces an earlier one.
pub fn install(scheduler: Arc<dyn TaskScheduler>) -> InstalledScheduler {
    SCHEDULER.with_borrow_mut(|installed| *installed = Some(scheduler));
    InstalledScheduler(())
}

/// Returns the scheduler of this thread. `None` also while the thread ends.
fn scheduler() -> Option<Arc<dyn TaskScheduler>> {
    SCHEDULER.try_with(|scheduler| scheduler.borrow().clone()).ok().flatten()
}

/// Returns the time of day in a simulation, since the Unix epoch. `None` outside of one: then the caller reads the clock.
pub fn simulated_time_of_day() -> Option<std::time::Duration> {
    scheduler().map(|scheduler| scheduler.time_of_day())
}

pin_project! {
    /// The future of [`scheduled`].
    #[must_use = "futures do nothing unless polled"]
    pub struct Scheduled<F: Future> {
        #[pin]
        state: ScheduledState<F>,
    }
}

pin_project! {
    #[project = ScheduledProjection]
    enum ScheduledState<F: Future> {
        Plain { #[pin] future: F },
        Decided { task: DecidedTask<F> },
    }
}

/// A task that a scheduler decides about.
struct DecidedTask<F: Future> {
    id: TaskId,
    /// `None` once it has ended, or was dropped with its process.
    future: Option<Pin<Box<F>>>,
}

/// Marks the future of a task: a simulation decides when it runs, and ends it with its process.
pub fn scheduled<F: Future>(future: F) -> Scheduled<F> {
    let state = match scheduler() {
        None => ScheduledState::Plain { future },
        Some(scheduler) => {
            let task = DecidedTask { id: scheduler.spawned(), future: Some(Box::pin(future)) };
            ScheduledState::Decided { task }
        }
    };
    Scheduled { state }
}

impl<F: Future> Future for Scheduled<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self.project().state.project() {
            ScheduledProjection::Plain { future } => future.poll(cx),
            ScheduledProjection::Decided { task } => task.poll(cx),
        }
    }
}

impl<F: Future> DecidedTask<F> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        // Without its scheduler the simulation is over.
        let turn = scheduler().map_or(Turn::Drop, |scheduler| scheduler.turn(self.id, cx.waker()));
        let Some(future) = &mut self.future else { return Poll::Pending };
        if turn == Turn::Wait {
            return Poll::Pending;
        }
        let mut ran = RanGuard { id: self.id, ended: true };
        let polled = if turn == Turn::Run { future.as_mut().poll(cx) } else { Poll::Pending };
        if turn == Turn::Drop || polled.is_ready() {
            // Dropped while it still is the current task: what its destructors spawn belongs to its process.
            self.future = None;
        }
        ran.ended = self.future.is_none();
        polled
    }
}

/// Reports that a task has run, also if it panicked.
struct RanGuard {
    id: TaskId,
    ended: bool,
}

impl Drop for RanGuard {
    fn drop(&mut self) {
        if let Some(scheduler) = scheduler() {
            scheduler.ran(self.id, self.ended);
        }
    }
}

impl<F: Future> Drop for DecidedTask<F> {
    fn drop(&mut self) {
        if self.future.take().is_some()
            && let Some(scheduler) = scheduler()
        {
            scheduler.dropped(self.id);
        }
    }
}

impl<F: Future> std::fmt::Debug for Scheduled<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduled").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
