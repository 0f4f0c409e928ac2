use std::sync::Arc;

use evenkeel_cache::{Deleted, Obj, ResourceInfo};

use super::*;

fn object(namespace: &str, version: &str) -> Obj<()> {
    let info = Arc::new(ResourceInfo::new("", "v1", "Pod", "pods", true));
    let json =
        format!(r#"{{"metadata": {{"namespace": "{namespace}", "name": "a", "resourceVersion": "{version}"}}}}"#);
    Obj::from_json(&info, json).unwrap()
}

fn texts(lines: &[Line]) -> Vec<String> {
    lines.iter().map(|line| line.render(false, usize::MAX)).collect()
}

#[test]
fn one_namespace_needs_one_row() {
    let mut tally = Tally::default();
    for event in [
        Event::Add { object: object("ns", "1"), initial: true },
        Event::Add { object: object("ns", "2"), initial: false },
        Event::Update { old: object("ns", "2"), new: object("ns", "3") },
        Event::Update { old: object("ns", "3"), new: object("ns", "3") },
        Event::Delete(Deleted::Observed(object("ns", "4"))),
    ] {
        tally.count(&event, Duration::ZERO);
    }
    assert_eq!(tally.objects(), 1);
    assert_eq!(
        texts(&tally.table()),
        [
            "       initial        add     update  unchanged     delete      total",
            "all          1          1          1          1          1          5",
        ]
    );
    assert_eq!(
        tally.line(Duration::ZERO).render(false, usize::MAX),
        "1 object  +1 added  ~1 updated  =1 unchanged  -1 deleted  5.0 events/s"
    );
}

#[test]
fn the_busiest_namespaces_are_listed_first_up_to_a_limit() {
    let mut tally = Tally::default();
    for number in 0..12 {
        for _ in 0..=number {
            tally.count(&Event::Add { object: object(&format!("ns-{number:02}"), "1"), initial: true }, Duration::ZERO);
        }
    }
    let table = texts(&tally.table());
    assert_eq!(table.len(), 1 + ROWS + 2, "{table:?}");
    assert!(table[1].starts_with("ns-11 ") && table[1].ends_with(" 12"), "{table:?}");
    assert_eq!(table[11], "… and 2 more namespaces");
    assert!(table[12].starts_with("all ") && table[12].ends_with(" 78"), "{table:?}");
}

#[test]
fn the_number_of_counted_namespaces_is_bounded() {
    let mut tally = Tally::default();
    for number in 0..NAMESPACES + 5 {
        tally.count(&Event::Add { object: object(&format!("ns-{number}"), "1"), initial: false }, Duration::ZERO);
    }
    assert_eq!(tally.namespaces.len(), NAMESPACES);
    let table = texts(&tally.table());
    assert!(table.iter().any(|line| line == "… and more than 990 more namespaces"), "{table:?}");
    assert!(table.last().unwrap().ends_with(" 1005"), "{table:?}");
}

#[test]
fn the_rate_is_that_of_the_last_seconds() {
    let mut rate = Rate::default();
    let at = Duration::from_secs;
    assert_eq!(rate.per_second(at(0)), "0.0");
    (0..6).for_each(|_| rate.count(at(0)));
    assert_eq!(rate.per_second(at(0)), "6.0");
    assert_eq!(rate.per_second(at(2)), "2.0");
    (0..4).for_each(|_| rate.count(at(9)));
    assert_eq!(rate.per_second(at(9)), "1.0");
    assert_eq!(rate.per_second(at(10)), "0.4", "the first second is over");
    assert_eq!(rate.per_second(at(19)), "0.0");
    rate.count(at(1_000_000));
    assert_eq!(rate.per_second(at(1_000_000)), "0.1");
    assert_eq!(rate.per_second(at(5)), "0.1", "time may go backwards");
}
