//! [`Reflector`]: lists and watches one resource, and sends the changes to a [`DeltaSink`].
//!
//! [`ReflectorFailure`] describes its errors, [`ReflectorStatus`] its state.
//!
//! Inside: `machine` decides, `driver` performs I/O, `ingest` prepares objects, `initial_list` collects a WatchList, `shards` knows which
//! objects are in range.

mod backoff;
mod builder;
mod consistency;
mod driver;
mod error;
mod error_window;
mod ingest;
mod initial_list;
pub(crate) mod limits;
mod liveness;
mod machine;
pub(crate) mod shards;
mod sink;
mod stall;
mod status;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use evenkeel_core::ResourceInfo;

pub use backoff::Backoff;
pub use builder::ReflectorBuilder;
use driver::Driver;
pub(crate) use driver::WatchStart;
pub use error::{ErrorHandler, Recovery, ReflectorError, ReflectorFailure, log_failure};
pub(crate) use ingest::apply as apply_transform;
pub use ingest::{OnTransformError, Transform};
pub use sink::{DeltaSink, SinkError, SinkRequest};
pub use status::{LastError, ReflectorPhase, ReflectorReport, ReflectorStatus};

use crate::source::ListerWatcher;

/// Lists and watches the objects of a [`ListerWatcher`], and sends the changes to a [`DeltaSink`].
///
/// A reflector works in list-and-watch cycles. A cycle starts with all objects: from a WatchList if the source supports it, else
/// from a list. They are sent as one [`ReplacedAll`](crate::delta::Delta::ReplacedAll). Then the reflector watches, and each event is
/// one delta. When the watch ends, the next one continues at its resource version. When that is impossible, because the version
/// has expired (410) or an event was lost, the reflector relists. It runs until the sink is closed or the future is dropped: no
/// error ends it.
///
/// # Guarantees
///
/// - The sink receives nothing before the initial list is complete, and then all of it.
/// - Deltas are in the order of the source. The sink is [flushed](DeltaSink::flush) whenever no further event is ready, at the
///   latest after a thousand events.
/// - Objects are of the right kind, [transformed](ReflectorBuilder::transform) once, and own their memory. An object of a list
///   whose state the sink [knows](DeltaSink::known) already is the known one.
/// - The [error handler](ReflectorBuilder::on_error) receives every failure, with the recovery, before it happens.
/// - The same request is repeated with backoff. A list whose version has expired is followed at once by one without a version.
///
/// # Unreadable objects
///
/// An object that is unreadable, or that the transform rejects, stays as it was last stored, and is left out if it was not:
/// deleting an existing object would be worse than showing an old state. Other objects are not affected. An unreadable event may
/// have been a deletion, so the reflector relists half a minute later, at most once in ten minutes. If not even the name is
/// readable, the watch or the list fails and the reflector relists with backoff: any stored object may be the one. The first list
/// is used without the object, and a relist follows half a minute later.
///
/// # Hostile servers
///
/// - A list, a WatchList or one of its objects of another kind fails the list, and the store stays as it is. A watch event of
///   another kind is skipped, and a relist follows as for an unreadable event.
/// - A list has [limits](ReflectorBuilder::max_list_objects) over all its pages. Continue tokens that repeat and a hundred pages
///   without objects are an error.
/// - A request without progress for ten seconds is logged, counted and shown in the status, again after ever longer times. A
///   WatchList that brings no new object and no bookmark for thirty seconds is replaced by a list.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// # use evenkeel_cache::parts::{DeltaSink, Reflector};
/// # use evenkeel_cache::{ListerWatcher, ResourceInfo};
/// # async fn example(source: Arc<dyn ListerWatcher>, pods: Arc<ResourceInfo>, sink: &mut dyn DeltaSink) {
/// let mut reflector = Reflector::builder(source, pods).resync_period(Duration::from_secs(600)).build();
/// let status = reflector.status();
/// tokio::select! {
///     () = reflector.run(sink) => println!("the sink is closed"),
///     () = tokio::time::sleep(Duration::from_secs(60)) => println!("at {}", status.last_sync_resource_version()),
/// }
/// # }
/// ```
pub struct Reflector {
    driver: Driver,
}

impl Reflector {
    /// Returns the builder of a reflector.
    pub fn builder(source: Arc<dyn ListerWatcher>, resource: Arc<ResourceInfo>) -> ReflectorBuilder {
        ReflectorBuilder::new(source, resource)
    }

    /// Runs until the sink is closed. Dropping the future cancels the request in flight.
    ///
    /// Cancel safe: an event was either sent or will be received again. Another run with the same sink starts a cycle at the
    /// version that was reached.
    pub async fn run(&mut self, sink: &mut dyn DeltaSink) {
        self.driver.run(sink).await;
    }

    /// Returns a handle to the state of the reflector.
    pub fn status(&self) -> ReflectorStatus {
        self.driver.status.clone()
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.driver.name
    }
}

impl fmt::Debug for Reflector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflector")
            .field("name", &self.driver.name)
            .field("resource", &self.driver.ingest.resource)
            .field("phase", &self.driver.status.phase())
            .finish_non_exhaustive()
    }
}
