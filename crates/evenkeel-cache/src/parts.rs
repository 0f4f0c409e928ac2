//! The parts of an informer, for a program that builds one of its own.
//!
//! ```text
//! ListerWatcher ──► Reflector ──► DeltaSink: pushes to a DeltaQueue ──► Batch ──► Store
//! ```
//!
//! - [`Reflector`]: lists and watches, recovers from all failures, and sends deltas to a [`DeltaSink`].
//! - [`DeltaQueue`]: holds deltas until they are applied; [`OrderedQueue`] in watch order, [`DeltaFifo`] by object.
//!
//! [`SharedInformer`](crate::SharedInformer) is made of the same parts.

pub use crate::delta_fifo::DeltaFifo;
pub use crate::delta_queue::{BATCH_LIMIT, Batch, DeltaQueue};
pub use crate::ordered_queue::{ListMode, OrderedQueue};
pub use crate::reflector::{
    DeltaSink, ErrorHandler, Reflector, ReflectorBuilder, ReflectorStatus, SinkError, SinkRequest, Transform,
    log_failure,
};
