//! Canaries: a text that can be recognised stands wherever a credential can stand, and is looked for wherever people look:
//! in `Debug` and `Display`, in errors and what panics say of them, in every log at every level (those of the libraries
//! below us included), in the names and labels of metrics.
//!
//! Each test also proves that its canary was really used: that the server, or the proxy, has seen it.
#![allow(missing_docs, clippy::unwrap_used, reason = "in a test a panic is a finding")]

mod configurations;
mod ear;
mod failures;
mod proxies;
mod puppet;
mod sessions;
