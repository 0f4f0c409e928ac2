use std::future::poll_fn;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::Waker;
use std::time::Duration;

use super::*;

/// Lets one task run at a time: the one that was chosen.
#[derive(Default)]
struct OneAtATime {
    chosen: AtomicU64,
    crashed: AtomicBool,
    tasks: AtomicU64,
    log: Mutex<Vec<String>>,
}

impl TaskScheduler for OneAtATime {
    fn spawned(&self) -> TaskId {
        TaskId(self.tasks.fetch_add(1, Relaxed) + 1)
    }

    fn turn(&self, task: TaskId, _: &Waker) -> Turn {
        match (self.crashed.load(Relaxed), self.chosen.load(Relaxed) == task.0) {
            (true, _) => Turn::Drop,
            (false, true) => Turn::Run,
            (false, false) => Turn::Wait,
        }
    }

    fn ran(&self, task: TaskId, ended: bool) {
        self.log.lock().unwrap().push(format!("{} {}", task.0, if ended { "ended" } else { "waits" }));
    }

    fn dropped(&self, task: TaskId) {
        self.log.lock().unwrap().push(format!("{} dropped", task.0));
    }

    fn time_of_day(&self) -> Duration {
        Duration::from_secs(7)
    }
}

fn poll<F: Future>(future: Pin<&mut Scheduled<F>>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Waits once, then returns its argument.
fn second_poll(value: u32) -> impl Future<Output = u32> {
    let mut waited = false;
    poll_fn(move |_| match std::mem::replace(&mut waited, true) {
        true => Poll::Ready(value),
        false => Poll::Pending,
    })
}

#[test]
fn without_a_scheduler_a_task_is_its_future() {
    let mut task = Box::pin(scheduled(second_poll(3)));
    assert_eq!(poll(task.as_mut()), Poll::Pending);
    assert_eq!(poll(task.as_mut()), Poll::Ready(3));
    assert_eq!(simulated_time_of_day(), None);
}

#[test]
fn a_task_runs_when_the_scheduler_lets_it() {
    let scheduler = Arc::new(OneAtATime::default());
    let _installed = install(scheduler.clone());
    let (mut first, mut second) = (Box::pin(scheduled(second_poll(1))), Box::pin(scheduled(second_poll(2))));
    scheduler.chosen.store(2, Relaxed);
    assert_eq!(poll(first.as_mut()), Poll::Pending);
    assert_eq!(poll(second.as_mut()), Poll::Pending);
    assert_eq!(poll(second.as_mut()), Poll::Ready(2));
    drop(first);
    assert_eq!(*scheduler.log.lock().unwrap(), ["2 waits", "2 ended", "1 dropped"]);
    assert_eq!(simulated_time_of_day(), Some(Duration::from_secs(7)));
}

#[test]
fn a_task_of_a_crashed_process_drops_its_future_and_never_ends() {
    let scheduler = Arc::new(OneAtATime::default());
    let _installed = install(scheduler.clone());
    let held = Arc::new(());
    let inside = Arc::clone(&held);
    let mut task = Box::pin(scheduled(async move {
        let _inside = inside;
        second_poll(1).await
    }));
    scheduler.crashed.store(true, Relaxed);
    assert_eq!(poll(task.as_mut()), Poll::Pending);
    assert_eq!(Arc::strong_count(&held), 1, "the future is dropped");
    assert_eq!(poll(task.as_mut()), Poll::Pending);
    drop(task);
    assert_eq!(*scheduler.log.lock().unwrap(), ["1 ended"]);
}
