//! [`Source`]: a kind that a controller watches, and the keys that its events enqueue.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_cache::informer::Stopped;
use evenkeel_cache::{Event, Handler, InformerFactory, InformerHold, SharedInformer};
use evenkeel_client::{PartialObjectMetadata, Unstructured};
use evenkeel_core::{Obj, ObjectKey, ResourceInfo, StaticScope};
use kube_core::Resource;

use super::definition::WantedKind;
use super::error::ControllerError;
use super::history::EnqueueReason;
use super::permissions::WatchedResource;
use super::predicate::Predicate;
use super::references::ReferenceIndex;
use super::source_handler::{EventFilters, EventObserver, SourceHandler};
use super::source_set::SourceSet;
use super::source_slot::{AttachSource, Attachment};
use super::watched_kind::WatchedKind;
use crate::enqueue::Enqueue;
use crate::{enqueue_key, enqueue_with};

/// A kind that is known at compile time: every type that describes a resource, also one derived with `CustomResource`.
pub trait StaticKind: Resource<DynamicType: Default, Scope: StaticScope> + 'static {}

impl<T: Resource<DynamicType: Default, Scope: StaticScope> + 'static> StaticKind for T {}

/// A kind that a controller watches beside its own, and the keys that its events enqueue: none, unless
/// [`owned`](Self::owned), [`owned_by_any`](Self::owned_by_any) or [`mapped`](Self::mapped) is called.
///
/// ```
/// use evenkeel_core::ObjectKey;
/// use evenkeel_runtime::controller::{Source, predicate};
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
///
/// let deployments = Source::<Deployment>::of().owned().when(predicate::generation_changed());
/// let configs = Source::<ConfigMap>::of().mapped(|config| {
///     let namespace = config.key().namespace()?;
///     config.label("used-by").map(|name| ObjectKey::namespaced(namespace, name))
/// });
/// let secrets = Source::metadata::<Secret>().owned();
/// # drop((deployments, configs, secrets));
/// ```
#[must_use = "a source does nothing until it is added to a controller"]
pub struct Source<T> {
    informer: SourceInformer<T>,
    role: SourceRole<T>,
    filters: EventFilters<T>,
    wanted: WantedKind,
    waits_for_installation: bool,
    is_everywhere: bool,
}

/// The shortest resync period of a handler.
const SHORTEST_RESYNC: Duration = Duration::from_secs(1);

/// Where the informer of a source is from.
enum SourceInformer<T> {
    OfFactory(MakeInformer<T>),
    OfUser(SharedInformer<T>),
}

/// Returns the informer of the kind, as the server serves it if that is known.
type MakeInformer<T> = Box<dyn Fn(&InformerFactory, Option<&Arc<ResourceInfo>>) -> SharedInformer<T> + Send + Sync>;
type MapKeys<T> = Arc<Mutex<dyn FnMut(&Obj<T>) -> Vec<ObjectKey> + Send>>;

/// Which keys the events of a source enqueue.
enum SourceRole<T> {
    Primary,
    Owned { by_any: bool },
    Mapped(MapKeys<T>),
    Referenced(Arc<ReferenceIndex>),
    Read,
}

impl<T: StaticKind> Source<T> {
    /// Watches the objects of kind `T`.
    pub fn of() -> Self {
        let wanted = WantedKind { info: Arc::new(ResourceInfo::of::<T>()), is_version_fixed: true };
        Source::new(wanted, |informers, served| match served {
            Some(info) => informers.served::<T>(info),
            None => informers.of::<T>(),
        })
    }
}

impl Source<PartialObjectMetadata> {
    /// Watches the metadata of the objects of kind `T`. The rest is neither requested nor cached.
    pub fn metadata<T: StaticKind>() -> Self {
        let wanted = WantedKind { info: Arc::new(ResourceInfo::of::<T>()), is_version_fixed: true };
        Source::new(wanted, |informers, served| match served {
            Some(info) => informers.metadata_of(info),
            None => informers.metadata::<T>(),
        })
    }

    /// Watches the metadata of the objects of a kind that is known only at run time.
    pub fn metadata_of(info: &Arc<ResourceInfo>) -> Self {
        let (info, wanted) = (Arc::clone(info), WantedKind { info: Arc::clone(info), is_version_fixed: false });
        Source::new(wanted, move |informers, served| informers.metadata_of(served.unwrap_or(&info)))
    }
}

impl Source<Unstructured> {
    /// Watches the objects of a kind that is known only at run time.
    pub fn dynamic(info: &Arc<ResourceInfo>) -> Self {
        let (info, wanted) = (Arc::clone(info), WantedKind { info: Arc::clone(info), is_version_fixed: false });
        Source::new(wanted, move |informers, served| informers.dynamic(served.unwrap_or(&info)))
    }
}

impl<T: 'static> Source<T> {
    fn new(
        wanted: WantedKind,
        informer: impl Fn(&InformerFactory, Option<&Arc<ResourceInfo>>) -> SharedInformer<T> + Send + Sync + 'static,
    ) -> Self {
        Source::over(SourceInformer::OfFactory(Box::new(informer)), wanted)
    }

    fn over(informer: SourceInformer<T>, wanted: WantedKind) -> Self {
        let filters = EventFilters::default();
        Source {
            informer,
            role: SourceRole::Read,
            filters,
            wanted,
            waits_for_installation: false,
            is_everywhere: false,
        }
    }

    /// Watches the objects of an informer of your own: with another source, other options, or of another client. Namespace, selectors
    /// and resync of the controller do not affect its objects.
    ///
    /// The controller starts the informer if it has not been started; it then stops with the last controller that uses it. If the
    /// controller has several informers of one kind, [`Context::lister`](super::Context::lister) reads the first one.
    pub fn informer(informer: &SharedInformer<T>) -> Self {
        let wanted = WantedKind { info: Arc::clone(informer.resource()), is_version_fixed: true };
        Source::over(SourceInformer::OfUser(informer.clone()), wanted)
    }

    /// Waits without a limit until the kind is installed: until its CustomResourceDefinition is established and discovery lists it.
    ///
    /// - Meanwhile the source makes no request for the kind, and the controller works without it:
    ///   [`Context::lister`](super::Context::lister) returns an error, and [`ControllerHandle::not_ready`](super::ControllerHandle::not_ready)
    ///   names the definition.
    /// - A watch of CustomResourceDefinitions ends the wait, one for all controllers with the same informers; it needs the
    ///   permissions to `list` and `watch` them. Nothing polls, except for discovery between the moments when the definition is
    ///   established and when discovery lists the kind.
    /// - If the definition is deleted, the objects are reported as deleted, the informer ends, and the source waits again. Names,
    ///   scope and, for a kind without a Rust type, the version are then those of the new definition.
    /// - A kind that is served without a definition, such as a built-in one, is watched at once.
    ///
    /// Without it, a kind that is not served fails the start of the controller.
    pub fn when_installed(mut self) -> Self {
        self.waits_for_installation = true;
        self
    }

    /// Has every replica of a [divided](super::Controller::sharded) controller cache all objects of the kind: Nodes, classes, and what
    /// reconciles read from other namespaces. No effect on other controllers.
    ///
    /// Otherwise a replica caches the objects of the namespaces that it works on. Cluster-scoped kinds beside the controller's own are
    /// everywhere in any case, and so are all others if the controller is divided by another key than the namespace.
    pub fn everywhere(mut self) -> Self {
        self.is_everywhere = true;
        self
    }

    /// Returns whether the kind is namespaced.
    pub(super) fn is_namespaced(&self) -> bool {
        self.wanted.info.namespaced()
    }

    /// Returns what the permissions of a controller depend on.
    pub(super) fn watched(&self) -> WatchedResource {
        let is_owned = matches!(self.role, SourceRole::Owned { .. });
        WatchedResource { resource: Arc::clone(&self.wanted.info), is_owned, is_awaited: self.waits_for_installation }
    }

    /// Calls a function with every event, before the predicates.
    pub(super) fn observed(mut self, observer: impl FnMut(&Event<T>) + Send + 'static) -> Self {
        let observer: EventObserver<T> = Arc::new(Mutex::new(observer));
        self.filters.observers.push(observer);
        self
    }

    /// Enqueues the objects that refer to the object of the event.
    pub(super) fn referenced(mut self, index: &Arc<ReferenceIndex>) -> Self {
        self.role = SourceRole::Referenced(Arc::clone(index));
        self
    }

    /// Enqueues the keys of the objects themselves: for the controller's own kind.
    pub(super) fn primary(mut self) -> Self {
        self.role = SourceRole::Primary;
        self
    }

    /// Enqueues the object of the controller's kind that controls the object of the event. See
    /// [`enqueue_owner`](crate::enqueue_owner).
    pub fn owned(mut self) -> Self {
        self.role = SourceRole::Owned { by_any: false };
        self
    }

    /// Enqueues all owners of the controller's kind, also those that are not the controlling owner.
    pub fn owned_by_any(mut self) -> Self {
        self.role = SourceRole::Owned { by_any: true };
        self
    }

    /// Enqueues the keys that the function returns. See [`enqueue_with`].
    pub fn mapped<I>(mut self, mut keys: impl FnMut(&Obj<T>) -> I + Send + 'static) -> Self
    where
        I: IntoIterator<Item = ObjectKey>,
    {
        self.role = SourceRole::Mapped(Arc::new(Mutex::new(move |object: &Obj<T>| keys(object).into_iter().collect())));
        self
    }

    /// Drops events that the predicate rejects. May be called several times: all predicates must accept.
    pub fn when(mut self, predicate: impl Predicate<T>) -> Self {
        self.filters.predicates.push(Arc::new(predicate));
        self
    }

    /// Returns the informer of the kind and a hold of it.
    fn held_informer(
        &self,
        informers: &InformerFactory,
        served: Option<&Arc<ResourceInfo>>,
    ) -> Result<(SharedInformer<T>, InformerHold), Stopped> {
        let make = match &self.informer {
            SourceInformer::OfUser(informer) => return Ok((informer.clone(), informer.hold()?)),
            SourceInformer::OfFactory(make) => make,
        };
        let informer = make(informers, served);
        match informer.hold() {
            Ok(hold) => Ok((informer, hold)),
            // Its last user has just dropped it. The factory returns another one.
            Err(_) => {
                let informer = make(informers, served);
                let hold = informer.hold()?;
                Ok((informer, hold))
            }
        }
    }

    /// Returns the handler that enqueues keys; `None` if events enqueue none.
    fn enqueuing(&self, to: &SourceSet, informer: &SharedInformer<T>) -> Option<Box<dyn Handler<T>>> {
        let queue = &to.queue;
        Some(match &self.role {
            SourceRole::Primary => Box::new(recorded(enqueue_key(queue), to, informer)),
            SourceRole::Owned { by_any } => {
                let owners = Enqueue::owner_of(queue, &to.owner());
                let owners = if *by_any { owners.any_owner() } else { owners };
                Box::new(recorded(owners, to, informer))
            }
            SourceRole::Mapped(keys) => {
                let keys = Arc::clone(keys);
                let keys = move |object: &Obj<T>| {
                    let mut keys = keys.lock().unwrap_or_else(PoisonError::into_inner);
                    (*keys)(object)
                };
                Box::new(recorded(enqueue_with(queue, keys), to, informer))
            }
            SourceRole::Referenced(index) => Box::new(recorded(index.enqueue(queue), to, informer)),
            SourceRole::Read => return None,
        })
    }
}

impl<T: 'static> AttachSource for Source<T> {
    fn wanted(&self) -> &WantedKind {
        &self.wanted
    }

    fn waits_for_installation(&self) -> bool {
        self.waits_for_installation
    }

    fn is_of_user(&self) -> bool {
        matches!(self.informer, SourceInformer::OfUser(_))
    }

    fn enqueues_owners(&self) -> bool {
        matches!(self.role, SourceRole::Owned { .. })
    }

    fn attach(
        &self,
        to: &SourceSet,
        served: Option<&Arc<ResourceInfo>>,
        is_primary: bool,
    ) -> Result<Attachment, ControllerError> {
        let controller = || to.controller.clone();
        let stopped = |stopped| ControllerError::InformerStopped { controller: controller(), stopped };
        let informers = to.factory(served.unwrap_or(&self.wanted.info), is_primary, self.is_everywhere);
        let (informer, hold) = self.held_informer(&informers, served).map_err(stopped)?;
        let kind = to.kinds.join(&informer, is_primary, || {
            if let Some(inspector) = &to.inspector {
                inspector.informer(&informer);
            }
            match &self.informer {
                SourceInformer::OfUser(_) => WatchedKind::of_user(informer.clone()),
                SourceInformer::OfFactory(_) => WatchedKind::of_factory(informer.clone(), &informers),
            }
        });
        let handler = self.enqueuing(to, &informer);
        let resync = to.resync.filter(|_| handler.is_some());
        let waiters = Arc::clone(&kind.deletion_waiters);
        let handler = SourceHandler::new(waiters, self.filters.clone(), handler, &to.controller, resync);
        let registration = match informer.add_handler(handler) {
            Ok(registration) => registration,
            Err(error) => {
                to.kinds.leave(&kind, is_primary);
                return Err(stopped(error));
            }
        };
        let period = registration.resync_period();
        let hold = Mutex::new(Some(hold));
        let (kinds, served) = (Arc::clone(&to.kinds), served.cloned());
        // Dropping it removes the handler.
        let attachment = Attachment { registration, kind, kinds, served, is_primary, hold };
        if let Some(requested) = resync
            && period >= requested.max(SHORTEST_RESYNC).saturating_mul(2)
        {
            let name = informer.name();
            let problem = format!(
                "the informer {name} is shared and runs with a resync period of {period:?}, which `.resync({requested:?})` cannot \
                 shorten: start this controller before the others, or set the period with `InformerFactory::builder(…).resync(…)`"
            );
            return Err(ControllerError::InvalidConfig { controller: controller(), problem });
        }
        Ok(attachment)
    }
}

/// Records in the history why keys are enqueued, if the history is open.
fn recorded<M, T: 'static>(
    handler: Enqueue<ObjectKey, M>,
    to: &SourceSet,
    informer: &SharedInformer<T>,
) -> Enqueue<ObjectKey, M> {
    if !to.history.is_open() {
        return handler;
    }
    let (history, info) = (to.history.clone(), Arc::clone(informer.resource()));
    handler.observing(move |key, object, class| {
        history.queued(key, || EnqueueReason::Event { info: Arc::clone(&info), object: object.clone(), class });
    })
}

impl<T> fmt::Debug for Source<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match &self.role {
            SourceRole::Primary => "primary",
            SourceRole::Owned { by_any: false } => "owned",
            SourceRole::Owned { by_any: true } => "owned by any",
            SourceRole::Mapped(_) => "mapped",
            SourceRole::Referenced(_) => "referenced",
            SourceRole::Read => "read",
        };
        f.debug_struct("Source")
            .field("kind", &self.wanted.info.kind())
            .field("role", &role)
            .field("predicates", &self.filters.predicates.len())
            .field("waits_for_installation", &self.waits_for_installation)
            .finish()
    }
}
