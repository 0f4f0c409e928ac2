//! Programs to read and run; none needs a cluster. `cargo run -p evenkeel-examples --example first_steps` is the first of them,
//! and `README.md` beside this file lists all.

/// What a program ends with that has nothing to say about its errors but what they say themselves.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
