//! What is logged and what is not.

use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::*;
use crate::config::{Auth, Throttle};

/// Records all spans and events of this crate up to a level, one per line.
#[derive(Clone)]
struct Notebook {
    level: Level,
    lines: Arc<Mutex<String>>,
    spans: Arc<AtomicU64>,
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Notebook {
    fn new(level: Level) -> Self {
        Notebook { level, lines: Arc::default(), spans: Arc::default() }
    }

    fn note(&self, what: String, record: impl FnOnce(&mut Line)) {
        let mut line = Line(what);
        record(&mut line);
        writeln!(self.lines.lock().unwrap(), "{}", line.0).unwrap();
    }

    fn text(&self) -> String {
        self.lines.lock().unwrap().clone()
    }
}

impl Subscriber for Notebook {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("evenkeel_client") && *metadata.level() <= self.level
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.note(format!("span {}", span.metadata().name()), |line| span.record(line));
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.note("record".to_owned(), |line| values.record(line));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let level = *event.metadata().level();
        assert!(level >= Level::INFO, "nothing here is worth a warning");
        self.note(format!("event {level}"), |line| event.record(line));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn req_022_a_request_has_a_span_with_its_template_its_status_and_its_attempts() {
    let notebook = Notebook::new(Level::DEBUG);
    let _guard = crate::test_logs::listen(notebook.clone());
    let script = Script::new([ScriptStep::later(429, "0")]);
    let info = pods();
    let path = Path::resource(&info).namespace("default").name("web-0");
    script.client().request(Method::GET, path).query("pretty", true).send().await.unwrap();
    let text = notebook.text();
    let span = "span evenkeel.request method=GET url=/api/v1/namespaces/{namespace}/pods/{name}?pretty={value}\n";
    assert!(text.contains(span), "{text}");
    assert!(text.contains("record attempts=2\n"), "{text}");
    assert!(text.contains("record status=200\n"), "{text}");
    assert!(text.contains("event DEBUG message=retrying attempt=1"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn lim_004_waits_for_the_limiter_are_logged_by_their_length() {
    let notebook = Notebook::new(Level::DEBUG);
    let _guard = crate::test_logs::listen(notebook.clone());
    let script = Script::new([]);
    let client = script.client_with(|config| config.throttle = Some(Throttle { qps: 0.5, burst: 1 }));
    for _ in 0..4 {
        get(&client).send().await.unwrap();
    }
    let text = notebook.text();
    let lines = |level: &str| text.lines().filter(|line| line.starts_with(level) && line.contains("wait")).count();
    assert_eq!((lines("event INFO"), lines("event DEBUG")), (1, 2), "{text}");
}

#[tokio::test(start_paused = true)]
async fn sec_5_no_secret_no_body_and_no_value_is_logged() {
    let notebook = Notebook::new(Level::DEBUG);
    let _guard = crate::test_logs::listen(notebook.clone());
    let steps = [
        ScriptStep::later(429, "0").body("hunter2"),
        ScriptStep::Fail(TransportFault::Closed),
        ScriptStep::ok().body("hunter2"),
    ];
    let script = Script::new(steps);
    let client = script.client_with(|config| {
        config.auth = Auth::Token("hunter2".into());
        config.throttle = Some(Throttle { qps: 1.0, burst: 1 });
    });
    let request = get(&client).query("token", "hunter2").header(http::HeaderName::from_static("x-a"), "hunter2");
    request.body("hunter2", "text/plain").send().await.unwrap();
    let text = notebook.text();
    assert!(text.contains("span evenkeel.request"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn trn_026_debug_has_the_status_and_the_time_and_trace_the_headers_with_secrets_masked() {
    for level in [Level::INFO, Level::DEBUG, Level::TRACE] {
        let notebook = Notebook::new(level);
        let _guard = crate::test_logs::listen(notebook.clone());
        let script = Script::new([ScriptStep::Fail(TransportFault::Closed), ScriptStep::ok().body("hunter2")]);
        let client = script.client_with(|config| config.auth = Auth::Token("hunter2".into()));
        let request = get(&client).query("token", "hunter2").header(http::HeaderName::from_static("x-seen"), "seen");
        request.send().await.unwrap();
        let text = notebook.text();
        let has = |part: &str| text.lines().any(|line| line.contains(part));
        let (debug, trace) = (level >= Level::DEBUG, level >= Level::TRACE);
        assert_eq!(has("event DEBUG message=response received attempt=2 status=200 took="), debug, "{text}");
        assert_eq!(has("event DEBUG message=no response attempt=1 took="), debug, "{text}");
        assert_eq!(has(r#""x-seen": "seen""#), trace, "{text}");
        assert_eq!(has(r#""authorization": "Bearer <masked>""#), trace, "{text}");
        assert_eq!(has("event TRACE message=response headers attempt=2"), trace, "{text}");
        assert!(!has("hunter2"), "{text}");
    }
}
