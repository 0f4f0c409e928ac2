//! The verbs of the API, one file each: from a request to its response, and from there to the store.
//!
//! A verb knows no kind by name. What a kind adds is data and functions of its strategy
//! ([`KindStrategy`](crate::registry::KindStrategy)), which the verbs consult in this order:
//!
//! - create: check, prepare, validate, commit, after;
//! - update, patch, apply: make the new object, restrict it to the endpoint's scope, prepare, validate, commit, after;
//! - delete: check, plan, commit, after.

mod apply;
mod create;
pub(crate) mod delete;
mod get;
mod list;
pub(crate) mod patch;
pub(super) mod update;
mod watch;
