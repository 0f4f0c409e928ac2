//! The informer: a local copy of the objects of one kind, kept up to date, with notifications to handlers.
//!
//! ```text
//!             list, watch          deltas             writes          notifications
//! API server ─────────────► Reflector ──► DeltaQueue ──► Indexer ──► one queue per handler ──► handlers
//!                                                           ▲
//!                                                        Listers
//! ```
//!
//! ```
//! use evenkeel_cache::testing::FakeSource;
//! use evenkeel_cache::{Event, HandlerOptions, InformerOptions, SharedInformer};
//! use k8s_openapi::api::core::v1::Pod;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let source = FakeSource::of::<Pod>(); // or what a client lists and watches: `InformerFactory::builder(&client)`
//! source.add(serde_json::json!({"metadata": {"namespace": "default", "name": "web-0"}}))?;
//!
//! let pods = SharedInformer::<Pod>::new(source.clone(), source.resource(), InformerOptions::new());
//! let mut events = pods.subscribe(HandlerOptions::new())?; // or `pods.add_handler(|event: Event<Pod>| …)`
//! let running = pods.start(); // dropping the handle stops the informer
//! pods.synced().await?;
//! assert!(pods.lister().namespace("default")?.get("web-0").is_some());
//! assert!(matches!(events.next().await, Some(Event::Add { initial: true, .. })));
//! running.drain().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//!
//! - [`source`]: [`ListerWatcher`], the source of objects: a client's `Api`, or a stand-in of a test.
//! - [`delta`]: [`Delta`](delta::Delta), a change on its way from the reflector to the store.
//! - [`store`]: [`Indexer`], the objects by key and by any number of indexes, and [`Store`], which can be written too.
//! - [`informer`]: [`SharedInformer`], which is all of these together, for any number of handlers.
//! - [`handler`]: [`Handler`], the callback that receives [`Event`]s, and ready-made handlers.
//! - [`lister`]: [`Lister`], reads of what an informer has.
//! - [`namespaces`]: [`NamespaceSet`], several namespaces for one informer, changed at run time.
//! - [`view`]: [`View`], decoded values stored beside the objects, for hot reads.
//! - `factory`: `InformerFactory`, one informer for each kind, with the feature `client`.
//! - [`transform`]: what makes objects lighter before they are stored.
//! - [`metrics`]: what is reported.
//! - `testing`: fake sources and stores for tests, with the feature `testing`.
//! - `parts`: the reflector and the delta queues, for a program that builds an informer of its own, with the feature `parts`.
//! - `compat`: ports of client-go tools that few programs need, with the feature `compat`.
//!
//! # Guarantees
//!
//! - The store contains the object of a notification, or a newer state, before a handler is called.
//! - A handler receives the changes of each object in order, one call at a time; a slow handler does not delay others.
//! - A read never waits for the network, and never sees half of a write.
//! - Stored objects are shared by all readers and immutable, so no mutation detector is needed:
//!
//!   ```compile_fail,E0594
//!   # use evenkeel_cache::Store;
//!   # use k8s_openapi::api::core::v1::Pod;
//!   let pods = Store::<Pod>::new([]);
//!   if let Some(pod) = pods.get("ns/web-0") {
//!       pod.typed().unwrap().metadata.name = None; // a shared value cannot be assigned to
//!   }
//!   ```
//! - Queues, store, the reflector's state machine and resync arithmetic are sans-IO: no clock, no runtime.
//!
//! # Deliberately absent
//!
//! - Objects are decoded into Rust types only on access: see [`Obj`]. A [`View`] decodes fields when objects are stored.
//! - The cache does not write to the API server.
#![deny(missing_docs)]
#![forbid(unsafe_code)]
// What only programs call that enable these features.
#![cfg_attr(not(all(feature = "compat", feature = "parts")), allow(dead_code, unused_imports, unreachable_pub))]

#[cfg(feature = "compat")]
pub mod compat;
#[cfg(not(feature = "compat"))]
mod compat;
pub mod delta;
mod delta_fifo;
mod delta_queue;
pub mod event;
#[cfg(feature = "client")]
pub mod factory;
pub mod handler;
pub mod informer;
pub mod lister;
pub mod metrics;
pub mod namespaces;
mod ordered_queue;
#[cfg(feature = "parts")]
pub mod parts;
mod reflector;
mod shard_scope;
pub mod source;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod transform;
pub mod view;

pub use evenkeel_core::{Obj, ObjectKey, ResourceInfo, ResourceVersion};
pub use event::{Deleted, Event};
#[cfg(feature = "client")]
pub use factory::InformerFactory;
pub use handler::{Delivery, Filter, Handler, HandlerFuncs, HandlerOptions, OnPanic};
pub use informer::{InformerHold, InformerOptions, Registration, RunningInformers, SharedInformer, Subscription};
pub use lister::{Lister, ListerKey, NamespaceLister};
pub use namespaces::NamespaceSet;
pub use shard_scope::{ShardScope, ShardScopeError};
pub use source::ListerWatcher;
pub use store::{Index, Indexer, Snapshot, Store};
pub use view::{View, ViewEvent};

use evenkeel_core::Untyped;

/// An object of any kind. Internals pass these; the handles of users are typed.
pub type Object = Obj<Untyped>;

/// Returns the message of a panic.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
