//! Captures logs and metrics, and searches them for canaries.
//!
//! There is one subscriber and one recorder for the whole program, because tasks on other threads drive connections.
//! Concurrent tests capture each other's logs; as none may contain a canary, that only makes the tests stricter.

use std::cell::RefCell;
use std::error::Error;
use std::fmt::{Debug, Display, Write};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use metrics_util::debugging::{DebuggingRecorder, Snapshotter};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A text in place of a credential, or part of one. Valid as a token, a password, a header and in a URL.
pub(crate) const CANARY: &str = "C4N4RY-in-the-m1ne";

/// The log of this program.
static LOG: Mutex<String> = Mutex::new(String::new());
/// Secrets chosen by the server, such as keys and tokens.
static OTHERS: Mutex<Vec<String>> = Mutex::new(Vec::new());
static METRICS: OnceLock<Snapshotter> = OnceLock::new();

struct LogCapture;

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

fn note(what: &str, metadata: Option<&Metadata<'_>>, record: impl FnOnce(&mut Line<'_>)) {
    // Values are formatted before the log is taken: a `Debug` implementation may log.
    let mut line = what.to_owned();
    if let Some(metadata) = metadata {
        write!(line, " {} {} {}", metadata.level(), metadata.target(), metadata.name()).unwrap();
    }
    record(&mut Line(&mut line));
    line.push('\n');
    LOG.lock().unwrap().push_str(&line);
}

impl Subscriber for LogCapture {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        note("span", Some(span.metadata()), |line| span.record(line));
        Id::from_u64(COUNT.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        note("record", None, |line| values.record(line));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        note("event", Some(event.metadata()), |line| event.record(line));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Captures the logs of libraries that use the `log` crate.
impl log::Log for LogCapture {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        note(&format!("log {} {} {}", record.level(), record.target(), record.args()), None, |_| ());
    }

    fn flush(&self) {}
}

thread_local! {
    /// The message of an expected panic on this thread.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Installs the subscriber and the recorder. Every test calls this first.
pub(crate) fn listen() {
    METRICS.get_or_init(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let meant = PANIC.with_borrow_mut(|said| said.as_mut().map(|said| *said = panic.to_string()).is_some());
            if !meant {
                usual(panic);
            }
        }));
        tracing::subscriber::set_global_default(LogCapture).unwrap();
        log::set_logger(&LogCapture).unwrap();
        log::set_max_level(log::LevelFilter::Trace);
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        recorder.install().unwrap();
        snapshotter
    });
}

/// Adds a text that must never be shown. Searches for `secret` as a whole, and for each of its longer words.
pub(crate) fn watch_for(secret: &str) {
    let words = secret.split(|c: char| c.is_whitespace() || c == '.').filter(|word| word.len() >= 20);
    OTHERS.lock().unwrap().extend(words.filter(|word| !word.contains("-----")).map(str::to_owned));
}

/// Returns the encodings in which a canary can appear in a text.
fn forms() -> Vec<String> {
    let mut forms = vec![
        CANARY.to_owned(),
        CANARY.to_lowercase(),
        CANARY.replace('-', "%2D"),
        CANARY.bytes().map(|byte| format!("{byte:02x}")).collect(),
        // As `Debug` shows bytes.
        CANARY.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", "),
    ];
    // Its base64 form depends on the number of bytes before it, and its ends depend on its neighbours.
    for before in 0..3 {
        let encoded = BASE64_STANDARD.encode(format!("{}{CANARY}", "x".repeat(before)));
        forms.push(encoded[4..20].to_owned());
    }
    forms.extend(OTHERS.lock().unwrap().iter().cloned());
    forms
}

/// Asserts that a text contains no canary.
#[track_caller]
pub(crate) fn assert_clean(what: &str, text: &str) {
    for form in forms() {
        if let Some(at) = text.find(&form) {
            let around = at.saturating_sub(200)..(at + form.len() + 100).min(text.len());
            panic!("{what} shows a credential: …{}…", String::from_utf8_lossy(&text.as_bytes()[around]));
        }
    }
}

/// Asserts that neither form of `Debug` shows a canary.
#[track_caller]
pub(crate) fn assert_hidden(what: &str, value: &dyn Debug) {
    assert_clean(what, &format!("{value:?}"));
    assert_clean(what, &format!("{value:#?}"));
}

/// Asserts that an error, its sources, and a panic with it contain no secret.
#[track_caller]
pub(crate) fn assert_quiet<E: Error>(what: &str, error: E) {
    fn texts(error: &(impl Debug + Display + ?Sized)) -> String {
        format!("{error} {error:#} {error:?} {error:#?}\n")
    }
    let mut all = texts(&error);
    let mut source = error.source();
    while let Some(cause) = source {
        all.push_str(&texts(cause));
        source = cause.source();
    }
    PANIC.set(Some(String::new()));
    let fail = |error| -> Result<(), E> { Err(error) };
    std::panic::catch_unwind(AssertUnwindSafe(|| fail(error).unwrap())).unwrap_err();
    let panic = PANIC.take().unwrap();
    assert!(panic.contains("called `Result::unwrap()` on an `Err` value"), "{panic}");
    assert_clean(what, &(all + &panic));
}

/// Asserts that no log and no metric contains a canary. Returns the captured text for further checks.
#[track_caller]
pub(crate) fn assert_nothing_was_logged() -> String {
    let log = LOG.lock().unwrap().clone();
    assert_clean("the log", &log);
    let mut metrics = String::new();
    for (key, unit, description, value) in METRICS.get().unwrap().snapshot().into_vec() {
        writeln!(metrics, "{key:?} {unit:?} {description:?} {value:?}").unwrap();
    }
    assert_clean("a metric", &metrics);
    log + &metrics
}

#[test]
fn the_log_capture_detects_the_canary() {
    listen();
    let heard = |text: &str| {
        PANIC.set(Some(String::new()));
        let heard = std::panic::catch_unwind(|| assert_clean("this", text)).is_err();
        PANIC.set(None);
        heard
    };
    for before in ["", "u:", "user:", "Bearer "] {
        let encoded = BASE64_STANDARD.encode(format!("{before}{CANARY}"));
        assert!(heard(&format!("Basic {encoded}")), "{encoded}");
    }
    assert!(heard(&format!("{:?}", CANARY.as_bytes())));
    assert!(heard(&format!("{:?}", Err::<(), _>(CANARY))));
    assert!(!heard("C4N4RY"));
    tracing::trace_span!("deaf?", who = "not me").in_scope(|| tracing::trace!(answer = ?Some(1), "listening"));
    log::trace!("as well");
    let log = LOG.lock().unwrap();
    assert!(log.contains("log TRACE canary::log_capture as well"));
    assert!(log.contains("deaf? who=\"not me\"") && log.contains("message=listening answer=Some(1)"));
}
