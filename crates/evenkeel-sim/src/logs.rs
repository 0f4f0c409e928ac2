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
    tracing::subscriber::set_default(LogCollector { world: Arc::clone(world), is_searched: world.has_secrets() })
}

struct LogCollector {
    world: Arc<World>,
    /// Everything is searched for secrets, whatever its level.
    is_searched: bool,
}

fn is_shown(metadata: &Metadata<'_>) -> bool {
    metadata.is_event() && *metadata.level() <= Level::WARN
}

impl Subscriber for LogCollector {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        // Spans are not needed otherwise, and decided per call site once.
        if self.is_searched || is_shown(metadata) { Interest::sometimes() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.is_searched || is_shown(metadata)
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        self.search(|words| attributes.record(words));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.search(|words| values.record(words));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let current = self.world.executor.current();
        // The server logs the faults that the timeline has already.
        if current.process == ProcessId::HARNESS || !is_shown(event.metadata()) {
            return self.search(|words| event.record(words));
        }
        let mut words = LogWords::default();
        event.record(&mut words);
        let line = self.world.without_secrets(format!("logs: {}{}", words.message, words.fields), "in a log line");
        self.world.note(current, line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl LogCollector {
    /// Searches what is logged, and not shown, for secrets.
    fn search(&self, record: impl FnOnce(&mut LogWords)) {
        if self.is_searched {
            let mut words = LogWords::default();
            record(&mut words);
            self.world.without_secrets(format!("{}{}", words.message, words.fields), "in a log line");
        }
    }
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
