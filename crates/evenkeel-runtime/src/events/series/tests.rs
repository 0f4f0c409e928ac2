use super::super::testing::{at, occurrence, reference, seconds, warning};
use super::super::{Event as NewEvent, EventType};
use super::*;

const MINUTE: u64 = 60;

fn series() -> Series {
    Series::new(&SinkOptions::new())
}

fn see(series: &mut Series, event: NewEvent, second: u64) -> Vec<Write<Event>> {
    series.observe(&occurrence(event, second)).writes
}

/// Returns the single event to create.
fn created(mut writes: Vec<Write<Event>>) -> Write<Event> {
    assert_eq!(writes.len(), 1);
    let write = writes.remove(0);
    assert!(write.patch.is_none() && !write.exists && write.event.series.is_none());
    write
}

/// Name and count of the series that are to be patched.
fn patched(writes: &[Write<Event>]) -> Vec<(String, i32)> {
    let one = |write: &Write<Event>| {
        let (series, patch) = (write.event.series.as_ref().unwrap(), write.patch.as_ref().unwrap());
        let expected = json!({"series": {"count": series.count, "lastObservedTime": series.last_observed_time}});
        assert!(write.exists && *patch == expected, "{patch}");
        (write.event.regarding.as_ref().unwrap().name.clone().unwrap(), series.count)
    };
    writes.iter().map(one).collect()
}

fn about(name: &str) -> NewEvent {
    warning("R", "n").regarding(&reference("Pod", name))
}

#[test]
fn en_001_an_event_has_all_known_fields() {
    let event = warning("Failed", "it failed").action("Starting").related(&reference("Node", "n")).annotation("a", "b");
    let event = created(see(&mut series(), event, 5)).event;
    assert_eq!(event.event_time, Some(MicroTime(at(5))), "the time and the name are by one clock");
    assert_eq!(event.metadata.name, Some(format!("web.{:x}", at(5).as_nanosecond())));
    assert_eq!(event.metadata.namespace.as_deref(), Some("ns"));
    assert_eq!(event.metadata.annotations.unwrap()["a"], "b");
    assert_eq!((event.type_.as_deref(), event.reason.as_deref()), (Some("Warning"), Some("Failed")));
    assert_eq!((event.action.as_deref(), event.note.as_deref()), (Some("Starting"), Some("it failed")));
    assert_eq!(event.regarding, Some(reference("Pod", "web")));
    assert_eq!(event.related, Some(reference("Node", "n")));
    assert_eq!(event.reporting_controller.as_deref(), Some("kubelet"));
    assert_eq!(event.reporting_instance.as_deref(), Some("kubelet-one"));
    assert_eq!(event.deprecated_count, None);
    let node = k8s_openapi::api::core::v1::ObjectReference { namespace: None, ..reference("Node", "n") };
    let event = created(see(&mut series(), warning("R", "n").regarding(&node), 0)).event;
    assert_eq!(event.metadata.namespace.as_deref(), Some("default"));
}

#[test]
fn en_001_fields_are_truncated_to_the_servers_limits() {
    let event = warning(&"r".repeat(200), &"é".repeat(600));
    let event = created(see(&mut series(), event, 0)).event;
    assert_eq!(event.reason.as_ref().unwrap().len(), 128);
    assert_eq!(event.note.as_ref().unwrap().len(), 1024);
    assert_eq!(event.action, event.reason, "a missing action defaults to the reason");
}

#[test]
fn en_002_a_related_object_that_cannot_be_named_is_left_out() {
    let nothing = k8s_openapi::api::core::v1::ObjectReference::default();
    let event = created(see(&mut series(), warning("R", "n").related(&nothing), 0)).event;
    assert_eq!(event.related, None);
    let odd = warning("R", "n").regarding(&reference("Pod", "10.0.0.1"));
    assert!(created(see(&mut series(), odd, 0)).event.metadata.name.unwrap().starts_with("10.0.0.1."));
    let long = warning("R", "n").regarding(&reference("Pod", &"x".repeat(250)));
    assert_eq!(created(see(&mut series(), long, 0)).event.metadata.name.unwrap().len(), 36);
}

#[test]
fn en_003_events_that_differ_only_in_their_note_are_one_series() {
    let mut series = series();
    created(see(&mut series, warning("R", "one"), 0));
    let others = [
        warning("Other", "one"),
        warning("R", "one").action("Act"),
        warning("R", "one").related(&reference("Node", "n")),
        warning("R", "one").regarding(&reference("Pod", "other")),
        NewEvent::new(EventType::Normal, "R").note("one").regarding(&reference("Pod", "web")),
    ];
    for event in others {
        created(see(&mut series, event, 0));
    }
    assert_eq!(patched(&see(&mut series, warning("R", "two"), 1)), [("web".to_owned(), 2)]);
}

#[test]
fn en_004_an_object_that_changes_is_the_same_object() {
    let mut series = series();
    created(see(&mut series, warning("R", "n"), 0));
    let mut newer = reference("Pod", "web");
    newer.resource_version = Some("8".into());
    assert_eq!(patched(&see(&mut series, warning("R", "n").regarding(&newer), 1)), [("web".to_owned(), 2)]);
}

#[test]
fn en_005_the_second_event_starts_a_series_and_the_third_is_only_counted() {
    let mut series = series();
    let first = created(see(&mut series, warning("R", "n"), 0));
    let second = see(&mut series, warning("R", "n"), 7);
    assert_eq!(patched(&second), [("web".to_owned(), 2)]);
    assert_eq!(second[0].event.metadata.name, first.event.metadata.name);
    assert_eq!(second[0].event.series.as_ref().unwrap().last_observed_time, MicroTime(at(7)));
    assert!(see(&mut series, warning("R", "n"), 8).is_empty());
    assert!(see(&mut series, warning("R", "n"), 9).is_empty());
    let refreshed = series.refresh();
    assert_eq!(patched(&refreshed), [("web".to_owned(), 4)]);
    assert_eq!(refreshed[0].event.series.as_ref().unwrap().last_observed_time, MicroTime(at(9)));
}

#[test]
fn en_006_series_are_refreshed_and_kept() {
    let mut series = series();
    for name in ["a", "a", "b", "b", "single"] {
        see(&mut series, about(name), 0);
    }
    let writes = series.refresh();
    assert_eq!(patched(&writes), [("a".to_owned(), 2), ("b".to_owned(), 2)]);
    let mut answer = writes[0].event.clone();
    answer.metadata.resource_version = Some("9".into());
    see(&mut series, about("a"), 1);
    series.settled(&writes[0].key, Settled::Written(&answer));
    series.settled(&writes[1].key, Settled::GivenUp);
    let again = series.refresh();
    assert_eq!(patched(&again), [("b".to_owned(), 2), ("a".to_owned(), 3)], "what was counted meanwhile is not lost");
    assert_eq!(again[1].event.metadata.resource_version.as_deref(), Some("9"));
}

#[test]
fn en_007_a_series_ends_after_six_minutes_without_events() {
    let mut series = series();
    for name in ["a", "a", "b", "b", "c", "c", "single"] {
        see(&mut series, about(name), 0);
    }
    assert!(series.finish(seconds(6 * MINUTE)).is_empty(), "six minutes are not more than six minutes");
    see(&mut series, about("b"), 6 * MINUTE);
    let writes = series.finish(seconds(6 * MINUTE + 1));
    assert_eq!(patched(&writes), [("a".to_owned(), 2), ("c".to_owned(), 2)]);
    assert_eq!(series.entries.len(), 3, "single events go without a word");
    series.settled(&writes[0].key, Settled::Written(&writes[0].event));
    series.settled(&writes[1].key, Settled::GivenUp);
    assert_eq!(series.entries.len(), 2, "what was not written is kept");
    let writes = series.finish(seconds(6 * MINUTE + 2));
    assert_eq!(patched(&writes), [("c".to_owned(), 2)]);
    see(&mut series, about("c"), 6 * MINUTE + 3);
    series.settled(&writes[0].key, Settled::Written(&writes[0].event));
    assert_eq!(series.entries.len(), 2, "it was not over");
    created(see(&mut series, about("a"), 7 * MINUTE));
}

#[test]
fn en_009_the_pause_has_jitter() {
    let pauses = [0.0, 0.5, 1.0].map(|chance| series().pause(3, chance));
    assert_eq!(pauses, [seconds(10), Duration::from_millis(11_250), Duration::from_millis(12_500)]);
}

#[test]
fn en_012_the_series_cache_is_bounded_and_loses_no_count() {
    let mut series = Series::new(&SinkOptions::new().cache_size(2).no_spam_filter());
    for name in ["a", "a", "a", "b"] {
        see(&mut series, about(name), 0);
    }
    see(&mut series, about("b"), 0);
    let mut writes = see(&mut series, about("c"), 1);
    assert_eq!(
        patched(&writes.split_off(1)),
        [("a".to_owned(), 3)],
        "the third is written when the series is forgotten"
    );
    created(writes);
    let writes = see(&mut series, about("d"), 1);
    created(writes);
    assert_eq!(series.entries.len(), 2);
}

#[test]
fn en_012_writes_per_object_are_bounded() {
    let mut series = Series::new(&SinkOptions::new().spam_filter(2, seconds(300)));
    let reason = |series: &mut Series, reason: &str, second| series.observe(&occurrence(warning(reason, "n"), second));
    assert_eq!(reason(&mut series, "A", 0).writes.len(), 1);
    assert_eq!(reason(&mut series, "B", 0).writes.len(), 1);
    assert!(reason(&mut series, "C", 0).is_spam, "one that was never written is not remembered");
    assert!(reason(&mut series, "A", 0).is_spam, "one that was is counted");
    assert!(!reason(&mut series, "A", 0).is_spam, "from then on in memory");
    assert_eq!(patched(&series.unwritten()), [("web".to_owned(), 3)], "and written some time");
    assert!(series.unwritten().is_empty());
    assert_eq!(reason(&mut series, "C", 300).writes.len(), 1);
}
