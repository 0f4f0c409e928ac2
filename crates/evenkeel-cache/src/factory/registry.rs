//! Which informers there are.

use std::any::TypeId;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::{ResourceInfo, Untyped};
use tokio::runtime::Handle;

use crate::SharedInformer;
use crate::informer::WeakInformer;

/// What one informer is kept for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// The kind of a Rust type.
    Typed(TypeId),
    /// A kind that is only known at run time.
    Dynamic(Arc<ResourceInfo>),
    /// The metadata of a kind.
    Metadata(Arc<ResourceInfo>),
}

/// Which informers there are. It grows with the number of kinds that are asked for.
///
/// Letting go of an informer may drop handlers, which are the user's code; that is never done under the lock.
pub(super) struct Registry(Mutex<State>);

struct State {
    phase: Phase,
    informers: HashMap<Key, Held>,
    /// Those that are gone or stopped, and have been replaced, but may still have tasks.
    departed: Vec<WeakInformer<Untyped>>,
}

enum Phase {
    Created,
    Started(Handle),
    Ended,
}

enum Held {
    /// It has not been started; the factory keeps it until then.
    Kept(SharedInformer<Untyped>),
    /// It belongs to those who use it.
    Released(WeakInformer<Untyped>),
}

impl Held {
    fn upgrade(&self) -> Option<SharedInformer<Untyped>> {
        match self {
            Held::Kept(informer) => Some(informer.clone()),
            Held::Released(weak) => weak.upgrade(),
        }
    }

    fn downgrade(&self) -> WeakInformer<Untyped> {
        match self {
            Held::Kept(informer) => informer.downgrade(),
            Held::Released(weak) => weak.clone(),
        }
    }
}

impl Default for Registry {
    fn default() -> Self {
        Registry(Mutex::new(State { phase: Phase::Created, informers: HashMap::new(), departed: Vec::new() }))
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The informer, if there is one that is of use.
    pub(super) fn known(&self, key: &Key) -> Option<SharedInformer<Untyped>> {
        let state = self.lock();
        let known = state.informers.get(key).and_then(Held::upgrade);
        let ended = matches!(state.phase, Phase::Ended);
        drop(state);
        known.filter(|informer| ended || informer.is_to_run())
    }

    /// Takes an informer in, unless somebody was faster: then that one's counts.
    pub(super) fn admit(&self, key: Key, made: SharedInformer<Untyped>) -> SharedInformer<Untyped> {
        let mut state = self.lock();
        let ended = matches!(state.phase, Phase::Ended);
        let known = state.informers.get(&key).and_then(Held::upgrade);
        let useful = known.as_ref().is_some_and(|informer| ended || informer.is_to_run());
        if useful {
            drop(state);
            return known.unwrap_or(made);
        }
        let held = match &state.phase {
            Phase::Created => Held::Kept(made.clone()),
            Phase::Started(runtime) => {
                // Whoever asks need not be in a runtime.
                let _runtime = runtime.enter();
                made.start();
                Held::Released(made.downgrade())
            }
            Phase::Ended => {
                made.stop();
                Held::Released(made.downgrade())
            }
        };
        let replaced = state.informers.insert(key, held);
        state.departed.retain(|departed| !departed.is_gone());
        state.departed.extend(replaced.as_ref().map(Held::downgrade).filter(|departed| !departed.is_gone()));
        drop(state);
        drop((replaced, known));
        made
    }

    /// Begins everything that has not begun; what comes later begins when it comes.
    pub(super) fn start(&self, runtime: &Handle) {
        let mut state = self.lock();
        match state.phase {
            Phase::Created => state.phase = Phase::Started(runtime.clone()),
            Phase::Started(_) => return,
            Phase::Ended => {
                tracing::warn!("the informer factory has been shut down; nothing is started");
                return;
            }
        }
        let mut kept = Vec::new();
        for held in state.informers.values_mut() {
            if let Held::Kept(informer) = held {
                if !informer.is_started() {
                    informer.start();
                }
                let released = Held::Released(informer.downgrade());
                kept.push(std::mem::replace(held, released));
            }
        }
        drop(state);
    }

    /// The informers that somebody uses, or that are kept.
    pub(super) fn users(&self) -> Vec<SharedInformer<Untyped>> {
        self.lock().informers.values().filter_map(Held::upgrade).collect()
    }

    /// Has everything end, for good; answers with what may have tasks yet.
    pub(super) fn shutdown(&self) -> Vec<WeakInformer<Untyped>> {
        let mut state = self.lock();
        state.phase = Phase::Ended;
        let users: Vec<_> = state.informers.values().filter_map(Held::upgrade).collect();
        let mut kept = Vec::new();
        for held in state.informers.values_mut() {
            let released = Held::Released(held.downgrade());
            kept.push(std::mem::replace(held, released));
        }
        state.departed.retain(|departed| !departed.is_gone());
        let mut all: Vec<_> = state.informers.values().map(Held::downgrade).collect();
        all.extend(state.departed.iter().cloned());
        drop(state);
        for informer in &users {
            informer.drain();
        }
        all
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        let phase = match state.phase {
            Phase::Created => "created",
            Phase::Started(_) => "started",
            Phase::Ended => "ended",
        };
        f.debug_struct("Registry").field("phase", &phase).field("informers", &state.informers.len()).finish()
    }
}
