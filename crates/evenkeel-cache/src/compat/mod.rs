//! Ports of client-go tools that few programs need.
//!
//! | here | client-go | use |
//! |---|---|---|
//! | [`channel`](fn@channel) | `cache.Queue`, `Pop` | a delta queue between a reflector and a loop of one's own |
//! | [`Fifo`] | `cache.FIFO` | a queue of the last state of each object |
//! | [`Heap`] | `cache.Heap` | a blocking queue of keyed values, least value first |
//! | [`MutationCache`] | `cache.MutationCache` | a program's own writes on top of an indexer; [`Lister::at_least`] often suffices |
//! | [`TtlStore`] | `cache.NewTTLStore` | a store whose objects expire |
//! | [`UndeltaStore`] | `cache.UndeltaStore` | a store that passes on the whole list after each change |
//! | [`UntilWithSync`] | `watch.UntilWithSync` | waits for conditions on the events of an informer |
//! | [`WaitForSync`] | `cache.WaitFor` | waits for several conditions at once; [`SharedInformer::synced`] often suffices |
//! | [`synctrack`] | `cache/synctrack` | tracks whether handlers have processed the initial list |
//!
//! [`SharedInformer::synced`]: crate::SharedInformer::synced
//! [`Lister::at_least`]: crate::Lister::at_least

mod channel;
mod fifo;
mod heap;
mod mutation_cache;
pub mod synctrack;
mod ttl_store;
mod undelta;
mod until;
mod wait;

pub use channel::{Consumer, Popped, Producer, channel};
pub use fifo::Fifo;
pub use heap::{Heap, HeapClosed};
pub use mutation_cache::MutationCache;
pub use ttl_store::TtlStore;
pub use undelta::UndeltaStore;
pub use until::{UntilWithSync, UntilWithSyncError};
pub use wait::{Awaited, DoneChecker, SyncTimeout, TimeIsOver, WaitForSync, wait_for_sync};
