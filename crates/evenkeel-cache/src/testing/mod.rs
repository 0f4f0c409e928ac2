//! Stand-ins for tests: [`FakeSource`], an API server's collection of objects in memory, and [`FakeSink`], which notes
//! what a reflector writes.
//!
//! Neither has a clock or chance in it: what they do depends on what they are told, and nothing else. Whoever wants a real
//! API server in a test, with all of its rules, has one in `evenkeel-apiserver`.

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
