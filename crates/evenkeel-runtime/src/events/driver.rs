//! The task of a sink: receives occurrences, asks the [`EventWriter`] what to write, and writes it.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_base::task::scheduled;
use evenkeel_client::Client;
use evenkeel_client::discovery::{DiscoveryError, GroupVersion};
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep, sleep_until, timeout};

use super::delivery::{Delivery, Limits, Outcome, Verdict};
use super::event_writer::{EventWriter, Settled, Write};
use super::metrics::{self, Dropped, Failed};
use super::options::SinkOptions;
use super::sink::{EventSink, SinkError, SinkEvent, SinkFuture, is_passing};
use super::tracker::Hold;
use super::{EventKey, Occurrence};

/// The timeout of a request. The write is retried after it.
const CALL: Duration = Duration::from_secs(30);

/// The receiving end of a sink.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(crate) events: mpsc::Receiver<Queued>,
    /// Its sender is dropped when the sink has to stop, possibly with events still queued.
    pub(crate) alive: watch::Receiver<()>,
}

/// An occurrence that is queued for a sink.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) occurrence: Arc<Occurrence>,
    pub(crate) hold: Option<Hold>,
}

/// Writes events until the queue is closed.
pub(crate) async fn drive<B: EventWriter>(
    inbox: Inbox,
    writer: B,
    sink: Arc<dyn EventSink<B::Event>>,
    options: SinkOptions,
    start: Instant,
) {
    let limits = Limits { jobs: options.queue, out: options.concurrency, attempts: options.attempts };
    let driver =
        Driver { writer, sink, delivery: Delivery::new(limits), calls: JoinSet::new(), ids: HashMap::new(), start };
    driver.run(inbox, &options).await;
}

struct Driver<B: EventWriter> {
    writer: B,
    sink: Arc<dyn EventSink<B::Event>>,
    delivery: Delivery<Write<B::Event>>,
    calls: JoinSet<Attempt<B::Event>>,
    /// The event and the reporter of each request in flight.
    ids: HashMap<Id, (EventKey, String)>,
    /// From when on occurrences count their time.
    start: Instant,
}

/// A finished attempt.
struct Attempt<E> {
    write: Write<E>,
    end: End<E>,
}

enum End<E> {
    Written(E, &'static str),
    /// Nothing more to do and nothing to log.
    Quiet(SinkError),
    Refused(SinkError),
    Retry(SinkError),
}

impl<B: EventWriter> Driver<B> {
    async fn run(mut self, mut inbox: Inbox, options: &SinkOptions) {
        let (mut refresh, mut finish) = (every(options.refresh_every), every(options.finish_after));
        let (mut is_closing, mut is_drained, mut is_last) = (false, false, false);
        loop {
            self.send();
            if is_drained && self.delivery.is_empty() {
                if is_last {
                    return;
                }
                is_last = true;
                let unwritten = self.writer.unwritten();
                self.push(unwritten);
                continue;
            }
            let due = self.delivery.next_due();
            tokio::select! {
                biased;
                Some(ended) = self.calls.join_next_with_id() => self.ended(ended),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
                _ = inbox.alive.changed(), if !is_closing => {
                    is_closing = true;
                    self.delivery.close();
                }
                _ = refresh.tick(), if B::HAS_SERIES && !is_closing => {
                    let writes = self.writer.refresh();
                    self.push(writes);
                }
                _ = finish.tick(), if B::HAS_SERIES && !is_closing => {
                    let writes = self.writer.finish(self.start.elapsed());
                    self.push(writes);
                }
                // Last: it may always be ready.
                queued = inbox.events.recv(), if !is_drained && self.delivery.has_room() => match queued {
                    Some(queued) => self.observe(queued),
                    None => is_drained = true,
                },
            }
        }
    }

    fn observe(&mut self, queued: Queued) {
        // Grouping may call functions of the user.
        let observed = catch_unwind(AssertUnwindSafe(|| self.writer.observe(&queued.occurrence)));
        let Ok(observed) = observed else {
            metrics::failed(&queued.occurrence.reporter.controller, Failed::Refused, 1);
            tracing::error!(event = %queued.occurrence, "sink option function panicked; event lost");
            return;
        };
        if observed.is_spam {
            metrics::dropped(&queued.occurrence.reporter.controller, Dropped::Spam);
            tracing::debug!(event = %queued.occurrence, "event filtered as spam; counted only");
        }
        let mut writes = observed.writes;
        if let Some(write) = writes.first_mut() {
            write.hold = queued.hold;
        }
        self.push(writes);
    }

    fn push(&mut self, writes: Vec<Write<B::Event>>) {
        for write in writes {
            self.delivery.push(write.event.id(), write, |earlier, later| later.after(earlier));
        }
    }

    fn send(&mut self) {
        while let Some((id, write)) = self.delivery.take(Instant::now()) {
            let controller = write.event.controller().to_owned();
            let call = self.calls.spawn(scheduled(attempt(Arc::clone(&self.sink), write)));
            self.ids.insert(call.id(), (id, controller));
        }
    }

    fn ended(&mut self, ended: Result<(Id, Attempt<B::Event>), JoinError>) {
        let task = match &ended {
            Ok((task, _)) => *task,
            Err(error) => error.id(),
        };
        let Some((id, controller)) = self.ids.remove(&task) else { return };
        match ended {
            Ok((_, attempt)) => self.judge(&id, attempt, &controller),
            Err(error) => {
                metrics::failed(&controller, Failed::Refused, 1);
                tracing::error!(event = ?id, %error, "event sink panicked; event lost");
                self.delivery.done(&id, Verdict::Done, Instant::now());
            }
        }
    }

    fn judge(&mut self, id: &EventKey, attempt: Attempt<B::Event>, controller: &str) {
        let (now, write) = (Instant::now(), attempt.write);
        let (settled, verdict) = match attempt.end {
            End::Written(event, verb) => {
                metrics::written(controller, verb);
                self.writer.settled(&write.key, Settled::Written(&event));
                (None, Verdict::Done)
            }
            End::Quiet(error) => {
                tracing::debug!(event = ?id, %error, "event not written");
                (Some(write.key), Verdict::Done)
            }
            End::Refused(error) => {
                metrics::failed(controller, Failed::Refused, 1);
                tracing::warn!(event = ?id, %error, "event rejected by the server; dropped");
                (Some(write.key), Verdict::Done)
            }
            End::Retry(error) => {
                let attempts = self.delivery.attempts(id) + 1;
                let asked = match &error {
                    SinkError::Unavailable { after, .. } => after.unwrap_or_default(),
                    _ => Duration::ZERO,
                };
                let wait = self.writer.pause(attempts, fastrand::f64()).max(asked);
                tracing::debug!(event = ?id, %error, attempts, ?wait, "event write failed; retrying");
                (None, Verdict::Retry(write, wait))
            }
        };
        if let Some(key) = settled {
            self.writer.settled(&key, Settled::Refused);
        }
        match self.delivery.done(id, verdict, now) {
            Outcome::Over => {}
            Outcome::Again => metrics::retried(controller),
            Outcome::Exhausted(write) => self.give_up(id, &write, controller, Failed::Attempts),
            Outcome::OutOfTime(write) => self.give_up(id, &write, controller, Failed::Shutdown),
        }
    }

    fn give_up(&mut self, id: &EventKey, write: &Write<B::Event>, controller: &str, why: Failed) {
        metrics::failed(controller, why, 1);
        tracing::warn!(event = ?id, reason = ?why, "event write failed; giving up");
        self.writer.settled(&write.key, Settled::GivenUp);
    }
}

/// Writes an event: by a patch if the server should have it, else by a create; falls back to the other if the server
/// disagrees.
async fn attempt<E: SinkEvent>(sink: Arc<dyn EventSink<E>>, mut write: Write<E>) -> Attempt<E> {
    let patch = write.patch.clone();
    let end = match patch {
        None => created(limited(sink.create(&write.event)).await, false),
        Some(patch) if write.exists => match limited(sink.patch(&write.event, &patch)).await {
            Err(SinkError::NotFound) => {
                write.event.forget_version();
                created(limited(sink.create(&write.event)).await, true)
            }
            written => patched(written),
        },
        Some(patch) => match limited(sink.create(&write.event)).await {
            Err(SinkError::AlreadyExists) => {
                write.exists = true;
                patched(limited(sink.patch(&write.event, &patch)).await)
            }
            written => created(written, true),
        },
    };
    Attempt { write, end }
}

/// Limits a request in time.
async fn limited<E>(call: SinkFuture<'_, E>) -> Result<E, SinkError> {
    let late = |_| Err(SinkError::Unavailable { after: None, source: format!("no answer within {CALL:?}").into() });
    timeout(CALL, call).await.unwrap_or_else(late)
}

/// An existing event still has to receive the count, if there is one.
fn created<E>(answer: Result<E, SinkError>, counts: bool) -> End<E> {
    match answer {
        Ok(event) => End::Written(event, "create"),
        Err(error @ SinkError::AlreadyExists) if counts => End::Retry(error),
        Err(error @ (SinkError::AlreadyExists | SinkError::NamespaceTerminating)) => End::Quiet(error),
        Err(error @ SinkError::Unavailable { .. }) => End::Retry(error),
        // A create that is not found means that the namespace is missing.
        Err(error) => End::Refused(error),
    }
}

fn patched<E>(answer: Result<E, SinkError>) -> End<E> {
    match answer {
        Ok(event) => End::Written(event, "patch"),
        Err(error @ SinkError::NamespaceTerminating) => End::Quiet(error),
        Err(error @ (SinkError::Unavailable { .. } | SinkError::NotFound)) => End::Retry(error),
        Err(error) => End::Refused(error),
    }
}

fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Returns whether the server has `events.k8s.io/v1`. Retries until there is a response; without a usable one, falls
/// back to `v1`, which every server has.
pub(crate) async fn has_new_api(client: &Client, alive: &watch::Receiver<()>, options: &SinkOptions) -> bool {
    let mut alive = alive.clone();
    let new = GroupVersion::gv("events.k8s.io", "v1");
    for _ in 0..options.attempts {
        match timeout(CALL, client.discovery().is_resource_enabled(&new, "events")).await {
            Ok(Ok(is_enabled)) => return is_enabled,
            Err(late) => tracing::debug!(%late, "event API discovery failed; retrying"),
            Ok(Err(DiscoveryError::Api(error))) if is_passing(&error) => {
                tracing::debug!(%error, "event API discovery failed; retrying");
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "event API discovery failed; falling back to v1");
                return false;
            }
        }
        tokio::select! {
            biased;
            () = sleep(options.pause) => {}
            _ = alive.changed() => return false,
        }
    }
    false
}
