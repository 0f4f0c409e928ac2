//! Lists, watches, survives everything that happens to a watch, and writes what it hears.
//!
//! [`Reflector`] is the machine; [`DeltaSink`] is what it writes to; [`ReflectorFailure`] is how it tells what went wrong and
//! [`ReflectorStatus`] how it is doing.

mod backoff;
mod builder;
mod consistency;
mod driver;
mod error;
mod error_window;
mod ingest;
mod initial_list;
mod liveness;
mod machine;
mod sink;
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
pub use error::{ErrorHandler, Recovery, ReflectorError, ReflectorFailure, log_failure};
pub use ingest::{OnTransformError, Transform};
pub use sink::{DeltaSink, SinkError, SinkRequest};
pub use status::{LastError, ReflectorPhase, ReflectorReport, ReflectorStatus};

use crate::source::ListerWatcher;

/// Keeps a store in step with what a [`ListerWatcher`] has.
///
/// A reflector goes in rounds. A round begins with all objects: from a watch that begins with them if the source can do
/// that, else from a list. They go to the store at once, with one [`ReplacedAll`](crate::delta::Delta::ReplacedAll). Then it watches, and
/// each event is one write. When the watch ends, the next one begins where it ended; when that cannot be, because the
/// version is too old or an event was lost, a new round begins. It goes on like that for ever: it gives up nothing but a
/// single object.
///
/// # What may be assumed
///
/// - Until all objects have come nothing reaches the store, and then all of them do.
/// - What is written comes in the order of the source, and the store is [flushed](DeltaSink::flush) whenever nothing
///   more is at hand, at the latest after a thousand events.
/// - Objects in the store are of the right kind, [transformed](ReflectorBuilder::transform) once, and keep nothing else in
///   memory. An object of a list whose state the store [knows](DeltaSink::known) already is the known one.
/// - Every failure is told to the [handler](ReflectorBuilder::on_error), with what happens next, before it happens.
/// - Nothing is asked for again without a pause if it failed before.
///
/// # One object that cannot be had
///
/// An object that cannot be read, or that the transform refuses, stays in the store as it was last known, and is left out if
/// it was not: deleting something that is there would be worse than showing it as it was. All other objects are not
/// affected. Since what cannot be read may have been a deletion, an event that cannot be read leads to a new round half a
/// minute later, at most once in ten minutes; if not even the name can be read, the watch is given up and a new round begins
/// after the usual wait. Objects that say they are of another kind are left out.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// # use evenkeel_cache::{ListerWatcher, ResourceInfo, reflector::{DeltaSink, Reflector}};
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
    /// A reflector of these objects, to be described further.
    pub fn builder(source: Arc<dyn ListerWatcher>, resource: Arc<ResourceInfo>) -> ReflectorBuilder {
        ReflectorBuilder::new(source, resource)
    }

    /// Keeps the store in step, until the future is dropped: that ends the request that is under way.
    ///
    /// What was written is complete then: an event is either in the store or will come again. Run it again, with the same
    /// store, and it begins a round from the version that it had reached.
    pub async fn run(&mut self, sink: &mut dyn DeltaSink) {
        self.driver.run(sink).await;
    }

    /// How it is doing, to be asked from anywhere.
    pub fn status(&self) -> ReflectorStatus {
        self.driver.status.clone()
    }

    /// Its name.
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
