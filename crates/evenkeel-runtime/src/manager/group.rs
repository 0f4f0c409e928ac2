//! [`Group`]: tasks that begin and end together.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;

use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, timeout_at};

use super::error::BoxError;
use super::stop::Stop;
use crate::contain::{contained, text_of};

/// Something to be run until it is told to end.
pub(super) struct Task {
    pub(super) name: String,
    pub(super) begin: Begin,
}

pub(super) type Begin = Box<dyn FnOnce(Stop) -> Work + Send>;
pub(super) type Work = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

/// A task has ended in a way that ends all others.
pub(super) struct Failed {
    pub(super) task: String,
    pub(super) error: BoxError,
}

/// Tasks that begin and end together. When this is dropped, they are too.
pub(super) struct Group {
    tasks: JoinSet<()>,
    names: HashMap<Id, String>,
    give: watch::Sender<bool>,
    stop: Stop,
    failures: mpsc::UnboundedSender<Failed>,
}

impl Group {
    pub(super) fn new(failures: &mpsc::UnboundedSender<Failed>) -> Self {
        let (give, stop) = Stop::new();
        Group { tasks: JoinSet::new(), names: HashMap::new(), give, stop, failures: failures.clone() }
    }

    pub(super) fn begin(&mut self, task: Task) {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.forget(&ended);
        }
        let Task { name, begin } = task;
        let (stop, failures, failing) = (self.stop.clone(), self.failures.clone(), name.clone());
        let handle = self.tasks.spawn(async move {
            // Made in here, so that a panic while it is made is the task's own too.
            let outcome = contained(Box::pin(async move { begin(stop).await })).await;
            let error = match outcome {
                Ok(Ok(())) => return tracing::debug!(task = failing, "the task has ended"),
                Ok(Err(error)) => error,
                Err(panic) => format!("panic: {}", text_of(&*panic)).into(),
            };
            // Nobody listens any more if everything is ending.
            let _ = failures.send(Failed { task: failing, error });
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
