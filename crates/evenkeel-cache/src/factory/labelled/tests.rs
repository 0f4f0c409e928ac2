//! Namespaces that come and go by label.

use super::*;

fn names(labelled: &mut LabelledNames, now: Instant) -> Option<Vec<String>> {
    labelled.take(now).map(|names| names.iter().map(ToString::to_string).collect())
}

#[tokio::test(start_paused = true)]
async fn mns_012_a_label_that_returns_within_a_second_changes_nothing() {
    let start = Instant::now();
    let at = |millis| start + Duration::from_millis(millis);
    let mut labelled = LabelledNames::default();
    labelled.observe("a", true, start);
    labelled.observe("b", true, start);
    assert_eq!(names(&mut labelled, start).unwrap(), ["a", "b"]);
    labelled.observe("b", false, at(0));
    assert_eq!(labelled.next_leave(), Some(at(1000)));
    assert_eq!(names(&mut labelled, at(999)), None);
    labelled.observe("b", true, at(999));
    assert_eq!((names(&mut labelled, at(5000)), labelled.next_leave()), (None, None));

    labelled.observe("b", false, at(6000));
    labelled.observe("b", false, at(6500));
    assert_eq!(names(&mut labelled, at(7000)).unwrap(), ["a"]);
    labelled.observe("b", false, at(8000));
    assert_eq!(labelled.next_leave(), None, "it has left");
    labelled.observe("c", true, at(8000));
    assert_eq!(names(&mut labelled, at(8000)).unwrap(), ["a", "c"], "at once");
}

#[tokio::test(start_paused = true)]
async fn more_namespaces_than_the_limit_are_left_out() {
    let mut labelled = LabelledNames::default();
    for number in 0..=MAX_NAMES {
        labelled.observe(&format!("n{number:05}"), true, Instant::now());
    }
    let names = names(&mut labelled, Instant::now()).unwrap();
    assert_eq!((names.len(), names.last().unwrap().as_str()), (MAX_NAMES, "n04095"));
}
