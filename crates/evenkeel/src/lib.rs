//! Kubernetes' client-go in Rust: clients, informers, work queues, leader election, events and controllers, with an embedded
//! API server to write, run and test controllers without a cluster.
//!
//! ```text
//!           bytes            frames           Obj<K>           notifications        keys
//!  API ──────────► client ──────────► reflector ──► delta queue ──► indexer ──► listeners ──► work queue ──► reconcile
//!  server                                 └─────────────── cache ────────────────┘              queue         runtime
//!    ▲                                                                                                            │
//!    └───────────────────────────────────────── writes ───────────────────────────────────────────────────────────┘
//! ```
//!
//! The project's `docs/guide.md` introduces informers and controllers. `docs/from-client-go.md` and `docs/from-kube-rs.md` map the
//! names of client-go and kube-rs.
//!
//! # A program
//!
//! ```no_run
//! use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
//! use evenkeel::prelude::*;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let client = Client::infer().await?; // the kubeconfig, or the in-cluster configuration
//!     let informers = InformerFactory::builder(&client).build();
//!     let maps = informers.of::<ConfigMap>();
//!     let queue = WorkQueue::rate_limited("maps");
//!     maps.add_handler(enqueue_key(&queue))?; // enqueues the key of every added, updated or deleted object
//!     let _running = informers.start(); // dropping the handle stops the informers
//!     informers.wait_for_sync().await?;
//!     while let Some(item) = queue.next().await {
//!         println!("{}: {:?}", item.key(), maps.lister().get(item.key()));
//!         item.forget(); // or item.retry(error), which requeues the key with backoff
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # A controller
//!
//! [`Controller`] does the same with less code, and adds concurrent workers, read-your-writes and graceful shutdown.
//!
//! ```no_run
//! # async fn example(client: evenkeel::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
//! use evenkeel::manager::shutdown_signal;
//! use evenkeel::prelude::*;
//!
//! Controller::<ConfigMap>::new(&client)
//!     .owns::<Secret>() // a change of a secret enqueues the map that owns it
//!     .concurrency(4)
//!     .run(shutdown_signal()?, |map, ctx| async move {
//!         let secret = ctx.lister::<Secret>()?.get(ctx.key());
//!         println!("{}: {:?}", map.key(), secret.map(|secret| secret.uid().to_owned()));
//!         Ok(Next::done()) // an error requeues the key with backoff
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! # A test
//!
//! With the feature `apiserver`, the API server runs in the process and injects faults on demand:
//!
#![cfg_attr(feature = "apiserver", doc = "```")]
#![cfg_attr(not(feature = "apiserver"), doc = "```ignore")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use evenkeel::apiserver::ApiServer;
//! use evenkeel::k8s_openapi::api::core::v1::Namespace;
//!
//! let server = ApiServer::builder().in_process_only().start().await?;
//! server.faults().drop_watch_after(3); // closes every watch after three events
//! let namespace = server.client().api::<Namespace>().get("default").await?;
//! assert_eq!(namespace.key().name(), "default");
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//!
//! The root exports the common types, and the [`prelude`] the types and traits that nearly all programs use. The modules contain
//! the rest:
//!
//! | module | contains | in client-go |
//! |---|---|---|
//! | [`core`] | keys, [`Obj`], selectors, the API's errors, codecs | `k8s.io/apimachinery` |
//! | [`client`] | [`Client`], [`Api`], configuration, discovery, retries, watches | `rest`, `kubernetes`, `dynamic`, `metadata`, `discovery`, `clientcmd` |
//! | [`cache`] | [`SharedInformer`], [`InformerFactory`], [`Lister`], stores, reflectors | `tools/cache`, `informers`, `listers` |
//! | [`queue`] | [`WorkQueue`] and its limiters | `util/workqueue`, `util/flowcontrol` |
//! | [`controller`], [`manager`] | [`Controller`], [`Manager`] | controller-runtime's `builder`, `manager` |
//! | [`clusters`] | [`MultiClusterController`]: one controller in several clusters | multicluster-runtime |
//! | [`election`] | [`LeaderElector`] | `tools/leaderelection` |
//! | [`mod@ring`] | [`Ring`](ring::Ring): replicas that divide their work | |
//! | [`events`] | [`EventRecorder`] | `tools/record`, `tools/events` |
//! | [`enqueue`] | handlers that enqueue keys | written by every controller |
//! | [`health`] | probes, metrics and diagnostics over HTTP | controller-runtime's `healthz`, `metrics` |
//! | [`inspect`] | a web page that shows informers and queues live | |
//! | [`helpers`] | finalizers, owners, conditions, create or update | controller-runtime's `controllerutil` |
//! | [`manifests`] | the manifests of a program, made from code | controller-gen, kubebuilder's `config/` |
//! | [`testing`] | waiting for the effects of a controller in tests | |
//! | [`tls`] | TLS of servers, with certificates that are reloaded | controller-runtime's `certwatcher` |
//! | `webhook` | admission and conversion webhooks (feature `webhooks`) | controller-runtime's `webhook` |
//! | `apiserver` | the embedded API server (feature `apiserver`) | controller-runtime's `envtest`, without binaries |
//!
//! # Guarantees
//!
//! This crate contains no code: the crate that defines an item documents its guarantees and their limits. This crate re-exports
//! the versions of [`k8s_openapi`] and [`kube_core`] that it was built with, so that a program uses one of each.
//!
//! # Features
//!
//! - `schema` (default): kinds of one's own, with [`macro@custom_resource`] and [`macro@api_type`]. `derive` alone generates
//!   definitions without schemas, for kinds that another program installs.
//! - `ring` (default), `aws-lc-rs`, `fips`: the crypto provider of TLS; see [`client::tls`]. Without any of them, a
//!   program passes one in its configuration.
//! - `apiserver`: the embedded API server.
//! - `certificates`: client certificates that renew themselves, `client::certificates`; own certificates of webhooks,
//!   `webhook::certificates`; a certificate for `localhost` where a secured health server finds no files.
//! - `compat`: ports of client-go tools that few programs need, `cache::compat` and `queue::compat`.
//! - `parts`: the reflector and the delta queues, for a program that builds an informer of its own, `cache::parts`.
//! - `prometheus`: metrics in the text format of Prometheus.
//! - `testing`: fake sources and stores for tests, `cache::testing`.
//! - `webhooks`: admission and conversion webhooks, `webhook`.
//!
//! [`k8s_openapi`] requires exactly one Kubernetes version per build; this crate selects `latest`. A program that depends on
//! `k8s-openapi` itself enables that feature or none.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub use evenkeel_cache as cache;
pub use evenkeel_client as client;
pub use evenkeel_core as core;
pub use evenkeel_queue as queue;
pub use evenkeel_runtime::{
    clusters, controller, election, enqueue, events, health, helpers, inspect, manager, manifests, ring, testing, tls,
};

#[cfg(feature = "apiserver")]
pub use evenkeel_apiserver as apiserver;
#[cfg(feature = "webhooks")]
pub use evenkeel_webhook as webhook;

pub use k8s_openapi;
pub use kube_core;
#[cfg(feature = "schema")]
pub use schemars;

#[cfg(feature = "derive")]
pub use evenkeel_derive::{api_type, custom_resource};
/// The derives of kube itself. Types with them need `#[kube(crates(…))]`; [`macro@custom_resource`] sets it.
#[cfg(feature = "derive")]
pub use kube_derive;

pub use evenkeel_cache::{
    Deleted, Delivery, Event, Handler, HandlerFuncs, HandlerOptions, Index, Indexer, InformerFactory, InformerOptions,
    Lister, RunningInformers, SharedInformer, View, ViewEvent,
};
pub use evenkeel_client::discovery::RestMapper;
pub use evenkeel_client::{
    Api, Client, Config, Error, ListParams, Partial, PartialObjectMetadata, Patch, Unstructured, WatchParams, apply,
};
pub use evenkeel_core::{FieldSelector, LabelSelector, Obj, ObjectKey, ResourceInfo, ResourceVersion};
pub use evenkeel_queue::{Item, RateLimiter, WorkQueue};
pub use evenkeel_runtime::manager::shutdown_signal;
pub use evenkeel_runtime::{
    Clusters, Context, Controller, EventRecorder, EventType, LeaderElector, Lease, Manager, MultiClusterController,
    Next, ReconcileError, Reconciler, enqueue_key, enqueue_owner, enqueue_with, reconcile_with,
};

/// The types and traits that nearly all programs use: `use evenkeel::prelude::*;`.
pub mod prelude {
    pub use crate::{
        Api, Client, Context, Controller, Event, EventRecorder, EventType, HandlerFuncs, Index, InformerFactory,
        LeaderElector, ListParams, Lister, Manager, Next, Obj, ObjectKey, Patch, ReconcileError, Reconciler,
        SharedInformer, WatchParams, WorkQueue, enqueue_key, enqueue_owner, enqueue_with, reconcile_with,
        shutdown_signal,
    };
    #[cfg(feature = "derive")]
    pub use crate::{api_type, custom_resource};
    pub use kube_core::{CustomResourceExt, Resource, ResourceExt};
}

/// What the code refers to that the attributes generate. Not covered by semantic versioning.
#[cfg(feature = "derive")]
#[doc(hidden)]
pub mod __derive {
    #[cfg(feature = "schema")]
    pub use evenkeel_core::schema::ObjectSchema;
    #[cfg(feature = "schema")]
    pub use evenkeel_core::{__schema_as_rule as as_rule, __schema_merge as merge, __schema_rule as rule};
    pub use kube_derive::CustomResource;
    #[cfg(feature = "schema")]
    pub use schemars;
    pub use {k8s_openapi, kube_core, serde, serde_json};
}
