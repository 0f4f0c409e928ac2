//! Timers and lock requests around the state machine.
//!
//! The driver runs in a task of its own, so work that blocks its task delays neither the renewal nor the loss of the
//! lease. The task outlives the future that started it until the lease is released: dropping an elector's `run`
//! releases the lease in the background.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use crate::environment::time_of_day;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::{OwnedMutexGuard, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

use super::elector::ElectorShared;
use super::lease::{Lease, TermEnding};
use super::lock::{Lock, LockError};
use super::machine::{ElectionAction, ElectionMachine, LockOperation, LockRequest, LockResponse, LostReason};
use super::metrics::Metrics;

/// An event of an election, for an event recorder.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ElectionEvent {
    /// `Normal`: nothing here is a warning.
    pub kind: &'static str,
    /// `LeaderElection`
    pub reason: &'static str,
    /// The identity and the transition: `web-0 became leader`, `web-0 stopped leading`.
    pub message: String,
    /// The Lease, if the lock is one.
    pub about: Option<ObjectReference>,
}

pub(super) type OnNewLeader = Arc<Mutex<dyn FnMut(Option<&str>) + Send>>;
pub(super) type OnEvent = Arc<Mutex<dyn FnMut(ElectionEvent) + Send>>;

/// Maintains a lease from the first attempt to its release.
pub(super) struct ElectionDriver {
    pub(super) machine: OwnedMutexGuard<Option<ElectionMachine>>,
    pub(super) lock: Arc<dyn Lock>,
    pub(super) identity: String,
    pub(super) shared: Arc<ElectorShared>,
    pub(super) metrics: Metrics,
    pub(super) on_new_leader: Option<OnNewLeader>,
    pub(super) on_event: Option<OnEvent>,
    /// Receives the lease once this process leads.
    pub(super) lead: Option<oneshot::Sender<Lease>>,
    /// Completes, or fails, when the work has finished.
    pub(super) left: oneshot::Receiver<()>,
    pub(super) stop: watch::Receiver<bool>,
}

type Pending = Pin<Box<dyn Future<Output = (u64, LockResponse)> + Send>>;

/// Resets the leadership gauge when the driver ends for any reason.
struct Leading<'a>(&'a Metrics);

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.0.leads(false);
    }
}

impl ElectionDriver {
    /// Runs the election. Returns why the lease was lost, if it was.
    pub(super) async fn keep(mut self) -> Option<LostReason> {
        let metrics = self.metrics.clone();
        let _reset = Leading(&metrics);
        let mut lost = None;
        let mut lease: Option<Lease> = None;
        let mut pending: Option<Pending> = None;
        // The work has finished; a stop was requested; the machine is leaving.
        let (mut has_left, mut is_stopping, mut is_leaving) = (false, false, false);
        let Some(mut machine) = self.machine.take() else { return lost };
        let (mut slow_paths, mut leader) = (machine.slow_paths(), None);
        machine.begin(Instant::now().into_std());
        loop {
            let next = machine.poll(Instant::now().into_std(), time_of_day(), fastrand::f64());
            self.report(&machine, &mut leader, &mut slow_paths);
            match next {
                ElectionAction::Send(call) => pending = Some(self.send(call)),
                ElectionAction::Lead(term) => {
                    let Some(valid_until) = machine.valid_until() else { continue };
                    let sent = machine.renewed_at().unwrap_or(valid_until);
                    let new = Lease::new(self.identity.clone(), term.number, sent.into(), valid_until.into());
                    self.shared.leads(&new);
                    metrics.leads(true);
                    info!(lease = %self.lock.describe(), identity = %self.identity, term = term.number, "became leader");
                    self.emit("became leader");
                    lease = Some(new.clone());
                    if let Some(lead) = self.lead.take() {
                        // If the receiver was dropped, `left` fails as well and is handled below.
                        let _ = lead.send(new);
                    }
                }
                ElectionAction::Lost(why) => {
                    pending = None;
                    metrics.leads(false);
                    warn!(lease = %self.lock.describe(), identity = %self.identity, ?why, "lease lost; stopping work");
                    if let Some(lease) = &lease {
                        lease.end(TermEnding::Lost { at: Instant::now(), why: why.clone() });
                    }
                    self.emit("stopped leading");
                    lost = Some(why);
                }
                ElectionAction::Over { released } => {
                    debug!(lease = %self.lock.describe(), released, "left the election");
                    break;
                }
                ElectionAction::Wait(until) => {
                    tokio::select! {
                        biased;
                        _ = &mut self.left, if !has_left => {
                            has_left = true;
                            if let Some(lease) = &lease {
                                // A run that was dropped before it received the lease has not ended the term.
                                lease.end(TermEnding::Over);
                            }
                            if let (Some(lease), None) = (&lease, &lost) {
                                // The work reads the same clock and may have noticed the expiry first.
                                lost = lease.has_expired().then_some(LostReason::Expired);
                                metrics.leads(false);
                                info!(lease = %self.lock.describe(), identity = %self.identity, "stopped leading");
                                self.emit("stopped leading");
                            }
                            if !is_leaving {
                                is_leaving = true;
                                pending = None;
                                machine.leave(Instant::now().into_std());
                            }
                        }
                        () = stopped(&mut self.stop), if !is_stopping => {
                            is_stopping = true;
                            match &lease {
                                Some(lease) => lease.end(TermEnding::Asked { at: Instant::now() }),
                                None if is_leaving => {}
                                None => {
                                    is_leaving = true;
                                    pending = None;
                                    machine.leave(Instant::now().into_std());
                                }
                            }
                        }
                        (id, answer) = answered(&mut pending) => {
                            pending = None;
                            machine.respond(Instant::now().into_std(), id, answer);
                            if let (Some(lease), Some(sent), Some(until)) = (&lease, machine.renewed_at(), machine.valid_until()) {
                                lease.renewed(sent.into(), until.into());
                            }
                        }
                        () = wait_until(until) => {}
                    }
                }
            }
        }
        *self.machine = Some(machine);
        lost
    }

    fn send(&self, call: LockRequest) -> Pending {
        let lock = Arc::clone(&self.lock);
        Box::pin(async move {
            let answer = match call.what {
                LockOperation::Get => match lock.get().await {
                    Ok(Some(held)) => Ok(LockResponse::Held(held)),
                    Ok(None) => Ok(LockResponse::Missing),
                    Err(error) => Err(error),
                },
                LockOperation::Create(record) => lock.create(record).await.map(LockResponse::Held),
                LockOperation::Update(record, version) => lock.update(record, version).await.map(LockResponse::Held),
            };
            let answer = answer.unwrap_or_else(|error| {
                debug!(lease = %lock.describe(), %error, "lock request failed; retrying");
                match error {
                    LockError::Conflict { .. } => LockResponse::Conflict,
                    _ => LockResponse::Failed,
                }
            });
            (call.id, answer)
        })
    }

    /// Reports a new leader and counts slow paths.
    fn report(&self, machine: &ElectionMachine, leader: &mut Option<Option<String>>, slow_paths: &mut u64) {
        let now = machine.slow_paths();
        if now != *slow_paths {
            self.metrics.slow_path(now - *slow_paths);
            *slow_paths = now;
        }
        let Some(holder) = machine.holder() else { return };
        let holder = (!holder.is_empty()).then(|| holder.to_owned());
        if leader.as_ref() == Some(&holder) {
            return;
        }
        self.shared.observed(holder.clone());
        info!(lease = %self.lock.describe(), leader = ?holder, "new leader");
        if let Some(callback) = &self.on_new_leader {
            let mut callback = callback.lock().unwrap_or_else(PoisonError::into_inner);
            if catch_unwind(AssertUnwindSafe(|| callback(holder.as_deref()))).is_err() {
                warn!("on_new_leader panicked; continuing");
            }
        }
        *leader = Some(holder);
    }

    fn emit(&self, text: &str) {
        let Some(callback) = &self.on_event else { return };
        let event = ElectionEvent {
            kind: "Normal",
            reason: "LeaderElection",
            message: format!("{} {text}", self.identity),
            about: self.lock.reference(),
        };
        let mut callback = callback.lock().unwrap_or_else(PoisonError::into_inner);
        if catch_unwind(AssertUnwindSafe(|| callback(event))).is_err() {
            warn!("on_event panicked; continuing");
        }
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        // All handles were dropped; no stop can follow.
        std::future::pending::<()>().await;
    }
}

async fn answered(pending: &mut Option<Pending>) -> (u64, LockResponse) {
    match pending {
        Some(call) => call.await,
        None => std::future::pending().await,
    }
}

async fn wait_until(until: Option<std::time::Instant>) {
    match until {
        Some(until) => sleep_until(until.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
pub(super) mod tests;
