//! From recorders to listeners.

use super::super::{Stopped, fake};
use super::*;

fn notes(watch: &mut super::super::EventWatch) -> Vec<String> {
    std::iter::from_fn(|| watch.try_next()).map(|event| event.note.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn bc_001_every_listener_receives_every_event_in_order() {
    let broadcaster = broadcaster();
    let (mut first, mut second) = (broadcaster.watch().unwrap(), broadcaster.watch().unwrap());
    let (one, other) = (broadcaster.recorder("one").build(), broadcaster.recorder("other").build());
    for (recorder, note) in [(&one, "1"), (&other, "2"), (&one, "3")] {
        warn(recorder, "R", note);
    }
    assert_eq!(notes(&mut first), ["1", "2", "3"]);
    assert_eq!(second.next().await.unwrap().reporter.controller, "one");
    assert_eq!(second.next().await.unwrap().reporter.controller, "other");
}

#[tokio::test(start_paused = true)]
async fn bc_002_a_slow_listener_misses_events_that_others_receive() {
    let broadcaster = broadcaster();
    let (mut slow, mut fast) = (broadcaster.watch().unwrap(), broadcaster.watch().unwrap());
    let recorder = broadcaster.recorder("c").build();
    for number in 0..1003 {
        warn(&recorder, "R", &number.to_string());
        assert_eq!(notes(&mut fast), [number.to_string()]);
    }
    let heard = notes(&mut slow);
    assert_eq!((heard.len(), heard[999].as_str()), (1000, "999"), "bursts of a thousand are heard, by both APIs");
    warn(&recorder, "R", "again");
    assert_eq!(notes(&mut slow), ["again"]);
}

#[tokio::test(start_paused = true)]
async fn bc_003_a_late_listener_receives_all_events_from_then_on() {
    let broadcaster = broadcaster();
    let recorder = broadcaster.recorder("c").build();
    warn(&recorder, "R", "before");
    let mut watch = broadcaster.watch().unwrap();
    warn(&recorder, "R", "after");
    assert_eq!(notes(&mut watch), ["after"]);
}

#[tokio::test(start_paused = true)]
async fn bc_004_events_before_the_shutdown_are_delivered_and_later_ones_are_not() {
    let broadcaster = broadcaster();
    let (mut watch, recorder) = (broadcaster.watch().unwrap(), broadcaster.recorder("c").build());
    warn(&recorder, "R", "before");
    broadcaster.shutdown().await;
    warn(&recorder, "R", "after");
    assert_eq!(watch.next().await.unwrap().note, "before");
    assert!(watch.next().await.is_none() && watch.next().await.is_none());
    assert_eq!(broadcaster.watch().unwrap_err(), Stopped);
    assert_eq!(Stopped.to_string(), "broadcaster already stopped");
    broadcaster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn bc_005_stopping_a_listener_twice_does_not_affect_others() {
    let broadcaster = broadcaster();
    let recorder = broadcaster.recorder("c").build();
    let (mut first, mut second) = (broadcaster.watch().unwrap(), broadcaster.watch().unwrap());
    warn(&recorder, "R", "1");
    first.stop();
    first.stop();
    warn(&recorder, "R", "2");
    assert_eq!(first.next().await.unwrap().note, "1");
    assert!(first.next().await.is_none());
    drop(first);
    warn(&recorder, "R", "3");
    assert_eq!(notes(&mut second), ["1", "2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn ev_001_recording_never_waits_and_events_without_an_object_are_dropped() {
    let broadcaster = broadcaster();
    let (mut watch, recorder) = (broadcaster.watch().unwrap(), broadcaster.recorder("c").build());
    recorder.record(Event::warning("R").note("about nothing"));
    let kindless = k8s_openapi::api::core::v1::ObjectReference { kind: None, ..reference("", "a") };
    recorder.event(&kindless, EventType::Normal, "R", "of no kind");
    for _ in 0..5000 {
        warn(&recorder, "R", "n");
    }
    let first = watch.try_next().unwrap();
    assert_eq!((first.note.as_str(), first.event_type, first.reason.as_str()), ("n", EventType::Warning, "R"));
}

#[tokio::test(start_paused = true)]
async fn ev_003_no_two_events_have_the_same_name() {
    let broadcaster = broadcaster();
    let (mut watch, recorder) = (broadcaster.watch().unwrap(), broadcaster.recorder("c").build());
    warn(&recorder, "R", "1");
    warn(&recorder, "R", "2");
    let (first, second) = (watch.try_next().unwrap(), watch.try_next().unwrap());
    assert_eq!(first.at, second.at, "they happened at the same time");
    assert_eq!(first.name, format!("web.{:x}", at(0).as_nanosecond()));
    assert_eq!(second.name, format!("web.{:x}", at(0).as_nanosecond() + 1));
}

#[tokio::test(start_paused = true)]
async fn ev_013_events_are_formatted_as_by_client_go() {
    let broadcaster = broadcaster();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&lines);
    let _ = broadcaster.for_each(move |event| log.lock().unwrap().push(event.to_string()));
    warn(&broadcaster.recorder("c").build(), "Started", "some verbose message: 1");
    settle().await;
    let expected = r#"Event(v1.ObjectReference{Kind:"Pod", Namespace:"ns", Name:"web", UID:"uid-of-web", APIVersion:"v1", ResourceVersion:"7", FieldPath:""}): type: 'Warning' reason: 'Started' some verbose message: 1"#;
    assert_eq!(*lines.lock().unwrap(), [expected]);
}

#[tokio::test(start_paused = true)]
async fn ev_013_events_can_be_logged_field_by_field() {
    use std::fmt::Debug;

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};

    #[derive(Clone, Default)]
    struct Fields(Arc<Mutex<BTreeMap<String, String>>>);

    impl Visit for Fields {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            self.0.lock().unwrap().insert(field.name().to_owned(), format!("{value:?}").trim_matches('"').to_owned());
        }
    }

    impl tracing::Subscriber for Fields {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            metadata.target().contains("events")
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &tracing::Event<'_>) {
            event.record(&mut self.clone());
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    let fields = Fields::default();
    // Two more subscribers that are never dropped keep a thread without one from caching that none is interested.
    static OTHERS: std::sync::OnceLock<[tracing::Dispatch; 2]> = std::sync::OnceLock::new();
    OTHERS.get_or_init(|| [Fields::default(), Fields::default()].map(tracing::Dispatch::new));
    let _listening = tracing::subscriber::set_default(fields.clone());
    let broadcaster = broadcaster();
    let _ = broadcaster.start_logging();
    warn(&broadcaster.recorder("c").build(), "Started", "it runs");
    settle().await;
    let logged = fields.0.lock().unwrap().clone();
    let expected = [
        ("message", "Event occurred"),
        ("object", "ns/web"),
        ("field_path", ""),
        ("kind", "Pod"),
        ("api_version", "v1"),
        ("type", "Warning"),
        ("reason", "Started"),
        ("note", "it runs"),
    ];
    assert_eq!(logged, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
}

#[tokio::test(start_paused = true)]
async fn ev_014_no_listener_is_added_after_shutdown() {
    let (broadcaster, sink) = (broadcaster(), FakeSink::default());
    broadcaster.shutdown().await;
    let late = broadcaster.for_each(|_| panic!("nothing is heard any more"));
    assert!(!late.is_listening());
    late.stop();
    let _ = broadcaster.record_to_core(sink.clone(), SinkOptions::new());
    warn(&broadcaster.recorder("c").build(), "R", "n");
    settle().await;
    assert_eq!(sink.calls(), []);
}

#[test]
fn ev_015_recorded_events_can_be_read_without_a_server() {
    let (recorder, mut events) = fake::recorder(2);
    for note in ["one", "two", "there is no room for three, and recording does not wait"] {
        warn(&recorder, "R", note);
    }
    assert_eq!(events.lines(), ["Warning R one", "Warning R two"]);
    recorder.record(warning("R", "n").annotation("b", "2").annotation("a", "1"));
    let mut events = events.show_objects();
    assert_eq!(events.lines(), ["Warning R n involvedObject{kind=Pod,apiVersion=v1} map[a:1 b:2]"]);
    warn(&recorder, "R", "taken");
    assert_eq!(events.take()[0].note, "taken");
    let (recorder, mut nothing) = fake::recorder(0);
    warn(&recorder, "R", "n");
    assert!(nothing.lines().is_empty());
}

#[test]
fn en_018_recorded_events_can_be_read_in_full() {
    let (recorder, events) = fake::recorder(5);
    let mut events = events.verbose();
    recorder.record(warning("R", "n").action("Act").related(&reference("Node", "x")).annotation("a", "1"));
    let expected = "Warning R n action=Act regarding{kind=Pod,apiVersion=v1} related{kind=Node,apiVersion=v1} map[a:1]";
    assert_eq!(events.lines(), [expected]);
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_panics_is_removed_and_affects_no_other() {
    let broadcaster = broadcaster();
    let mut watch = broadcaster.watch().unwrap();
    let bad = broadcaster.for_each(|_| panic!("on purpose"));
    let recorder = broadcaster.recorder("c").build();
    warn(&recorder, "R", "1");
    settle().await;
    warn(&recorder, "R", "2");
    assert!(!bad.is_listening());
    assert_eq!(notes(&mut watch), ["1", "2"]);
    recorder.flush().await;
    broadcaster.shutdown().await;
}
