//! Kubernetes' client-go, built anew in Rust: clients, informers, work queues, leader election, events, controllers. And an
//! API server inside your process, so that a controller can be written, run and tested with no cluster.
//!
//! ```text
//!           bytes            frames           Obj<K>          notifications        keys
//!  API ──────────► client ──────────► reflector ──► DeltaFIFO ──► indexer ──► listeners ──► work queue ──► reconcile
//!  server                                 └────────────── cache ───────────────┘              queue         runtime
//!    ▲                                                                                                          │
//!    └──────────────────────────────────────── writes ──────────────────────────────────────────────────────────┘
//! ```
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
//!     informers.start();
//!     informers.wait_for_sync().await?;
//!     while let Some(item) = queue.next().await {
//!         println!("{}: {:?}", item.key(), maps.lister().get(item.key()));
//!         item.forget(); // or item.retry(error), and it comes back after its back-off
//!     }
//!     Ok(())
//! }
//! ```
//!
//! [`Controller`] does the same with less to write. In a test, the client is that of a server in the process:
//! `ApiServer::start().await?.client()`.
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
    SharedInformer,
};
pub use evenkeel_client::{
    Api, Client, Config, Error, ListParams, PartialObjectMetadata, Patch, Unstructured, WatchParams,
};
pub use evenkeel_core::{FieldSelector, LabelSelector, Obj, ObjectKey, ResourceInfo, ResourceVersion};
pub use evenkeel_queue::{Item, RateLimiter, WorkQueue};
pub use evenkeel_runtime::{
    Context, Controller, EventRecorder, EventType, LeaderElector, Lease, Manager, Next, enqueue_key, enqueue_owner,
    enqueue_with,
};

/// What nearly all programs name: `use evenkeel::prelude::*;`.
pub mod prelude {
    pub use crate::{
        Api, Client, Controller, Event, EventRecorder, EventType, HandlerFuncs, Index, InformerFactory, LeaderElector,
        ListParams, Lister, Manager, Next, Obj, ObjectKey, Patch, SharedInformer, WatchParams, WorkQueue, enqueue_key,
        enqueue_owner, enqueue_with,
    };
    pub use kube_core::{CustomResourceExt, Resource, ResourceExt};
}
