//! The sample controller of the Kubernetes project, written with evenkeel. Read this first.
//!
//! A [`Foo`] asks for a Deployment of a certain name and size. The controller makes it, keeps it at that size, and says in the
//! Foo's status how many replicas are available:
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
//! - `foo.rs`: what a Foo is.
//! - `controller.rs`: what makes a Foo be looked at: informers, handlers, the queue, the workers.
//! - `sync.rs`: what is done when a Foo is looked at. This is the only part that knows what a Foo means.
//!
//! Three ideas carry it, and every controller. Handlers only put *keys* into the queue, never what has happened: whoever works on
//! a key looks at the world as it is then, so ten changes are one piece of work, and a change that nobody saw does no harm. A key
//! is never in two workers' hands at once. And what fails comes back by itself, later each time.
#![deny(missing_docs)]
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_names, reason = "foo is what a Foo is called")]

mod controller;
mod foo;
mod sync;

pub use controller::SampleController;
pub use foo::{CRD, Foo, FooSpec, FooStatus, MANIFESTS};
pub use sync::SyncError;
