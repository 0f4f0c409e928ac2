//! Programs to read and run; none needs a cluster. `cargo run -p evenkeel-examples --example first_steps` is the first of them,
//! and `README.md` beside this file lists all.
