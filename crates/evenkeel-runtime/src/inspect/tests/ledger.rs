//! What is remembered, and for how long.

use super::super::ledger::*;
use super::*;

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn happened(key: &str, stage: Stage) -> Happened {
    Happened {
        lane: 2,
        name: "lane".into(),
        stage,
        key: key.into(),
        version: "7".into(),
        text: "something".to_owned(),
        is_failure: false,
        cause: None,
    }
}

fn caused(key: &str, by: &str, queue: LaneId) -> Happened {
    let cause = Cause {
        lane: 1,
        informer: "maps".into(),
        handler: "fill".into(),
        kind: "ConfigMap".into(),
        what: "changed",
        key: by.into(),
        version: "812".into(),
    };
    let name = format!("queue {queue}").into();
    Happened { lane: queue, name, cause: Some(Arc::new(cause)), ..happened(key, Stage::Queue) }
}

fn list<'a>(news: &'a serde_json::Map<String, Value>, name: &str) -> &'a [Value] {
    news[name].as_array().unwrap()
}

#[test]
fn all_that_is_remembered_is_bounded_and_what_went_is_counted() {
    let mut ledger = Ledger::default();
    for turn in 0..10_000u64 {
        ledger.step(at(turn), happened("a", Stage::Store));
        ledger.notification(at(turn), &"maps".into(), "update", "a", "1");
        ledger.error(at(turn), "c", "a", &format!("error {turn}"));
        ledger.note(at(turn), "a note");
    }
    let news = ledger.since(0, Some("a"));
    assert_eq!(list(&news, "notifications").len(), NOTIFICATIONS);
    assert_eq!(list(&news, "errors").len(), ERRORS);
    assert_eq!(list(&news, "notes").len(), NOTES);
    assert_eq!(news["follow"]["steps"].as_array().unwrap().len(), FOLLOWED);
    assert_eq!(news["follow"]["steps"][FOLLOWED - 1]["at"], 9999.0, "the newest are kept");
    assert_eq!(ledger.forgotten(), 40_000 - (STEPS + NOTIFICATIONS + ERRORS + NOTES) as u64);
}

#[test]
fn what_is_new_since_a_number_is_told_oldest_first_and_once() {
    let mut ledger = Ledger::default();
    let maps = "maps".into();
    ledger.notification(at(1), &maps, "add", "a", "1");
    let known = ledger.next();
    assert!(!ledger.has_news(known, Some("a")));
    ledger.notification(at(2), &maps, "update", "a", "2");
    ledger.notification(at(3), &maps, "delete", "b", "3");
    assert!(ledger.has_news(known, None));
    let news = ledger.since(known, None);
    let told: Vec<_> = list(&news, "notifications").iter().map(|one| one["what"].as_str().unwrap()).collect();
    assert_eq!(told, ["update", "delete"]);
    assert!(!news.contains_key("follow"));
    assert!(list(&ledger.since(ledger.next(), None), "notifications").is_empty());
}

#[test]
fn a_key_is_followed_with_what_it_led_to_and_steps_of_others_are_no_news() {
    let mut ledger = Ledger::default();
    ledger.step(at(1), happened("default/owner", Stage::Store));
    let known = ledger.next();
    ledger.step(at(2), happened("default/other", Stage::Store));
    assert!(!ledger.has_news(known, Some("default/child")));
    ledger.step(at(3), caused("default/owner", "default/child", 2));
    assert!(ledger.has_news(known, Some("default/child")));
    let news = ledger.since(0, Some("default/child"));
    let step = &news["follow"]["steps"][0];
    assert_eq!((step["key"].as_str(), step["stage"].as_str()), (Some("default/owner"), Some("queue")));
    assert_eq!(step["because"]["version"], "812");
    assert_eq!(ledger.since(0, Some("default/owner"))["follow"]["steps"].as_array().unwrap().len(), 2);
}

#[test]
fn the_same_error_in_a_row_is_one_with_a_count_and_keeps_its_id() {
    let mut ledger = Ledger::default();
    ledger.error(at(1), "c", "a", "no room");
    let known = ledger.next();
    ledger.error(at(2), "c", "a", "no room");
    let news = ledger.since(known, None);
    let [error] = list(&news, "errors") else { panic!("{news:?}") };
    assert_eq!((error["id"].as_u64(), error["count"].as_u64(), error["at"].as_f64()), (Some(0), Some(2), Some(2.0)));
    ledger.error(at(3), "c", "b", "no room");
    assert_eq!(list(&ledger.since(0, None), "errors").len(), 2);
}

#[test]
fn texts_are_one_line_of_bounded_length() {
    let mut ledger = Ledger::default();
    ledger.error(at(1), "c\u{7}", "a", &format!("two\nlines {}", "x".repeat(10_000)));
    ledger.note(at(1), "\u{1b}[31mred");
    let news = ledger.since(0, None);
    let error = news["errors"][0]["error"].as_str().unwrap();
    assert!(error.starts_with("two lines ") && error.len() < 1100, "{error}");
    assert_eq!(news["notes"][0]["text"], " [31mred");
}

#[test]
fn the_ways_from_handlers_to_queues_are_known_and_bounded() {
    let mut ledger = Ledger::default();
    (0..2000).for_each(|lane| ledger.begin(lane));
    for queue in 1000..2000 {
        ledger.step(at(0), caused("a", "a", queue));
        ledger.step(at(0), caused("a", "a", 1000));
    }
    assert_eq!(ledger.fed_by(1, "fill").len(), 256);
    assert_eq!(ledger.fed_by(1, "fill")[0], "queue 1000");
    assert!(ledger.fed_by(1, "other").is_empty() && ledger.fed_by(2, "fill").is_empty());
}

#[test]
fn counts_and_ways_go_with_their_lane_and_late_steps_bring_nothing_back() {
    let mut ledger = Ledger::default();
    let heard = |ledger: &mut Ledger, lane| ledger.count(lane, |counts| counts.heard += 2);
    [1, 3, 4].into_iter().for_each(|lane| ledger.begin(lane));
    heard(&mut ledger, 3);
    assert_eq!(ledger.counts(3), Counts { heard: 2, ..Counts::default() });
    for queue in [3, 4] {
        ledger.step(at(0), caused("a", "a", queue));
    }
    assert_eq!(ledger.fed_by(1, "fill"), ["queue 3", "queue 4"]);
    ledger.forget(3);
    heard(&mut ledger, 3);
    ledger.step(at(1), caused("a", "a", 3));
    assert!(!ledger.knows(3));
    assert_eq!((ledger.counts(3), ledger.fed_by(1, "fill")), (Counts::default(), vec!["queue 4"]));
    ledger.forget(1);
    ledger.step(at(1), caused("a", "a", 4));
    assert!(ledger.fed_by(1, "fill").is_empty());
}
