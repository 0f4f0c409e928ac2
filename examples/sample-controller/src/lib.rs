//! The sample controller of the Kubernetes project, written with evenkeel. Read this first.
//!
//! A [`Foo`] owns a Deployment with a name and a number of replicas. The controller creates it, keeps it that way, and reports
//! the available replicas in the Foo's status:
//!
//! ```text
//!            ┌────────── informer of Foos ────────── enqueue_key ──────────┐
//!            │               └─ store, by the Deployment they name         ▼
//!  API ──────┤                                                         WorkQueue ──► workers ──► sync_foo
//!  server    │               ┌─ store, by the Foo that owns them           ▲                        │
//!    ▲       └─────── informer of Deployments ─── enqueue_owner, by name ──┘                        │
//!    └──────────────────────────────── create, patch, delete, events ───────────────────────────────┘
//! ```
//!
//! - `foo.rs`: the Foo type.
//! - `controller.rs`: when a Foo is reconciled: informers, handlers, the queue, the workers.
//! - `sync.rs`: the reconcile. Only this file knows what a Foo means.
//!
//! Three ideas apply to every controller. Handlers only add *keys* to the queue, never changes: a reconcile reads the current
//! state, so ten changes are one reconcile, and a missed change is harmless. A key is never in flight twice. A failed key is
//! retried with growing backoff.
#![deny(missing_docs)]
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_names, reason = "foo is what a Foo is called")]

mod controller;
mod foo;
mod sync;

pub use controller::SampleController;
pub use foo::{CRD, Foo, FooSpec, FooStatus, MANIFESTS};
pub use sync::SyncError;
