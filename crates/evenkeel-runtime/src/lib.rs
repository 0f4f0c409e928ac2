//! What controllers are made of: it stands on informers and work queues, and joins them.
//!
//! ```text
//!  informer ──► enqueue_key    ─┐
//!  informer ──► enqueue_owner  ─┼─► WorkQueue ──► workers
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
//!     .owns::<Pod>() // what happens to a pod is class of the set that owns it
//!     .run(shutdown_signal()?, |set, ctx| async move {
//!         println!("{}: {} pods in the cache", set.key(), ctx.lister::<Pod>()?.list_all().len());
//!         Ok(Next::done())
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What it is for
//!
//! - [`controller`]: [`Controller`], which does something for each object of a kind whenever something happens to it.
//! - [`manager`]: [`Manager`], which begins and ends several controllers, and whatever else a program is made of, in order.
//! - [`enqueue`]: handlers that put the keys of objects, of their owners, or of whatever else an object is about, into a
//!   [`WorkQueue`](evenkeel_queue::WorkQueue).
//! - [`election`]: one leader among many replicas, with a lease that ends before anybody else's can begin.
//! - [`events`]: [`EventRecorder`], which tells people what a controller does.
//! - [`health`]: whether the program is alive and ready, metrics and diagnostics, over HTTP.
//! - [`inspect`]: a web page that shows informers and queues at work.
//! - [`helpers`]: finalizers, owners, conditions, and writing what differs.
//! - [`testing`]: waiting for what a controller does.
//!
//! # What it promises
//!
//! - For everything that an informer tells, the keys that it is about are in the queue before the handler returns: nothing that
//!   happens is folded away, and no key is skipped because something looks unimportant.
//! - What is only class to the program (the first list) or to nobody (a resync) never makes a change wait.
//! - No handler blocks, keeps an informer running by a handle of its own, or keeps a queue from ending.
//!
//! # What it does not do yet
//!
//! Webhooks, several clusters in one manager, and sharding are not built.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod controller;
pub mod election;
pub mod enqueue;
mod environment;
pub mod events;
pub mod health;
pub mod helpers;
pub mod inspect;
pub mod manager;
mod panic_guard;
mod serve;
pub mod testing;

pub use controller::{Context, Controller, Next, ReconcileError};
pub use election::{LeaderElector, Lease};
pub use enqueue::{Enqueue, enqueue_key, enqueue_owner, enqueue_with};
pub use events::{EventRecorder, EventType};
pub use manager::Manager;
