//! [`Event`]: a notification to a handler, and [`Deleted`], a deleted object.

use evenkeel_base::planted::{Defect, is_planted};
use evenkeel_core::{Obj, ObjectKey, Untyped};

/// A notification: a change of an object, as a handler receives it.
#[derive(Clone, Debug)]
pub enum Event<K> {
    /// The object is new to the handler.
    Add {
        /// The object.
        object: Obj<K>,
        /// Whether the object is part of the initial list of the informer, or of the first list of places that it gained, or was stored
        /// when the handler was added.
        initial: bool,
    },
    /// The object changed, or may have: resyncs and relists redeliver unchanged objects.
    Update {
        /// The state of the last notification. With [`Delivery::Latest`](crate::Delivery::Latest), for an object that was deleted
        /// and created again, the last state before the deletion.
        old: Obj<K>,
        /// The current state.
        new: Obj<K>,
    },
    /// The object was deleted, or is not watched any more: [`Deleted::OutOfScope`] and [`Deleted::Moved`].
    Delete(Deleted<K>),
}

/// A deleted object, or one that left the scope of its informer.
#[derive(Clone, Debug)]
pub enum Deleted<K> {
    /// The watch reported the deletion. This is the last state, with the resource version of the deletion.
    Observed(Obj<K>),
    /// A tombstone: a later list does not contain the object, and the deletion itself was not observed. client-go calls it
    /// `DeletedFinalStateUnknown`.
    Missed {
        /// The key of the object.
        key: ObjectKey,
        /// The last known state, which may be old; `None` if there is none.
        last_known: Option<Obj<K>>,
    },
    /// Not deleted: the namespace of the object was removed from the [set](crate::NamespaceSet) of the informer. The store does not
    /// contain the object any more, and its later changes are not reported.
    OutOfScope {
        /// The last state in the store.
        object: Obj<K>,
    },
    /// Not deleted: the place of the object was removed from the [scope](crate::ShardScope) of the informer, or the object has got another
    /// place. Another replica has it now. The store does not contain the object any more.
    Moved {
        /// The last state in the store.
        object: Obj<K>,
    },
}

impl<K> Event<K> {
    /// Returns the key of the object.
    pub fn key(&self) -> &ObjectKey {
        match self {
            Event::Add { object, .. } => object.key(),
            Event::Update { new, .. } => new.key(),
            Event::Delete(deleted) => deleted.key(),
        }
    }

    /// Returns the current or last known state; `None` only for a tombstone without one.
    pub fn object(&self) -> Option<&Obj<K>> {
        match self {
            Event::Add { object, .. } => Some(object),
            Event::Update { new, .. } => Some(new),
            Event::Delete(deleted) => deleted.object(),
        }
    }

    /// Returns the same event for an object that is decoded as `L`.
    pub fn cast<L>(self) -> Event<L> {
        match self {
            Event::Add { object, initial } => Event::Add { object: object.cast(), initial },
            Event::Update { old, new } => Event::Update { old: old.cast(), new: new.cast() },
            Event::Delete(deleted) => Event::Delete(deleted.cast()),
        }
    }
}

impl<K> Deleted<K> {
    /// Returns the key of the object.
    pub fn key(&self) -> &ObjectKey {
        match self {
            Deleted::Observed(object) | Deleted::OutOfScope { object } | Deleted::Moved { object } => object.key(),
            Deleted::Missed { key, .. } => key,
        }
    }

    /// Returns the last known state.
    pub fn object(&self) -> Option<&Obj<K>> {
        match self {
            Deleted::Observed(object) | Deleted::OutOfScope { object } | Deleted::Moved { object } => Some(object),
            Deleted::Missed { last_known, .. } => last_known.as_ref(),
        }
    }

    /// Returns whether this is a tombstone: the final state is unknown.
    pub fn is_final_state_unknown(&self) -> bool {
        matches!(self, Deleted::Missed { .. })
    }

    /// Returns whether the object was not deleted: its namespace was removed from the set of the informer, or it [moved](Self::is_moved).
    pub fn is_out_of_scope(&self) -> bool {
        matches!(self, Deleted::OutOfScope { .. } | Deleted::Moved { .. })
    }

    /// Returns whether the object was not deleted: another replica has it now.
    pub fn is_moved(&self) -> bool {
        matches!(self, Deleted::Moved { .. })
    }

    /// Returns the same for an object that is decoded as `L`.
    pub fn cast<L>(self) -> Deleted<L> {
        match self {
            Deleted::OutOfScope { object } => Deleted::OutOfScope { object: object.cast() },
            Deleted::Moved { object } => Deleted::Moved { object: object.cast() },
            Deleted::Observed(object) => Deleted::Observed(object.cast()),
            Deleted::Missed { key, last_known } => Deleted::Missed { key, last_known: last_known.map(Obj::cast) },
        }
    }
}

impl From<Obj<Untyped>> for Deleted<Untyped> {
    fn from(object: Obj<Untyped>) -> Self {
        Deleted::Observed(object)
    }
}

/// The notifications of one write to the store, in order. [`Table::apply`](crate::store::Table::apply) makes them, and the
/// informer's processor sends them to its listeners.
#[derive(Debug, Default)]
pub(crate) struct Notifications {
    pub(crate) events: Vec<Event<Untyped>>,
    /// The indexes of events about objects that a list contains and that have not changed.
    pub(crate) unchanged: Vec<usize>,
    /// The number of writes to the store, this one included.
    pub(crate) commit: u64,
    /// Nothing was written: only the listeners that are due for a resync receive these.
    pub(crate) is_resync: bool,
}

impl Notifications {
    /// Adds the notification about an object that a list contains: added, changed, or unchanged.
    pub(crate) fn push_listed(&mut self, previous: Option<Obj<Untyped>>, object: Obj<Untyped>, initial: bool) {
        match previous {
            None => self.events.push(Event::Add { object, initial }),
            Some(old) if old.uid() != object.uid() && is_planted(Defect::RelistDeletesLiveKey) => {
                self.events.push(Event::Delete(object.clone().into()));
                self.events.push(Event::Add { object, initial });
            }
            Some(old) => {
                if old.resource_version() == object.resource_version() {
                    self.unchanged.push(self.events.len());
                }
                self.events.push(Event::Update { old, new: object });
            }
        }
    }

    /// Returns the last states of the objects that were removed.
    pub(crate) fn deleted_objects(&self) -> Vec<Obj<Untyped>> {
        let deleted = self.events.iter().filter_map(|event| match event {
            Event::Delete(deleted) => deleted.object().cloned(),
            _ => None,
        });
        deleted.collect()
    }

    /// Adds the notification that redelivers an object.
    pub(crate) fn push_resync(&mut self, object: Obj<Untyped>) {
        self.events.push(Event::Update { old: object.clone(), new: object });
    }
}
