//! The informers of a factory by kind.

use std::any::TypeId;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_client::Query;
use evenkeel_core::{ResourceInfo, Untyped};

use crate::SharedInformer;
use crate::informer::{RunningInformers, ShardsIdentity, WeakInformer};

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
    pub(super) shards: Option<ShardsIdentity>,
}

/// What identifies an informer: there is one for each kind and scope.
pub(super) type InformerKey = (Key, InformerScope);

/// The informers of a factory, and of those that [narrow](super::InformerFactory::in_namespace) it. It grows with the number of requested
/// kinds, and shrinks when an informer ends with its last [hold](crate::informer::InformerHold).
///
/// Dropping an informer may drop handlers, which runs user code; that never happens under the lock.
#[derive(Default)]
pub(super) struct Registry(Mutex<Informers>);

#[derive(Default)]
struct Informers {
    by_key: HashMap<InformerKey, RegisteredInformer>,
    added: u64,
}

struct RegisteredInformer {
    /// Its position in the order in which they were added: the order in which they start.
    number: u64,
    informer: SharedInformer<Untyped>,
}

impl Informers {
    /// Returns the informers in the order in which they were added.
    fn in_order(&self) -> Vec<SharedInformer<Untyped>> {
        let mut registered: Vec<&RegisteredInformer> = self.by_key.values().collect();
        registered.sort_unstable_by_key(|registered| registered.number);
        registered.into_iter().map(|registered| registered.informer.clone()).collect()
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, Informers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the informer, unless it is absent or has stopped.
    pub(super) fn get(&self, key: &InformerKey) -> Option<SharedInformer<Untyped>> {
        let informers = self.lock();
        informers.by_key.get(key).map(|registered| &registered.informer).filter(|informer| informer.can_run()).cloned()
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
        informers.added += 1;
        let registered = RegisteredInformer { number: informers.added, informer: made.clone() };
        let replaced = match informers.by_key.entry(key) {
            Entry::Occupied(entry) if entry.get().informer.can_run() => return entry.get().informer.clone(),
            Entry::Occupied(mut entry) => Some(entry.insert(registered)),
            Entry::Vacant(entry) => {
                entry.insert(registered);
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
        let is_same = informers.by_key.get(key).is_some_and(|known| known.informer.downgrade().ptr_eq(informer));
        let removed = if is_same { informers.by_key.remove(key) } else { None };
        drop(informers);
        drop(removed);
    }

    /// Starts the informers that have not been started, except those that are held: their holds start them.
    pub(super) fn start(&self) -> RunningInformers {
        let mut running = RunningInformers::default();
        let informers = self.lock();
        for informer in informers.in_order() {
            if !informer.is_started() && informer.can_run() && !informer.is_held() {
                running.merge(informer.start());
            }
        }
        running
    }

    /// Returns the names of the informers that run and whose kind and scope both registries have. Definitions, which are small, do not
    /// count.
    pub(super) fn in_both(&self, other: &Registry) -> Vec<String> {
        let known: HashSet<InformerKey> = self.lock().by_key.keys().cloned().collect();
        let is_double = |(key, registered): &(&InformerKey, &RegisteredInformer)| {
            key.0 != Key::Definitions && known.contains(key) && registered.informer.can_run()
        };
        let others = other.lock();
        let mut names: Vec<_> =
            others.by_key.iter().filter(is_double).map(|(_, other)| other.informer.name().to_owned()).collect();
        names.sort();
        names
    }

    pub(super) fn all(&self) -> Vec<SharedInformer<Untyped>> {
        self.lock().in_order()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all().iter().map(|informer| informer.name().to_owned())).finish()
    }
}
