//! The client over sockets: every way to speak with an API server, who we are there, connections shared and lost, and
//! servers that misbehave.
//!
//! Sockets know no virtual time, so nothing here depends on how long something takes. Where a test could hang it is ended
//! by [`support::soon`], after far longer than the slowest machine needs.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "in a test a panic is a finding")]

mod connections;
mod credentials;
mod crowds;
mod faults;
mod hostile;
mod layers;
mod matrix;
mod proxies;
mod raw;
mod scenario;
mod support;
mod tls;
mod wire;
