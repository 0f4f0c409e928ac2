//! Events: how a controller tells people what it does, in the place where they look.
//!
//! ```text
//!                                         ┌─ queue ─► count, put together, hold back ─► deliver ─► API server
//!  recorder ─► EventBroadcaster ──────────┼─ queue ─► log
//!  recorder ─►                            └─ queue ─► whoever watches
//! ```
//!
//! [`EventRecorder`] is what a controller has in its hands, and all that most programs need to know of this module.
//!
//! Inside are three machines that know neither clock nor lock nor socket: the correlator of `v1` and the series of
//! `events.k8s.io/v1`, which say what is to be written, and the delivery, which says when and how often it is tried. A task per
//! sink puts the client and the timers around them.

mod book;
mod broadcaster;
mod correlator;
mod delivery;
mod driver;
mod drops;
mod event;
pub mod fake;
mod finish;
mod key;
mod lru;
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
