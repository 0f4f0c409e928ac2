//! The client over sockets: every protocol, credentials, shared and lost connections, and misbehaving servers.
//!
//! Sockets have no virtual time, so nothing here depends on durations. Where a test could hang, [`support::soon`] ends
//! it, after far longer than the slowest machine needs.
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
