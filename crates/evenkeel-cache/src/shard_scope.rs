//! [`ShardScope`]: the places that informers are for, changed at run time.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use evenkeel_core::shard::{ShardKey, ShardRanges};
use tokio::sync::watch;

use crate::Object;
use crate::informer::InformerShared;

/// The places that a program's informers are for, which it may change while they run. Cheap to clone; clones are the same scope.
///
/// Informers take it with [`InformerOptions::shard_scope`](crate::InformerOptions::shard_scope), each with the key by which its objects
/// have places. [`set`](Self::set) has all of them follow.
///
/// # Guarantees
///
/// - No store contains an object outside of the places that its informer has applied, whether the server filters or not.
/// - Places that are gained by one change are fetched by one list or WatchList for each kind. The others are not listed again.
/// - Objects of places that are lost leave the stores, and handlers receive [`Deleted::Moved`](crate::Deleted::Moved).
/// - Objects of places that are gained are delivered as additions with `initial`.
/// - The store has all objects of the places that it [covers](Self::covered), as of its resource version or later. A list of gained places
///   is of the newest state at the time of its request.
/// - Objects never go back in time while the watches of gained and other places are joined.
///
/// # Not guaranteed
///
/// - A change takes effect soon, not at once: [`covered`](Self::covered) tells.
/// - The resource version of a store is that of its slowest watch. It decreases when places are gained that are listed from a state before
///   it.
/// - Under [`ShardKey::OwnerUid`], which changes with the owner, an object that is moved back and forth may be missing, or be shown in an
///   earlier state, until all watches of the store have seen that.
///
/// ```
/// # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_cache::{InformerFactory, ShardScope};
/// use evenkeel_core::shard::{ShardKey, ShardRange};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let scope = ShardScope::new(ShardRange::FULL.part(0, 4).unwrap());
/// let informers = InformerFactory::builder(&client)
///     .configure::<Pod>(|pods| pods.shard_scope(ShardKey::Namespace, &scope))
///     .build();
/// let pods = informers.lister::<Pod>();
/// let running = informers.start();
/// informers.wait_for_sync().await?;
/// // Another replica gives up the second quarter.
/// let gained = ShardRange::FULL.part(1, 4).unwrap().into();
/// scope.set(scope.ranges().union(&gained));
/// scope.wait_until_covered(&gained).await?; // its pods are in the store now
/// # drop((pods, running));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ShardScope {
    inner: Arc<ScopeInner>,
}

struct ScopeInner {
    /// Identifies the scope in the process.
    id: u64,
    wanted: watch::Sender<ShardRanges>,
    /// The informers of the scope.
    members: Mutex<Vec<Weak<InformerShared>>>,
}

/// The informers of a scope will not cover the awaited places.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShardScopeError {
    /// The places are not in the scope, or not any more.
    #[error("the scope does not contain all of the places {ranges:?}; set it first")]
    NotWanted {
        /// The awaited places.
        ranges: ShardRanges,
    },
    /// An informer has stopped.
    #[error("informer {informer} has stopped; its store does not change any more")]
    Stopped {
        /// The name of the informer.
        informer: String,
    },
}

impl ShardScope {
    /// Returns a scope of these places.
    pub fn new(ranges: impl Into<ShardRanges>) -> Self {
        static SCOPES: AtomicU64 = AtomicU64::new(0);
        let id = SCOPES.fetch_add(1, Ordering::Relaxed);
        let inner = ScopeInner { id, wanted: watch::Sender::new(ranges.into()), members: Mutex::default() };
        ShardScope { inner: Arc::new(inner) }
    }

    /// Returns the places that were set last.
    pub fn ranges(&self) -> ShardRanges {
        self.inner.wanted.borrow().clone()
    }

    /// Sets the places. The informers follow.
    pub fn set(&self, ranges: impl Into<ShardRanges>) {
        let ranges = ranges.into();
        self.inner.wanted.send_if_modified(|wanted| {
            let is_changed = *wanted != ranges;
            *wanted = ranges;
            is_changed
        });
    }

    /// Returns the places that the stores of all informers of the scope cover completely. An informer that does not run covers none.
    pub fn covered(&self) -> ShardRanges {
        let covered =
            self.members().iter().map(|member| member.covered()).reduce(|one, other| one.intersection(&other));
        covered.unwrap_or_else(|| self.ranges())
    }

    /// Waits until the stores of all informers of the scope cover these places. Informers that are not started yet are waited for, too.
    ///
    /// # Errors
    /// If an informer has stopped, or the places are not in the scope.
    pub async fn wait_until_covered(&self, ranges: &ShardRanges) -> Result<(), ShardScopeError> {
        for member in self.members() {
            self.wait_for_member(&member, ranges).await?;
        }
        match self.ranges().covers(ranges) {
            true => Ok(()),
            false => Err(ShardScopeError::NotWanted { ranges: ranges.clone() }),
        }
    }

    async fn wait_for_member(&self, member: &InformerShared, ranges: &ShardRanges) -> Result<(), ShardScopeError> {
        let mut wanted = self.watch();
        tokio::select! {
            biased;
            is_covered = member.wait_until_covered(ranges) => match is_covered {
                true => Ok(()),
                false => Err(ShardScopeError::Stopped { informer: member.name().to_owned() }),
            },
            // The sender is a field of the scope, so this does not fail.
            _ = wanted.wait_for(|wanted| !wanted.covers(ranges)) => {
                Err(ShardScopeError::NotWanted { ranges: ranges.clone() })
            }
        }
    }

    /// Returns what tells clones of this scope from other scopes.
    pub(crate) fn id(&self) -> u64 {
        self.inner.id
    }

    pub(crate) fn watch(&self) -> watch::Receiver<ShardRanges> {
        self.inner.wanted.subscribe()
    }

    /// Adds an informer to the scope.
    pub(crate) fn join(&self, informer: &Arc<InformerShared>) {
        let mut members = self.lock_members();
        members.retain(|member| member.strong_count() > 0);
        members.push(Arc::downgrade(informer));
    }

    fn members(&self) -> Vec<Arc<InformerShared>> {
        self.lock_members().iter().filter_map(Weak::upgrade).collect()
    }

    fn lock_members(&self) -> MutexGuard<'_, Vec<Weak<InformerShared>>> {
        self.inner.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ShardScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardScope").field("ranges", &self.ranges()).finish_non_exhaustive()
    }
}

/// Objects by their place.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) key: ShardKey,
    pub(crate) ranges: ShardRanges,
}

impl Places {
    pub(crate) fn contain(&self, object: &Object) -> bool {
        self.ranges.is_full() || self.ranges.contains(self.key.place_of(object.header()))
    }
}
