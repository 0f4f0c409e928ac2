//! From informers to queues: handlers that put keys into a [`WorkQueue`].
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
//! #     SharedInformer::builder(source.clone(), source.resource()).build()
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
//! What was there before the handler was (the first list, and what a late handler is told of first), and an update that changes
//! nothing (a resync, or a list after an outage that finds an object as it was), is added with [`LOW_PRIORITY`]. All else is
//! added with the default priority: deletions, objects that are new or changed in a list after an outage, and those that a
//! [`Filter`](evenkeel_cache::Filter) accepts since their last change. Which of these it is the event says; how old an object is
//! plays no part in it. A key that is in the queue already takes the higher of its priorities, so a change of an object that still waits
//! in the backlog of the first list overtakes that backlog.
//!
//! # EnqueueReason every notification
//!
//! These handlers ask for [every](evenkeel_cache::Delivery::Every) notification, though a key says nothing of what has changed.
//! One that is told only of [the latest](evenkeel_cache::Delivery::Latest) would lose what somebody has to hear:
//!
//! - Of an object that came and went while the handler was not called, it would hear nothing. But a worker that had the key for
//!   another reason may have seen the object in the store, and now nobody tells it that the object is gone.
//! - Of a child that went from one owner to a second and on to a third, the second would not hear. It may have seen the child as
//!   its own.
//! - A change that is folded into the first class of an object would wait with the first list.
//!
//! It costs little: adding a key is all that these handlers do, so they are not far behind for long.

mod owner_keys;

use std::any::type_name;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use evenkeel_cache::{Deleted, Event, Handler, HandlerOptions};
use evenkeel_core::resource::StaticScope;
use evenkeel_core::{Obj, ObjectKey, ResourceInfo};
use evenkeel_queue::{AddOptions, Key, LOW_PRIORITY, WeakQueue, WorkQueue};
use kube_core::Resource;

pub use owner_keys::OwnerKeys;

/// A handler that puts keys into a queue. Made by [`enqueue_key`], [`enqueue_owner`] and [`enqueue_with`].
///
/// - It never waits: it takes the lock of the queue for as long as it takes to add a key.
/// - Of an update that changes an object, it adds the keys of the old and of the new state; each key once.
/// - It keeps neither the queue alive nor the informer. When all others who have the queue are gone, so that nobody could take
///   keys out, the queue is gone, and the handler goes on without effect. So it does for a queue that is shutting down, which
///   takes no keys; it does not keep [`drain`](WorkQueue::drain) waiting.
///
/// It can stand behind a [`Filter`](evenkeel_cache::Filter):
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
    /// What the queue is called, also when it is gone.
    queue_name: Option<Box<str>>,
    keys: M,
    priority: i32,
    background: i32,
    options: HandlerOptions,
    observer: Option<Box<KeyObserver<Q>>>,
}

/// Is told of each key that is added, of which object it was that something happened to, and what.
type KeyObserver<Q> = dyn Fn(&Q, &ObjectKey, EventClass) + Send + Sync;

/// What a handler was told of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventClass {
    /// It was there before the handler was.
    Initial,
    Added,
    Updated,
    /// It was told of again, as it was: by a resync, or by a list after an outage.
    Unchanged,
    Deleted,
    /// It is gone, and nobody saw it go.
    Missed,
}

impl EventClass {
    fn of<K>(event: &Event<K>) -> Self {
        match event {
            Event::Add { initial: true, .. } => EventClass::Initial,
            Event::Add { .. } => EventClass::Added,
            Event::Update { old, new } if new.is_same_state_as(old) => EventClass::Unchanged,
            Event::Update { .. } => EventClass::Updated,
            Event::Delete(Deleted::Observed(_)) => EventClass::Deleted,
            Event::Delete(Deleted::Missed { .. }) => EventClass::Missed,
        }
    }

    /// Whether nothing has happened to the object since the handler was there.
    fn is_background(self) -> bool {
        matches!(self, EventClass::Initial | EventClass::Unchanged)
    }
}

/// The key of the object itself. See [`enqueue_key`].
#[derive(Clone, Copy, Debug)]
pub struct SelfKey;

/// The keys that a function says. See [`enqueue_with`].
#[derive(Clone, Copy)]
pub struct MappedKeys<F>(F);

/// Adds the key of each object that comes, changes, or goes. controller-runtime's `EnqueueRequestForObject`.
///
/// Also of one that is known to be gone though nobody saw it go: of that, the key is known even if nothing else is.
pub fn enqueue_key(queue: &WorkQueue<ObjectKey>) -> Enqueue<ObjectKey, SelfKey> {
    Enqueue::new(queue, SelfKey)
}

/// Adds the key of the owner, of kind `Owner`, that controls the object. controller-runtime's `EnqueueRequestForOwner`.
///
/// - The owner is known by its group and kind; which version the reference names does not matter.
/// - Its namespace is that of the object, unless objects of kind `Owner` live in none. What lives in no namespace cannot
///   be owned by what lives in one: such references are passed over, as the server's garbage collector does.
/// - If an update gives the object another owner, both are added.
/// - Of an object that is gone and of which nothing but its name was known, the owner is not known either. That is logged.
///
/// [`any_owner`](Enqueue::any_owner) is for those who own without being in control, and [`Enqueue::owner_of`] for kinds that
/// are known at run time.
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

/// Adds the keys that `keys` says an object is about. controller-runtime's `EnqueueRequestsFromMapFunc`.
///
/// - Of an update that changes the object, it is asked for the old and for the new state. Each key is added once.
/// - It is asked by the task that calls the handler, and must not block it. What it returns may not borrow from the object:
///   an `Option`, a `Vec` or an array of keys will do.
/// - It may look into the caches of informers, best through their [`indexer`](evenkeel_cache::SharedInformer::indexer): a
///   `Lister` in it would keep its informer running for as long as the handler is there.
/// - If it panics, that is logged and counted as the panic of a handler, and none of the keys of that notification is added.
/// - Of an object that is gone and of which nothing but its name was known, it is not asked. That is logged.
///
/// Keys can be anything that a queue can hold:
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
    fn new(queue: &WorkQueue<Q>, keys: M) -> Self {
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

    /// Has this told of each key that is added, and why.
    pub(crate) fn observing(mut self, observer: impl Fn(&Q, &ObjectKey, EventClass) + Send + Sync + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// The priority of what changes: 0, unless told otherwise.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// The priority of what was there before the handler was, and of updates that change nothing: [`LOW_PRIORITY`], unless told
    /// otherwise.
    #[must_use]
    pub fn background_priority(mut self, priority: i32) -> Self {
        self.background = priority;
        self
    }

    /// All keys have the same priority, which is 0: they are handed out in the order in which they came, as client-go does it.
    #[must_use]
    pub fn without_priorities(self) -> Self {
        self.priority(0).background_priority(0)
    }

    /// How the handler is told, in place of how it would be: see [the module](self) before you ask for another delivery.
    #[must_use]
    pub fn with(mut self, options: HandlerOptions) -> Self {
        self.options = options;
        self
    }

    fn add<K>(&self, event: &Event<K>, keys: impl IntoIterator<Item = Q>) {
        let Some(queue) = self.queue.upgrade() else { return };
        let class = EventClass::of(event);
        let how = AddOptions::new().priority(if class.is_background() { self.background } else { self.priority });
        let mut keys = keys.into_iter().inspect(|key| {
            if let Some(observer) = &self.observer {
                observer(key, event.key(), class);
            }
        });
        // Mostly there is one, which needs no batch.
        match (keys.next(), keys.next()) {
            (Some(first), Some(second)) => queue.add_all([first, second].into_iter().chain(keys), how),
            (Some(key), None) => queue.add_with(key, how),
            (None, _) => {}
        }
    }

    fn name(&self, what: fmt::Arguments<'_>) -> Cow<'_, str> {
        match &self.queue_name {
            Some(queue) => format!("{what} in {queue}").into(),
            None => what.to_string().into(),
        }
    }
}

/// The states of the object that an event is about: what it was, and what it is.
fn states<K>(event: &Event<K>) -> impl Iterator<Item = &Obj<K>> {
    let (was, is) = match event {
        Event::Add { object, .. } => (None, Some(object)),
        Event::Update { old, new } => (Some(old).filter(|old| !new.is_same_state_as(old)), Some(new)),
        Event::Delete(deleted) => {
            if deleted.object().is_none() {
                let key = deleted.key();
                tracing::warn!(%key, "an object is gone of which nothing else is known, so nothing is enqueued for it");
            }
            (deleted.object(), None)
        }
    };
    was.into_iter().chain(is)
}

/// The keys without those that came before, in their order.
fn once<Q: Key>(mut keys: Vec<Q>) -> Vec<Q> {
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

    /// What it does, and the name of the queue.
    fn name(&self) -> Cow<'_, str> {
        self.name(format_args!("enqueue_key"))
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
        self.add(&event, once(keys));
    }

    /// What it does, the kind of the owner, and the name of the queue.
    fn name(&self) -> Cow<'_, str> {
        self.name(format_args!("enqueue_owner {}", self.keys.kind()))
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
        self.add(&event, once(keys));
    }

    /// What it does, where the function was written, and the name of the queue.
    fn name(&self) -> Cow<'_, str> {
        self.name(format_args!("enqueue_with {}", type_name::<F>()))
    }

    fn options(&self) -> HandlerOptions {
        self.options.clone()
    }
}

impl<F> fmt::Debug for MappedKeys<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MappedKeys").field(&type_name::<F>()).finish()
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
