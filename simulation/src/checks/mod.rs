//! Checks of what raw clients have seen of an API server, against models that know nothing of its code.
//!
//! [`History`] records requests, responses and watch events. [`check_linearizable`] compares requests with a sequential model (INV-12),
//! [`check_watches`] compares lists and watches with the history that all clients together have seen (INV-13).

mod history;
mod known;
mod linearizable;
mod watches;

pub use self::history::{
    Content, Freshness, History, Known, ListRecord, ObjectState, Operation, Records, Reply, Request, Selection,
    StreamFrame, StreamRecord, StreamStart,
};
pub use self::linearizable::{check_linearizable, check_lists_linearizable};
pub use self::watches::check_watches;

#[cfg(test)]
mod tests;
