//! Fakes for tests: [`FakeSource`], an in-memory collection of objects, and [`FakeSink`], which records what a reflector sends.
//!
//! Both are deterministic, without clock or randomness. `evenkeel-apiserver` is a complete API server for tests.

mod content;
mod fixture;
mod sink;
mod source;
mod stream;

pub use fixture::Fixture;
pub use sink::FakeSink;
pub use source::{FakeSource, Request};

#[cfg(test)]
mod tests;
