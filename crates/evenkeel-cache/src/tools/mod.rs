//! Small things for those who build on informers and queues.
//!
//! - [`Heap`]: things by key, of which the least comes out first.
//! - [`synctrack`]: whether something has been caught up with: [`AsyncTracker`](synctrack::AsyncTracker),
//!   [`SingleFileTracker`](synctrack::SingleFileTracker), [`Lazy`](synctrack::Lazy).
//! - [`UndeltaStore`]: for those who want the whole list after each change.

mod heap;
pub mod synctrack;
mod undelta;

pub use heap::{Heap, HeapClosed};
pub use undelta::UndeltaStore;
