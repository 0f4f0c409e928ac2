//! Garbage collection.
