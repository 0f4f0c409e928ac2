//! The span of a reconcile.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Level, Metadata, Subscriber};

use super::*;

/// Records the fields of the spans of reconciles, and the messages within them.
#[derive(Clone, Default)]
struct SpanLog {
    lines: Arc<Mutex<Vec<String>>>,
    inside: Arc<AtomicU64>,
}

struct Fields(Vec<String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push(format!("{}={value:?}", field.name()));
    }
}

impl Subscriber for SpanLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(vec![span.metadata().name().to_owned()]);
        span.record(&mut fields);
        self.lines.lock().unwrap().push(fields.0.join(" "));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        if self.inside.load(Ordering::SeqCst) > 0 {
            let mut fields = Fields(Vec::new());
            event.record(&mut fields);
            self.lines.lock().unwrap().push(fields.0.join(" "));
        }
    }

    fn enter(&self, _: &Id) {
        self.inside.fetch_add(1, Ordering::SeqCst);
    }

    fn exit(&self, _: &Id) {
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Tracing caches the interest of the first thread that reaches a log line, unless the process has several subscribers.
fn listen(log: SpanLog) -> tracing::subscriber::DefaultGuard {
    static OTHERS: OnceLock<[Dispatch; 2]> = OnceLock::new();
    OTHERS.get_or_init(|| [Dispatch::new(SpanLog::default()), Dispatch::new(SpanLog::default())]);
    tracing::subscriber::set_default(log)
}

#[tokio::test(start_paused = true)]
async fn co_039_the_log_of_a_reconcile_names_controller_object_and_reconcile() {
    let log = SpanLog::default();
    let server = server().await;
    let client = server.client();
    create(&client, "a").await;
    let _guard = listen(log.clone());
    let running = start(controller(&client, "co-039"), |_, ctx| async move {
        tracing::info!("in the reconcile");
        if ctx.attempt() == 1 { Err(ReconcileError::new("not yet")) } else { Ok(Next::done()) }
    });
    pass(secs(1)).await;
    running.end().await.unwrap();
    let lines = log.lines.lock().unwrap().clone();
    let of_span =
        |line: &&String| line.starts_with("reconcile controller=co-039 namespace=\"default\" name=\"a\" reconcileID=");
    let spans: Vec<_> = lines.iter().filter(of_span).collect();
    assert_eq!(spans.len(), 2, "{lines:#?}");
    assert_ne!(spans[0], spans[1], "each reconcile has an id");
    assert_eq!(lines.iter().filter(|line| line.contains("in the reconcile")).count(), 2, "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| line.contains("not yet")).count(), 1, "the error is in the span: {lines:#?}");
}
