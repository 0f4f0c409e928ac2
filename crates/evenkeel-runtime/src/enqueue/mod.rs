//! Handlers that add keys to a [`WorkQueue`]. controller-runtime's `handler` package.
//!
//! ```
//! use evenkeel_core::{Obj, ObjectKey};
//! use evenkeel_queue::WorkQueue;
//! use evenkeel_runtime::{enqueue_key, enqueue_owner, enqueue_with};
//! use k8s_openapi::api::apps::v1::ReplicaSet;
//! use k8s_openapi::api::core::v1::{Pod, ConfigMap};
//! # use evenkeel_cache::testing::FakeSource;
//! # use evenkeel_cache::SharedInformer;
//! # fn informer<K: 'static>(source: FakeSource) -> SharedInformer<K> {
//! #     SharedInformer::new(source.clone(), source.resource(), evenkeel_cache::InformerOptions::new())
//! # }
//! # let sets = informer::<ReplicaSet>(FakeSource::of::<ReplicaSet>());
//! # let pods = informer::<Pod>(FakeSource::of::<Pod>());
//! # let configs = informer::<ConfigMap>(FakeSource::of::<ConfigMap>());
//!
//! let queue = WorkQueue::rate_limited("replicasets");
//! sets.add_handler(enqueue_key(&queue))?;
//! pods.add_handler(enqueue_owner::<ReplicaSet>(&queue))?;
//! configs.add_handler(enqueue_with(&queue, |config: &Obj<ConfigMap>| {
//!     let namespace = config.key().namespace()?;
//!     config.label("used-by").map(|name| ObjectKey::namespaced(namespace, name))
//! }))?;
//! # Ok::<(), evenkeel_cache::informer::Stopped>(())
//! ```
//!
//! # Priorities
//!
//! Keys are added with [`LOW_PRIORITY`] for objects of the initial list (also the one that a late handler receives) and for updates
//! that change nothing: a resync, or a relist that finds the object unchanged. All other keys are added with the default priority:
//! deletions, objects that a relist finds new or changed, and objects that a [`Filter`](evenkeel_cache::Filter) accepts since their
//! last change. The event decides, not the age of the object. A key that is already in the queue takes the higher priority, so a
//! change of an object overtakes the backlog of the initial list.
//!
//! # Namespaces that leave
//!
//! An object that leaves with its [namespace](evenkeel_cache::NamespaceSet) adds no key: it was not deleted
//! ([`Deleted::OutOfScope`]).
//!
//! # Why every notification
//!
//! These handlers request [every](evenkeel_cache::Delivery::Every) notification, though a key does not contain the change.
//! [`Latest`](evenkeel_cache::Delivery::Latest) would lose keys:
//!
//! - An object that is added and deleted between two calls of the handler produces no notification. A worker that had the key for
//!   another reason may have read the object from the store, and would never be notified of its deletion.
//! - A child whose owner changes twice between two calls produces no notification for the second owner, which may have read the child
//!   as its own.
//! - A change that is coalesced with the initial notification of an object would have the priority of the initial list.
//!
//! The cost is small: these handlers only add keys, so they do not lag for long.

mod owner_keys;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use evenkeel_cache::{Deleted, Event, Handler, HandlerOptions};
use evenkeel_core::StaticScope;
use evenkeel_core::{Obj, ObjectKey, ResourceInfo};
use evenkeel_queue::{AddOptions, Key, LOW_PRIORITY, WeakQueue, WorkQueue};
use kube_core::Resource;

pub use owner_keys::OwnerKeys;

/// A handler that adds keys to a queue. Returned by [`enqueue_key`], [`enqueue_owner`] and [`enqueue_with`].
///
/// - It never waits: it holds the lock of the queue only while it adds a key.
/// - An update that changes an object adds the keys of the old and of the new state, each key once.
/// - It keeps neither the queue nor the informer alive. When all handles of the queue are dropped, or the queue shuts down, the handler
///   has no effect. It does not delay [`drain`](WorkQueue::drain).
///
/// It can be wrapped in a [`Filter`](evenkeel_cache::Filter):
///
/// ```
/// use evenkeel_cache::{Filter, Handler};
/// use evenkeel_core::Obj;
/// use evenkeel_queue::WorkQueue;
/// use evenkeel_runtime::enqueue_key;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let queue = WorkQueue::rate_limited("web");
/// let web = Filter::new(|pod: &Obj<Pod>| pod.label("app") == Some("web"), enqueue_key(&queue));
/// # fn add_handler(_: impl Handler<Pod>) {}
/// # add_handler(web);
/// ```
pub struct Enqueue<Q: Key, M> {
    queue: WeakQueue<Q>,
    /// The name of the queue, kept for when the queue is dropped.
    queue_name: Option<Box<str>>,
    keys: M,
    priority: i32,
    background: i32,
    options: HandlerOptions,
    observer: Option<Box<KeyObserver<Q>>>,
}

/// Receives each added key, the key of the object of the event, and the class of the event.
type KeyObserver<Q> = dyn Fn(&Q, &ObjectKey, EventClass) + Send + Sync;

/// What an event reports about its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventClass {
    /// In the initial list.
    Initial,
    Added,
    Updated,
    /// Unchanged: a resync, or a relist.
    Unchanged,
    Deleted,
    /// Deleted, found by relist: a tombstone.
    Missed,
}

impl EventClass {
    fn of<K>(event: &Event<K>) -> Self {
        match event {
            Event::Add { initial: true, .. } => EventClass::Initial,
            Event::Add { .. } => EventClass::Added,
            Event::Update { old, new } if new.is_same_state_as(old) => EventClass::Unchanged,
            Event::Update { .. } => EventClass::Updated,
            Event::Delete(Deleted::Missed { .. }) => EventClass::Missed,
            // Objects out of scope add no key.
            Event::Delete(Deleted::Observed(_) | Deleted::OutOfScope { .. } | Deleted::Moved { .. }) => {
                EventClass::Deleted
            }
        }
    }

    /// Returns whether the event reports no change.
    fn is_background(self) -> bool {
        matches!(self, EventClass::Initial | EventClass::Unchanged)
    }
}

/// Returns the name of an event in logs and on the live page.
pub(crate) fn event_name<K>(event: &Event<K>) -> &'static str {
    match event {
        Event::Add { initial: true, .. } => "initial",
        Event::Add { .. } => "add",
        Event::Update { .. } => "update",
        Event::Delete(deleted) if deleted.is_out_of_scope() => "out of scope",
        Event::Delete(_) => "delete",
    }
}

/// Maps an object to its own key. See [`enqueue_key`].
#[derive(Clone, Copy, Debug)]
pub struct SelfKey;

/// Maps an object to the keys that a function returns. See [`enqueue_with`].
#[derive(Clone, Copy)]
pub struct MappedKeys<F>(F);

/// Adds the key of each object that is added, updated or deleted. controller-runtime's `EnqueueRequestForObject`.
///
/// A tombstone adds its key as well, also if the last state of the object is unknown.
pub fn enqueue_key(queue: &WorkQueue<ObjectKey>) -> Enqueue<ObjectKey, SelfKey> {
    Enqueue::new(queue, SelfKey)
}

/// Adds the key of the owner, of kind `Owner`, that controls the object. controller-runtime's `EnqueueRequestForOwner`.
///
/// - Owners are matched by group and kind; the version of the reference does not matter.
/// - The namespace of the key is that of the object, unless `Owner` is cluster-scoped. A cluster-scoped object cannot have a
///   namespaced owner: such references are ignored, as the server's garbage collector does.
/// - An update that changes the owner adds both owners.
/// - A tombstone without the last state of its object adds nothing. That is logged.
///
/// [`any_owner`](Enqueue::any_owner) adds owners that are not the controller too. [`Enqueue::owner_of`] is for kinds that are known only
/// at run time.
///
/// ```
/// use evenkeel_core::ObjectKey;
/// use evenkeel_queue::WorkQueue;
/// use evenkeel_runtime::enqueue_owner;
/// use k8s_openapi::api::batch::v1::CronJob;
///
/// let queue = WorkQueue::<ObjectKey>::rate_limited("cronjobs");
/// let handler = enqueue_owner::<CronJob>(&queue).any_owner();
/// # drop(handler);
/// ```
pub fn enqueue_owner<Owner>(queue: &WorkQueue<ObjectKey>) -> Enqueue<ObjectKey, OwnerKeys>
where
    Owner: Resource,
    Owner::DynamicType: Default,
    Owner::Scope: StaticScope,
{
    Enqueue::owner_of(queue, &ResourceInfo::of::<Owner>())
}

/// Adds the keys that `keys` returns for an object. controller-runtime's `EnqueueRequestsFromMapFunc`.
///
/// - For an update that changes the object, `keys` is called with the old and with the new state. Each key is added once.
/// - `keys` runs in the task of the handler, and must not block it. The result cannot borrow from the object: it may be an
///   `Option`, a `Vec` or an array of keys.
/// - `keys` may read the caches of informers through a lister or an [`indexer`](evenkeel_cache::SharedInformer::indexer).
/// - A panic of `keys` is logged and counted as the panic of a handler. None of the keys of that notification is added.
/// - `keys` is not called for a tombstone without the last state of its object. That is logged.
///
/// Keys can have any type that a queue can contain:
///
/// ```
/// use evenkeel_core::Obj;
/// use evenkeel_queue::WorkQueue;
/// use evenkeel_runtime::enqueue_with;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let nodes = WorkQueue::<String>::rate_limited("nodes");
/// let handler = enqueue_with(&nodes, |pod: &Obj<Pod>| {
///     let node = pod.path("spec.nodeName").ok().flatten();
///     node.map(|node| node.text().into_owned())
/// });
/// # drop(handler);
/// ```
pub fn enqueue_with<K, Q, F, I>(queue: &WorkQueue<Q>, keys: F) -> Enqueue<Q, MappedKeys<F>>
where
    Q: Key,
    F: FnMut(&Obj<K>) -> I + Send + 'static,
    I: IntoIterator<Item = Q>,
{
    Enqueue::new(queue, MappedKeys(keys))
}

impl<Q: Key, M> Enqueue<Q, M> {
    pub(crate) fn new(queue: &WorkQueue<Q>, keys: M) -> Self {
        Enqueue {
            queue: queue.downgrade(),
            queue_name: queue.name().map(Box::from),
            keys,
            priority: 0,
            background: LOW_PRIORITY,
            options: HandlerOptions::default(),
            observer: None,
        }
    }

    /// Registers an observer of the added keys.
    pub(crate) fn observing(mut self, observer: impl Fn(&Q, &ObjectKey, EventClass) + Send + Sync + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// Sets the priority of changes. Default: 0.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the priority of the initial list and of updates that change nothing. Default: [`LOW_PRIORITY`].
    #[must_use]
    pub fn background_priority(mut self, priority: i32) -> Self {
        self.background = priority;
        self
    }

    /// Sets all priorities to 0: keys are dequeued in the order of their arrival, as in client-go.
    #[must_use]
    pub fn without_priorities(self) -> Self {
        self.priority(0).background_priority(0)
    }

    /// Sets the options of the handler. See [the module](self) before you choose another delivery.
    #[must_use]
    pub fn with(mut self, options: HandlerOptions) -> Self {
        self.options = options;
        self
    }

    /// Returns the mapping.
    pub(crate) fn keys(&self) -> &M {
        &self.keys
    }

    /// Returns the options of the handler.
    pub(crate) fn handler_options(&self) -> HandlerOptions {
        self.options.clone()
    }

    /// Adds the keys that an event maps to.
    pub(crate) fn add<K>(&self, event: &Event<K>, keys: impl IntoIterator<Item = Q>) {
        if matches!(event, Event::Delete(deleted) if deleted.is_out_of_scope()) {
            return;
        }
        let Some(queue) = self.queue.upgrade() else { return };
        let class = EventClass::of(event);
        let how = AddOptions::new().priority(if class.is_background() { self.background } else { self.priority });
        let mut keys = keys.into_iter().inspect(|key| {
            if let Some(observer) = &self.observer {
                observer(key, event.key(), class);
            }
        });
        // A single key, the common case, needs no batch.
        match (keys.next(), keys.next()) {
            (Some(first), Some(second)) => queue.add_all([first, second].into_iter().chain(keys), how),
            (Some(key), None) => queue.add_with(key, how),
            (None, _) => {}
        }
    }

    /// Returns the name of the handler: what it does, and the queue.
    pub(crate) fn name_of(&self, what: fmt::Arguments<'_>) -> Cow<'_, str> {
        match &self.queue_name {
            Some(queue) => format!("{what} in {queue}").into(),
            None => what.to_string().into(),
        }
    }
}

/// Returns the states of the object of an event: the old one, if it differs, and the new one.
fn states<K>(event: &Event<K>) -> impl Iterator<Item = &Obj<K>> {
    let (old, new) = match event {
        Event::Add { object, .. } => (None, Some(object)),
        Event::Update { old, new } => (Some(old).filter(|old| !new.is_same_state_as(old)), Some(new)),
        Event::Delete(deleted) => {
            if deleted.object().is_none() {
                let key = deleted.key();
                tracing::warn!(%key, "deleted object has no last known state; nothing enqueued");
            }
            (deleted.object().filter(|_| !deleted.is_out_of_scope()), None)
        }
    };
    old.into_iter().chain(new)
}

/// Removes duplicate keys, and keeps the order.
fn dedup<Q: Key>(mut keys: Vec<Q>) -> Vec<Q> {
    if keys.len() > 1 {
        let mut seen = HashSet::with_capacity(keys.len());
        keys.retain(|key| seen.insert(key.clone()));
    }
    keys
}

impl<K> Handler<K> for Enqueue<ObjectKey, SelfKey> {
    fn handle(&mut self, event: Event<K>) {
        self.add(&event, [event.key().clone()]);
    }

    /// Returns the function and the name of the queue.
    fn name(&self) -> Cow<'_, str> {
        self.name_of(format_args!("enqueue_key"))
    }

    fn options(&self) -> HandlerOptions {
        self.options.clone()
    }
}

impl<K> Handler<K> for Enqueue<ObjectKey, OwnerKeys> {
    fn handle(&mut self, event: Event<K>) {
        let mut keys = Vec::new();
        for state in states(&event) {
            keys.extend(self.keys.of(state.header()));
        }
        self.add(&event, dedup(keys));
    }

    /// Returns the function, the kind of the owner, and the name of the queue.
    fn name(&self) -> Cow<'_, str> {
        self.name_of(format_args!("enqueue_owner {}", self.keys.kind()))
    }

    fn options(&self) -> HandlerOptions {
        self.options.clone()
    }
}

impl<K, Q, F, I> Handler<K> for Enqueue<Q, MappedKeys<F>>
where
    Q: Key,
    F: FnMut(&Obj<K>) -> I + Send + 'static,
    I: IntoIterator<Item = Q>,
{
    fn handle(&mut self, event: Event<K>) {
        let mut keys = Vec::new();
        for state in states(&event) {
            keys.extend((self.keys.0)(state));
        }
        self.add(&event, dedup(keys));
    }

    /// Returns the function and the name of the queue. [`HandlerOptions::name`] tells several of a queue apart.
    fn name(&self) -> Cow<'_, str> {
        self.name_of(format_args!("enqueue_with"))
    }

    fn options(&self) -> HandlerOptions {
        self.options.clone()
    }
}

impl<F> fmt::Debug for MappedKeys<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedKeys").finish_non_exhaustive()
    }
}

impl<Q: Key, M: fmt::Debug> fmt::Debug for Enqueue<Q, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enqueue")
            .field("queue", &self.queue_name)
            .field("keys", &self.keys)
            .field("priority", &self.priority)
            .field("background_priority", &self.background)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
