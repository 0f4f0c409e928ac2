//! Canaries: every place of a credential holds a recognisable text, which is searched for in `Debug` and `Display`, in
//! errors and the panics made of them, in every log at every level (including libraries), and in the names and labels
//! of metrics.
//!
//! Each test also proves that its canary was really used: that the server, or the proxy, received it.
#![allow(missing_docs, clippy::unwrap_used, reason = "in a test a panic is a finding")]

mod configurations;
mod failures;
mod log_capture;
mod proxies;
mod puppet;
mod remote;
mod sessions;
