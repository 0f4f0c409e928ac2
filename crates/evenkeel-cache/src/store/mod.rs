//! The objects themselves: [`Indexer`].

mod index;
mod indexer;
mod table;

pub use index::{Index, IndexError};
pub use indexer::Indexer;
pub(crate) use table::{Table, Write};
