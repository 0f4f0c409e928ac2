//! Servers that never end a list, send objects of another kind, or do not respond.

use evenkeel_core::{StreamError, WatchEvent};

use super::{listed_at_ten, lists_of, ms, secs};
use crate::Object;
use crate::reflector::Recovery;
use crate::reflector::testing::*;
use crate::source::{ListPart, SourceError};

fn node() -> Object {
    pod_from(r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","resourceVersion":"77"}}"#)
}

/// A list of an object of another kind.
fn list_of_nodes(version: &str) -> ListAnswer {
    ListAnswer::Parts(vec![Ok(ListPart::Object(node())), end(version, "")])
}

/// The error of an object whose name is unreadable too.
fn nameless() -> StreamError {
    let mut error = unreadable("a");
    if let StreamError::Object { key, .. } = &mut error {
        *key = None;
    }
    error
}

#[tokio::test(start_paused = true)]
async fn sec_82_a_list_is_limited_over_all_its_pages() {
    for bytes in [false, true] {
        let script = listed_at_ten()
            .watch(closed(vec![], ms(10)))
            .list(page(&[("a", "1"), ("b", "2")], "20", "x"))
            .list(page(&[("c", "3")], "20", "y"))
            .list(page(&[("d", "4")], "20", "z"));
        let fixture = ReflectorFixture::with(script, |builder| match bytes {
            true => builder.watch_list(false).max_list_bytes(200),
            false => builder.watch_list(false).max_list_objects(3),
        });
        fixture.pass(secs(1)).await;
        let errors = fixture.errors();
        assert!(errors[1].contains("max_list_objects") && errors[1].contains("max_list_bytes"), "{errors:?}");
        assert_eq!(fixture.nexts()[1], Recovery::Relist { after: ms(1600) });
        assert_eq!(fixture.store.stored(), ["a@1"], "the store stays as it is");
        assert_eq!(fixture.status.report().listed, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn sec_82_unreadable_and_skipped_objects_count() {
    let mut script = Script::default();
    for number in 0..10 {
        let parts = vec![
            Ok(ListPart::Unreadable(unreadable("x"))),
            Ok(ListPart::Object(pod("rejected", "1"))),
            end("20", &number.to_string()),
        ];
        script = script.list(ListAnswer::Parts(parts));
    }
    let fixture = ReflectorFixture::with(script, |builder| {
        builder.watch_list(false).max_list_objects(5).transform(|_| Err("no".into()))
    });
    fixture.settle().await;
    assert!(fixture.errors().last().unwrap().contains("6 objects"), "{:?}", fixture.errors());
    assert_eq!(lists_of(&fixture), 3);
}

#[tokio::test(start_paused = true)]
async fn sec_82_pages_without_progress_are_an_error() {
    let script =
        Script::default().list(page(&[("a", "1")], "20", "x")).list(page(&[], "", "y")).list(page(&[], "", "x"));
    let fixture = ReflectorFixture::listing(script);
    fixture.settle().await;
    assert_eq!(fixture.errors(), ["endless list: a continue token repeats"]);
    let mut script = Script::default();
    for number in 0..200 {
        script = script.list(page(&[], "20", &number.to_string()));
    }
    let fixture = ReflectorFixture::listing(script);
    fixture.settle().await;
    assert_eq!(fixture.errors(), ["endless list: 101 pages have no objects"]);
    assert_eq!(lists_of(&fixture), 101);
}

#[tokio::test(start_paused = true)]
async fn sec_82_the_initial_events_of_a_watch_list_are_limited() {
    let events = (0..10).map(|number| added(&number.to_string(), "1")).collect();
    let script = Script::default().watch(open(events)).watch(open(vec![added("a", "1"), added("a", "2"), all("2")]));
    let fixture = ReflectorFixture::with(script, |builder| builder.max_list_objects(3));
    fixture.settle().await;
    assert!(fixture.errors()[0].contains("4 objects"), "{:?}", fixture.errors());
    assert!(fixture.store.stored().is_empty());
    fixture.pass(secs(1)).await;
    assert_eq!(fixture.store.stored(), ["a@2"], "the next attempt succeeds");
}

#[tokio::test(start_paused = true)]
async fn sec_83_a_list_with_an_object_of_another_kind_does_not_change_the_store() {
    let script =
        listed_at_ten().watch(closed(vec![], ms(10))).list(list_of_nodes("20")).list(list(&[("b", "21")], "21"));
    let fixture = ReflectorFixture::listing(script.watch(open(vec![])));
    fixture.pass(secs(1)).await;
    assert_eq!(fixture.errors()[1], "expected v1 Pod, but n is v1 Node");
    assert_eq!(fixture.store.stored(), ["a@1"]);
    fixture.pass(secs(2)).await;
    assert_eq!(fixture.store.stored(), ["b@21"]);
}

#[tokio::test(start_paused = true)]
async fn sec_83_a_watch_list_with_an_object_of_another_kind_does_not_change_the_store() {
    let script = Script::default()
        .watch(closed(vec![added("a", "1"), all("5")], ms(10)))
        .watch(closed(vec![], ms(10)))
        .watch(open(vec![Ok(WatchEvent::Added(node())), all("20")]));
    let fixture = ReflectorFixture::streaming(script);
    fixture.pass(secs(1)).await;
    assert_eq!(fixture.errors().last().unwrap(), "expected v1 Pod, but n is v1 Node");
    assert_eq!(fixture.store.stored(), ["a@1"]);
}

#[tokio::test(start_paused = true)]
async fn sec_83_a_list_with_a_nameless_object_deletes_nothing() {
    let script = listed_at_ten()
        .watch(closed(vec![], ms(10)))
        .list(ListAnswer::Parts(vec![Ok(ListPart::Unreadable(nameless())), end("20", "")]))
        .list(list(&[("a", "1")], "21"))
        .watch(open(vec![]));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(secs(1)).await;
    assert_eq!(fixture.nexts()[1], Recovery::Relist { after: ms(1600) });
    fixture.pass(secs(2)).await;
    assert_eq!(
        (fixture.store.stored(), fixture.status.last_sync_resource_version()),
        (vec!["a@1".into()], "21".into())
    );
    assert!(!fixture.diary.writes().iter().any(|write| matches!(write, Entry::Delete(_))));
    let script = Script::default()
        .watch(closed(vec![added("a", "1"), all("5")], ms(10)))
        .watch(closed(vec![], ms(10)))
        .watch(open(vec![Err(SourceError::Unreadable(nameless())), all("20")]));
    let fixture = ReflectorFixture::streaming(script);
    fixture.pass(secs(1)).await;
    assert_eq!((fixture.store.stored(), fixture.status.report().decode_failures), (vec!["a@1".into()], 1));
}

#[tokio::test(start_paused = true)]
async fn sec_83_a_first_list_without_a_nameless_object_is_followed_by_a_relist() {
    let first = ListAnswer::Parts(vec![
        Ok(ListPart::Unreadable(nameless())),
        Ok(ListPart::Object(pod("b", "2"))),
        end("10", ""),
    ]);
    let script = Script::default()
        .list(first)
        .watch(open(vec![]))
        .list(list(&[("a", "1"), ("b", "2")], "10"))
        .watch(open(vec![]));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(secs(29)).await;
    assert_eq!(fixture.store.stored(), ["b@2"]);
    fixture.pass(secs(2)).await;
    assert_eq!(fixture.store.stored(), ["a@1", "b@2"]);
    let script = Script::default()
        .watch(open(vec![Err(SourceError::Unreadable(nameless())), added("b", "2"), all("10")]))
        .watch(open(vec![added("a", "1"), added("b", "2"), all("10")]));
    let fixture = ReflectorFixture::streaming(script);
    fixture.pass(secs(31)).await;
    assert_eq!(fixture.store.stored(), ["a@1", "b@2"]);
}

#[tokio::test(start_paused = true)]
async fn sec_83_an_event_of_another_kind_is_skipped_and_causes_a_relist_later() {
    let script = listed_at_ten()
        .watch(open(vec![Ok(WatchEvent::Deleted(node())), added("b", "11")]))
        .list(list(&[("a", "1"), ("b", "11")], "12"))
        .watch(open(vec![]));
    let fixture = ReflectorFixture::listing(script);
    fixture.settle().await;
    assert_eq!(
        (fixture.store.stored(), fixture.nexts()),
        (vec!["a@1".into(), "b@11".into()], vec![Recovery::Continue])
    );
    fixture.pass(secs(29)).await;
    assert_eq!(lists_of(&fixture), 1);
    fixture.pass(secs(2)).await;
    assert_eq!(lists_of(&fixture), 2, "the event was about some object");
}

#[tokio::test(start_paused = true)]
async fn sec_84_a_request_without_a_response_is_reported() {
    let (logs, _guard) = Logs::listen();
    let fixture = ReflectorFixture::listing(Script::default().list(ListAnswer::Hang));
    fixture.pass(secs(11)).await;
    assert_eq!(logs.lines(), ["WARN no response to the list; still waiting"]);
    assert_eq!(fixture.status.report().stalls, 1);
    fixture.pass(secs(20)).await;
    assert_eq!(fixture.status.report().stalls, 2);
    let fixture = ReflectorFixture::listing(listed_at_ten().watch(WatchAnswer::Hang));
    fixture.pass(secs(11)).await;
    assert_eq!(logs.lines().last().unwrap(), "WARN no response to the watch; still waiting");
    assert_eq!(fixture.status.report().stalls, 1);
    let fixture = ReflectorFixture::listing(listed_at_ten().watch(open(vec![])));
    fixture.pass(secs(100)).await;
    assert_eq!(fixture.status.report().stalls, 0, "a watch may be silent once it is open");
}
