//! [`ControllerHandle`]: adds sources to a controller while it runs, and removes them.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::timeout;

use super::error::ControllerError;
use super::source::Source;
use super::source_set::SourceSet;
use super::source_slot::{SlotPhase, SourceSlot};

/// Adds sources to a controller, before it starts and while it runs, and reports whether it is ready. Cheap to clone.
///
/// Returned by [`Controller::handle`](super::Controller::handle). It keeps nothing of the controller running.
///
/// ```
/// # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_runtime::controller::Source;
/// use evenkeel_runtime::manager::shutdown_signal;
/// use evenkeel_runtime::{Controller, Next};
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::Service;
///
/// let controller = Controller::<Deployment>::new(&client);
/// let handle = controller.handle();
/// let running = tokio::spawn(controller.run(shutdown_signal()?, |_, _| async { Ok(Next::done()) }));
///
/// let services = handle.watch(Source::<Service>::of().owned())?; // begins at once
/// services.synced().await?;
/// services.remove(); // no callback starts once this has returned
/// running.await??;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ControllerHandle {
    name: String,
    cell: Arc<ControllerCell>,
}

/// A source that was added by [`ControllerHandle::watch`]. Dropping it removes the source; [`detach`](Self::detach) leaves the source
/// until the controller ends.
///
/// # Removing a source
/// - No call of a predicate or of a mapping function of the source starts once [`remove`](Self::remove) has returned. A call in
///   progress runs to its end.
/// - Keys that the source has enqueued stay in the queue and are reconciled.
/// - [`Context::lister`](super::Context::lister) returns an error that names the kind, unless another source has it.
/// - The informer ends with its last user. Other controllers, and other sources of the same informer, are not affected.
#[must_use = "dropping it removes the source"]
pub struct WatchHandle {
    slot: Arc<SourceSlot>,
    handle: ControllerHandle,
    is_detached: bool,
}

/// What the handles of a controller share with it.
pub(super) struct ControllerCell(Mutex<CellState>);

enum CellState {
    /// The sources that the controller starts with.
    Building(Vec<Arc<SourceSlot>>),
    Started(Arc<SourceSet>),
    Ended,
}

/// Marks the controller as ended when it is dropped, whether it has started or not.
pub(super) struct CellGuard(Arc<ControllerCell>);

impl CellGuard {
    pub(super) fn new() -> Self {
        CellGuard(Arc::new(ControllerCell(Mutex::new(CellState::Building(Vec::new())))))
    }

    /// Returns a handle of the controller.
    pub(super) fn handle(&self, name: String) -> ControllerHandle {
        ControllerHandle { name, cell: Arc::clone(&self.0) }
    }

    /// Adds a source to a controller that has not started.
    pub(super) fn add(&self, slot: Arc<SourceSlot>) {
        if let CellState::Building(slots) = &mut *self.0.lock() {
            slots.push(slot);
        }
    }

    /// Marks the controller as started. Returns the sources that it starts with.
    pub(super) fn start(&self, set: &Arc<SourceSet>) -> Vec<Arc<SourceSlot>> {
        match std::mem::replace(&mut *self.0.lock(), CellState::Started(Arc::clone(set))) {
            CellState::Building(slots) => slots,
            CellState::Started(_) | CellState::Ended => Vec::new(),
        }
    }
}

impl Drop for CellGuard {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut *self.0.lock(), CellState::Ended);
        if let CellState::Building(slots) = before {
            slots.iter().for_each(|slot| drop(slot.remove()));
        }
    }
}

impl ControllerCell {
    fn lock(&self) -> MutexGuard<'_, CellState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the sources of the controller, if it has started and not ended.
    fn set(&self) -> Option<Arc<SourceSet>> {
        match &*self.lock() {
            CellState::Started(set) => Some(Arc::clone(set)),
            CellState::Building(_) | CellState::Ended => None,
        }
    }
}

impl ControllerHandle {
    /// Adds a source. It begins at once, or with the controller if that has not started. Nothing waits for its sync, except
    /// [`WatchHandle::synced`].
    ///
    /// # Errors
    /// If the controller has ended, if the informer of the source has stopped, or if the configuration of the source contradicts
    /// that of the controller. Errors of a source that is added before the start are errors of the start.
    pub fn watch<T: 'static>(&self, source: Source<T>) -> Result<WatchHandle, ControllerError> {
        let slot = SourceSlot::new(Box::new(source), false);
        let watch = WatchHandle { slot: Arc::clone(&slot), handle: self.clone(), is_detached: false };
        let set = {
            let mut state = self.cell.lock();
            match &mut *state {
                CellState::Building(slots) => {
                    slots.push(slot);
                    return Ok(watch);
                }
                CellState::Started(set) => Arc::clone(set),
                CellState::Ended => return Err(ControllerError::Ended { controller: self.name.clone() }),
            }
        };
        // On an error, dropping the handle removes the source.
        set.add(&slot)?;
        set.follow(&slot);
        Ok(watch)
    }

    /// Returns why the controller is not ready: the kinds that are not installed, and the sources that have not synced, each with the
    /// last error of its informer. Empty if it is ready.
    ///
    /// For a readiness probe: [`Check::controller`](crate::health::Check::controller).
    pub fn not_ready(&self) -> Vec<String> {
        match self.cell.set() {
            Some(set) => set.all_not_ready(),
            None => match &*self.cell.lock() {
                CellState::Ended => vec!["the controller has ended".to_owned()],
                _ => vec!["the controller has not started".to_owned()],
            },
        }
    }

    /// Returns the requested name of the controller. One that is in use has a number appended when the controller starts.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl WatchHandle {
    /// Waits until the handler of the source has received the initial list: its keys are in the queue. A source that
    /// [waits](Source::when_installed) for its kind syncs after that, without a limit.
    ///
    /// # Errors
    /// If the list takes longer than [`Controller::sync_timeout`](super::Controller::sync_timeout), with the last error of the
    /// informer; the source continues to try. If the source was removed, or the controller or the informer has stopped.
    pub async fn synced(&self) -> Result<(), ControllerError> {
        let removed = || ControllerError::SourceRemoved {
            controller: self.handle.name.clone(),
            kind: self.slot.source().wanted().info.kind().to_owned(),
        };
        loop {
            if !self.slot.attached().await {
                return Err(removed());
            }
            let Some(set) = self.handle.cell.set() else { return Err(removed()) };
            let (controller, limit): (String, Duration) = (set.controller.clone(), set.sync_timeout);
            match timeout(limit, self.slot.settled()).await {
                Ok(Ok(())) => {}
                Ok(Err(stopped)) => return Err(ControllerError::InformerStopped { controller, stopped }),
                Err(_) => {
                    let waiting_for = set.not_ready(&self.slot).into_iter().collect();
                    return Err(ControllerError::SyncTimeout { controller, limit, waiting_for });
                }
            }
            match self.slot.phase() {
                SlotPhase::Attached(_) => return Ok(()),
                SlotPhase::Removed => return Err(removed()),
                // The kind went meanwhile.
                SlotPhase::Waiting(_) | SlotPhase::Pending => {}
            }
        }
    }

    /// Returns whether the handler of the source has received the initial list.
    pub fn has_synced(&self) -> bool {
        self.slot.attachment().is_some_and(|attachment| attachment.registration.has_synced())
    }

    /// Removes the source. A second call has no effect. A predicate or a mapping function of the source may call this.
    pub fn remove(&self) {
        drop(self.slot.remove());
        if let CellState::Building(slots) = &mut *self.handle.cell.lock() {
            slots.retain(|slot| !Arc::ptr_eq(slot, &self.slot));
        }
        if let Some(set) = self.handle.cell.set() {
            set.forget(&self.slot);
        }
    }

    /// Leaves the source until the controller ends.
    pub fn detach(mut self) {
        self.is_detached = true;
    }
}

impl Drop for WatchHandle {
    fn drop(&mut self) {
        if !self.is_detached {
            self.remove();
        }
    }
}

impl fmt::Debug for ControllerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_running = self.cell.set().is_some();
        f.debug_struct("ControllerHandle").field("name", &self.name).field("is_running", &is_running).finish()
    }
}

impl fmt::Debug for WatchHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchHandle")
            .field("controller", &self.handle.name)
            .field("kind", &self.slot.source().wanted().info.kind())
            .field("has_synced", &self.has_synced())
            .finish()
    }
}
