//! Controllers and their tools: the builder, the manager, leader election, events, health and metrics.
//!
//! ```text
//!  informer ──► enqueue_key    ─┐
//!  informer ──► enqueue_owner  ─┼─► WorkQueue ──► workers ──► reconcile
//!  informer ──► enqueue_with   ─┘
//! ```
//!
//! ```no_run
//! # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use evenkeel_runtime::manager::shutdown_signal;
//! use evenkeel_runtime::{Controller, Next};
//! use k8s_openapi::api::apps::v1::ReplicaSet;
//! use k8s_openapi::api::core::v1::Pod;
//!
//! Controller::<ReplicaSet>::new(&client)
//!     .owns::<Pod>() // an event of a pod enqueues the set that controls it
//!     .run(shutdown_signal()?, |set, ctx| async move {
//!         println!("{}: {} pods in the cache", set.key(), ctx.lister::<Pod>()?.list_all().len());
//!         Ok(Next::done())
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//!
//! - [`controller`]: [`Controller`] reconciles the objects of a kind.
//! - [`clusters`]: controllers of several clusters, which are engaged and disengaged at run time.
//! - [`manager`]: [`Manager`] starts and stops controllers, servers and other tasks in order.
//! - [`enqueue`]: handlers that add the keys of objects, of their owners, or of related objects to a
//!   [`WorkQueue`](evenkeel_queue::WorkQueue).
//! - [`election`]: one leader among many replicas, with a lease that ends before another one starts.
//! - [`events`]: [`EventRecorder`] records Kubernetes events.
//! - [`health`]: liveness, readiness, metrics and diagnostics over HTTP.
//! - [`inspect`]: a web page that shows informers and queues live.
//! - [`helpers`]: finalizers, owner references, conditions, and writes of differences.
//! - [`manifests`]: the manifests of a program, made from code.
//! - [`ring`]: replicas that share their work: each place of the hash space belongs to at most one of them.
//! - [`testing`]: waits for the effects of a controller.
//! - [`tls`]: TLS of servers, with certificates that are reloaded.
//!
//! # Guarantees
//!
//! - The keys of a notification are in the queue before its handler returns. No notification is coalesced before it is mapped to
//!   keys, and none is filtered unless a predicate rejects it.
//! - Keys of the initial list and of resyncs have low priority, and never delay a change.
//! - No handler blocks, keeps an informer running, or keeps a queue from shutting down.
//! - One rule of lifetime: `run(shutdown)` of a controller or manager is a future. It drains when `shutdown` resolves, and stops at
//!   once when it is dropped. Nothing else stops it.
//!
//! # Missing features
//!
//! Controllers do not use a [`ring`] yet, and clusters are not divided among replicas.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod clusters;
pub mod controller;
pub mod election;
pub mod enqueue;
mod environment;
mod error_chain;
pub mod events;
pub mod health;
pub mod helpers;
pub mod inspect;
#[cfg(feature = "internals")]
pub mod internals;
pub mod manager;
pub mod manifests;
#[cfg_attr(not(feature = "internals"), allow(unreachable_pub))]
mod panic_guard;
pub mod ring;
mod secure;
#[cfg_attr(not(feature = "internals"), allow(unreachable_pub))]
mod serve;
pub mod testing;
pub mod tls;

pub use clusters::{Clusters, MultiClusterController};
pub use controller::{Context, Controller, Next, ReconcileError, Reconciler, reconcile_with};
pub use election::{LeaderElector, Lease};
pub use enqueue::{Enqueue, enqueue_key, enqueue_owner, enqueue_with};
pub use events::{EventRecorder, EventType};
pub use manager::Manager;
