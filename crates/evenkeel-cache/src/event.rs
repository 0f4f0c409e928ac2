//! What handlers are told: [`Event`], and [`Deleted`] for objects that are gone.

use evenkeel_core::{Obj, ObjectKey, Untyped};

/// Something that happened to an object, as a handler is told.
#[derive(Clone, Debug)]
pub enum Event<K> {
    /// The handler has not heard of this object before, or it had gone.
    Add {
        /// The object.
        object: Obj<K>,
        /// Whether it was there already when the informer began, or when the handler was added.
        initial: bool,
    },
    /// The object has changed, or may have: resyncs and relists tell of objects that have not.
    Update {
        /// What the handler was told last; or, for one that is told only of [the latest](crate::Delivery::Latest) and of an
        /// object that went and came back, its last state before it went.
        old: Obj<K>,
        /// What it is now.
        new: Obj<K>,
    },
    /// The object is gone.
    Delete(Deleted<K>),
}

/// An object that is gone.
#[derive(Clone, Debug)]
pub enum Deleted<K> {
    /// The watch told of it; this is the last state, with the resource version of the deletion.
    Observed(Obj<K>),
    /// It was missing from a later list: the deletion itself, and perhaps more before it, was not seen. client-go calls
    /// this `DeletedFinalStateUnknown`.
    Missed {
        /// Which object.
        key: ObjectKey,
        /// What was last known of it, which may be old; `None` if nothing was.
        last_known: Option<Obj<K>>,
    },
}

impl<K> Event<K> {
    /// Which object.
    pub fn key(&self) -> &ObjectKey {
        match self {
            Event::Add { object, .. } => object.key(),
            Event::Update { new, .. } => new.key(),
            Event::Delete(deleted) => deleted.key(),
        }
    }

    /// The object as it is now, or as it was last known; `None` only of a deletion of which nothing is known.
    pub fn object(&self) -> Option<&Obj<K>> {
        match self {
            Event::Add { object, .. } => Some(object),
            Event::Update { new, .. } => Some(new),
            Event::Delete(deleted) => deleted.object(),
        }
    }

    /// The same event, about an object that is decoded as `L`.
    pub fn cast<L>(self) -> Event<L> {
        match self {
            Event::Add { object, initial } => Event::Add { object: object.cast(), initial },
            Event::Update { old, new } => Event::Update { old: old.cast(), new: new.cast() },
            Event::Delete(deleted) => Event::Delete(deleted.cast()),
        }
    }
}

impl<K> Deleted<K> {
    /// Which object.
    pub fn key(&self) -> &ObjectKey {
        match self {
            Deleted::Observed(object) => object.key(),
            Deleted::Missed { key, .. } => key,
        }
    }

    /// The last state that is known.
    pub fn object(&self) -> Option<&Obj<K>> {
        match self {
            Deleted::Observed(object) => Some(object),
            Deleted::Missed { last_known, .. } => last_known.as_ref(),
        }
    }

    /// Whether the state of the object when it went is not known: it was found missing.
    pub fn is_final_state_unknown(&self) -> bool {
        matches!(self, Deleted::Missed { .. })
    }

    /// The same, about an object that is decoded as `L`.
    pub fn cast<L>(self) -> Deleted<L> {
        match self {
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
            Some(old) => {
                if old.resource_version() == object.resource_version() {
                    self.unchanged.push(self.events.len());
                }
                self.events.push(Event::Update { old, new: object });
            }
        }
    }

    /// Adds the notification that redelivers an object.
    pub(crate) fn push_resync(&mut self, object: Obj<Untyped>) {
        self.events.push(Event::Update { old: object.clone(), new: object });
    }
}
