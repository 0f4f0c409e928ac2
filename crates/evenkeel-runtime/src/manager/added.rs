//! [`AddedController`]: a controller that was added to a running manager, and can be stopped alone.

use std::fmt;
use std::future::{Future, pending, ready};
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::Obj;
use tokio::sync::{oneshot, watch};

use super::stop_signal::StopSignal;
use super::task_group::ManagedTask;
use super::{DiagnosticTargets, MakeStandby, StandbyTasks, prepared, task};
use crate::controller::{
    Context, Controller, ControllerError, ControllerHandle, Next, ReconcileError, StandbyController, StopReport,
};

/// A controller that was added by [`ManagerHandle::controller`](super::ManagerHandle::controller). Dropping it stops the controller
/// without waiting; [`detach`](Self::detach) leaves the controller to the manager.
///
/// ```
/// # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_runtime::manager::shutdown_signal;
/// use evenkeel_runtime::{Controller, Manager, Next};
/// use k8s_openapi::api::core::v1::{ConfigMap, Pod};
///
/// let manager = Manager::new(&client)
///     .controller(Controller::<Pod>::new(&client), |_, _| async { Ok(Next::done()) });
/// let handle = manager.handle();
/// let running = tokio::spawn(manager.run(shutdown_signal()?));
///
/// let added = handle.controller(Controller::<ConfigMap>::new(&client), |_, _| async { Ok(Next::done()) });
/// let report = added.stop().await?; // the controller of pods continues
/// println!("{} keys were not reconciled", report.dropped_keys);
/// running.await??;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping it stops the controller"]
pub struct AddedController {
    handle: ControllerHandle,
    stop: Arc<watch::Sender<bool>>,
    /// Receives how the controller ended.
    ended: oneshot::Receiver<Result<StopReport, ControllerError>>,
    is_detached: bool,
}

impl AddedController {
    /// Returns the handle of the controller, which adds sources and reports whether it is ready.
    pub fn handle(&self) -> &ControllerHandle {
        &self.handle
    }

    /// Stops the controller, and returns when it has ended. Its name is then free, and the informers that no other controller uses
    /// have stopped. Other controllers are not affected.
    ///
    /// The controller takes no key any more. Reconciles in flight have the [grace period](Controller::grace) of the controller to
    /// finish. Keys that are queued then are dropped, and the report has their number.
    ///
    /// Dropping the future leaves the controller stopping.
    ///
    /// # Errors
    /// If reconciles or handlers exceeded the grace period, or if the controller had failed before. A controller that never started,
    /// because the manager has ended, is no error.
    pub async fn stop(mut self) -> Result<StopReport, ControllerError> {
        self.stop.send_replace(true);
        // The sender is dropped if the manager has ended before the controller started.
        (&mut self.ended).await.unwrap_or_else(|_| Ok(StopReport::default()))
    }

    /// Leaves the controller to the manager, which stops it with the others.
    pub fn detach(mut self) {
        self.is_detached = true;
    }
}

impl Drop for AddedController {
    fn drop(&mut self) {
        if !self.is_detached {
            self.stop.send_replace(true);
        }
    }
}

impl fmt::Debug for AddedController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddedController").field("handle", &self.handle).finish_non_exhaustive()
    }
}

/// What the tasks of an added controller share.
struct AddedShared<K> {
    /// The controller, until it leads or is stopped.
    standby: Mutex<Option<StandbyController<K>>>,
    ended: Mutex<Option<oneshot::Sender<Result<StopReport, ControllerError>>>>,
    stop: StopSignal,
    /// Keeps the signal from counting as requested when the handle is detached.
    _stop: Arc<watch::Sender<bool>>,
}

impl<K: 'static> AddedShared<K> {
    fn take(&self) -> Option<StandbyController<K>> {
        self.standby.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Stops a controller that does not lead.
    async fn stop_standby(&self) {
        let Some(standby) = self.take() else { return };
        let outcome = standby.lead_and_report(ready(()), |_, _| async { Ok(Next::done()) }).await;
        self.report(outcome);
    }

    fn report(&self, outcome: Result<StopReport, ControllerError>) {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(ended) = ended {
            // The receiver is dropped with the handle.
            let _ = ended.send(outcome);
        }
    }
}

/// Returns the handle of a controller, and the function that starts it as standby.
pub(super) fn added<K, F, Fut>(controller: Controller<K>, reconcile: F) -> (AddedController, MakeStandby)
where
    K: 'static,
    F: Fn(Obj<K>, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Next, ReconcileError>> + Send + 'static,
{
    let (request, stop) = StopSignal::new();
    let (report, ended) = oneshot::channel();
    let request = Arc::new(request);
    let handle = AddedController { handle: controller.handle(), stop: Arc::clone(&request), ended, is_detached: false };
    let make: MakeStandby = Box::new(move |informers, targets: &DiagnosticTargets| {
        let is_sharded = controller.is_sharded();
        let mut standby = prepared(controller, informers, targets).standby()?;
        let running = standby.take_running();
        let (name, readiness) = (standby.name().to_owned(), standby.readiness());
        let informers = (name.clone(), standby.informers().clone());
        let shared = Arc::new(AddedShared {
            standby: Mutex::new(Some(standby)),
            ended: Mutex::new(Some(report)),
            stop: stop.clone(),
            _stop: request,
        });
        let readiness = task(name.clone(), {
            let shared = Arc::clone(&shared);
            move |stop: StopSignal| async move {
                let failed = async {
                    match readiness.await {
                        Ok(()) => pending().await,
                        Err(error) => error,
                    }
                };
                tokio::select! {
                    biased;
                    () = stop.requested() => Ok(()),
                    () = shared.stop.requested() => {
                        shared.stop_standby().await;
                        Ok(())
                    }
                    error = failed => Err(error),
                }
            }
        });
        let lead = task(name, move |stop: StopSignal| async move {
            let Some(standby) = shared.take() else { return Ok(()) };
            let outcome = standby.lead_and_report(stop.either(&shared.stop), reconcile).await;
            shared.report(outcome.clone());
            // The error of a controller that was stopped alone concerns its handle only.
            if shared.stop.is_requested() { Ok(()) } else { outcome.map(drop) }
        });
        let lead = ManagedTask { cancelled: Some(stop), ..lead };
        Ok(StandbyTasks { readiness, lead, running, informers, is_sharded })
    });
    (handle, make)
}
