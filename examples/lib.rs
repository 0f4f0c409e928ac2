//! Example programs; none needs a cluster. `cargo run -p evenkeel-examples --example first_steps` is the first of them, and
//! `README.md` beside this file lists all.

/// Result of an example. Its errors are only printed.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The Rust code of the documents: `cargo test -p evenkeel-examples --doc` compiles all of it, and runs whole programs.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../docs/guide.md")]
    struct Guide;

    #[doc = include_str!("../docs/from-client-go.md")]
    struct FromClientGo;

    #[doc = include_str!("../docs/from-kube-rs.md")]
    struct FromKubeRs;

    #[doc = include_str!("../docs/kinds.md")]
    struct Kinds;

    #[doc = include_str!("../docs/inspect.md")]
    struct Inspect;
}
