//! Logs in tests that run at the same time.

use std::sync::OnceLock;

use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Subscriber};

/// Lets a subscriber hear what this thread logs, until the guard is dropped.
///
/// While a process has only one subscriber, tracing asks the first thread that reaches a log line whether any subscriber wants
/// it, and remembers a no from a thread without one for everybody. Two more that live for ever make it ask all of them.
pub(crate) fn listen(subscriber: impl Subscriber + Send + Sync) -> DefaultGuard {
    static OTHERS: OnceLock<[Dispatch; 2]> = OnceLock::new();
    OTHERS.get_or_init(|| [deaf(), deaf()]);
    tracing::subscriber::set_default(subscriber)
}

fn deaf() -> Dispatch {
    Dispatch::new(Deaf)
}

/// Wants nothing.
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
