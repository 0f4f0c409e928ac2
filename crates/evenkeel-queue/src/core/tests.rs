//! The core by itself.
