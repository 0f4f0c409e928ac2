//! The local copy of objects: [`Indexer`] to read, [`Store`] to read and write.

mod edit;
mod index;
mod indexer;
mod paged;
mod scopes;
mod snapshot;
mod standalone;
mod state;
mod table;
mod table_places;
mod table_scopes;
mod values;
mod wait;

pub use index::{Index, IndexError, NAMESPACE_INDEX};
pub use indexer::Indexer;
pub use snapshot::Snapshot;
pub use standalone::Store;
#[cfg(feature = "compat")]
pub use standalone::Transaction;
pub(crate) use table::Table;
pub(crate) use table_places::PlaceVersions;
pub use wait::StoreStopped;

#[cfg(test)]
mod tests;
