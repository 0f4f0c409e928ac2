//! [`SourceSet`]: the sources of a controller that has started, which come and go.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_base::task::scheduled;
use evenkeel_cache::{InformerFactory, InformerHold, Registration, ShardScope};
use evenkeel_client::Client;
use evenkeel_core::{ObjectKey, ResourceInfo};
use evenkeel_queue::WorkQueue;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::definition::{DefinitionState, MissingKind};
use super::error::ControllerError;
use super::history::History;
use super::installation::{InstallationWatch, InstalledKind};
use super::sharding::KeyPlaces;
use super::source_slot::{Attachment, SlotPhase, SourceSlot};
use super::started::not_synced;
use super::watched_kinds::WatchedKinds;
use crate::inspect::Inspector;

/// The sources of a controller that has started, and what they need to be attached.
pub(super) struct SourceSet {
    pub(super) controller: String,
    pub(super) client: Client,
    pub(super) informers: InformerFactory,
    /// What the informers follow, if the controller is divided.
    pub(super) sharding: Option<SourceSharding>,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) kinds: Arc<WatchedKinds>,
    pub(super) history: History,
    pub(super) inspector: Option<Inspector>,
    /// The resync period of the handlers, if it is not that of the informers.
    pub(super) resync: Option<Duration>,
    /// The time that a source has to sync.
    pub(super) sync_timeout: Duration,
    owner: Mutex<Arc<ResourceInfo>>,
    runtime: Handle,
    slots: Mutex<SlotList>,
    /// Why the controller cannot continue.
    failure: watch::Sender<Option<ControllerError>>,
}

#[derive(Default)]
struct SlotList {
    slots: Vec<Arc<SourceSlot>>,
    /// One for each source, which follows its informer and its kind.
    tasks: JoinSet<()>,
    is_closed: bool,
}

/// How the informers of a divided controller follow its ring.
#[derive(Clone)]
pub(super) struct SourceSharding {
    pub(super) places: KeyPlaces,
    pub(super) scope: ShardScope,
}

impl SourceSharding {
    /// Returns the factory for the informer of a kind.
    fn factory(&self, informers: &InformerFactory, info: &ResourceInfo, is_primary: bool) -> InformerFactory {
        let key = if is_primary { Some(self.places.of_own_kind()) } else { self.places.of_other_kind(info) };
        key.map_or_else(|| informers.clone(), |key| informers.in_shards(key, &self.scope))
    }
}

/// What a controller gives its sources.
pub(super) struct SourceContext {
    pub(super) controller: String,
    pub(super) client: Client,
    pub(super) informers: InformerFactory,
    pub(super) sharding: Option<SourceSharding>,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) history: History,
    pub(super) inspector: Option<Inspector>,
    pub(super) resync: Option<Duration>,
    pub(super) sync_timeout: Duration,
    pub(super) owner: Arc<ResourceInfo>,
}

impl SourceSet {
    /// Returns a set without sources.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(super) fn new(context: SourceContext) -> Arc<Self> {
        let SourceContext {
            controller,
            client,
            informers,
            sharding,
            queue,
            history,
            inspector,
            resync,
            sync_timeout,
            owner,
        } = context;
        Arc::new(SourceSet {
            controller,
            client,
            informers,
            sharding,
            queue,
            kinds: Arc::default(),
            history,
            inspector,
            resync,
            sync_timeout,
            owner: Mutex::new(owner),
            runtime: Handle::current(),
            slots: Mutex::default(),
            failure: watch::Sender::new(None),
        })
    }

    /// Returns the factory for the informer of a source.
    pub(super) fn factory(&self, info: &ResourceInfo, is_primary: bool, is_everywhere: bool) -> InformerFactory {
        match &self.sharding {
            Some(sharding) if !is_everywhere => sharding.factory(&self.informers, info, is_primary),
            _ => self.informers.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlotList> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the controller's own kind, as it is served.
    pub(super) fn owner(&self) -> Arc<ResourceInfo> {
        Arc::clone(&self.owner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a source, and attaches it unless it waits for its kind. Nothing starts before [`follow`](Self::follow).
    pub(super) fn add(&self, slot: &Arc<SourceSlot>) -> Result<(), ControllerError> {
        let source = slot.source();
        if source.is_of_user() && source.waits_for_installation() {
            let problem =
                "`when_installed` needs an informer of the factory: an informer of your own starts once".to_owned();
            return Err(ControllerError::InvalidConfig { controller: self.controller.clone(), problem });
        }
        {
            let mut list = self.lock();
            if list.is_closed {
                return Err(ControllerError::Ended { controller: self.controller.clone() });
            }
            list.slots.push(Arc::clone(slot));
        }
        if source.waits_for_installation() { Ok(()) } else { slot.attach(self, None).map(drop) }
    }

    /// Starts the informer of a source, and the task that follows it, once.
    pub(super) fn follow(self: &Arc<Self>, slot: &Arc<SourceSlot>) {
        if !slot.claim_task() {
            return;
        }
        let _entered = self.runtime.enter();
        if let Some(attachment) = slot.attachment() {
            attachment.start();
        }
        let mut list = self.lock();
        if list.is_closed {
            return;
        }
        while list.tasks.try_join_next().is_some() {}
        let task = list.tasks.spawn_on(scheduled(follow(Arc::clone(self), Arc::clone(slot))), &self.runtime);
        drop(list);
        slot.set_task(task);
    }

    /// Starts all sources.
    pub(super) fn follow_all(self: &Arc<Self>) {
        for slot in self.slots() {
            self.follow(&slot);
        }
    }

    pub(super) fn slots(&self) -> Vec<Arc<SourceSlot>> {
        self.lock().slots.clone()
    }

    /// Forgets a source that was removed.
    pub(super) fn forget(&self, slot: &Arc<SourceSlot>) {
        self.lock().slots.retain(|other| !Arc::ptr_eq(other, slot));
    }

    /// Accepts no more sources, removes the handlers and stops the tasks. The caches stay until [`release`](Self::release), for
    /// reconciles in flight.
    pub(super) fn close(&self) {
        let mut list = self.lock();
        list.is_closed = true;
        // A queue that shuts down accepts no keys, so the handlers have no effect any more.
        for attachment in list.slots.iter().filter_map(|slot| slot.attachment()) {
            attachment.registration.remove();
        }
        list.tasks.abort_all();
    }

    /// Returns the registrations of the handlers.
    pub(super) fn registrations(&self) -> Vec<Registration> {
        self.slots().iter().filter_map(|slot| slot.attachment()).map(|attached| attached.registration.clone()).collect()
    }

    /// Removes all sources. Returns the holds of their informers: those that nothing else holds stop when they are dropped.
    pub(super) fn release(&self) -> Vec<InformerHold> {
        let slots = std::mem::take(&mut self.lock().slots);
        slots.iter().filter_map(|slot| slot.remove()).collect()
    }

    /// Waits until the tasks have ended.
    pub(super) async fn tasks_ended(&self) {
        let mut tasks = std::mem::take(&mut self.lock().tasks);
        tasks.shutdown().await;
    }

    /// Reports that the controller cannot continue. The first error counts.
    fn fail(&self, error: ControllerError) {
        self.failure.send_if_modified(|failure| {
            let is_first = failure.is_none();
            failure.get_or_insert(error);
            is_first
        });
    }

    /// Waits until the controller cannot continue, and returns why.
    pub(super) async fn failed(&self) -> ControllerError {
        let mut failure = self.failure.subscribe();
        loop {
            if let Some(error) = failure.borrow_and_update().clone() {
                return error;
            }
            // The sender is a field of `self`, so the wait does not fail.
            let _ = failure.changed().await;
        }
    }

    /// Waits until every handler has received the initial list. There is no limit while the controller's own kind is not installed, and
    /// other sources whose kinds are not installed are not waited for.
    pub(super) async fn synced(&self) -> Result<(), ControllerError> {
        tokio::select! {
            biased;
            synced = self.all_synced() => synced,
            // A source that could not be attached when its kind was installed.
            error = self.failed() => Err(error),
        }
    }

    async fn all_synced(&self) -> Result<(), ControllerError> {
        loop {
            self.settled().await?;
            let slots = self.slots();
            let primary = slots.iter().find(|slot| slot.is_primary);
            match primary {
                Some(slot) if matches!(slot.phase(), SlotPhase::Waiting(_)) => {
                    if !slot.attached().await {
                        return Ok(());
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    async fn settled(&self) -> Result<(), ControllerError> {
        let limit = self.sync_timeout;
        let slots = self.slots();
        let all = async {
            for slot in &slots {
                slot.settled().await?;
            }
            Ok(())
        };
        let controller = || self.controller.clone();
        match timeout(limit, all).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(stopped)) => Err(ControllerError::InformerStopped { controller: controller(), stopped }),
            Err(_) => {
                let is_late = |slot: &&Arc<SourceSlot>| !matches!(slot.phase(), SlotPhase::Waiting(_));
                let mut waiting_for = self.describe(slots.iter().filter(is_late));
                waiting_for.dedup();
                Err(ControllerError::SyncTimeout { controller: controller(), limit, waiting_for })
            }
        }
    }

    /// Returns why sources deliver nothing yet.
    fn describe<'a>(&self, slots: impl Iterator<Item = &'a Arc<SourceSlot>>) -> Vec<String> {
        slots.filter_map(|slot| slot.not_ready(|| not_synced(&self.informers.definitions().status()))).collect()
    }

    /// Returns why this source delivers nothing yet.
    pub(super) fn not_ready(&self, slot: &Arc<SourceSlot>) -> Option<String> {
        self.describe(std::iter::once(slot)).pop()
    }

    /// Returns why the controller is not ready: the sources that deliver nothing yet.
    pub(super) fn all_not_ready(&self) -> Vec<String> {
        self.describe(self.slots().iter())
    }

    /// Attaches a source to the informer of its kind as it is served.
    fn attach(&self, slot: &Arc<SourceSlot>, installed: &InstalledKind) -> Result<bool, ControllerError> {
        if slot.is_primary {
            self.set_owner(&installed.info)?;
        }
        let is_attached = slot.attach(self, Some(&installed.info))?;
        if let Some(attachment) = slot.attachment() {
            attachment.start();
        }
        Ok(is_attached)
    }

    /// Sets the controller's own kind as it is served. Sources that enqueue owners are attached again if its scope has changed: the
    /// keys of the owners have.
    fn set_owner(&self, info: &Arc<ResourceInfo>) -> Result<(), ControllerError> {
        let old = std::mem::replace(&mut *self.owner.lock().unwrap_or_else(PoisonError::into_inner), Arc::clone(info));
        if old.namespaced() == info.namespaced() {
            return Ok(());
        }
        for slot in self.slots().iter().filter(|slot| slot.source().enqueues_owners()) {
            if let Some(attachment) = slot.attachment() {
                slot.attach(self, attachment.served.as_ref())?;
                slot.attachment().iter().for_each(|attachment| attachment.start());
            }
        }
        Ok(())
    }
}

/// Follows a source until it is removed: attaches it when its kind is installed, and detaches it when the kind is gone.
async fn follow(set: Arc<SourceSet>, slot: Arc<SourceSlot>) {
    let mut installation = None;
    if slot.source().waits_for_installation() {
        match install(&set, &slot, &mut installation).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return set.fail(error),
        }
    }
    while let Some(attachment) = slot.attachment() {
        ended(&attachment, &mut installation).await;
        if !attachment.kind.is_gone() {
            if matches!(slot.phase(), SlotPhase::Attached(_)) {
                let (controller, kind) = (set.controller.clone(), attachment.kind.kind().to_owned());
                set.fail(ControllerError::InformerLost { controller, kind });
            }
            return;
        }
        let (controller, kind) = (&set.controller, attachment.kind.kind());
        tracing::warn!(controller, kind, "kind is not served any more; waiting for its CustomResourceDefinition");
        drop(attachment);
        match install(&set, &slot, &mut installation).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return set.fail(error),
        }
    }
}

/// The watch of a source's definition, and the kind that it found.
type Installation = Option<(InstallationWatch, Option<InstalledKind>)>;

/// Waits until the kind of a source is installed, and attaches it.
async fn install(
    set: &Arc<SourceSet>,
    slot: &Arc<SourceSlot>,
    installation: &mut Installation,
) -> Result<bool, ControllerError> {
    let wanted = slot.source().wanted();
    if slot.attachment().is_some() {
        slot.wait_for(&MissingKind { definition: wanted.definition(), state: DefinitionState::Absent });
    }
    if installation.is_none() {
        let watch = InstallationWatch::open(&set.informers, &set.client, wanted.clone(), &set.controller).await;
        *installation = Some((watch, None));
    }
    let Some((watch, found)) = installation else { return Ok(false) };
    let controller = &set.controller;
    let installed = watch.installed(|missing| {
        tracing::debug!(controller, %missing, "kind is not installed");
        slot.wait_for(missing);
    });
    let installed = installed.await;
    tracing::debug!(controller, kind = installed.info.kind(), version = installed.info.version(), "kind is installed");
    let is_attached = set.attach(slot, &installed)?;
    *found = Some(installed);
    Ok(is_attached)
}

/// Waits until the informer of a source has stopped, and stops it when its kind is gone.
async fn ended(attachment: &Attachment, installation: &mut Installation) {
    if let Some((watch, Some(installed))) = installation {
        tokio::select! {
            biased;
            () = attachment.kind.stopped() => return,
            definition = watch.gone(installed) => attachment.kind.retire(&definition),
        }
    }
    attachment.kind.stopped().await;
}
