//! Elections, managers and controllers against an API server in this process, and informers that fill queues.
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

mod elected_manager;
mod election;
mod informer_to_queue;
mod sample_controller;
