//! Effects of watch events.

use evenkeel_core::{StreamError, WatchEvent};

use super::{listed_at_ten, lists_of, ms, secs};
use crate::delta::Delta;
use crate::reflector::Recovery;
use crate::reflector::testing::*;
use crate::source::SourceError;

#[tokio::test(start_paused = true)]
async fn ref_042_each_event_is_one_write() {
    let events = vec![added("b", "11"), modified("a", "12"), deleted("b", "13"), bookmark("14")];
    let fixture = ReflectorFixture::listing(listed_at_ten().watch(open(events)));
    fixture.settle().await;
    let writes = fixture.diary.writes();
    assert_eq!(
        writes[1..],
        [
            Entry::Add("b@11".into()),
            Entry::Update("a@12".into()),
            Entry::Delete("b@13".into()),
            Entry::Bookmark("14".into()),
        ]
    );
    assert_eq!(fixture.status.last_sync_resource_version(), "14");
}

#[tokio::test(start_paused = true)]
async fn ref_042_available_events_are_written_and_flushed_once() {
    let events = (0..2500).map(|number| modified("a", &(11 + number).to_string())).collect();
    let fixture = ReflectorFixture::listing(listed_at_ten().watch(open(events)));
    fixture.settle().await;
    let entries = fixture.diary.entries();
    let mut since = 0;
    let mut longest = 0;
    for entry in entries {
        match entry {
            Entry::Update(_) => since += 1,
            Entry::Flush => since = 0,
            _ => {}
        }
        longest = longest.max(since);
    }
    assert_eq!(since, 0, "in the end all is flushed");
    assert!(longest <= 1000 && longest > 1, "{longest}");
}

#[tokio::test(start_paused = true)]
async fn ref_043_events_of_another_kind_are_ignored() {
    let other_kind = || pod_from(r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","resourceVersion":"77"}}"#);
    let script = listed_at_ten().watch(closed(vec![Ok(WatchEvent::Added(other_kind()))], ms(10))).list(list(&[], "11"));
    let fixture = ReflectorFixture::listing(script);
    fixture.settle().await;
    assert_eq!(fixture.store.stored(), ["a@1"]);
    assert_eq!(fixture.status.last_sync_resource_version(), "10");
    fixture.pass(secs(1)).await;
    assert_eq!(lists_of(&fixture), 2, "so it was a very short watch");
}

#[tokio::test(start_paused = true)]
async fn ref_044_an_event_of_an_unknown_type_ends_the_watch() {
    let unknown = || Err(SourceError::Unreadable(StreamError::UnknownEvent { offset: 0, event: "RENAMED".into() }));
    let script =
        listed_at_ten().watch(open(vec![unknown(), added("b", "11")])).list(list(&[], "12")).watch(open(vec![]));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(secs(1)).await;
    assert_eq!(fixture.diary.requests()[2], Entry::List("10".into(), String::new(), 0));
    assert_eq!(fixture.nexts(), [Recovery::Relist { after: ms(800) }]);
}

#[tokio::test(start_paused = true)]
async fn ref_045_a_failed_write_causes_a_relist() {
    for write in ["add", "flush"] {
        let script = listed_at_ten();
        let events = script.live();
        let script = script.list(list(&[("a", "1"), ("b", "11")], "12")).watch(open(vec![]));
        let fixture = ReflectorFixture::listing(script);
        fixture.settle().await;
        fixture.store.failing.lock().unwrap().push(write);
        events.send(added("b", "11")).unwrap();
        fixture.settle().await;
        assert_eq!(fixture.nexts(), [Recovery::Relist { after: ms(800) }], "{write}");
        fixture.pass(secs(1)).await;
        assert_eq!(fixture.store.stored(), ["a@1", "b@11"]);
    }
}

#[tokio::test(start_paused = true)]
async fn ref_046_the_version_follows_events_and_bookmarks() {
    let script = Script::default().list(list(&[], "1"));
    let events = script.live();
    let fixture = ReflectorFixture::listing(script);
    for (event, version) in
        [(added("a", "10"), "10"), (modified("a", "20"), "20"), (bookmark("30"), "30"), (deleted("a", "40"), "40")]
    {
        events.send(event).unwrap();
        fixture.settle().await;
        assert_eq!(fixture.status.last_sync_resource_version(), version);
    }
}

#[tokio::test(start_paused = true)]
async fn ref_047_the_version_is_that_of_the_last_event_not_the_largest() {
    let fixture =
        ReflectorFixture::listing(listed_at_ten().watch(open(vec![modified("a", "55"), modified("a", "32")])));
    fixture.settle().await;
    assert_eq!(fixture.status.last_sync_resource_version(), "32");
}

#[tokio::test(start_paused = true)]
async fn ref_049_the_version_advances_on_write_not_on_read() {
    let fixture = ReflectorFixture::listing(listed_at_ten().watch(open(vec![modified("a", "11")])));
    fixture.settle().await;
    let entries = fixture.diary.entries();
    let written = entries.iter().position(|entry| *entry == Entry::Update("a@11".into())).unwrap();
    assert!(entries[written..].contains(&Entry::Flush), "the store decides when it is seen");
    assert_eq!(fixture.status.last_sync_resource_version(), "11");
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_event_is_skipped_and_relisted_later() {
    let script = listed_at_ten();
    let events = script.live();
    let script = script.list(list(&[("a", "1")], "20"));
    let more = script.live();
    let fixture = ReflectorFixture::listing(script.list(list(&[], "30")).watch(open(vec![])));
    let unreadable = |name| Err(SourceError::Unreadable(unreadable(name)));
    events.send(unreadable("a")).unwrap();
    events.send(added("b", "11")).unwrap();
    fixture.settle().await;
    assert_eq!(fixture.store.stored(), ["a@1", "b@11"]);
    assert_eq!((fixture.status.report().decode_failures, lists_of(&fixture)), (1, 1));
    fixture.pass(secs(31)).await;
    assert_eq!(lists_of(&fixture), 2, "it may have been deleted");
    more.send(unreadable("a")).unwrap();
    fixture.pass(secs(300)).await;
    assert_eq!(lists_of(&fixture), 2, "not so soon again");
    more.send(added("c", "21")).unwrap();
    fixture.pass(secs(400)).await;
    assert_eq!(lists_of(&fixture), 3);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_event_without_key_causes_a_relist() {
    let mut nameless = unreadable("a");
    if let StreamError::Object { key, .. } = &mut nameless {
        *key = None;
    }
    let script = listed_at_ten().watch(open(vec![Err(SourceError::Unreadable(nameless))])).list(list(&[], "11"));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(secs(1)).await;
    assert_eq!((lists_of(&fixture), fixture.status.report().decode_failures), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_applied_even_if_the_transform_fails() {
    let script = listed_at_ten().watch(open(vec![deleted("a", "11"), deleted("never", "12")]));
    let fixture = ReflectorFixture::with(script, |builder| {
        builder.watch_list(false).transform(|object| match object.resource_version() {
            "11" | "12" => Err("no".into()),
            _ => Ok(object),
        })
    });
    fixture.settle().await;
    assert!(fixture.store.stored().is_empty());
    assert_eq!(fixture.diary.writes()[1..], [Entry::Delete("a@1".into())], "as it was last known");
}

#[tokio::test(start_paused = true)]
async fn the_same_version_with_other_contents_is_still_written() {
    let relabelled = pod_from(
        r#"{"metadata":{"namespace":"ns","name":"a","uid":"uid-a","resourceVersion":"1","labels":{"x":"y"}}}"#,
    );
    let fixture = ReflectorFixture::listing(listed_at_ten().watch(open(vec![Ok(WatchEvent::Modified(relabelled))])));
    fixture.settle().await;
    assert_eq!(fixture.store.objects.lock().unwrap()[0].label("x"), Some("y"));
}

#[tokio::test(start_paused = true)]
async fn ref_005_a_sink_need_not_implement_every_method() {
    /// A sink with the required methods only.
    struct Least(Vec<String>);
    impl crate::reflector::DeltaSink for Least {
        fn push(&mut self, delta: Delta) -> Result<(), crate::reflector::SinkError> {
            match delta {
                Delta::ReplacedAll { objects, .. } => self.0.extend(objects.iter().map(shown)),
                delta => self.0.extend(delta.object().map(shown)),
            }
            Ok(())
        }
    }
    let script = listed_at_ten().watch(open(vec![bookmark("11"), modified("a", "12")]));
    let mut reflector =
        crate::reflector::Reflector::builder(std::sync::Arc::new(script), pods()).watch_list(false).build();
    let mut store = Least(Vec::new());
    let _ = tokio::time::timeout(secs(1), reflector.run(&mut store)).await;
    assert_eq!(store.0, ["a@1", "a@12"]);
}
