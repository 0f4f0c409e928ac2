//! Events: what a controller does, recorded on the objects it acts on.
//!
//! ```text
//!                                         ┌─ queue ─► count, aggregate, filter ─► deliver ─► API server
//!  recorder ─► EventBroadcaster ──────────┼─ queue ─► log
//!  recorder ─►                            └─ queue ─► watchers
//! ```
//!
//! [`EventRecorder`] is all that most programs need of this module.
//!
//! Inside are three state machines without clock, lock or socket. The correlator of `v1` and the series of
//! `events.k8s.io/v1` decide what is written; the delivery decides when, and how often it is retried. One task per
//! sink adds the client and the timers.

mod broadcaster;
mod correlator;
mod delivery;
mod driver;
mod drop_log;
mod event;
mod event_writer;
pub mod fake;
mod finish;
mod key;
pub mod metrics;
mod names;
mod options;
mod recorder;
mod selector;
mod series;
mod sink;
mod spam;
mod tracker;

pub use broadcaster::{EventBroadcaster, EventWatch, EventsApi, Stopped, Subscription};
pub use event::{Event, EventType, Occurrence, Reporter};
pub use finish::{Flush, Shutdown, Unfinished};
pub use key::EventKey;
pub use options::SinkOptions;
pub use recorder::{EventRecorder, RecorderBuilder};
pub use selector::{NoEvents, field_selector};
pub use sink::{EventSink, SinkError, SinkFuture};

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
