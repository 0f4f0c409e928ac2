//! Puts timers and a lock around the state machine.
//!
//! The keeper of a lease is a task of its own, so that work which hogs its task cannot keep it from renewing, nor from telling
//! others that the lease is lost. It outlives the future that started it by the time that a release takes: whoever drops an
//! elector's `run` gives the lease back all the same.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::{OwnedMutexGuard, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

use super::core::{Answer, Call, Core, Do, LostReason, What};
use super::elector::Shared;
use super::leadership::{Ending, Lease};
use super::lock::{Lock, LockError};
use super::metrics::Metrics;

/// What happened in an election, for an event recorder.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ElectionEvent {
    /// `Normal`: nothing here is a warning.
    pub kind: &'static str,
    /// `LeaderElection`
    pub reason: &'static str,
    /// Who, and what: `web-0 became leader`, `web-0 stopped leading`.
    pub message: String,
    /// The Lease that it is about, if it is one.
    pub about: Option<ObjectReference>,
}

pub(super) type OnNewLeader = Arc<Mutex<dyn FnMut(Option<&str>) + Send>>;
pub(super) type OnEvent = Arc<Mutex<dyn FnMut(ElectionEvent) + Send>>;

/// What keeps a lease, from the first attempt to the release.
pub(super) struct Keeper {
    pub(super) core: OwnedMutexGuard<Option<Core>>,
    pub(super) lock: Arc<dyn Lock>,
    pub(super) identity: String,
    pub(super) shared: Arc<Shared>,
    pub(super) metrics: Metrics,
    pub(super) on_new_leader: Option<OnNewLeader>,
    pub(super) on_event: Option<OnEvent>,
    /// Where the lease goes.
    pub(super) lead: Option<oneshot::Sender<Lease>>,
    /// Completes, or fails, when the work is over.
    pub(super) left: oneshot::Receiver<()>,
    pub(super) stop: watch::Receiver<bool>,
}

type Pending = Pin<Box<dyn Future<Output = (u64, Answer)> + Send>>;

/// Shows that nobody leads when the keeper ends, however it ends.
struct Leading<'a>(&'a Metrics);

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.0.leads(false);
    }
}

impl Keeper {
    /// Says why the lease was lost, if it was.
    pub(super) async fn keep(mut self) -> Option<LostReason> {
        let metrics = self.metrics.clone();
        let _reset = Leading(&metrics);
        let mut lost = None;
        let mut lease: Option<Lease> = None;
        let mut pending: Option<Pending> = None;
        // The work is over; somebody has asked to stop; the core has been told to leave.
        let (mut has_left, mut is_stopping, mut is_leaving) = (false, false, false);
        let Some(mut core) = self.core.take() else { return lost };
        let (mut slow_paths, mut leader) = (core.slow_paths(), None);
        core.begin(Instant::now().into_std());
        loop {
            let next = core.poll(Instant::now().into_std(), wall_clock(), fastrand::f64());
            self.report(&core, &mut leader, &mut slow_paths);
            match next {
                Do::Send(call) => pending = Some(self.send(call)),
                Do::Lead(term) => {
                    let Some(valid_until) = core.valid_until() else { continue };
                    let sent = core.renewed_at().unwrap_or(valid_until);
                    let new = Lease::new(self.identity.clone(), term.number, sent.into(), valid_until.into());
                    self.shared.leads(&new);
                    metrics.leads(true);
                    info!(lease = %self.lock.describe(), identity = %self.identity, term = term.number, "became leader");
                    self.tell("became leader");
                    lease = Some(new.clone());
                    if let Some(lead) = self.lead.take() {
                        // If nobody is there to lead, we have been left, and see that below.
                        let _ = lead.send(new);
                    }
                }
                Do::Lost(why) => {
                    pending = None;
                    metrics.leads(false);
                    warn!(lease = %self.lock.describe(), identity = %self.identity, ?why, "lost the lease, work has to end");
                    if let Some(lease) = &lease {
                        lease.end(Ending::Lost { at: Instant::now(), why: why.clone() });
                    }
                    self.tell("stopped leading");
                    lost = Some(why);
                }
                Do::Over { released } => {
                    debug!(lease = %self.lock.describe(), released, "left the election");
                    break;
                }
                Do::Wait(until) => {
                    tokio::select! {
                        biased;
                        _ = &mut self.left, if !has_left => {
                            has_left = true;
                            if let Some(lease) = &lease {
                                // If the run was dropped before it took the lease, nobody else has said so.
                                lease.end(Ending::Over);
                            }
                            if let (Some(lease), None) = (&lease, &lost) {
                                // The work knows the time as well as we do, and may have been faster.
                                lost = lease.has_expired().then_some(LostReason::Expired);
                                metrics.leads(false);
                                info!(lease = %self.lock.describe(), identity = %self.identity, "stopped leading");
                                self.tell("stopped leading");
                            }
                            if !is_leaving {
                                is_leaving = true;
                                pending = None;
                                core.leave(Instant::now().into_std());
                            }
                        }
                        () = stopped(&mut self.stop), if !is_stopping => {
                            is_stopping = true;
                            match &lease {
                                Some(lease) => lease.end(Ending::Asked { at: Instant::now() }),
                                None if is_leaving => {}
                                None => {
                                    is_leaving = true;
                                    pending = None;
                                    core.leave(Instant::now().into_std());
                                }
                            }
                        }
                        (id, answer) = answered(&mut pending) => {
                            pending = None;
                            core.answer(Instant::now().into_std(), id, answer);
                            if let (Some(lease), Some(sent), Some(until)) = (&lease, core.renewed_at(), core.valid_until()) {
                                lease.renewed(sent.into(), until.into());
                            }
                        }
                        () = wait_until(until) => {}
                    }
                }
            }
        }
        *self.core = Some(core);
        lost
    }

    fn send(&self, call: Call) -> Pending {
        let lock = Arc::clone(&self.lock);
        Box::pin(async move {
            let answer = match call.what {
                What::Get => match lock.get().await {
                    Ok(Some(held)) => Ok(Answer::Held(held)),
                    Ok(None) => Ok(Answer::Missing),
                    Err(error) => Err(error),
                },
                What::Create(record) => lock.create(record).await.map(Answer::Held),
                What::Update(record, version) => lock.update(record, version).await.map(Answer::Held),
            };
            let answer = answer.unwrap_or_else(|error| {
                debug!(lease = %lock.describe(), %error, "a call of the election failed, another attempt follows");
                match error {
                    LockError::Conflict { .. } => Answer::Conflict,
                    _ => Answer::Failed,
                }
            });
            (call.id, answer)
        })
    }

    /// Tells who leads, if that is news, and counts.
    fn report(&self, core: &Core, leader: &mut Option<Option<String>>, slow_paths: &mut u64) {
        let now = core.slow_paths();
        if now != *slow_paths {
            self.metrics.slow_path(now - *slow_paths);
            *slow_paths = now;
        }
        let Some(holder) = core.holder() else { return };
        let holder = (!holder.is_empty()).then(|| holder.to_owned());
        if leader.as_ref() == Some(&holder) {
            return;
        }
        self.shared.observed(holder.clone());
        info!(lease = %self.lock.describe(), leader = ?holder, "there is a new leader");
        if let Some(callback) = &self.on_new_leader {
            let mut callback = callback.lock().unwrap_or_else(PoisonError::into_inner);
            if catch_unwind(AssertUnwindSafe(|| callback(holder.as_deref()))).is_err() {
                warn!("on_new_leader panicked; the election goes on");
            }
        }
        *leader = Some(holder);
    }

    fn tell(&self, text: &str) {
        let Some(callback) = &self.on_event else { return };
        let event = ElectionEvent {
            kind: "Normal",
            reason: "LeaderElection",
            message: format!("{} {text}", self.identity),
            about: self.lock.reference(),
        };
        let mut callback = callback.lock().unwrap_or_else(PoisonError::into_inner);
        if catch_unwind(AssertUnwindSafe(|| callback(event))).is_err() {
            warn!("on_event panicked; the election goes on");
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the rim: this is written for others to read and decides nothing")]
pub(super) fn wall_clock() -> Timestamp {
    Timestamp::now()
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        // Nobody is left who could stop us.
        std::future::pending::<()>().await;
    }
}

async fn answered(pending: &mut Option<Pending>) -> (u64, Answer) {
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
