//! Lists, watches, survives everything that happens to a watch, and writes what it hears.

mod target;

pub use target::{ReflectorStore, StoreError};
