//! Kubernetes' protobuf: single cases, one object of every kind, and random bytes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may panic and talk"
)]

mod cases;
mod fixtures;
mod objects;
mod properties;
