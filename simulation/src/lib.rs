//! Simulations of evenkeel itself.
//!
//! - [`scenarios`]: an informer, a queue, an election, controllers, each with the invariants that every legal fault must leave whole.
//! - [`checks`]: what raw clients of an API server may see.
//! - `evenkeel-simulate`, the program beside this library, runs them with many seeds and prints a report.
//! - `tests/planted.rs` plants known mistakes into evenkeel and shows that the scenarios find them.

pub mod checks;
pub mod scenarios;
