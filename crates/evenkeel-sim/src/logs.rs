//! Warnings and errors that the code under test logs, as lines of the timeline.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, Interest};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::executor::ProcessId;
use crate::world::World;

/// Adds what is logged on this thread to the timeline, until the guard is dropped.
pub(crate) fn collect(world: &Arc<World>) -> DefaultGuard {
    tracing::subscriber::set_default(LogCollector { world: Arc::clone(world) })
}

struct LogCollector {
    world: Arc<World>,
}

impl Subscriber for LogCollector {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        // Spans are not needed, and decided per call site once.
        if metadata.is_event() && *metadata.level() <= Level::WARN { Interest::sometimes() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let current = self.world.executor.current();
        // The server logs the faults that the timeline has already.
        if current.process == ProcessId::HARNESS {
            return;
        }
        let mut words = LogWords::default();
        event.record(&mut words);
        self.world.note(current, format!("logs: {}{}", words.message, words.fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct LogWords {
    message: String,
    fields: String,
}

impl Visit for LogWords {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a text does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
