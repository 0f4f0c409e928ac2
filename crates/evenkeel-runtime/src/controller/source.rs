//! [`Source`]: a kind that a controller listens to, and whose keys it means.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use evenkeel_cache::informer::Stopped;
use evenkeel_cache::{Event, Handler, HandlerOptions, InformerFactory, Registration};
use evenkeel_core::resource::StaticScope;
use evenkeel_core::{Obj, ObjectKey, ResourceInfo};
use evenkeel_queue::WorkQueue;
use kube_core::Resource;

use super::departures::Departures;
use super::predicate::Predicate;
use super::view::{Scope, View};
use crate::enqueue::Enqueue;
use crate::{enqueue_key, enqueue_with};

/// A kind that is known when the program is compiled. Every type that describes a resource is one, also those that are derived
/// with `CustomResource`.
pub trait Kind: Resource<DynamicType: Default, Scope: StaticScope> + 'static {}

impl<T: Resource<DynamicType: Default, Scope: StaticScope> + 'static> Kind for T {}

/// A kind that a controller listens to beside its own, and whose keys its events mean.
///
/// ```
/// use evenkeel_core::{Obj, ObjectKey};
/// use evenkeel_runtime::controller::{Source, predicate};
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let deployments = Source::<Deployment>::owned().when(predicate::generation_changed());
/// let configs = Source::mapped(|config: &Obj<ConfigMap>| {
///     let namespace = config.key().namespace()?;
///     config.label("used-by").map(|name| ObjectKey::namespaced(namespace, name))
/// });
/// # drop((deployments, configs));
/// ```
#[must_use = "a source does nothing until a controller has it"]
pub struct Source<T> {
    role: Role<T>,
    predicates: Vec<Box<dyn Predicate<T>>>,
}

type Keys<T> = Box<dyn FnMut(&Obj<T>) -> Vec<ObjectKey> + Send>;

enum Role<T> {
    Itself,
    Owned { by_any: bool },
    Mapped(Keys<T>),
    Read,
}

impl<T: Kind> Source<T> {
    const fn new(role: Role<T>) -> Self {
        Source { role, predicates: Vec::new() }
    }

    pub(super) const fn primary() -> Self {
        Source::new(Role::Itself)
    }

    /// Objects that an object of the controller's kind controls: what happens to them is about it. See
    /// [`enqueue_owner`](crate::enqueue_owner).
    pub const fn owned() -> Self {
        Source::new(Role::Owned { by_any: false })
    }

    /// Objects that are about whatever keys the function says. See [`enqueue_with`].
    pub fn mapped<I>(mut keys: impl FnMut(&Obj<T>) -> I + Send + 'static) -> Self
    where
        I: IntoIterator<Item = ObjectKey>,
    {
        Source::new(Role::Mapped(Box::new(move |object| keys(object).into_iter().collect())))
    }

    /// Objects that the controller only looks up: what happens to them is about nothing.
    pub const fn read() -> Self {
        Source::new(Role::Read)
    }

    /// Those that own without being in control are meant too. This says something of [owned](Self::owned) objects only.
    pub fn by_any_owner(mut self) -> Self {
        if let Role::Owned { by_any } = &mut self.role {
            *by_any = true;
        }
        self
    }

    /// Only events that this accepts. If this is said several times, all of them must.
    pub fn when(mut self, predicate: impl Predicate<T>) -> Self {
        self.predicates.push(Box::new(predicate));
        self
    }

    /// Has the informer of the kind fill the queue.
    pub(super) fn attach(self, to: &mut Assembly<'_>) -> Result<(), Stopped> {
        let informer = to.informers.of::<T>();
        let departures = match to.views.iter().find(|view| view.is_of::<T>()) {
            Some(view) => Arc::clone(&view.departures),
            None => {
                let view = View::new(informer.clone(), to.next_scope());
                let departures = Arc::clone(&view.departures);
                to.views.push(view);
                departures
            }
        };
        let queue = to.queue;
        let handler: Option<Box<dyn Handler<T>>> = match self.role {
            Role::Itself => Some(Box::new(enqueue_key(queue))),
            Role::Owned { by_any: false } => Some(Box::new(Enqueue::owner_of(queue, to.owner))),
            Role::Owned { by_any: true } => Some(Box::new(Enqueue::owner_of(queue, to.owner).any_owner())),
            Role::Mapped(keys) => Some(Box::new(enqueue_with(queue, keys))),
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
}

impl Assembly<'_> {
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
