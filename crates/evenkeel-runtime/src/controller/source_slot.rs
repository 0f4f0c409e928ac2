//! [`SourceSlot`]: a source of a controller, attached to an informer or waiting for its kind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_cache::{InformerHold, Registration};
use evenkeel_core::ResourceInfo;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::definition::{MissingKind, WantedKind};
use super::error::ControllerError;
use super::source_set::SourceSet;
use super::started::not_synced;
use super::watched_kind::WatchedKind;
use super::watched_kinds::WatchedKinds;

/// A source that can be attached any number of times.
pub(super) trait AttachSource: Send + Sync {
    /// Returns the kind as the program knows it.
    fn wanted(&self) -> &WantedKind;

    /// Returns whether the source waits until its kind is installed.
    fn waits_for_installation(&self) -> bool;

    /// Returns whether the informer is one of the user, which no other replaces.
    fn is_of_user(&self) -> bool;

    /// Returns whether keys depend on the scope of the controller's own kind.
    fn enqueues_owners(&self) -> bool;

    /// Adds a handler to the informer of the kind, and holds the informer without starting it. `served` describes the kind as the
    /// server serves it, if that was asked.
    fn attach(
        &self,
        to: &SourceSet,
        served: Option<&Arc<ResourceInfo>>,
        is_primary: bool,
    ) -> Result<Attachment, ControllerError>;
}

/// A source of a controller.
pub(super) struct SourceSlot {
    source: Box<dyn AttachSource>,
    pub(super) is_primary: bool,
    phase: watch::Sender<SlotPhase>,
    /// Whether the source was removed. Locked while it is attached or removed, so that no handler is added afterwards.
    is_removed: Mutex<bool>,
    task: Mutex<Option<AbortHandle>>,
    is_followed: AtomicBool,
}

/// How far a source is.
#[derive(Clone)]
pub(super) enum SlotPhase {
    /// The controller has not started, or the definitions are not read yet.
    Pending,
    Waiting(Arc<MissingKind>),
    Attached(Arc<Attachment>),
    /// The source was removed, or the controller has ended.
    Removed,
}

/// A source with an informer.
pub(super) struct Attachment {
    pub(super) registration: Registration,
    pub(super) kind: Arc<WatchedKind>,
    pub(super) kinds: Arc<WatchedKinds>,
    pub(super) served: Option<Arc<ResourceInfo>>,
    pub(super) is_primary: bool,
    pub(super) hold: Mutex<Option<InformerHold>>,
}

impl Attachment {
    fn lock_hold(&self) -> MutexGuard<'_, Option<InformerHold>> {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the informer, unless it runs.
    pub(super) fn start(&self) {
        if let Some(hold) = &*self.lock_hold() {
            hold.start();
        }
    }

    /// Removes the handler, then the kind. Returns the hold of the informer, unless this was called before.
    fn detach(&self) -> Option<InformerHold> {
        self.registration.remove();
        let hold = self.lock_hold().take()?;
        self.kinds.leave(&self.kind, self.is_primary);
        Some(hold)
    }

    /// Returns why the handler has not received the whole initial list.
    fn not_synced(&self) -> Option<String> {
        if self.registration.has_synced() {
            return None;
        }
        let status = self.kind.status();
        Some(match status.has_synced {
            true => format!("{}: the handler {} blocks", status.name, self.registration.name()),
            false => not_synced(&status),
        })
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        drop(self.detach());
    }
}

impl SourceSlot {
    pub(super) fn new(source: Box<dyn AttachSource>, is_primary: bool) -> Arc<Self> {
        Arc::new(SourceSlot {
            source,
            is_primary,
            phase: watch::Sender::new(SlotPhase::Pending),
            is_removed: Mutex::new(false),
            task: Mutex::new(None),
            is_followed: AtomicBool::new(false),
        })
    }

    fn is_removed(&self) -> MutexGuard<'_, bool> {
        self.is_removed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn source(&self) -> &dyn AttachSource {
        &*self.source
    }

    pub(super) fn phase(&self) -> SlotPhase {
        self.phase.borrow().clone()
    }

    pub(super) fn attachment(&self) -> Option<Arc<Attachment>> {
        match self.phase() {
            SlotPhase::Attached(attachment) => Some(attachment),
            _ => None,
        }
    }

    /// Attaches the source, unless it was removed. Returns whether it is attached.
    pub(super) fn attach(&self, to: &SourceSet, served: Option<&Arc<ResourceInfo>>) -> Result<bool, ControllerError> {
        let is_removed = self.is_removed();
        if *is_removed {
            return Ok(false);
        }
        let attachment = self.source.attach(to, served, self.is_primary)?;
        let old = self.phase.send_replace(SlotPhase::Attached(Arc::new(attachment)));
        drop(is_removed);
        // After the new one, which keeps the informer running.
        detach(&old);
        Ok(true)
    }

    /// Detaches the source, which waits until its kind is installed again.
    pub(super) fn wait_for(&self, missing: &MissingKind) {
        let is_removed = self.is_removed();
        if *is_removed {
            return;
        }
        let old = self.phase.send_replace(SlotPhase::Waiting(Arc::new(missing.clone())));
        drop(is_removed);
        detach(&old);
    }

    /// Removes the source for good: no call of its handler starts once this has returned.
    pub(super) fn remove(&self) -> Option<InformerHold> {
        let mut is_removed = self.is_removed();
        *is_removed = true;
        let old = self.phase.send_replace(SlotPhase::Removed);
        let hold = match &old {
            SlotPhase::Attached(attachment) => attachment.detach(),
            _ => None,
        };
        drop(is_removed);
        self.abort_task();
        hold
    }

    /// Returns `true` for the first caller, which spawns the task of the source.
    pub(super) fn claim_task(&self) -> bool {
        !self.is_followed.swap(true, Ordering::AcqRel)
    }

    /// Sets the task that follows the informer and the kind of the source.
    pub(super) fn set_task(&self, task: AbortHandle) {
        let mut current = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Some(task);
        drop(current);
        if *self.is_removed() {
            self.abort_task();
        }
    }

    pub(super) fn abort_task(&self) {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        task.into_iter().for_each(|task| task.abort());
    }

    /// Returns why the source delivers nothing yet; `None` if it does.
    pub(super) fn not_ready(&self, definitions: impl FnOnce() -> String) -> Option<String> {
        match self.phase() {
            SlotPhase::Attached(attachment) => attachment.not_synced(),
            SlotPhase::Waiting(missing) => Some(missing.to_string()),
            SlotPhase::Pending => {
                let name = self.source.wanted().definition();
                Some(format!("waiting for CustomResourceDefinition {name}: {}", definitions()))
            }
            SlotPhase::Removed => None,
        }
    }

    /// Waits until the handler has received the initial list, or the source waits for its kind, or was removed.
    pub(super) async fn settled(&self) -> Result<(), evenkeel_cache::informer::Stopped> {
        let mut phase = self.phase.subscribe();
        loop {
            let now = phase.borrow_and_update().clone();
            let attachment = match now {
                SlotPhase::Attached(attachment) => attachment,
                SlotPhase::Waiting(_) | SlotPhase::Removed => return Ok(()),
                SlotPhase::Pending => {
                    // The sender is a field of `self`, so the wait does not fail.
                    let _ = phase.changed().await;
                    continue;
                }
            };
            let synced = attachment.registration.synced().await;
            // A source that was removed or attached anew has another phase. One whose kind is gone waits in a moment.
            let is_over = !phase.has_changed().unwrap_or(false) && !attachment.kind.is_gone();
            if synced.is_ok() || is_over {
                return synced;
            }
            let _ = phase.changed().await;
        }
    }

    /// Waits until the source is attached. Returns `false` if it was removed.
    pub(super) async fn attached(&self) -> bool {
        let is_decided = |phase: &SlotPhase| matches!(phase, SlotPhase::Attached(_) | SlotPhase::Removed);
        let mut phase = self.phase.subscribe();
        phase.wait_for(is_decided).await.is_ok_and(|phase| matches!(*phase, SlotPhase::Attached(_)))
    }
}

fn detach(phase: &SlotPhase) {
    if let SlotPhase::Attached(attachment) = phase {
        drop(attachment.detach());
    }
}
