//! Stand-ins for tests: [`FakeSource`], an API server's collection of objects in memory, and [`FakeStore`], which notes
//! what a reflector writes.
//!
//! Neither has a clock or chance in it: what they do depends on what they are told, and nothing else. Whoever wants a real
//! API server in a test, with all of its rules, has one in `evenkeel-apiserver`.

mod content;
mod fixture;
mod source;
mod store;
mod stream;

pub use fixture::Fixture;
pub use source::{FakeSource, Request};
pub use store::{FakeStore, StoreCall};

#[cfg(test)]
mod tests;
