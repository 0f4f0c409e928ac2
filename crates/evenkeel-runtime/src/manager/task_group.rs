//! [`TaskGroup`]: tasks that start and stop together.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;

use evenkeel_base::task::scheduled;
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, timeout_at};

use super::error::BoxError;
use super::stop_signal::StopSignal;
use crate::panic_guard::{catch_panic, panic_message};

/// A task that runs until its stop signal.
pub(super) struct ManagedTask {
    pub(super) name: String,
    pub(super) start: StartTask,
    /// Requested if the task is not to start any more.
    pub(super) cancelled: Option<StopSignal>,
}

pub(super) type StartTask = Box<dyn FnOnce(StopSignal) -> TaskFuture + Send>;
pub(super) type TaskFuture = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

impl ManagedTask {
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.as_ref().is_some_and(StopSignal::is_requested)
    }
}

/// The failure of a task, which stops all others.
pub(super) struct TaskFailure {
    pub(super) task: String,
    pub(super) error: BoxError,
}

/// Tasks that start and stop together. Dropping the group drops them.
pub(super) struct TaskGroup {
    tasks: JoinSet<()>,
    names: HashMap<Id, String>,
    request_stop: watch::Sender<bool>,
    stop: StopSignal,
    failures: mpsc::UnboundedSender<TaskFailure>,
}

impl TaskGroup {
    pub(super) fn new(failures: &mpsc::UnboundedSender<TaskFailure>) -> Self {
        let (request_stop, stop) = StopSignal::new();
        TaskGroup { tasks: JoinSet::new(), names: HashMap::new(), request_stop, stop, failures: failures.clone() }
    }

    pub(super) fn start(&mut self, task: ManagedTask) {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.forget(&ended);
        }
        let ManagedTask { name, start, .. } = task;
        let (stop, failures, task) = (self.stop.clone(), self.failures.clone(), name.clone());
        let handle = self.tasks.spawn(scheduled(async move {
            // The future is made inside of the guard, so that a panic while it is made counts as the task's.
            let outcome = catch_panic(Box::pin(async move { start(stop).await })).await;
            let error = match outcome {
                Ok(Ok(())) => return tracing::debug!(task, "task ended"),
                Ok(Err(error)) => error,
                Err(panic) => format!("panic: {}", panic_message(&*panic)).into(),
            };
            // The receiver is dropped if the manager was.
            let _ = failures.send(TaskFailure { task, error });
        }));
        self.names.insert(handle.id(), name);
    }

    fn forget(&mut self, ended: &Result<(Id, ()), tokio::task::JoinError>) {
        let id = match ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        self.names.remove(&id);
    }

    /// Requests all tasks to stop, waits for them until the deadline, and drops the rest. Returns the names of the dropped ones.
    pub(super) async fn stop(&mut self, deadline: Option<Instant>) -> Vec<String> {
        self.request_stop.send_replace(true);
        loop {
            let next = self.tasks.join_next_with_id();
            let ended = match deadline {
                None => next.await,
                Some(deadline) => match timeout_at(deadline, next).await {
                    Ok(ended) => ended,
                    Err(_) => break,
                },
            };
            let Some(ended) = ended else { break };
            self.forget(&ended);
        }
        // A task that ended at the deadline is not late.
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.forget(&ended);
        }
        let mut late: Vec<_> = self.names.drain().map(|(_, name)| name).collect();
        late.sort();
        self.tasks.shutdown().await;
        late
    }
}
