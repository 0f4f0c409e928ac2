use serde_json::Value;

use super::super::testing::{at, occurrence, reference, reporter, seconds, warning};
use super::super::{Event as NewEvent, EventType};
use super::*;

fn correlator() -> Correlator {
    Correlator::new(&SinkOptions::new())
}

/// Returns the write of the event; `None` if it is filtered as spam.
fn one(correlator: &mut Correlator, event: NewEvent, second: u64) -> Option<Write<Event>> {
    let observed = correlator.observe(&occurrence(event, second));
    assert!(observed.writes.len() <= 1);
    assert_eq!(observed.is_spam, observed.writes.is_empty());
    observed.writes.into_iter().next()
}

fn count(write: &Write<Event>) -> i32 {
    assert_eq!(write.exists, write.patch.is_some());
    assert_eq!(write.event.count.unwrap() > 1, write.exists, "one that is counted is patched");
    write.event.count.unwrap()
}

#[test]
fn ev_002_an_event_has_all_known_fields() {
    let pod = ObjectReferenceWithPath::new();
    let event = NewEvent::normal("Started").note("it runs").regarding(&pod.0).annotation("a", "b");
    let write = one(&mut correlator(), event, 5).unwrap();
    let event = write.event;
    assert_eq!(event.involved_object, pod.0, "with its version and the part that is meant");
    assert_eq!(event.metadata.namespace.as_deref(), Some("ns"));
    assert_eq!(event.metadata.name, Some(format!("web.{:x}", at(5).as_nanosecond())));
    assert_eq!(event.metadata.annotations.unwrap()["a"], "b");
    assert_eq!((event.count, event.type_.as_deref()), (Some(1), Some("Normal")));
    assert_eq!((event.reason.as_deref(), event.message.as_deref()), (Some("Started"), Some("it runs")));
    assert_eq!((&event.first_timestamp, &event.last_timestamp), (&Some(Time(at(5))), &Some(Time(at(5)))));
    let source = event.source.unwrap();
    assert_eq!((source.component.as_deref(), source.host.as_deref()), (Some("kubelet"), Some("node")));
    assert_eq!(event.reporting_component.as_deref(), Some("kubelet"));
    assert_eq!(event.reporting_instance.as_deref(), Some("node"));
    assert!(event.event_time.is_none());
}

struct ObjectReferenceWithPath(k8s_openapi::api::core::v1::ObjectReference);

impl ObjectReferenceWithPath {
    fn new() -> Self {
        let path = Some("spec.containers{web}".to_owned());
        ObjectReferenceWithPath(k8s_openapi::api::core::v1::ObjectReference {
            field_path: path,
            ..reference("Pod", "web")
        })
    }
}

#[test]
fn ev_002_an_object_without_a_namespace_has_its_events_in_default() {
    let node = k8s_openapi::api::core::v1::ObjectReference { namespace: None, ..reference("Node", "n") };
    let write = one(&mut correlator(), NewEvent::normal("R").regarding(&node), 0).unwrap();
    assert_eq!(write.event.metadata.namespace.as_deref(), Some("default"));
    assert_eq!(write.event.involved_object.namespace, None);
}

#[test]
fn ev_016_fields_of_the_core_api_are_kept() {
    let event = warning("R", "n").action("Act").related(&reference("Node", "n"));
    let event = one(&mut correlator(), event, 0).unwrap().event;
    assert_eq!((event.action.as_deref(), event.related), (Some("Act"), Some(reference("Node", "n"))));
    assert_eq!(one(&mut correlator(), warning("R", "n"), 0).unwrap().event.action, None, "nothing is made up");
}

#[test]
fn ec_001_filtered_events_are_counted() {
    let options = SinkOptions::new().spam_filter(1, seconds(300));
    let mut correlator = Correlator::new(&options);
    assert_eq!(count(&one(&mut correlator, warning("R", "n"), 0).unwrap()), 1);
    assert!(one(&mut correlator, warning("R", "n"), 1).is_none());
    assert!(one(&mut correlator, warning("R", "n"), 2).is_none());
    assert_eq!(count(&one(&mut correlator, warning("R", "n"), 300).unwrap()), 4);
}

#[test]
fn ec_002_an_equal_event_increments_the_count() {
    let mut correlator = correlator();
    let first = one(&mut correlator, warning("R", "n"), 0).unwrap();
    assert_eq!(count(&first), 1);
    let mut answer = first.event.clone();
    answer.metadata.resource_version = Some("99".into());
    correlator.settled(&first.key, Settled::Written(&answer));
    let second = one(&mut correlator, warning("R", "n"), 9).unwrap();
    assert_eq!((count(&second), &second.key), (2, &first.key));
    assert_eq!(second.event.metadata.name, first.event.metadata.name, "it goes on under its name");
    assert_eq!(second.event.metadata.resource_version.as_deref(), Some("99"));
    assert_eq!(second.event.first_timestamp, Some(Time(at(0))));
    let patch = second.patch.unwrap();
    assert_eq!(patch, json!({"count": 2, "lastTimestamp": Time(at(9)), "message": "n"}));
    let different = [
        warning("Other", "n"),
        warning("R", "other"),
        warning("R", "n").regarding(&reference("Pod", "other")),
        warning("R", "n").regarding(&reference("Node", "web")),
        NewEvent::normal("R").note("n").regarding(&reference("Pod", "web")),
    ];
    for event in different {
        assert_eq!(count(&one(&mut correlator, event.clone(), 9).unwrap()), 1, "{event:?}");
    }
    let newer =
        k8s_openapi::api::core::v1::ObjectReference { resource_version: Some("8".into()), ..reference("Pod", "web") };
    assert_eq!(count(&one(&mut correlator, warning("R", "n").regarding(&newer), 9).unwrap()), 3);
}

#[test]
fn ec_003_containers_have_separate_events() {
    let mut correlator = correlator();
    let part = ObjectReferenceWithPath::new();
    assert_eq!(count(&one(&mut correlator, warning("R", "n"), 0).unwrap()), 1);
    assert_eq!(count(&one(&mut correlator, warning("R", "n").regarding(&part.0), 0).unwrap()), 1);
}

#[test]
fn ec_004_similar_events_differ_only_in_note_and_field_path() {
    let key = |event| occurrence(event, 0).group_key();
    let same = key(warning("R", "n"));
    assert_eq!(key(warning("R", "other")), same);
    assert_eq!(key(warning("R", "n").regarding(&ObjectReferenceWithPath::new().0)), same);
    assert_ne!(key(warning("Other", "n")), same);
    assert_ne!(key(NewEvent::new(EventType::Normal, "R").regarding(&reference("Pod", "web"))), same);
    assert_ne!(key(warning("R", "n").regarding(&reference("Pod", "other"))), same);
    let mut other = (*reporter()).clone();
    other.controller = "scheduler".into();
    let mut by_another = occurrence(warning("R", "n"), 0);
    by_another.reporter = other.into();
    assert_ne!(by_another.group_key(), same);
    let (group, local) = SinkOptions::new().group_of(&occurrence(warning("R", "n"), 0));
    assert_eq!((group, local.as_str()), (same, "n"));
}

#[test]
fn ec_005_a_group_expires_after_ten_minutes_without_events() {
    let mut correlator = correlator();
    let mut seen = |note: u64, second| {
        one(&mut correlator, warning("R", &note.to_string()), second).unwrap().event.message.unwrap()
    };
    for note in 1..=9 {
        assert_eq!(seen(note, note * 600), note.to_string());
    }
    assert_eq!(seen(10, 6000), "(combined from similar events): 10", "600 s after the last is not too late");
    assert_eq!(seen(11, 6601), "11", "601 s is");
}

#[test]
fn ec_006_the_tenth_distinct_note_aggregates() {
    let mut correlator = correlator();
    for note in 1..=9 {
        let write = one(&mut correlator, warning("R", &note.to_string()), note).unwrap();
        assert_eq!((count(&write), write.event.message), (1, Some(note.to_string())));
    }
    let tenth = one(&mut correlator, warning("R", "10"), 10).unwrap();
    assert_eq!(count(&tenth), 1);
    assert_eq!(tenth.event.message.as_deref(), Some("(combined from similar events): 10"));
    let next = one(&mut correlator, warning("R", "11"), 11).unwrap();
    assert_eq!(count(&next), 2);
    assert_eq!(next.event.metadata.name, tenth.event.metadata.name);
    assert_eq!(next.patch.unwrap()["message"], Value::from("(combined from similar events): 11"));
}

#[test]
fn ec_007_equal_notes_are_never_aggregated() {
    let mut correlator = correlator();
    for number in 1..=11 {
        let write = one(&mut correlator, warning("R", "n"), 0).unwrap();
        assert_eq!((count(&write), write.event.message.as_deref()), (number, Some("n")));
    }
}

#[test]
fn ec_008_the_least_recent_note_is_evicted_first() {
    let options = SinkOptions::new().no_spam_filter().aggregate_at(3);
    let mut correlator = Correlator::new(&options);
    let mut is_combined = |note: &str| {
        let message = one(&mut correlator, warning("R", note), 0).unwrap().event.message.unwrap();
        message.starts_with("(combined")
    };
    let seen = ["a", "b", "a", "c", "a", "c", "b", "c", "a"].map(|note| (note, is_combined(note)));
    let expected = [
        ("a", false),
        ("b", false),
        ("a", false),
        ("c", true), // b goes, which was not seen for longest
        ("a", false),
        ("c", false),
        ("b", true), // a goes
        ("c", false),
        ("a", true), // b goes
    ];
    assert_eq!(seen, expected);
}

#[test]
fn ec_009_an_aggregate_has_a_valid_name_and_its_reporter() {
    let options = SinkOptions::new().aggregate_at(1);
    let mut correlator = Correlator::new(&options);
    let odd = warning("R", "n").regarding(&reference("Pod", "Not A Name")).annotation("a", "b");
    let event = one(&mut correlator, odd, 3).unwrap().event;
    assert_eq!(event.metadata.name.as_ref().unwrap().len(), 36, "a UUID");
    assert_eq!(event.metadata.annotations, None, "annotations are one event's own");
    assert_eq!(
        (event.count, event.first_timestamp, event.last_timestamp),
        (Some(1), Some(Time(at(3))), Some(Time(at(3))))
    );
    assert_eq!(event.reporting_component.as_deref(), Some("kubelet"));
    assert_eq!(event.reporting_instance.as_deref(), Some("node"));
    assert_eq!(event.source.unwrap().component.as_deref(), Some("kubelet"));
    assert_eq!((event.type_.as_deref(), event.reason.as_deref()), (Some("Warning"), Some("R")));
}

#[test]
fn ec_010_the_26th_event_of_an_object_is_filtered() {
    let mut correlator = correlator();
    for second in 0..25 {
        assert!(one(&mut correlator, warning("R", "n"), second).is_some());
    }
    assert!(one(&mut correlator, warning("R", "n"), 25).is_none());
    assert!(one(&mut correlator, warning("Other", "other"), 26).is_none(), "reason and note do not matter");
    let normal = NewEvent::normal("R").note("n").regarding(&reference("Pod", "web"));
    assert!(one(&mut correlator, normal, 27).is_some(), "good news have a bucket of their own");
    assert!(one(&mut correlator, warning("R", "n").regarding(&reference("Pod", "other")), 27).is_some());
    assert!(one(&mut correlator, warning("R", "n"), 300).is_some(), "there is one more after 300 s");
    assert!(one(&mut correlator, warning("R", "n"), 301).is_none());
}

#[test]
fn ec_011_buckets_can_be_keyed_by_more() {
    let by_reason = |event: &Occurrence| EventKey::of(event.spam_key().texts().chain([event.reason.as_str()]));
    let options = SinkOptions::new().spam_filter(1, seconds(300)).spam_key(by_reason);
    let mut correlator = Correlator::new(&options);
    assert!(one(&mut correlator, warning("R", "n"), 0).is_some());
    assert!(one(&mut correlator, warning("R", "n"), 1).is_none());
    assert!(one(&mut correlator, warning("Other", "n"), 1).is_some());
}

#[test]
fn ec_012_an_evicted_bucket_is_full_again() {
    let options = SinkOptions::new().spam_filter(1, seconds(300)).cache_size(2);
    let mut correlator = Correlator::new(&options);
    let about = |name: &str| warning("R", "n").regarding(&reference("Pod", name));
    assert!(one(&mut correlator, about("a"), 0).is_some());
    assert!(one(&mut correlator, about("b"), 0).is_some());
    assert!(one(&mut correlator, about("a"), 0).is_none());
    assert!(one(&mut correlator, about("c"), 0).is_some(), "b is forgotten");
    assert!(one(&mut correlator, about("a"), 0).is_none());
    let b = one(&mut correlator, about("b"), 0).unwrap();
    assert_eq!(count(&b), 1, "and so is how often it was seen");
    assert_eq!((correlator.counts.len(), correlator.groups.len()), (2, 2));
}

#[test]
fn ec_012_the_least_recently_counted_event_is_evicted() {
    let mut correlator = Correlator::new(&SinkOptions::new().no_spam_filter().cache_size(2));
    let about = |name: &str| warning("R", "n").regarding(&reference("Pod", name));
    one(&mut correlator, about("a"), 0);
    one(&mut correlator, about("b"), 0);
    assert_eq!(count(&one(&mut correlator, about("a"), 0).unwrap()), 2, "counting is a use");
    one(&mut correlator, about("c"), 0);
    assert_eq!(correlator.counts.len(), 2);
    assert_eq!(count(&one(&mut correlator, about("b"), 0).unwrap()), 1, "it replaced b, and b replaces a");
    one(&mut correlator, about("a"), 0);
    let b = one(&mut correlator, about("b"), 0).unwrap();
    one(&mut correlator, about("a"), 0);
    correlator.settled(&b.key, Settled::Written(&b.event));
    one(&mut correlator, about("c"), 0);
    assert_eq!(count(&one(&mut correlator, about("a"), 0).unwrap()), 3, "the result of a write is no use");
    let mut smallest = Correlator::new(&SinkOptions::new().cache_size(0));
    one(&mut smallest, about("a"), 0);
    assert_eq!(count(&one(&mut smallest, about("a"), 0).unwrap()), 2, "a cache has one entry at least");
}

#[test]
fn ec_013_every_option_has_client_gos_default() {
    let default = SinkOptions::default();
    assert_eq!((default.cache_size.get(), default.aggregate_at, default.group_age), (4096, Some(10), seconds(600)));
    let spam = default.spam.unwrap();
    assert_eq!((spam.burst, spam.refill), (25, seconds(300)));
    let options = SinkOptions::new()
        .aggregate_at(2)
        .group_age(seconds(1))
        .group_by(|event| (EventKey::of([event.reason.as_str()]), event.regarding.name.clone().unwrap_or_default()))
        .combined_note(|event| format!("and {}", event.note))
        .no_spam_filter();
    let mut correlator = Correlator::new(&options);
    let about = |name: &str, note: &str| warning("R", note).regarding(&reference("Pod", name));
    let mut message = |event, second| one(&mut correlator, event, second).unwrap().event.message.unwrap();
    assert_eq!(message(about("a", "1"), 0), "1");
    assert_eq!(message(about("a", "2"), 0), "2", "the name is what tells them apart");
    assert_eq!(message(about("b", "3"), 0), "and 3");
    assert_eq!(message(about("c", "4"), 2), "4", "two seconds are too long now");
    for number in 0..100 {
        assert_eq!(message(about("c", "4"), 2), "4", "{number}");
    }
    let mut none = Correlator::new(&SinkOptions::new().no_aggregation().no_spam_filter());
    for note in 0..50 {
        assert_eq!(count(&one(&mut none, warning("R", &note.to_string()), 0).unwrap()), 1);
    }
    let mut nothing = Correlator::new(&SinkOptions::new().spam_filter(0, seconds(1)));
    assert!(one(&mut nothing, warning("R", "n"), 0).is_none(), "zero can be asked for, and means zero");
    let mut free = Correlator::new(&SinkOptions::new().spam_filter(1, seconds(0)));
    assert!(one(&mut free, warning("R", "n"), 0).is_some() && one(&mut free, warning("R", "n"), 0).is_some());
}

#[test]
fn ec_014_keys_do_not_concatenate_fields() {
    let mut correlator = correlator();
    assert_eq!(count(&one(&mut correlator, warning("ab", "c"), 0).unwrap()), 1);
    assert_eq!(count(&one(&mut correlator, warning("a", "bc"), 0).unwrap()), 1);
}

#[test]
fn ec_015_the_servers_state_of_an_aggregate_is_kept() {
    let mut correlator = Correlator::new(&SinkOptions::new().aggregate_at(1));
    let first = one(&mut correlator, warning("R", "1"), 0).unwrap();
    let mut answer = first.event.clone();
    answer.metadata.resource_version = Some("42".into());
    correlator.settled(&first.key, Settled::Written(&answer));
    let second = one(&mut correlator, warning("R", "2"), 1).unwrap();
    assert_eq!(second.event.metadata.resource_version.as_deref(), Some("42"));
    assert_eq!(correlator.counts.len(), 1, "nothing else is kept");
}

#[test]
fn ev_006_the_servers_state_is_adopted_and_the_count_does_not_decrease() {
    let mut correlator = correlator();
    let first = one(&mut correlator, warning("R", "n"), 0).unwrap();
    assert_eq!(count(&one(&mut correlator, warning("R", "n"), 1).unwrap()), 2);
    let mut answer = first.event.clone();
    answer.metadata.name = Some("another".into());
    answer.metadata.resource_version = Some("5".into());
    answer.first_timestamp = Some(Time(at(100)));
    correlator.settled(&first.key, Settled::Written(&answer));
    let third = one(&mut correlator, warning("R", "n"), 2).unwrap();
    assert_eq!(count(&third), 3, "the answer to the first came after the second was counted");
    assert_eq!(third.event.metadata.name.as_deref(), Some("another"));
    assert_eq!(third.event.metadata.resource_version.as_deref(), Some("5"));
    assert_eq!(third.event.first_timestamp, Some(Time(at(100))));
    answer.count = Some(40);
    correlator.settled(&first.key, Settled::Written(&answer));
    assert_eq!(count(&one(&mut correlator, warning("R", "n"), 3).unwrap()), 41, "others may have counted too");
}

#[test]
fn ev_008_the_second_attempt_has_a_random_delay() {
    let correlator = correlator();
    let pauses = [(1, 0.0), (1, 0.5), (2, 0.5), (11, 0.0)].map(|(attempts, chance)| correlator.pause(attempts, chance));
    assert_eq!(pauses, [seconds(0), seconds(5), seconds(10), seconds(10)]);
}

#[test]
fn a_clock_set_back_grants_no_token() {
    let mut correlator = Correlator::new(&SinkOptions::new().spam_filter(1, seconds(300)));
    assert!(one(&mut correlator, warning("R", "n"), 1000).is_some());
    assert!(one(&mut correlator, warning("R", "n"), 0).is_none());
    assert!(one(&mut correlator, warning("R", "n"), 1299).is_none());
    assert!(one(&mut correlator, warning("R", "n"), 1300).is_some());
}
