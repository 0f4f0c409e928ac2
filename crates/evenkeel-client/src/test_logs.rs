//! Log capture in concurrent tests.

use std::sync::OnceLock;

use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Subscriber};

/// Captures the log of this thread with a subscriber, until the guard is dropped.
///
/// While a process has a single subscriber, tracing caches the interest of the first thread that reaches a log line for all
/// threads, also of a thread without a subscriber. Two more subscribers that are never dropped disable that cache.
pub(crate) fn listen(subscriber: impl Subscriber + Send + Sync) -> DefaultGuard {
    static OTHERS: OnceLock<[Dispatch; 2]> = OnceLock::new();
    OTHERS.get_or_init(|| [deaf(), deaf()]);
    tracing::subscriber::set_default(subscriber)
}

fn deaf() -> Dispatch {
    Dispatch::new(Deaf)
}

/// A subscriber without interest.
struct Deaf;

impl Subscriber for Deaf {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        false
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::Id {
        tracing::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::Id, _: &tracing::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {}

    fn enter(&self, _: &tracing::Id) {}

    fn exit(&self, _: &tracing::Id) {}
}
