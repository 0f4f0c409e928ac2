//! [`RunningManager`]: a manager that runs.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use evenkeel_cache::InformerFactory;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout, timeout_at};

use super::election::{Term, TermEvent};
use super::error::{BoxError, ManagerError};
use super::task_group::{ManagedTask, TaskFailure, TaskGroup};
use super::{DiagnosticTargets, Election, LateTask, Manager, StandbyFactory, StandbyTasks};

/// What is there while a manager runs. When it is dropped, all of it ends.
pub(super) struct RunningManager {
    informers: InformerFactory,
    servers: TaskGroup,
    always: TaskGroup,
    elected: TaskGroup,
    /// What begins when this process leads.
    waiting: Vec<ManagedTask>,
    is_leading: bool,
    failed: mpsc::UnboundedReceiver<TaskFailure>,
    words: mpsc::UnboundedReceiver<TermEvent>,
    campaign: JoinSet<Result<(), BoxError>>,
    end_of_term: watch::Sender<bool>,
    grace: Option<Duration>,
}

/// What is to be begun.
pub(super) struct StartPlan {
    servers: Vec<ManagedTask>,
    always: Vec<ManagedTask>,
    controllers: Vec<StandbyFactory>,
    shown: DiagnosticTargets,
    election: Option<Box<dyn Election>>,
    term: Term,
    sync_timeout: Duration,
    later: mpsc::UnboundedReceiver<LateTask>,
}

impl RunningManager {
    pub(super) fn new(manager: Manager) -> (Self, StartPlan) {
        let (failures, failed) = mpsc::unbounded_channel();
        let (tell, words) = mpsc::unbounded_channel();
        let (end_of_term, term) = Term::new(&tell);
        let run = RunningManager {
            informers: manager.informers,
            servers: TaskGroup::new(&failures),
            always: TaskGroup::new(&failures),
            elected: TaskGroup::new(&failures),
            waiting: manager.elected,
            is_leading: false,
            failed,
            words,
            campaign: JoinSet::new(),
            end_of_term,
            grace: manager.grace,
        };
        let plan = StartPlan {
            servers: manager.servers,
            always: manager.always,
            controllers: manager.controllers,
            shown: manager.shown,
            election: manager.election,
            term,
            sync_timeout: manager.sync_timeout,
            later: manager.later.1,
        };
        (run, plan)
    }

    /// Begins everything in order, and goes on until something goes wrong.
    pub(super) async fn go(&mut self, plan: StartPlan) -> ManagerError {
        let StartPlan { servers, always, controllers, shown, election, term, sync_timeout, mut later } = plan;
        for server in servers {
            self.servers.begin(server);
        }
        self.informers.start();
        if let Err(error) = self.synced(sync_timeout).await {
            return error;
        }
        for task in always {
            self.always.begin(task);
        }
        for controller in controllers {
            match controller(&self.informers, &shown) {
                Ok(StandbyTasks { readiness, lead }) => {
                    self.always.begin(readiness);
                    self.waiting.push(lead);
                }
                Err(error) => return error.into(),
            }
        }
        match election {
            Some(election) => drop(self.campaign.spawn(async move { election.campaign(term).await })),
            None => self.lead(),
        }
        loop {
            tokio::select! {
                Some(failed) = self.failed.recv() => return failed.into(),
                Some(word) = self.words.recv() => match word {
                    TermEvent::Elected => self.lead(),
                    TermEvent::Lost => return ManagerError::LeadershipLost { source: None },
                },
                Some(ended) = self.campaign.join_next() => {
                    return ManagerError::LeadershipLost { source: reason(ended) };
                }
                Some(task) = later.recv() => match task {
                    LateTask::Always(task) => self.always.begin(task),
                    LateTask::Elected(task) if self.is_leading => self.elected.begin(task),
                    LateTask::Elected(task) => self.waiting.push(task),
                },
            }
        }
    }

    async fn synced(&mut self, limit: Duration) -> Result<(), ManagerError> {
        let informers = self.informers.clone();
        tokio::select! {
            Some(failed) = self.failed.recv() => Err(failed.into()),
            synced = timeout(limit, informers.wait_for_sync()) => match synced {
                Ok(synced) => Ok(synced?),
                Err(_) => {
                    let late = informers.statuses().into_iter().filter(|status| !status.has_synced);
                    Err(ManagerError::SyncTimeout { limit, informers: late.map(|status| status.name).collect() })
                }
            },
        }
    }

    fn lead(&mut self) {
        self.is_leading = true;
        for task in std::mem::take(&mut self.waiting) {
            self.elected.begin(task);
        }
    }

    /// Ends everything in order.
    pub(super) async fn end(mut self, outcome: Result<(), ManagerError>) -> Result<(), ManagerError> {
        match outcome {
            Err(ManagerError::LeadershipLost { source }) => Err(self.lose(source).await),
            outcome => {
                let ShutdownReport { late, lost } = self.wind_down().await;
                // What went wrong first is said first; what goes wrong in the end counts if nothing else did.
                let mut failure = None;
                while let Ok(TaskFailure { task, error }) = self.failed.try_recv() {
                    tracing::error!(task, error, "a task failed while everything ended");
                    failure.get_or_insert(ManagerError::Task { task, source: error });
                }
                outcome?;
                if let Some(source) = lost {
                    return Err(ManagerError::LeadershipLost { source });
                }
                match failure {
                    _ if !late.is_empty() => {
                        Err(ManagerError::GraceExceeded { grace: self.grace.unwrap_or_default(), tasks: late })
                    }
                    Some(failure) => Err(failure),
                    None => Ok(()),
                }
            }
        }
    }

    async fn wind_down(&mut self) -> ShutdownReport {
        let deadline = self.deadline();
        let (mut late, mut dropped) = (Vec::new(), Vec::new());
        let RunningManager { always, elected, words, is_leading, .. } = self;
        let is_lost = tokio::select! {
            biased;
            () = lost(words, is_leading) => true,
            () = async {
                late.extend(always.end(deadline).await);
                late.extend(elected.end(deadline).await);
            } => false,
        };
        // Controllers that stand by have nothing to finish. Whoever waited for them has ended.
        self.waiting.clear();
        if is_lost {
            // Somebody else may lead now, so there is no grace any more for what was elected.
            dropped = self.elected.end(Some(Instant::now())).await;
            late.extend(self.always.end(deadline).await);
        }
        let informers = self.informers.clone();
        if within(deadline, informers.shutdown()).await.is_none() {
            late.push("informers".to_owned());
        }
        late.extend(self.servers.end(deadline).await);
        self.end_of_term.send_replace(true);
        while let Ok(word) = self.words.try_recv() {
            self.is_leading |= word == TermEvent::Elected;
        }
        let mut source = None;
        if self.is_leading
            && let Some(Some(ended)) = within(deadline, self.campaign.join_next()).await
        {
            source = reason(ended);
        }
        self.campaign.shutdown().await;
        if dropped.is_empty() {
            if let Some(error) = source.take() {
                tracing::warn!(error, "leadership was lost while everything ended");
            }
            return ShutdownReport { late, lost: None };
        }
        tracing::warn!(tasks = ?dropped, "leadership was lost while everything ended, and these tasks were dropped");
        ShutdownReport { late, lost: Some(source) }
    }

    /// Ends what was elected before all else, and at once: somebody else may lead now.
    async fn lose(&mut self, source: Option<BoxError>) -> ManagerError {
        let (now, deadline) = (Some(Instant::now()), self.deadline());
        self.waiting.clear();
        self.elected.end(now).await;
        self.end_of_term.send_replace(true);
        self.always.end(now).await;
        let informers = self.informers.clone();
        within(now, informers.shutdown()).await;
        self.servers.end(now).await;
        let source = match source {
            Some(source) => Some(source),
            // An election that cannot reach anybody may take long to say so.
            None => within(deadline, self.campaign.join_next()).await.flatten().and_then(reason),
        };
        ManagerError::LeadershipLost { source }
    }

    /// Until when everything has to end, if it begins to now.
    fn deadline(&self) -> Option<Instant> {
        self.grace.and_then(|grace| Instant::now().checked_add(grace))
    }
}

/// How everything ended.
struct ShutdownReport {
    /// The names of those that took longer than the grace.
    late: Vec<String>,
    /// If leadership was lost while something that was elected had not ended: what the election says of it.
    lost: Option<Option<BoxError>>,
}

/// Informers may have users who do not end with the manager, such as handlers; they end all the same.
impl Drop for RunningManager {
    fn drop(&mut self) {
        // The first step tells all of them to end. Nobody is left to wait for it.
        let _ = pin!(self.informers.shutdown()).poll(&mut Context::from_waker(Waker::noop()));
    }
}

/// Waits until leadership is lost. That it was won is noted meanwhile: then there is a lease to be given back.
async fn lost(words: &mut mpsc::UnboundedReceiver<TermEvent>, is_leading: &mut bool) {
    loop {
        match words.recv().await {
            Some(TermEvent::Lost) => return,
            Some(TermEvent::Elected) => *is_leading = true,
            None => std::future::pending().await,
        }
    }
}

/// EnqueueReason leadership was lost, if the election says so.
fn reason(ended: Result<Result<(), BoxError>, JoinError>) -> Option<BoxError> {
    match ended {
        Ok(ended) => ended.err(),
        Err(error) => Some(error.into()),
    }
}

/// Waits no longer than until then. Even if that is now, what is ready is taken.
async fn within<T>(deadline: Option<Instant>, future: impl Future<Output = T>) -> Option<T> {
    match deadline {
        None => Some(future.await),
        Some(deadline) => timeout_at(deadline, future).await.ok(),
    }
}

impl From<TaskFailure> for ManagerError {
    fn from(TaskFailure { task, error }: TaskFailure) -> Self {
        ManagerError::Task { task, source: error }
    }
}
