//! [`TaskGroup`]: tasks that begin and end together.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;

use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, timeout_at};

use super::error::BoxError;
use super::stop_signal::StopSignal;
use crate::panic_guard::{catch_panic, panic_message};

/// Something to be run until it is told to end.
pub(super) struct ManagedTask {
    pub(super) name: String,
    pub(super) begin: StartTask,
}

pub(super) type StartTask = Box<dyn FnOnce(StopSignal) -> TaskFuture + Send>;
pub(super) type TaskFuture = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

/// A task has ended in a way that ends all others.
pub(super) struct TaskFailure {
    pub(super) task: String,
    pub(super) error: BoxError,
}

/// Tasks that begin and end together. When this is dropped, they are too.
pub(super) struct TaskGroup {
    tasks: JoinSet<()>,
    names: HashMap<Id, String>,
    give: watch::Sender<bool>,
    stop: StopSignal,
    failures: mpsc::UnboundedSender<TaskFailure>,
}

impl TaskGroup {
    pub(super) fn new(failures: &mpsc::UnboundedSender<TaskFailure>) -> Self {
        let (give, stop) = StopSignal::new();
        TaskGroup { tasks: JoinSet::new(), names: HashMap::new(), give, stop, failures: failures.clone() }
    }

    pub(super) fn begin(&mut self, task: ManagedTask) {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.forget(&ended);
        }
        let ManagedTask { name, begin } = task;
        let (stop, failures, failing) = (self.stop.clone(), self.failures.clone(), name.clone());
        let handle = self.tasks.spawn(async move {
            // Made in here, so that a panic while it is made is the task's own too.
            let outcome = catch_panic(Box::pin(async move { begin(stop).await })).await;
            let error = match outcome {
                Ok(Ok(())) => return tracing::debug!(task = failing, "the task has ended"),
                Ok(Err(error)) => error,
                Err(panic) => format!("panic: {}", panic_message(&*panic)).into(),
            };
            // Nobody listens any more if everything is ending.
            let _ = failures.send(TaskFailure { task: failing, error });
        });
        self.names.insert(handle.id(), name);
    }

    fn forget(&mut self, ended: &Result<(Id, ()), tokio::task::JoinError>) {
        let id = match ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        self.names.remove(&id);
    }

    /// Gives the sign to end, and waits for it until the deadline. Answers with the names of those that had to be cut short.
    pub(super) async fn end(&mut self, deadline: Option<Instant>) -> Vec<String> {
        self.give.send_replace(true);
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
        // Those that have ended at the very moment are not cut short.
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.forget(&ended);
        }
        let mut late: Vec<_> = self.names.drain().map(|(_, name)| name).collect();
        late.sort();
        self.tasks.shutdown().await;
        late
    }
}
