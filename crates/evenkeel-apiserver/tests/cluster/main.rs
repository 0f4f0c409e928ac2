//! The server as a cluster: what it does to objects beyond storing them.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod admission;
#[path = "../support/api.rs"]
mod api;
mod bootstrap;
mod cel_rules;
mod conversions;
mod garbage_collection;
mod mutating_policies;
mod openapi;
mod policies;
mod rbac;
mod webhooks;

const PODS: &str = "/api/v1/namespaces/default/pods";
