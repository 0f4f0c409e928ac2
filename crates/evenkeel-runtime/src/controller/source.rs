//! [`Source`]: a kind that a controller listens to, and whose keys it means.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use evenkeel_cache::informer::Stopped;
use evenkeel_cache::{Event, Handler, HandlerOptions, InformerFactory, Registration, SharedInformer};
use evenkeel_client::{PartialObjectMetadata, Unstructured};
use evenkeel_core::resource::StaticScope;
use evenkeel_core::{Obj, ObjectKey, ResourceInfo};
use evenkeel_queue::WorkQueue;
use kube_core::Resource;

use super::departures::Departures;
use super::journal::{Journal, Why};
use super::predicate::Predicate;
use super::view::{Scope, View};
use crate::enqueue::Enqueue;
use crate::inspect::Inspector;
use crate::{enqueue_key, enqueue_with};

/// A kind that is known when the program is compiled. Every type that describes a resource is one, also those that are derived
/// with `CustomResource`.
pub trait Kind: Resource<DynamicType: Default, Scope: StaticScope> + 'static {}

impl<T: Resource<DynamicType: Default, Scope: StaticScope> + 'static> Kind for T {}

/// A kind that a controller listens to beside its own, and whose keys its events mean: none, unless that is said.
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
#[must_use = "a source does nothing until a controller has it"]
pub struct Source<T> {
    feed: Feed<T>,
    role: Role<T>,
    predicates: Vec<Box<dyn Predicate<T>>>,
}

/// Where it comes from.
type Feed<T> = Box<dyn FnOnce(&InformerFactory) -> SharedInformer<T> + Send>;
type Keys<T> = Box<dyn FnMut(&Obj<T>) -> Vec<ObjectKey> + Send>;

enum Role<T> {
    Itself,
    Owned { by_any: bool },
    Mapped(Keys<T>),
    Read,
}

impl<T: Kind> Source<T> {
    /// The objects of kind `T`.
    pub fn of() -> Self {
        Source::new(|informers| informers.of::<T>())
    }
}

impl Source<PartialObjectMetadata> {
    /// The objects of kind `T`, of which nothing but the metadata is asked for and kept.
    pub fn metadata<T: Kind>() -> Self {
        Source::new(|informers| informers.metadata::<T>())
    }

    /// The same for a kind that is only known now.
    pub fn metadata_of(info: &Arc<ResourceInfo>) -> Self {
        let info = Arc::clone(info);
        Source::new(move |informers| informers.metadata_of(&info))
    }
}

impl Source<Unstructured> {
    /// The objects of a kind that is only known now.
    pub fn dynamic(info: &Arc<ResourceInfo>) -> Self {
        let info = Arc::clone(info);
        Source::new(move |informers| informers.dynamic(&info))
    }
}

impl<T: 'static> Source<T> {
    fn new(feed: impl FnOnce(&InformerFactory) -> SharedInformer<T> + Send + 'static) -> Self {
        Source { feed: Box::new(feed), role: Role::Read, predicates: Vec::new() }
    }

    pub(super) fn primary(mut self) -> Self {
        self.role = Role::Itself;
        self
    }

    /// What happens to these objects is about the object of the controller's kind that controls them. See
    /// [`enqueue_owner`](crate::enqueue_owner).
    pub fn owned(mut self) -> Self {
        self.role = Role::Owned { by_any: false };
        self
    }

    /// What happens to these objects is about all objects of the controller's kind that own them, whether they are in control
    /// or not.
    pub fn owned_by_any(mut self) -> Self {
        self.role = Role::Owned { by_any: true };
        self
    }

    /// What happens to these objects is about the keys that the function says. See [`enqueue_with`].
    pub fn mapped<I>(mut self, mut keys: impl FnMut(&Obj<T>) -> I + Send + 'static) -> Self
    where
        I: IntoIterator<Item = ObjectKey>,
    {
        self.role = Role::Mapped(Box::new(move |object| keys(object).into_iter().collect()));
        self
    }

    /// Only events that this accepts. If this is said several times, all of them must.
    pub fn when(mut self, predicate: impl Predicate<T>) -> Self {
        self.predicates.push(Box::new(predicate));
        self
    }

    /// Has the informer of the kind fill the queue.
    pub(super) fn attach(self, to: &mut Assembly<'_>) -> Result<(), Stopped> {
        let informer = (self.feed)(to.informers);
        let is_same = |view: &&View| view.is_of::<T>() && view.is_about(informer.resource());
        let departures = match to.views.iter().find(is_same) {
            Some(view) => Arc::clone(&view.departures),
            None => {
                if let Some(inspector) = to.inspector {
                    inspector.informer(&informer);
                }
                let view = View::new(informer.clone(), to.next_scope());
                let departures = Arc::clone(&view.departures);
                to.views.push(view);
                departures
            }
        };
        let queue = to.queue;
        let handler: Option<Box<dyn Handler<T>>> = match self.role {
            Role::Itself => Some(Box::new(to.noted(enqueue_key(queue), &informer))),
            Role::Owned { by_any } => {
                let owners = Enqueue::owner_of(queue, to.owner);
                let owners = if by_any { owners.any_owner() } else { owners };
                Some(Box::new(to.noted(owners, &informer)))
            }
            Role::Mapped(keys) => Some(Box::new(to.noted(enqueue_with(queue, keys), &informer))),
            Role::Read => None,
        };
        let name = match &handler {
            Some(handler) => handler.name().into_owned(),
            None => format!("reads of {}", queue.name().unwrap_or_default()),
        };
        let routed = Routed { departures, predicates: self.predicates, handler, name };
        to.registrations.push(informer.add_handler(routed)?);
        Ok(())
    }
}

/// What a controller is put together from.
pub(super) struct Assembly<'a> {
    pub(super) informers: &'a InformerFactory,
    pub(super) queue: &'a WorkQueue<ObjectKey>,
    pub(super) owner: &'a ResourceInfo,
    pub(super) namespace: Option<&'a str>,
    /// The labels of the controller's own kind.
    pub(super) labels: Option<&'a evenkeel_core::LabelSelector>,
    pub(super) views: &'a mut Vec<View>,
    pub(super) registrations: &'a mut Vec<Registration>,
    pub(super) journal: &'a Journal,
    pub(super) inspector: Option<&'a Inspector>,
}

impl Assembly<'_> {
    /// Has the journal told why keys are queued, if there is one.
    fn noted<M, T: 'static>(
        &self,
        handler: Enqueue<ObjectKey, M>,
        informer: &SharedInformer<T>,
    ) -> Enqueue<ObjectKey, M> {
        if !self.journal.is_open() {
            return handler;
        }
        let (journal, info) = (self.journal.clone(), Arc::clone(informer.resource()));
        handler.noting(move |key, object, news| {
            journal.queued(key, || Why::Heard { info: Arc::clone(&info), object: object.clone(), news });
        })
    }

    /// Of the view that comes next.
    fn next_scope(&self) -> Scope {
        // The first view is that of the controller's own kind.
        let labels = self.labels.filter(|_| self.views.is_empty()).cloned();
        Scope { namespace: self.namespace.map(str::to_owned), labels }
    }
}

/// Tells those who wait for an object to go, and passes on what is worth a reconcile.
struct Routed<T> {
    departures: Arc<Departures>,
    predicates: Vec<Box<dyn Predicate<T>>>,
    handler: Option<Box<dyn Handler<T>>>,
    name: String,
}

impl<T: 'static> Handler<T> for Routed<T> {
    fn handle(&mut self, event: Event<T>) {
        self.departures.told(&event);
        let Some(handler) = &mut self.handler else { return };
        let accepted = self.predicates.iter().all(|predicate| predicate.accepts(&event));
        tracing::trace!(handler = self.name, key = %event.key(), event = name_of(&event), accepted, "heard");
        if accepted {
            handler.handle(event);
        }
    }

    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.name)
    }

    fn options(&self) -> HandlerOptions {
        self.handler.as_ref().map(|handler| handler.options()).unwrap_or_default()
    }
}

fn name_of<T>(event: &Event<T>) -> &'static str {
    match event {
        Event::Add { initial: true, .. } => "initial",
        Event::Add { .. } => "add",
        Event::Update { .. } => "update",
        Event::Delete(_) => "delete",
    }
}

impl<T> fmt::Debug for Source<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match &self.role {
            Role::Itself => "primary",
            Role::Owned { by_any: false } => "owned",
            Role::Owned { by_any: true } => "owned by any",
            Role::Mapped(_) => "mapped",
            Role::Read => "read",
        };
        f.debug_struct("Source").field("role", &role).field("predicates", &self.predicates.len()).finish()
    }
}
