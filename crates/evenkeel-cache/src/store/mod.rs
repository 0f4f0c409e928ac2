//! The objects themselves: [`Indexer`].

mod edit;
mod index;
mod indexer;
mod paged;
mod snapshot;
mod state;
mod table;
mod values;
mod waiters;

pub use index::{Index, IndexError, NAMESPACE_INDEX};
pub use indexer::{Indexer, Transaction};
pub use snapshot::Snapshot;
pub(crate) use table::{Table, Write};
pub use waiters::StoreStopped;

#[cfg(test)]
mod tests;
