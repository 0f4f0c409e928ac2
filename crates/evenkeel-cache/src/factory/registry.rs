//! The informers of a factory by kind.

use std::any::TypeId;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_client::Query;
use evenkeel_core::{ResourceInfo, Untyped};

use crate::SharedInformer;
use crate::informer::{RunningInformers, WeakInformer};

/// What one informer is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// The kind of a Rust type.
    Typed(TypeId),
    /// The kind of a Rust type, served with other names or another scope than the type states.
    Served(TypeId, Arc<ResourceInfo>),
    /// A kind that is only known at run time.
    Dynamic(Arc<ResourceInfo>),
    /// The metadata of a kind.
    Metadata(Arc<ResourceInfo>),
    /// The Namespaces whose labels determine the namespaces of all others.
    LabelledNamespaces,
    /// The CustomResourceDefinitions that others wait for.
    Definitions,
}

impl Key {
    /// Returns whether options that are set for this key apply to the other one: the same kind in the same form, in any version.
    pub(super) fn configures(&self, other: &Key) -> bool {
        let is_same_kind =
            |own: &ResourceInfo, other: &ResourceInfo| own.kind() == other.kind() && own.group() == other.group();
        match (self, other) {
            (Key::Typed(own), Key::Served(kind, _)) => own == kind,
            (Key::Dynamic(own), Key::Dynamic(other)) | (Key::Metadata(own), Key::Metadata(other)) => {
                is_same_kind(own, other)
            }
            _ => false,
        }
    }
}

/// The objects that an informer lists. Empty texts stand for no restriction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct InformerScope {
    pub(super) namespace: String,
    pub(super) labels: String,
    pub(super) fields: String,
    pub(super) query: Query,
}

/// What identifies an informer: there is one for each kind and scope.
pub(super) type InformerKey = (Key, InformerScope);

/// The informers of a factory, and of those that [narrow](super::InformerFactory::in_namespace) it. It grows with the number of requested
/// kinds, and shrinks when an informer ends with its last [hold](crate::informer::InformerHold).
///
/// Dropping an informer may drop handlers, which runs user code; that never happens under the lock.
#[derive(Default)]
pub(super) struct Registry(Mutex<HashMap<InformerKey, SharedInformer<Untyped>>>);

impl Registry {
    fn lock(&self) -> MutexGuard<'_, HashMap<InformerKey, SharedInformer<Untyped>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the informer, unless it is absent or has stopped.
    pub(super) fn get(&self, key: &InformerKey) -> Option<SharedInformer<Untyped>> {
        self.lock().get(key).filter(|informer| informer.can_run()).cloned()
    }

    /// Adds an informer and returns it. If a concurrent call was first, returns that call's informer.
    pub(super) fn add(self: &Arc<Self>, key: InformerKey, made: SharedInformer<Untyped>) -> SharedInformer<Untyped> {
        let mut informers = self.lock();
        made.on_last_hold({
            let (registry, key, informer) = (Arc::downgrade(self), key.clone(), made.downgrade());
            move || {
                if let Some(registry) = registry.upgrade() {
                    registry.remove(&key, &informer);
                }
            }
        });
        let replaced = match informers.entry(key) {
            Entry::Occupied(entry) if entry.get().can_run() => return entry.get().clone(),
            Entry::Occupied(mut entry) => Some(entry.insert(made.clone())),
            Entry::Vacant(entry) => {
                entry.insert(made.clone());
                None
            }
        };
        drop(informers);
        drop(replaced);
        made
    }

    /// Removes an informer, unless another one has taken its place.
    fn remove(&self, key: &InformerKey, informer: &WeakInformer<Untyped>) {
        let mut informers = self.lock();
        let is_same = informers.get(key).is_some_and(|known| known.downgrade().ptr_eq(informer));
        let removed = if is_same { informers.remove(key) } else { None };
        drop(informers);
        drop(removed);
    }

    /// Starts the informers that have not been started, except those that are held: their holds start them.
    pub(super) fn start(&self) -> RunningInformers {
        let mut running = RunningInformers::default();
        for informer in self.lock().values() {
            if !informer.is_started() && informer.can_run() && !informer.is_held() {
                running.merge(informer.start());
            }
        }
        running
    }

    /// Returns the names of the informers that run and whose kind and scope both registries have. Definitions, which are small, do not
    /// count.
    pub(super) fn in_both(&self, other: &Registry) -> Vec<String> {
        let known: HashSet<InformerKey> = self.lock().keys().cloned().collect();
        let is_double = |(key, informer): &(&InformerKey, &SharedInformer<Untyped>)| {
            key.0 != Key::Definitions && known.contains(key) && informer.can_run()
        };
        let mut names: Vec<_> =
            other.lock().iter().filter(is_double).map(|(_, informer)| informer.name().to_owned()).collect();
        names.sort();
        names
    }

    pub(super) fn all(&self) -> Vec<SharedInformer<Untyped>> {
        self.lock().values().cloned().collect()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.lock().values().map(|informer| informer.name().to_owned())).finish()
    }
}
