//! Kubernetes' client-go, built anew in Rust: clients, informers, work queues, leader election, events, controllers. And an
//! API server inside your process, so that a controller can be written, run and tested with no cluster.
//!
//! ```text
//!           bytes            frames           Obj<K>           notifications        keys
//!  API ──────────► client ──────────► reflector ──► delta queue ──► indexer ──► listeners ──► work queue ──► reconcile
//!  server                                 └─────────────── cache ────────────────┘              queue         runtime
//!    ▲                                                                                                            │
//!    └───────────────────────────────────────── writes ───────────────────────────────────────────────────────────┘
//! ```
//!
//! New to informers and controllers? The project's `docs/guide.md` explains them from nothing; `docs/from-client-go.md` and
//! `docs/from-kube-rs.md` are for those who know the names.
//!
//! # A program
//!
//! ```no_run
//! use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
//! use evenkeel::prelude::*;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let client = Client::infer().await?; // the kubeconfig, else the cluster that this runs in
//!     let informers = InformerFactory::builder(&client).build();
//!     let maps = informers.of::<ConfigMap>();
//!     let queue = WorkQueue::rate_limited("maps");
//!     maps.add_handler(enqueue_key(&queue))?; // keys of what comes, changes and goes
//!     let _running = informers.start(); // dropping the handle stops the informers
//!     informers.wait_for_sync().await?;
//!     while let Some(item) = queue.next().await {
//!         println!("{}: {:?}", item.key(), maps.lister().get(item.key()));
//!         item.forget(); // or item.retry(error), and it comes back after its back-off
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # A controller
//!
//! [`Controller`] does the same with less to write, and more: several workers, reads of one's own writes, an end in good order.
//!
//! ```no_run
//! # async fn example(client: evenkeel::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
//! use evenkeel::manager::shutdown_signal;
//! use evenkeel::prelude::*;
//!
//! Controller::<ConfigMap>::new(&client)
//!     .owns::<Secret>() // what happens to a secret is news of the map that owns it
//!     .concurrency(4)
//!     .run(shutdown_signal()?, |map, ctx| async move {
//!         let secret = ctx.lister::<Secret>()?.get(ctx.key());
//!         println!("{}: {:?}", map.key(), secret.map(|secret| secret.uid().to_owned()));
//!         Ok(Next::done()) // an error comes back after the key's back-off
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! # A test
//!
//! With the feature `apiserver`, the cluster is in the process, and its network misbehaves on demand:
//!
#![cfg_attr(feature = "apiserver", doc = "```")]
#![cfg_attr(not(feature = "apiserver"), doc = "```ignore")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use evenkeel::apiserver::ApiServer;
//! use evenkeel::k8s_openapi::api::core::v1::Namespace;
//!
//! let server = ApiServer::builder().in_process_only().start().await?;
//! server.faults().drop_watch_after(3); // every watch ends after three events
//! let namespace = server.client().api::<Namespace>().get("default").await?;
//! assert_eq!(namespace.key().name(), "default");
//! # Ok(())
//! # }
//! ```
//!
//! # Where things are
//!
//! What most programs need is at the root, and the traits and types of nearly all are in the [`prelude`]. The rest is where
//! it belongs:
//!
//! | module | what is in it | in client-go |
//! |---|---|---|
//! | [`core`] | keys, [`Obj`], selectors, the API's errors, codecs | `k8s.io/apimachinery` |
//! | [`client`] | [`Client`], [`Api`], configuration, discovery, retries, watches | `rest`, `kubernetes`, `dynamic`, `metadata`, `discovery`, `clientcmd` |
//! | [`cache`] | [`SharedInformer`], [`InformerFactory`], [`Lister`], stores, reflectors | `tools/cache`, `informers`, `listers` |
//! | [`queue`] | [`WorkQueue`] and its limiters | `util/workqueue`, `util/flowcontrol` |
//! | [`controller`], [`manager`] | [`Controller`], [`Manager`] | controller-runtime's `builder`, `manager` |
//! | [`election`] | [`LeaderElector`] | `tools/leaderelection` |
//! | [`events`] | [`EventRecorder`] | `tools/record`, `tools/events` |
//! | [`enqueue`] | handlers that put keys into queues | what every controller writes |
//! | [`health`] | probes, metrics and diagnostics over HTTP | controller-runtime's `healthz`, `metrics` |
//! | [`inspect`] | a web page that shows informers and queues at work | |
//! | [`helpers`] | finalizers, owners, conditions, create or update | controller-runtime's `controllerutil` |
//! | [`testing`] | waiting for what a controller does | |
//! | `apiserver` | the API server in your process (feature `apiserver`) | controller-runtime's `envtest`, without binaries |
//!
//! # What may be assumed
//!
//! This crate has no code of its own: every item is documented, with what may be assumed of it and what is not promised, in the
//! crate that it comes from. The versions of [`k8s_openapi`] and [`kube_core`] that it was built with come along, so that there
//! is one of each.
//!
//! # Features
//!
//! - `derive` (default): `#[derive(CustomResource)]`. It has to be told where to find what it uses:
//!   `#[kube(crates(kube_core = "evenkeel::kube_core", k8s_openapi = "evenkeel::k8s_openapi"))]`.
//! - `apiserver`: the embedded API server.
//! - `prometheus`: what was counted, in the text format of Prometheus.
//! - `testing`: fake sources and stores for tests, `cache::testing`.
//!
//! [`k8s_openapi`] wants one Kubernetes version chosen in a build, and this crate chooses `latest`. A program that names
//! `k8s-openapi` itself gives it that feature or none.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub use evenkeel_cache as cache;
pub use evenkeel_client as client;
pub use evenkeel_core as core;
pub use evenkeel_queue as queue;
pub use evenkeel_runtime::{controller, election, enqueue, events, health, helpers, inspect, manager, testing};

#[cfg(feature = "apiserver")]
pub use evenkeel_apiserver as apiserver;

pub use k8s_openapi;
pub use kube_core;
#[cfg(feature = "derive")]
pub use kube_derive::CustomResource;

pub use evenkeel_cache::{
    Deleted, Delivery, Event, Handler, HandlerFuncs, HandlerOptions, Index, Indexer, InformerFactory, Lister,
    RunningInformers, SharedInformer,
};
pub use evenkeel_client::discovery::RestMapper;
pub use evenkeel_client::{
    Api, Client, Config, Error, ListParams, PartialObjectMetadata, Patch, Unstructured, WatchParams,
};
pub use evenkeel_core::{FieldSelector, LabelSelector, Obj, ObjectKey, ResourceInfo, ResourceVersion};
pub use evenkeel_queue::{Item, RateLimiter, WorkQueue};
pub use evenkeel_runtime::manager::shutdown_signal;
pub use evenkeel_runtime::{
    Context, Controller, EventRecorder, EventType, LeaderElector, Lease, Manager, Next, ReconcileError, enqueue_key,
    enqueue_owner, enqueue_with,
};

/// What nearly all programs name: `use evenkeel::prelude::*;`.
pub mod prelude {
    pub use crate::{
        Api, Client, Context, Controller, Event, EventRecorder, EventType, HandlerFuncs, Index, InformerFactory,
        LeaderElector, ListParams, Lister, Manager, Next, Obj, ObjectKey, Patch, ReconcileError, SharedInformer,
        WatchParams, WorkQueue, enqueue_key, enqueue_owner, enqueue_with, shutdown_signal,
    };
    pub use kube_core::{CustomResourceExt, Resource, ResourceExt};
}
