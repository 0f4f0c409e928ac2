//! The binary, from the outside.
#![allow(clippy::unwrap_used, reason = "in a test a panic is a finding")]

#[cfg(unix)]
mod backup;
mod bad_input;
mod bench_queue;
mod commands;
mod controller;
mod demo;
#[cfg(unix)]
mod descriptors;
#[cfg(unix)]
mod kill_rounds;
mod kubectl;
mod new;
mod observe;
mod process;
mod rbac;
mod ring;
mod wait;
