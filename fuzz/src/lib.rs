//! Fuzz targets: functions that take any bytes and check properties that must hold for all of them.
//!
//! A [`Target`] panics if a property does not hold. Tests replay the corpus and a bounded number of [mutated](mutation) inputs; the
//! program of this package runs a target under libFuzzer, guided by coverage. See `fuzz/README.md`.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a target fails by panicking")]

mod budget;
mod input;
pub mod mutation;
mod sloppy_json;
mod targets;
mod test_server;

pub use targets::TARGETS;

/// Properties of one part of evenkeel.
#[derive(Debug)]
pub struct Target {
    /// The name, which is also that of the corpus directory.
    pub name: &'static str,
    /// Checks one input. Panics if a property does not hold.
    pub run: fn(&[u8]),
    /// Longer inputs are not generated: they only make a search slower.
    pub max_len: usize,
    /// How many mutated inputs the tests try.
    pub test_runs: usize,
    /// Words that mutations insert.
    pub words: &'static [&'static str],
}

impl Target {
    /// Returns the target of a name.
    pub fn of_name(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }
}
