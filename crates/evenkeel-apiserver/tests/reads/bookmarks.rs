//! Bookmarks: when they are sent, and what they contain.

use evenkeel_apiserver::ServerVersion;
use serde_json::json;
use tokio::time::Instant;

use crate::api::{Api, CONFIG_MAPS, METADATA, pass};

const INITIAL: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";

#[tokio::test(start_paused = true)]
async fn wat_15_bookmarks_are_sent_on_request_and_carry_only_a_version() {
    let api = Api::start().await;
    let a = api.add("a", json!({})).await;
    let query = format!("resourceVersion={a}");
    let mut without = api.watch(&format!("{CONFIG_MAPS}?{query}")).await;
    let mut with = api.watch(&format!("{CONFIG_MAPS}?{query}&allowWatchBookmarks=true")).await;
    let mut partial = api.watch_as(METADATA, &format!("{CONFIG_MAPS}?{query}&allowWatchBookmarks=true")).await;
    pass(61).await;
    assert!(without.is_silent());
    let bookmark = with.ready().unwrap();
    assert_eq!(bookmark.kind, "BOOKMARK");
    let metadata = json!({"resourceVersion": a.to_string()});
    assert_eq!(bookmark.object, json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}));
    let bookmark = partial.ready().unwrap();
    let expected = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
    assert_eq!((bookmark.kind.as_str(), bookmark.object), ("BOOKMARK", expected));
}

#[tokio::test(start_paused = true)]
async fn wat_16_the_end_of_the_initial_events_is_marked_once() {
    let api = Api::start().await;
    api.add("a", json!({})).await;
    // The newest revision is that of another resource, and of an object that is not selected.
    api.add_namespace("other").await;
    let newest = api.add("b", json!({"not": "selected"})).await;
    let path =
        format!("{CONFIG_MAPS}?{INITIAL}&allowWatchBookmarks=true&labelSelector=%21not&resourceVersion={newest}");
    let mut watch = api.watch(&path).await;
    assert_eq!(watch.ready().unwrap().to_string(), "ADDED a");
    let end = watch.ready().unwrap();
    assert!(end.ends_initial_events());
    assert_eq!(end.version(), newest);
    for _ in 0..5 {
        pass(61).await;
        let bookmark = watch.ready().unwrap();
        assert!(bookmark.kind == "BOOKMARK" && !bookmark.ends_initial_events());
    }
    let mut empty = api.watch(&format!("/api/v1/secrets?{INITIAL}&allowWatchBookmarks=true")).await;
    assert!(empty.ready().unwrap().ends_initial_events(), "nothing is something to know the end of");
    let mut unasked = api.watch(&format!("{CONFIG_MAPS}?allowWatchBookmarks=true")).await;
    assert_eq!(unasked.ready().unwrap().to_string(), "ADDED a");
    assert_eq!(unasked.ready().unwrap().to_string(), "ADDED b");
    assert!(
        unasked.ready().unwrap().ends_initial_events(),
        "a watch without a version requests initial events (WAT-5)"
    );
    assert!(unasked.is_silent());
}

#[tokio::test(start_paused = true)]
async fn wat_17_bookmarks_are_sent_every_minute_and_before_the_end() {
    let api = Api::start().await;
    let start = Instant::now();
    let now = api.now().await;
    let path = format!("{CONFIG_MAPS}?resourceVersion={now}&allowWatchBookmarks=true&timeoutSeconds=200");
    let mut watch = api.watch(&path).await;
    let mut times = Vec::new();
    while let Some(event) = watch.next().await {
        assert_eq!(event.kind, "BOOKMARK");
        times.push(start.elapsed().as_secs());
    }
    assert_eq!(times, [60, 120, 180, 198]);
    assert_eq!(start.elapsed().as_secs(), 200);
}

#[tokio::test(start_paused = true)]
async fn wat_18_a_bookmark_is_never_ahead_of_what_is_not_delivered() {
    let api = Api::start().await;
    let start = api.now().await;
    let path = format!("{CONFIG_MAPS}?resourceVersion={start}&allowWatchBookmarks=true");
    let mut watch = api.watch(&path).await;
    assert!(watch.is_silent());
    let mut written = Vec::new();
    for number in 0..200 {
        written.push(api.add(&format!("o{number}"), json!({})).await);
    }
    // A bookmark is overdue when the reader polls again.
    pass(100).await;
    let mut delivered = start;
    let mut bookmarks = 0;
    while let Some(event) = watch.ready() {
        match event.kind.as_str() {
            "ADDED" => {
                assert_eq!(Some(&event.version()), written.first(), "nothing is missing before it");
                written.remove(0);
                delivered = event.version();
            }
            "BOOKMARK" => {
                bookmarks += 1;
                assert!(written.first().is_none_or(|next| event.version() < *next), "{event:?} before {written:?}");
                assert!(event.version() >= delivered, "bookmarks do not decrease");
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!((written.len(), bookmarks), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn wat_18_bookmarks_of_a_lagging_replica_lag_too() {
    let api = Api::start().await;
    let start = api.add("a", json!({})).await;
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?resourceVersion={start}&allowWatchBookmarks=true")).await;
    api.faults().lag_replica(3);
    for name in ["b", "c", "d", "e"] {
        api.add(name, json!({})).await;
    }
    assert_eq!(watch.all_ready(), ["ADDED b"]);
    pass(61).await;
    let bookmark = watch.ready().unwrap();
    assert_eq!((bookmark.kind.as_str(), bookmark.version()), ("BOOKMARK", start + 1));
    api.faults().lag_replica(0);
    assert_eq!(watch.all_ready(), ["ADDED c", "ADDED d", "ADDED e"]);
}

#[tokio::test(start_paused = true)]
async fn wat_19_a_quiet_resource_stays_resumable() {
    let api = Api::with(|builder| builder.history(4)).await;
    let start = api.now().await;
    let mut watch = api.watch(&format!("/api/v1/secrets?resourceVersion={start}&allowWatchBookmarks=true")).await;
    for number in 0..10 {
        api.add(&format!("o{number}"), json!({})).await;
    }
    pass(61).await;
    let bookmark = watch.ready().unwrap();
    assert_eq!(bookmark.version(), start + 10, "the counter of all resources");
    let mut resumed = api.watch(&format!("/api/v1/secrets?resourceVersion={}", bookmark.version())).await;
    assert!(resumed.is_silent());
}

#[tokio::test(start_paused = true)]
async fn wat_19_a_watch_whose_selection_is_quiet_stays_resumable() {
    let api = Api::with(|builder| builder.history(4)).await;
    let start = api.now().await;
    let path = format!("{CONFIG_MAPS}?labelSelector=never&allowWatchBookmarks=true");
    let watch = api.watch(&format!("{path}&resourceVersion={start}")).await;
    let reader = tokio::spawn(async move {
        let mut watch = watch;
        watch.next().await
    });
    for number in 0..20 {
        api.add(&format!("o{number}"), json!({})).await;
        tokio::task::yield_now().await;
    }
    let bookmark = reader.await.unwrap().unwrap();
    assert_eq!((bookmark.kind.as_str(), bookmark.version()), ("BOOKMARK", start + 20));
}

#[tokio::test(start_paused = true)]
async fn arc_7_wat_40_a_server_of_1_33_refuses_initial_events() {
    let api = Api::with(|builder| builder.version(ServerVersion::V1_33)).await;
    assert_eq!(api.get("/version").await.ok()["gitVersion"], "v1.33.0+evenkeel");
    api.add("a", json!({})).await;
    let asked = format!("{CONFIG_MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    let refusal = api.refused_watch(&asked).await.refused(422);
    assert!(refusal.ends_with(
        "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is \
         enabled"
    ));
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?allowWatchBookmarks=true")).await;
    assert_eq!(watch.all_ready(), ["ADDED a"], "and no bookmark that ends them");

    for version in [ServerVersion::V1_32, ServerVersion::V1_34] {
        let api = Api::with(|builder| builder.version(version)).await;
        let mut watch = api.watch(&format!("{asked}&allowWatchBookmarks=true")).await;
        assert_eq!(watch.ready().unwrap().kind, "BOOKMARK", "{version:?}");
    }
}
