//! [`Engine`]: a controller that has begun, of whatever kind.

use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use evenkeel_cache::source::BoxFuture;
use evenkeel_cache::{InformerFactory, Registration};
use evenkeel_core::ObjectKey;
use evenkeel_queue::{Add, Item, WorkQueue};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::Instrument;

use super::context::{Context, Shared};
use super::error::ControllerError;
use super::journal::{Journal, Listing, Why};
use super::metrics::Metrics;
use super::next::{Failure, Next, When};
use super::parking::{Attendant, Parking};
use super::view::View;
use crate::contain::{contained, text_of};

/// What is done for a key.
pub(super) type Reconcile = Arc<dyn Fn(Context) -> BoxFuture<'static, Result<Next, Failure>> + Send + Sync>;

/// How long events that were recorded may take to be written when a controller ends.
const FAREWELL: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) concurrency: usize,
    pub(super) timeout: Option<Duration>,
    pub(super) sync_timeout: Duration,
    pub(super) grace: Duration,
    /// How long own writes are waited for; `None` if they are not.
    pub(super) own_writes: Option<Duration>,
    pub(super) recover_panics: bool,
}

/// A controller that has begun: informers run and fill the queue, and nobody works yet. When it is dropped, all of it ends.
pub(super) struct Engine {
    pub(super) shared: Arc<Shared>,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) registrations: Vec<Registration>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) settings: Settings,
    pub(super) informers: InformerFactory,
    /// Whether the informers are nobody else's.
    pub(super) owns_informers: bool,
    pub(super) owns_recorder: bool,
    pub(super) journal: Journal,
    /// Where it can be looked at, if that was asked for.
    pub(super) listing: Option<Listing>,
}

impl Engine {
    fn name(&self) -> String {
        self.shared.name.to_string()
    }

    /// Waits until every handler has been told of everything that there was.
    pub(super) async fn synced(&self) -> Result<(), ControllerError> {
        self.readiness().await
    }

    /// As [`synced`](Self::synced), for whoever does not have this at hand while waiting.
    pub(super) fn readiness(&self) -> impl Future<Output = Result<(), ControllerError>> + Send + use<> {
        let readiness = Readiness {
            controller: self.name(),
            registrations: self.registrations.clone(),
            informers: self.informers.clone(),
            limit: self.settings.sync_timeout,
        };
        async move { readiness.synced().await }
    }

    /// Works until `shutdown`, and comes to an end in good order.
    pub(super) async fn run(
        self,
        mut shutdown: Pin<&mut (dyn Future<Output = ()> + Send)>,
        reconcile: Reconcile,
    ) -> Result<(), ControllerError> {
        let begun = tokio::select! {
            biased;
            () = &mut shutdown => Ok(false),
            synced = self.synced() => synced.map(|()| true),
        };
        let outcome = match begun {
            Ok(true) => self.work(shutdown, reconcile).await,
            begun => begun.map(drop),
        };
        self.end().await;
        outcome
    }

    async fn work(
        &self,
        shutdown: Pin<&mut (dyn Future<Output = ()> + Send)>,
        reconcile: Reconcile,
    ) -> Result<(), ControllerError> {
        let (parking, waits) = Parking::new(&self.metrics);
        self.journal.parks_in(&parking);
        let mut attendance = JoinSet::new();
        if let Some(limit) = self.settings.own_writes {
            let attendant = Attendant {
                controller: self.name(),
                parking: Arc::clone(&parking),
                queue: self.queue.clone(),
                views: Arc::clone(&self.shared.views),
                metrics: Arc::clone(&self.metrics),
                limit,
                journal: self.journal.clone(),
            };
            attendance.spawn(attendant.run(waits));
        }
        let crew = Arc::new(Crew {
            shared: Arc::clone(&self.shared),
            queue: self.queue.clone(),
            parking,
            metrics: Arc::clone(&self.metrics),
            settings: self.settings.clone(),
            journal: self.journal.clone(),
            reconcile,
        });
        let mut workers = JoinSet::new();
        for _ in 0..self.settings.concurrency {
            workers.spawn(Arc::clone(&crew).work());
        }
        tracing::info!(controller = %self.shared.name, workers = workers.len(), "the controller has begun");
        let ended = tokio::select! {
            biased;
            () = shutdown => None,
            // A worker ends before it is told to only if a panic is to be passed on.
            Some(ended) = workers.join_next() => {
                pass_on(ended);
                None
            }
            kind = any_ended(&self.shared.views) => Some(kind),
        };
        self.stop();
        let finished = timeout(self.settings.grace, async {
            while let Some(ended) = workers.join_next().await {
                pass_on(ended);
            }
        });
        let outcome = match finished.await {
            Ok(()) => Ok(()),
            Err(_) => {
                let (running, grace) = (workers.len(), self.settings.grace);
                workers.shutdown().await;
                Err(ControllerError::CutShort { controller: self.name(), running, grace })
            }
        };
        attendance.shutdown().await;
        match ended {
            Some(kind) => Err(ControllerError::InformerEnded { controller: self.name(), kind }),
            None => outcome,
        }
    }

    /// No key is taken any more.
    fn stop(&self) {
        self.shared.stopping.send_replace(true);
        self.queue.shut_down();
    }

    /// Ends everything that is left, and waits for it.
    async fn end(&self) {
        self.stop();
        for registration in &self.registrations {
            registration.shutdown().await;
        }
        if self.owns_informers {
            self.informers.shutdown().await;
        }
        if let Some(recorder) = self.shared.recorder.get() {
            let written = match self.owns_recorder {
                true => recorder.shutdown().within(FAREWELL).await,
                false => recorder.flush().within(FAREWELL).await,
            };
            if let Err(unfinished) = written {
                tracing::warn!(controller = %self.shared.name, %unfinished, "events were not written");
            }
        }
        tracing::info!(controller = %self.shared.name, "the controller has ended");
    }
}

/// What it takes to know whether a controller has everything at hand.
struct Readiness {
    controller: String,
    registrations: Vec<Registration>,
    informers: InformerFactory,
    limit: Duration,
}

impl Readiness {
    async fn synced(&self) -> Result<(), ControllerError> {
        let limit = self.limit;
        let all = async {
            for registration in &self.registrations {
                registration.synced().await?;
            }
            Ok(())
        };
        match timeout(limit, all).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(source)) => Err(ControllerError::InformerStopped { controller: self.controller.clone(), source }),
            Err(_) => {
                let late = self.registrations.iter().filter(|registration| !registration.has_synced());
                let waiting_for = late.map(|registration| self.describe(registration)).collect();
                Err(ControllerError::NotSynced { controller: self.controller.clone(), limit, waiting_for })
            }
        }
    }

    /// A handler that is not done, and what is known of why.
    fn describe(&self, registration: &Registration) -> String {
        let what = evenkeel_cache::wait::DoneChecker::name(registration).into_owned();
        let is_of = |name: &str| what.starts_with(&format!("informer {name} + "));
        let status = self.informers.statuses().into_iter().find(|status| is_of(&status.name));
        match status.and_then(|status| status.reflector.last_error) {
            Some(error) => format!("{what} ({})", error.message),
            None => what,
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // While the name is still its own.
        self.listing = None;
        self.stop();
        for registration in &self.registrations {
            registration.remove();
        }
        if self.owns_informers {
            for view in self.shared.views.iter() {
                view.stop();
            }
        }
    }
}

/// Waits until one of the informers has ended, and answers of which kind it was.
async fn any_ended(views: &[View]) -> String {
    let mut ended: Vec<_> = views.iter().map(|view| (view, view.ended())).collect();
    poll_fn(|context| {
        let is_over = |(_, ended): &mut (&View, BoxFuture<'_, ()>)| ended.as_mut().poll(context).is_ready();
        match ended.iter_mut().position(is_over) {
            Some(place) => Poll::Ready(ended[place].0.kind().to_owned()),
            None => Poll::Pending,
        }
    })
    .await
}

fn pass_on(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        resume_unwind(panic);
    }
}

/// What workers share.
struct Crew {
    shared: Arc<Shared>,
    queue: WorkQueue<ObjectKey>,
    parking: Arc<Parking>,
    metrics: Arc<Metrics>,
    settings: Settings,
    journal: Journal,
    reconcile: Reconcile,
}

/// How a reconcile went.
enum Outcome {
    Answered(Next),
    Failed(Failure),
    Panicked(Box<dyn Any + Send>),
    TimedOut(Duration),
}

impl Crew {
    async fn work(self: Arc<Self>) {
        while let Some(item) = self.queue.next().await {
            if *self.shared.stopping.borrow() {
                return;
            }
            if let Some(item) = self.parking.admit(item) {
                self.process(item).await;
            }
        }
    }

    async fn process(&self, item: Item<ObjectKey>) {
        let about = (item.failures(), item.priority(), item.waited());
        let context = Context::new(&self.shared, item.key().clone(), about);
        let begun = Instant::now();
        let outcome = {
            let _running = self.metrics.running();
            let span = tracing::debug_span!("evenkeel.reconcile", controller = %self.shared.name, key = %item.key());
            self.attempt(context.clone()).instrument(span).await
        };
        self.metrics.took(begun.elapsed());
        let wants = context.notes().close();
        if self.settings.own_writes.is_some() && !wants.is_empty() {
            self.parking.hold(item.key(), wants);
        }
        self.conclude(item, outcome);
    }

    async fn attempt(&self, context: Context) -> Outcome {
        let reconcile = contained((self.reconcile)(context));
        let answer = match self.settings.timeout {
            None => reconcile.await,
            Some(limit) => match timeout(limit, reconcile).await {
                Ok(answer) => answer,
                Err(_) => return Outcome::TimedOut(limit),
            },
        };
        match answer {
            Ok(Ok(next)) => Outcome::Answered(next),
            Ok(Err(failure)) => Outcome::Failed(failure),
            Err(panic) if self.settings.recover_panics => Outcome::Panicked(panic),
            Err(panic) => resume_unwind(panic),
        }
    }

    fn conclude(&self, item: Item<ObjectKey>, outcome: Outcome) {
        let metrics = &self.metrics;
        let Next { when, priority } = match outcome {
            Outcome::Answered(next) => next,
            failed => return self.fail(item, failed),
        };
        let add = Add::new().priority(priority.unwrap_or(item.priority()));
        match when {
            When::Done => {
                metrics.success.increment(1);
                item.forget();
            }
            When::Requeue => {
                metrics.requeue.increment(1);
                self.journal.queued(item.key(), || Why::Requeue);
                self.queue.add_all([item.key().clone()], add.rate_limited());
                drop(item);
            }
            When::After(wait) => {
                metrics.requeue_after.increment(1);
                self.journal.queued(item.key(), || Why::After(wait));
                if priority.is_none() {
                    return item.requeue_after(wait);
                }
                self.queue.forget(item.key());
                self.queue.add_all([item.key().clone()], add.after(wait));
                drop(item);
            }
        }
    }

    fn fail(&self, item: Item<ObjectKey>, outcome: Outcome) {
        let metrics = &self.metrics;
        metrics.error.increment(1);
        metrics.errors.increment(1);
        match outcome {
            Outcome::Failed(failure) if failure.is_terminal() => {
                metrics.terminal_errors.increment(1);
                self.journal.failed(item.key(), &failure, item.failures().saturating_add(1), true);
                item.give_up(failure);
            }
            Outcome::Failed(failure) => self.retry(item, failure),
            Outcome::Panicked(panic) => {
                metrics.panics.increment(1);
                self.retry(item, format_args!("panic: {} [recovered]", text_of(&*panic)));
            }
            Outcome::TimedOut(limit) => {
                metrics.timeouts.increment(1);
                self.retry(item, format_args!("the reconcile took longer than {limit:?} and was cut short"));
            }
            Outcome::Answered(_) => {}
        }
    }

    fn retry(&self, item: Item<ObjectKey>, error: impl fmt::Display) {
        let failures = item.failures().saturating_add(1);
        self.journal.failed(item.key(), &error, failures, false);
        self.journal.queued(item.key(), || Why::Retry { failures });
        item.retry(error);
    }
}
