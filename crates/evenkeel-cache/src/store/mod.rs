//! The local copy of objects: [`Indexer`] to read, [`Store`] to read and write.

mod edit;
mod index;
mod indexer;
mod paged;
mod snapshot;
mod state;
mod table;
mod values;
mod wait;
mod writer;

pub use index::{Index, IndexError, NAMESPACE_INDEX};
pub use indexer::Indexer;
pub use snapshot::Snapshot;
pub(crate) use table::Table;
pub use wait::StoreStopped;
pub use writer::Store;
#[cfg(feature = "compat")]
pub use writer::Transaction;

#[cfg(test)]
mod tests;
