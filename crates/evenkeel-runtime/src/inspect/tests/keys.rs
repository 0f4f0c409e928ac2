use super::*;

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn finished(outcome: ItemOutcome, state: KeyState, requeue_after: Option<Duration>, failures: u32) -> FinishedKey {
    FinishedKey { outcome, state, requeue_after, failures }
}

fn rows(table: &KeyTable) -> Vec<Value> {
    table.report(&[])["rows"].as_array().unwrap().clone()
}

#[test]
fn a_failing_key_has_its_error_attempts_and_next_try() {
    let (mut table, queue) = (KeyTable::default(), Arc::from("foos"));
    table.added((1, "default/a"), &queue, at(1), None, "Foo default/a added");
    table.dequeued((1, "default/a"), &queue, at(2), 0);
    table.failed((1, "default/a"), &queue, at(5), "no room");
    table.finished((1, "default/a"), at(5), &finished(ItemOutcome::Failed, KeyState::Delayed, Some(at(10)), 1));
    let expected = json!({
        "key": "default/a", "queue": "foos", "state": "failing", "since": 5000.0, "next": 15000.0, "attempts": 1,
        "error": "no room", "why": "Foo default/a added",
    });
    assert_eq!(rows(&table), [expected]);
    assert_eq!(table.durations(1), json!({"count": 1, "p50": 3000.0, "p99": 3000.0, "max": 3000.0}));

    table.dequeued((1, "default/a"), &queue, at(15), 1);
    table.finished((1, "default/a"), at(16), &finished(ItemOutcome::Succeeded, KeyState::Absent, None, 0));
    assert!(rows(&table).is_empty(), "a reconciled key needs no attention");
}

#[test]
fn a_key_that_is_given_up_stays_until_it_succeeds() {
    let (mut table, queue) = (KeyTable::default(), Arc::from("foos"));
    table.dequeued((1, "default/a"), &queue, at(1), 0);
    table.failed((1, "default/a"), &queue, at(2), "never");
    table.finished((1, "default/a"), at(2), &finished(ItemOutcome::GaveUp, KeyState::Absent, None, 0));
    assert_eq!((&rows(&table)[0]["state"], &rows(&table)[0]["error"]), (&json!("gave up"), &json!("never")));
    table.dequeued((1, "default/a"), &queue, at(3), 0);
    table.finished((1, "default/a"), at(4), &finished(ItemOutcome::Succeeded, KeyState::Delayed, Some(at(60)), 0));
    let row = &rows(&table)[0];
    assert_eq!((&row["state"], &row["next"], &row["error"]), (&json!("scheduled"), &json!(64000.0), &Value::Null));
}

#[test]
fn failing_keys_come_first_then_parked_ones() {
    let (mut table, queue) = (KeyTable::default(), Arc::from("foos"));
    table.added((1, "default/ready"), &queue, at(1), None, "");
    table.added((1, "default/later"), &queue, at(1), Some(at(9)), "");
    table.dequeued((1, "default/running"), &queue, at(1), 0);
    table.dequeued((1, "default/parked"), &queue, at(2), 0);
    table.failed((1, "default/bad"), &queue, at(3), "no");
    let report = table.report(&[(Arc::clone(&queue), "default/parked".to_owned())]);
    let states: Vec<_> = report["rows"].as_array().unwrap().iter().map(|row| row["state"].clone()).collect();
    assert_eq!(states, ["failing", "parked", "in flight", "ready", "scheduled"]);
    table.remove_source(1);
    assert!(rows(&table).is_empty());
}

#[test]
fn the_table_is_bounded_and_keeps_failing_keys() {
    let (mut table, queue) = (KeyTable::default(), Arc::from("foos"));
    for number in 0..KEYS + 10 {
        table.added((1, &format!("default/{number}")), &queue, at(1), None, "");
    }
    table.failed((1, "default/bad"), &queue, at(2), "no");
    let report = table.report(&[]);
    assert_eq!((report["tracked"].as_u64(), report["rows"].as_array().unwrap().len()), (Some(KEYS as u64), REPORTED));
    assert_eq!(report["rows"][0]["key"], "default/bad");
}
