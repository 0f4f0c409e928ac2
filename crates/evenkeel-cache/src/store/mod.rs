//! The objects themselves: [`Indexer`] to read them, [`Store`] to write them too.

mod edit;
mod index;
mod indexer;
mod owned;
mod paged;
mod snapshot;
mod state;
mod table;
mod values;
mod waiters;

pub use index::{Index, IndexError, NAMESPACE_INDEX};
pub use indexer::Indexer;
pub use owned::{Store, Transaction};
pub use snapshot::Snapshot;
pub(crate) use table::{Table, Write};
pub use waiters::StoreStopped;

#[cfg(test)]
mod tests;
