//! From source text to a syntax tree.

mod lexer;
mod literal;
mod macros;
mod parser;

#[cfg(test)]
mod tests;

pub(crate) use parser::{Macros, parse};

/// The name of the accumulator that macros declare; expressions cannot name it.
pub(crate) const ACCUMULATOR: &str = "@result";
