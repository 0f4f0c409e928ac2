//! [`Source`]: a kind that a controller watches, and the keys that its events enqueue.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_cache::{Event, Handler, HandlerOptions, InformerFactory, Registration, RunningInformers, SharedInformer};
use evenkeel_client::{PartialObjectMetadata, Unstructured};
use evenkeel_core::{Obj, ObjectKey, ResourceInfo, StaticScope};
use evenkeel_queue::WorkQueue;
use kube_core::Resource;

use super::deletion_waiters::DeletionWaiters;
use super::error::ControllerError;
use super::history::{EnqueueReason, History};
use super::permissions::WatchedResource;
use super::predicate::Predicate;
use super::references::ReferenceIndex;
use super::watched_kind::WatchedKind;
use crate::enqueue::Enqueue;
use crate::inspect::Inspector;
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
    predicates: Vec<Box<dyn Predicate<T>>>,
    /// Functions that see every event before the predicates.
    observers: Vec<EventObserver<T>>,
    resource: Arc<ResourceInfo>,
}

type EventObserver<T> = Box<dyn FnMut(&Event<T>) + Send>;

/// The shortest resync period of a handler.
const SHORTEST_RESYNC: Duration = Duration::from_secs(1);

/// Where the informer of a source is from.
enum SourceInformer<T> {
    OfFactory(MakeInformer<T>),
    OfUser(SharedInformer<T>),
}

type MakeInformer<T> = Box<dyn FnOnce(&InformerFactory) -> SharedInformer<T> + Send>;
type MapKeys<T> = Box<dyn FnMut(&Obj<T>) -> Vec<ObjectKey> + Send>;

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
        Source::new(Arc::new(ResourceInfo::of::<T>()), |informers| informers.of::<T>())
    }
}

impl Source<PartialObjectMetadata> {
    /// Watches the metadata of the objects of kind `T`. The rest is neither requested nor cached.
    pub fn metadata<T: StaticKind>() -> Self {
        Source::new(Arc::new(ResourceInfo::of::<T>()), |informers| informers.metadata::<T>())
    }

    /// Watches the metadata of the objects of a kind that is known only at run time.
    pub fn metadata_of(info: &Arc<ResourceInfo>) -> Self {
        let of = Arc::clone(info);
        Source::new(Arc::clone(info), move |informers| informers.metadata_of(&of))
    }
}

impl Source<Unstructured> {
    /// Watches the objects of a kind that is known only at run time.
    pub fn dynamic(info: &Arc<ResourceInfo>) -> Self {
        let of = Arc::clone(info);
        Source::new(Arc::clone(info), move |informers| informers.dynamic(&of))
    }
}

impl<T: 'static> Source<T> {
    fn new(
        resource: Arc<ResourceInfo>,
        informer: impl FnOnce(&InformerFactory) -> SharedInformer<T> + Send + 'static,
    ) -> Self {
        Source::over(SourceInformer::OfFactory(Box::new(informer)), resource)
    }

    fn over(informer: SourceInformer<T>, resource: Arc<ResourceInfo>) -> Self {
        Source { informer, role: SourceRole::Read, predicates: Vec::new(), observers: Vec::new(), resource }
    }

    /// Watches the objects of an informer of your own: with another source, other options, or of another client. Namespace, selectors
    /// and resync of the controller do not affect its objects.
    ///
    /// The controller starts the informer if it has not been started, and stops it then. If the controller has several informers of
    /// one kind, [`Context::lister`](super::Context::lister) reads the first one.
    pub fn informer(informer: &SharedInformer<T>) -> Self {
        Source::over(SourceInformer::OfUser(informer.clone()), Arc::clone(informer.resource()))
    }

    /// Returns whether the kind is namespaced.
    pub(super) fn is_namespaced(&self) -> bool {
        self.resource.namespaced()
    }

    /// Returns the kind, and whether an owner of the controller's kind is enqueued.
    pub(super) fn watched(&self) -> WatchedResource {
        let is_owned = matches!(self.role, SourceRole::Owned { .. });
        WatchedResource { resource: Arc::clone(&self.resource), is_owned }
    }

    /// Calls a function with every event, before the predicates.
    pub(super) fn observed(mut self, observer: impl FnMut(&Event<T>) + Send + 'static) -> Self {
        self.observers.push(Box::new(observer));
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
        self.role = SourceRole::Mapped(Box::new(move |object| keys(object).into_iter().collect()));
        self
    }

    /// Drops events that the predicate rejects. May be called several times: all predicates must accept.
    pub fn when(mut self, predicate: impl Predicate<T>) -> Self {
        self.predicates.push(Box::new(predicate));
        self
    }

    /// Adds a handler to the informer of the kind that fills the queue.
    pub(super) fn attach(self, to: &mut ControllerAssembly<'_>) -> Result<(), ControllerError> {
        let (informer, is_of_user) = match self.informer {
            SourceInformer::OfFactory(make) => (make(to.informers), false),
            SourceInformer::OfUser(informer) => (informer, true),
        };
        let deletion_waiters = match to.kinds.iter().find(|kind| kind.is(&informer)) {
            Some(kind) => Arc::clone(&kind.deletion_waiters),
            None => {
                if let Some(inspector) = to.inspector {
                    inspector.informer(&informer);
                }
                let kind = match is_of_user {
                    true => WatchedKind::of_user(informer.clone()),
                    false => WatchedKind::of_factory(informer.clone(), to.informers),
                };
                let deletion_waiters = Arc::clone(&kind.deletion_waiters);
                to.kinds.push(kind);
                deletion_waiters
            }
        };
        let queue = to.queue;
        let handler: Option<Box<dyn Handler<T>>> = match self.role {
            SourceRole::Primary => Some(Box::new(to.recorded(enqueue_key(queue), &informer))),
            SourceRole::Owned { by_any } => {
                let owners = Enqueue::owner_of(queue, to.owner);
                let owners = if by_any { owners.any_owner() } else { owners };
                Some(Box::new(to.recorded(owners, &informer)))
            }
            SourceRole::Mapped(keys) => Some(Box::new(to.recorded(enqueue_with(queue, keys), &informer))),
            SourceRole::Referenced(index) => Some(Box::new(to.recorded(index.enqueue(queue), &informer))),
            SourceRole::Read => None,
        };
        let name = match &handler {
            Some(handler) => handler.name().into_owned(),
            None => format!("reads of {}", queue.name().unwrap_or_default()),
        };
        let resync = to.resync.filter(|_| handler.is_some());
        let handler = SourceHandler {
            deletion_waiters,
            observers: self.observers,
            predicates: self.predicates,
            handler,
            name,
            resync,
        };
        let registration = informer
            .add_handler(handler)
            .map_err(|stopped| ControllerError::InformerStopped { controller: to.controller.to_owned(), stopped })?;
        let period = registration.resync_period();
        to.registrations.push(registration);
        if let Some(requested) = resync
            && period >= requested.max(SHORTEST_RESYNC).saturating_mul(2)
        {
            let name = informer.name();
            let problem = format!(
                "the informer {name} is shared and runs with a resync period of {period:?}, which `.resync({requested:?})` cannot \
                 shorten: start this controller before the others, or set the period with `InformerFactory::builder(…).resync(…)`"
            );
            return Err(ControllerError::InvalidConfig { controller: to.controller.to_owned(), problem });
        }
        if is_of_user && !informer.is_started() {
            to.own_informers.merge(informer.start());
        }
        Ok(())
    }
}

/// The parts of a controller while it is assembled.
pub(super) struct ControllerAssembly<'a> {
    pub(super) controller: &'a str,
    /// The resync period of the handlers, if it is not that of the informers.
    pub(super) resync: Option<Duration>,
    /// The informers of the user that the controller starts.
    pub(super) own_informers: &'a mut RunningInformers,
    pub(super) informers: &'a InformerFactory,
    pub(super) queue: &'a WorkQueue<ObjectKey>,
    pub(super) owner: &'a ResourceInfo,
    pub(super) kinds: &'a mut Vec<WatchedKind>,
    pub(super) registrations: &'a mut Vec<Registration>,
    pub(super) history: &'a History,
    pub(super) inspector: Option<&'a Inspector>,
}

impl ControllerAssembly<'_> {
    /// Records in the history why keys are enqueued, if the history is open.
    fn recorded<M, T: 'static>(
        &self,
        handler: Enqueue<ObjectKey, M>,
        informer: &SharedInformer<T>,
    ) -> Enqueue<ObjectKey, M> {
        if !self.history.is_open() {
            return handler;
        }
        let (history, info) = (self.history.clone(), Arc::clone(informer.resource()));
        handler.observing(move |key, object, class| {
            history.queued(key, || EnqueueReason::Event { info: Arc::clone(&info), object: object.clone(), class });
        })
    }
}

/// Notifies the waiters for deletions, and forwards events that all predicates accept.
struct SourceHandler<T> {
    deletion_waiters: Arc<DeletionWaiters>,
    observers: Vec<EventObserver<T>>,
    predicates: Vec<Box<dyn Predicate<T>>>,
    handler: Option<Box<dyn Handler<T>>>,
    name: String,
    resync: Option<Duration>,
}

impl<T: 'static> Handler<T> for SourceHandler<T> {
    fn handle(&mut self, event: Event<T>) {
        self.deletion_waiters.notify(&event);
        self.observers.iter_mut().for_each(|observer| observer(&event));
        let Some(handler) = &mut self.handler else { return };
        let accepted = self.predicates.iter().all(|predicate| predicate.accepts(&event));
        tracing::trace!(handler = self.name, key = %event.key(), event = name_of(&event), accepted, "event received");
        if accepted {
            handler.handle(event);
        }
    }

    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.name)
    }

    fn options(&self) -> HandlerOptions {
        let options = self.handler.as_ref().map(|handler| handler.options()).unwrap_or_default();
        match self.resync {
            Some(period) => options.resync(period),
            None => options,
        }
    }
}

fn name_of<T>(event: &Event<T>) -> &'static str {
    match event {
        Event::Add { initial: true, .. } => "initial",
        Event::Add { .. } => "add",
        Event::Update { .. } => "update",
        Event::Delete(deleted) if deleted.is_out_of_scope() => "out of scope",
        Event::Delete(_) => "delete",
    }
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
        f.debug_struct("Source").field("role", &role).field("predicates", &self.predicates.len()).finish()
    }
}
