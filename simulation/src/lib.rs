//! Simulations of evenkeel itself.
//!
//! - [`scenarios`]: an informer, a queue, an election, controllers, each with the invariants that every legal fault must leave whole.
//! - `evenkeel-simulate`, the program beside this library, runs them with many seeds and prints a report.
//! - `tests/planted.rs` plants known mistakes into evenkeel and shows that the scenarios find them.

pub mod scenarios;
