//! Programs to read and run; none needs a cluster. `cargo run -p evenkeel-examples --example first_steps` is the first of them,
//! and `README.md` beside this file lists all.

/// What a program ends with that has nothing to say about its errors but what they say themselves.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The Rust code of the documents that people learn from: `cargo test -p evenkeel-examples --doc` compiles all of it, and runs what
/// is a whole program.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../docs/guide.md")]
    struct Guide;

    #[doc = include_str!("../docs/from-client-go.md")]
    struct FromClientGo;

    #[doc = include_str!("../docs/from-kube-rs.md")]
    struct FromKubeRs;

    #[doc = include_str!("../docs/inspect.md")]
    struct Inspect;
}
