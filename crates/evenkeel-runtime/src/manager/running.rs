//! [`RunningManager`]: a manager that runs.

use std::future::Future;
use std::time::Duration;

use evenkeel_base::task::scheduled;
use evenkeel_cache::{InformerFactory, RunningInformers};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout, timeout_at};

use super::election::{Term, TermEvent};
use super::error::{BoxError, ManagerError};
use super::task_group::{ManagedTask, TaskFailure, TaskGroup};
use super::{DiagnosticTargets, Election, LateTask, MakeStandby, Manager, StandbyTasks};
use crate::controller::{ControllerError, not_synced};

/// The state of a running manager. Dropping it stops everything.
pub(super) struct RunningManager {
    informers: InformerFactory,
    /// Handle of the informers that the manager and its controllers started.
    running: RunningInformers,
    /// One for each server, in the order in which they start.
    servers: Vec<TaskGroup>,
    always: TaskGroup,
    elected: TaskGroup,
    /// The tasks that start when this process becomes leader.
    waiting: Vec<ManagedTask>,
    is_leading: bool,
    failed: mpsc::UnboundedReceiver<TaskFailure>,
    term_events: mpsc::UnboundedReceiver<TermEvent>,
    campaign: JoinSet<Result<(), BoxError>>,
    end_of_term: watch::Sender<bool>,
    grace: Option<Duration>,
}

/// What a manager starts.
pub(super) struct StartPlan {
    servers: Vec<ManagedTask>,
    always: Vec<ManagedTask>,
    controllers: Vec<MakeStandby>,
    targets: DiagnosticTargets,
    election: Option<Box<dyn Election>>,
    term: Term,
    sync_timeout: Duration,
    late: mpsc::UnboundedReceiver<LateTask>,
}

impl RunningManager {
    pub(super) fn new(manager: Manager) -> (Self, StartPlan) {
        let (failures, failed) = mpsc::unbounded_channel();
        let (events, term_events) = mpsc::unbounded_channel();
        let (end_of_term, term) = Term::new(&events);
        let running = RunningManager {
            informers: manager.informers,
            running: RunningInformers::default(),
            servers: manager.servers.iter().map(|_| TaskGroup::new(&failures)).collect(),
            always: TaskGroup::new(&failures),
            elected: TaskGroup::new(&failures),
            waiting: manager.elected,
            is_leading: false,
            failed,
            term_events,
            campaign: JoinSet::new(),
            end_of_term,
            grace: manager.grace,
        };
        let plan = StartPlan {
            servers: manager.servers,
            always: manager.always,
            controllers: manager.controllers,
            targets: manager.targets,
            election: manager.election,
            term,
            sync_timeout: manager.sync_timeout,
            late: manager.late.1,
        };
        (running, plan)
    }

    /// Starts everything in order, and returns when something fails.
    pub(super) async fn run(&mut self, plan: StartPlan) -> ManagerError {
        let StartPlan { servers, always, controllers, targets, election, term, sync_timeout, mut late } = plan;
        for (group, server) in self.servers.iter_mut().zip(servers) {
            group.start(server);
        }
        self.running.merge(self.informers.start());
        if let Err(error) = self.synced(sync_timeout).await {
            return error;
        }
        for task in always {
            self.always.start(task);
        }
        let mut factories = vec![self.informers.clone()];
        for controller in controllers {
            match self.add_standby(controller, &targets, &factories) {
                Ok(informers) => factories.push(informers),
                Err(error) => return error.into(),
            }
        }
        let elector = election.as_ref().and_then(|election| election.handle());
        if let (Some(inspector), Some(elector)) = (&targets.inspector, elector) {
            inspector.election(&elector);
        }
        match election {
            Some(election) => drop(self.campaign.spawn(scheduled(async move { election.campaign(term).await }))),
            None => self.lead(),
        }
        loop {
            tokio::select! {
                biased;
                Some(failed) = self.failed.recv() => return failed.into(),
                Some(event) = self.term_events.recv() => match event {
                    TermEvent::Elected => self.lead(),
                    TermEvent::Lost => return ManagerError::LeadershipLost { source: None },
                },
                Some(ended) = self.campaign.join_next() => {
                    return ManagerError::LeadershipLost { source: loss_reason(ended) };
                }
                Some(task) = late.recv() => match task {
                    LateTask::Always(task) => self.always.start(task),
                    LateTask::Elected(task) => self.add_elected(task),
                    // Factories of those that are added at run time are not kept: they may be stopped alone.
                    LateTask::Controller(controller) => {
                        if let Err(error) = self.add_standby(controller, &targets, &factories) {
                            return error.into();
                        }
                    }
                },
            }
        }
    }

    /// Starts a controller as standby, and its workers if this process leads. Returns the factory of its informers, which must not
    /// cache what one of the others caches.
    fn add_standby(
        &mut self,
        controller: MakeStandby,
        targets: &DiagnosticTargets,
        others: &[InformerFactory],
    ) -> Result<InformerFactory, ControllerError> {
        let StandbyTasks { readiness, lead, running, informers: (name, informers), is_sharded } =
            controller(&self.informers, targets)?;
        cached_twice(&name, &informers, others)?;
        self.running.merge(running);
        self.always.start(readiness);
        match is_sharded {
            true => self.always.start(lead),
            false => self.add_elected(lead),
        }
        Ok(informers)
    }

    /// Starts a task if this process leads, or when it does.
    fn add_elected(&mut self, task: ManagedTask) {
        if self.is_leading {
            return self.elected.start(task);
        }
        self.waiting.retain(|waiting| !waiting.is_cancelled());
        self.waiting.push(task);
    }

    async fn synced(&mut self, limit: Duration) -> Result<(), ManagerError> {
        let informers = self.informers.clone();
        tokio::select! {
            biased;
            Some(failed) = self.failed.recv() => Err(failed.into()),
            synced = timeout(limit, informers.wait_for_sync()) => match synced {
                Ok(synced) => Ok(synced?),
                Err(_) => {
                    let statuses = informers.statuses();
                    let late = statuses.iter().filter(|status| !status.has_synced).map(not_synced);
                    Err(ManagerError::SyncTimeout { limit, informers: late.collect() })
                }
            },
        }
    }

    fn lead(&mut self) {
        self.is_leading = true;
        for task in std::mem::take(&mut self.waiting) {
            self.elected.start(task);
        }
    }

    /// Stops everything in order.
    pub(super) async fn shut_down(mut self, outcome: Result<(), ManagerError>) -> Result<(), ManagerError> {
        match outcome {
            Err(ManagerError::LeadershipLost { source }) => Err(self.lose(source).await),
            outcome => {
                let ShutdownReport { late, lost } = self.drain().await;
                // The first error wins. An error during the shutdown counts if there was none before.
                let mut failure = None;
                while let Ok(failed) = self.failed.try_recv() {
                    let task = failed.task.clone();
                    let error = ManagerError::from(failed);
                    tracing::error!(task, %error, "task failed during the shutdown");
                    failure.get_or_insert(error);
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

    async fn drain(&mut self) -> ShutdownReport {
        let deadline = self.deadline();
        let (mut late, mut dropped) = (Vec::new(), Vec::new());
        let RunningManager { always, elected, term_events, is_leading, .. } = self;
        let is_lost = tokio::select! {
            biased;
            () = lost(term_events, is_leading) => true,
            () = async {
                late.extend(always.stop(deadline).await);
                late.extend(elected.stop(deadline).await);
            } => false,
        };
        // Standby controllers have nothing in flight. The tasks that waited for them have stopped.
        self.waiting.clear();
        if is_lost {
            // Another process may be leader now, so the elected tasks have no grace any more.
            dropped = self.elected.stop(Some(Instant::now())).await;
            late.extend(self.always.stop(deadline).await);
        }
        if within(deadline, std::mem::take(&mut self.running).drain()).await.is_none() {
            late.push("informers".to_owned());
        }
        late.extend(self.stop_servers(deadline).await);
        self.end_of_term.send_replace(true);
        while let Ok(event) = self.term_events.try_recv() {
            self.is_leading |= event == TermEvent::Elected;
        }
        let mut source = None;
        if self.is_leading
            && let Some(Some(ended)) = within(deadline, self.campaign.join_next()).await
        {
            source = loss_reason(ended);
        }
        self.campaign.shutdown().await;
        if dropped.is_empty() {
            if let Some(error) = source.take() {
                tracing::warn!(error, "leadership lost during the shutdown");
            }
            return ShutdownReport { late, lost: None };
        }
        tracing::warn!(tasks = ?dropped, "leadership lost during the shutdown; elected tasks dropped");
        ShutdownReport { late, lost: Some(source) }
    }

    /// Stops the servers, the last one first, so that probes that were added first are answered while webhooks finish. Returns
    /// the name of the one that exceeded the deadline; the others had no time left.
    async fn stop_servers(&mut self, deadline: Option<Instant>) -> Vec<String> {
        let mut late = Vec::new();
        for server in self.servers.iter_mut().rev() {
            let dropped = server.stop(deadline).await;
            if late.is_empty() {
                late = dropped;
            }
        }
        late
    }

    /// Drops the elected tasks first and at once: another process may be leader now.
    async fn lose(&mut self, source: Option<BoxError>) -> ManagerError {
        let (now, deadline) = (Some(Instant::now()), self.deadline());
        self.waiting.clear();
        self.elected.stop(now).await;
        self.end_of_term.send_replace(true);
        self.always.stop(now).await;
        within(now, std::mem::take(&mut self.running).drain()).await;
        self.stop_servers(now).await;
        let source = match source {
            Some(source) => Some(source),
            // An election that cannot reach the server may take long to return its error.
            None => within(deadline, self.campaign.join_next()).await.flatten().and_then(loss_reason),
        };
        ManagerError::LeadershipLost { source }
    }

    /// Returns the end of a grace period that starts now; `None` without a limit.
    fn deadline(&self) -> Option<Instant> {
        self.grace.and_then(|grace| Instant::now().checked_add(grace))
    }
}

/// Returns an error if a controller has informers of another factory that cache the same objects.
fn cached_twice(
    controller: &str,
    informers: &InformerFactory,
    others: &[InformerFactory],
) -> Result<(), ControllerError> {
    let doubles = others.iter().map(|other| other.cached_twice(informers));
    let Some(names) = doubles.into_iter().find(|names| !names.is_empty()) else { return Ok(()) };
    let problem = format!(
        "its informers ({}) cache what others of the manager cache already: pass the factory to \
         `Manager::with_informers`, or leave out `.informers(…)`",
        names.join(", ")
    );
    Err(ControllerError::InvalidConfig { controller: controller.to_owned(), problem })
}

/// How the shutdown went.
struct ShutdownReport {
    /// The names of the tasks that exceeded the grace period.
    late: Vec<String>,
    /// The error of the election, if leadership was lost while elected tasks were running.
    lost: Option<Option<BoxError>>,
}

/// Waits until leadership is lost. Records that it was won meanwhile: then there is a lease to release.
async fn lost(events: &mut mpsc::UnboundedReceiver<TermEvent>, is_leading: &mut bool) {
    loop {
        match events.recv().await {
            Some(TermEvent::Lost) => return,
            Some(TermEvent::Elected) => *is_leading = true,
            None => std::future::pending().await,
        }
    }
}

/// Returns why leadership was lost, if the election returned an error.
fn loss_reason(ended: Result<Result<(), BoxError>, JoinError>) -> Option<BoxError> {
    match ended {
        Ok(ended) => ended.err(),
        Err(error) => Some(error.into()),
    }
}

/// Waits until the deadline. Polls the future once even if the deadline has passed.
async fn within<T>(deadline: Option<Instant>, future: impl Future<Output = T>) -> Option<T> {
    match deadline {
        None => Some(future.await),
        Some(deadline) => timeout_at(deadline, future).await.ok(),
    }
}

impl From<TaskFailure> for ManagerError {
    fn from(TaskFailure { task, error }: TaskFailure) -> Self {
        match error.downcast::<ControllerError>() {
            // It names the controller, which is the task.
            Ok(error) => ManagerError::Controller(*error),
            Err(source) => ManagerError::Task { task, source },
        }
    }
}
