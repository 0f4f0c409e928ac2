//! What the other crates of evenkeel share with this one. Semantic versioning does not cover it.

pub use crate::panic_guard::{catch_panic, panic_message};
pub use crate::serve::listen;
