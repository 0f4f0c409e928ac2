//! Programs to read and run; none needs a cluster. `cargo run -p evenkeel-examples --example server_in_a_test`.
