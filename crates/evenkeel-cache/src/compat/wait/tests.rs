use std::error::Error as _;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tracing::field::{Field, Visit};
use tracing::{Dispatch, Subscriber};

use super::*;

/// A condition that a test completes.
struct Gate {
    name: &'static str,
    open: watch::Sender<bool>,
}

impl Gate {
    fn new(name: &'static str) -> Self {
        Gate { name, open: watch::Sender::new(false) }
    }
}

impl DoneChecker for Gate {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.name)
    }

    fn is_done(&self) -> bool {
        *self.open.borrow()
    }

    fn done(&self) -> BoxFuture<'static, ()> {
        let mut open = self.open.subscribe();
        Box::pin(async move {
            let _ = open.wait_for(|open| *open).await;
        })
    }
}

fn after(seconds: u64) -> impl Future<Output = ()> {
    sleep(Duration::from_secs(seconds))
}

#[tokio::test(start_paused = true)]
async fn wai_001_conditions_are_polled_at_once_and_every_100_ms() {
    wait_for_sync("", [] as [Awaited; 0]).await.unwrap();

    let asked = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let times = Arc::clone(&asked);
    Awaited::polled("now", move || times.fetch_add(1, Ordering::Relaxed) == 0).done.await;
    assert_eq!((asked.load(Ordering::Relaxed), start.elapsed()), (1, Duration::ZERO));

    let times = Arc::clone(&asked);
    WaitForSync::new("")
        .on(Awaited::polled("later", move || times.fetch_add(1, Ordering::Relaxed) == 4))
        .await
        .unwrap();
    assert_eq!((asked.load(Ordering::Relaxed), start.elapsed()), (5, Duration::from_millis(300)));

    let never = WaitForSync::new("").on(Awaited::polled("never", || false));
    let stopped = never
        .unless(async {
            sleep(Duration::from_millis(250)).await;
            "stop"
        })
        .await;
    assert_eq!(stopped.unwrap_err().cause().to_string(), "stop");
    assert_eq!(start.elapsed(), Duration::from_millis(550));
}

#[tokio::test(start_paused = true)]
async fn wai_003_all_conditions_are_awaited_concurrently_without_polling() {
    let start = Instant::now();
    wait_for_sync("", [("a", after(3)), ("b", after(5)), ("c", after(1))]).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(5), "side by side");

    let (open, shut) = (Gate::new("open"), Gate::new("shut"));
    open.open.send_replace(true);
    WaitForSync::new("").on(&open).unless(std::future::ready("stopped")).await.unwrap();
    let error = WaitForSync::new("").on(&open).on(&shut).unless(std::future::ready("stopped")).await.unwrap_err();
    assert_eq!(error.unsynced(), ["shut"], "what is done counts even if it is too late");
    WaitForSync::new("").unless(std::future::ready("stopped")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_can_be_cancelled_and_restarted() {
    let gate = Gate::new("gate");
    let mut waiting = WaitForSync::new("").on(&gate).within(Duration::from_secs(60));
    assert!(timeout(Duration::from_secs(1), &mut waiting).await.is_err());
    gate.open.send_replace(true);
    waiting.await.unwrap();
}

#[tokio::test]
async fn wai_005_is_done_reports_completion() {
    let gate = Gate::new("gate");
    assert!(!gate.is_done());
    gate.open.send_replace(true);
    assert!(gate.is_done());
    assert!(WaitForSync::new("").on(&gate as &dyn DoneChecker).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn wai_006_an_error_names_incomplete_conditions_and_reasons() {
    let waiting = WaitForSync::new("caches")
        .on(("pods", std::future::pending()))
        .on(("done", async {}))
        .on(("nodes", std::future::pending()))
        .within(Duration::from_secs(2));
    let error = waiting.await.unwrap_err();
    assert_eq!(error.unsynced(), ["nodes", "pods"]);
    assert_eq!(error.to_string(), "timed out waiting for caches: nodes, pods");
    let cause = error.source().unwrap().downcast_ref::<TimeIsOver>();
    assert_eq!(cause, Some(&TimeIsOver(Duration::from_secs(2))));

    let error = WaitForSync::new("").on(("a", std::future::pending())).unless(async { "shutdown" }).await.unwrap_err();
    assert_eq!((error.to_string().as_str(), error.cause().to_string().as_str()), ("timed out waiting: a", "shutdown"));
}

/// Records log lines: level, message, fields.
#[derive(Clone, Default)]
struct LogCapture(Arc<Mutex<Vec<String>>>);

impl LogCapture {
    /// Records the log of this thread until the guard is dropped. With a single subscriber in the process, tracing
    /// caches the interest of the first thread for all threads; two more subscribers disable that cache.
    fn listen(&self) -> tracing::subscriber::DefaultGuard {
        static OTHERS: OnceLock<[Dispatch; 2]> = OnceLock::new();
        OTHERS.get_or_init(|| [Dispatch::new(LogCapture::default()), Dispatch::new(LogCapture::default())]);
        tracing::subscriber::set_default(self.clone())
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            write!(self.0, " {value:?}").unwrap();
        } else {
            write!(self.0, " {}={value:?}", field.name()).unwrap();
        }
    }
}

impl Subscriber for LogCapture {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("evenkeel_cache::compat::wait")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::Id {
        tracing::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::Id, _: &tracing::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &tracing::Id) {}

    fn exit(&self, _: &tracing::Id) {}
}

#[tokio::test(start_paused = true)]
async fn wai_002_a_line_before_and_a_line_after() {
    let log_capture = LogCapture::default();
    let _guard = log_capture.listen();
    let waiting = WaitForSync::new("caches").on(Awaited::polled("pods", || true));
    assert!(log_capture.take().is_empty(), "not before it is awaited");
    waiting.await.unwrap();
    let lines = log_capture.take();
    assert_eq!(lines, ["INFO waiting what=\"caches\"", "INFO done waiting what=\"caches\" instance=\"pods\""]);
    let failed = WaitForSync::new("caches").on(Awaited::polled("pods", || false)).unless(async { "stop" }).await;
    assert!(failed.is_err());
    assert!(log_capture.take().last().unwrap().starts_with("ERROR timed out waiting"));
}

#[tokio::test(start_paused = true)]
async fn wai_004_the_log_names_completed_and_incomplete_conditions_in_order() {
    let log_capture = LogCapture::default();
    let _guard = log_capture.listen();
    let all = |what: &str| {
        wait_for_sync(what, [("d", after(90)), ("slow", after(3)), ("fast", after(1)), ("c", after(80))])
            .within(Duration::from_secs(5))
    };
    assert!(all("caches").await.is_err());
    let lines: Vec<String> = log_capture.take().iter().map(|line| line.replace(" what=\"caches\"", "")).collect();
    let expected = [
        "INFO waiting",
        "INFO done waiting instance=\"fast\"",
        "INFO done waiting instance=\"slow\"",
        "ERROR timed out waiting unsynced=[\"c\", \"d\"] cause=not done within 5s",
    ];
    assert_eq!(lines, expected);
    assert!(all("").await.is_err());
    assert!(log_capture.take().is_empty(), "without a name nothing is logged");
}
