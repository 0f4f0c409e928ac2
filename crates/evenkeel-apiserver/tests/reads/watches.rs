//! Watches: where they start, what they send, and how they end.

use std::time::Duration;

use evenkeel_apiserver::{Action, ExpireForm, Faults, Rule, WatchAction};
use evenkeel_core::{Reason, Status};
use serde_json::json;
use tokio::time::Instant;
use tower_service::Service as _;

use crate::api::{Api, CONFIG_MAPS, DEFINITIONS, PODS, WIDGETS, Watch, pass, pod, widget, widget_definition};

const INITIAL: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
const NO_INITIAL: &str = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan";

#[tokio::test(start_paused = true)]
async fn wat_2_an_event_is_one_line_of_type_and_object() {
    let api = Api::start().await;
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?{INITIAL}&allowWatchBookmarks=true")).await;
    assert!(watch.ready().unwrap().ends_initial_events());
    api.add("a", json!({})).await;
    let frame = watch.frame().await;
    let text = std::str::from_utf8(&frame).unwrap();
    assert!(
        text.starts_with("{\"type\":\"ADDED\",\"object\":{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\","),
        "{text}"
    );
    assert!(text.ends_with("}}\n") && text.matches('\n').count() == 1, "{text}");
}

#[tokio::test(start_paused = true)]
async fn wat_3_events_are_sent_in_order_and_once() {
    let api = Api::start().await;
    let start = api.now().await;
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?resourceVersion={start}")).await;
    let mut expected = Vec::new();
    for round in 0..3 {
        for name in ["c", "a", "b"] {
            expected.push(match round {
                0 => api.add(name, json!({})).await,
                _ => api.touch(name, &round.to_string()).await,
            });
        }
    }
    let seen: Vec<u64> = std::iter::from_fn(|| watch.ready()).map(|event| event.version()).collect();
    assert_eq!(seen, expected);
    let mut watch = api.watch(CONFIG_MAPS).await;
    assert_eq!(watch.all_ready(), ["ADDED a", "ADDED b", "ADDED c"], "initial events are in the order of the keys");
}

#[tokio::test(start_paused = true)]
async fn wat_4_a_deleted_object_is_shown_as_it_was_at_the_version_of_its_deletion() {
    let api = Api::start().await;
    api.add("a", json!({"k": "v"})).await;
    let last = api.touch("a", "last").await;
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?resourceVersion={last}")).await;
    api.remove("a").await;
    let event = watch.ready().unwrap();
    assert_eq!(event.kind, "DELETED");
    assert_eq!((&event.object["kind"], &event.object["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    assert_eq!((&event.object["data"]["k"], event.version()), (&json!("last"), last + 1));
    assert_eq!(event.version(), api.now().await);
}

#[tokio::test(start_paused = true)]
async fn wat_5_without_a_version_a_watch_starts_with_the_initial_events() {
    let api = Api::start().await;
    api.add("a", json!({})).await;
    api.add("b", json!({})).await;
    for query in ["", "?resourceVersion=0"] {
        let mut watch = api.watch(&format!("{CONFIG_MAPS}{query}")).await;
        assert_eq!(watch.all_ready(), ["ADDED a", "ADDED b"]);
        api.touch("a", query).await;
        assert_eq!(watch.all_ready(), ["MODIFIED a"]);
    }
    // A lagging replica serves version 0 from what it has, and no version from the latest revision.
    api.faults().lag_replica(2);
    api.remove("b").await;
    api.add("c", json!({})).await;
    assert_eq!(api.watch(CONFIG_MAPS).await.all_ready(), ["ADDED a", "ADDED c"]);
    let mut stale = api.watch(&format!("{CONFIG_MAPS}?resourceVersion=0")).await;
    assert_eq!(stale.all_ready(), ["ADDED a", "ADDED b"]);
    api.faults().lag_replica(0);
    assert_eq!(stale.all_ready(), ["DELETED b", "ADDED c"]);
}

#[tokio::test(start_paused = true)]
async fn flt_5_a_frozen_replica_shows_nothing_later() {
    let api = Api::start().await;
    let a = api.add("a", json!({})).await;
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?resourceVersion={a}")).await;
    api.faults().freeze_replica(Some(a));
    api.add("b", json!({})).await;
    api.add("c", json!({})).await;
    assert!(watch.is_silent());
    let mut stale = api.watch(&format!("{CONFIG_MAPS}?resourceVersion=0")).await;
    assert_eq!(stale.all_ready(), ["ADDED a"]);
    assert_eq!(api.watch(CONFIG_MAPS).await.all_ready(), ["ADDED a", "ADDED b", "ADDED c"]);
    api.faults().freeze_replica(None);
    assert_eq!(watch.all_ready(), ["ADDED b", "ADDED c"]);
    assert_eq!(stale.all_ready(), ["ADDED b", "ADDED c"]);
}

#[tokio::test(start_paused = true)]
async fn flt_1_a_service_injects_faults_into_its_own_requests() {
    let api = Api::start().await;
    let down = Status::failure(503, Reason::SERVICE_UNAVAILABLE, "down");
    let mut broken = api.service().injecting([Action::Status(Box::new(down))]);
    let request = || http::Request::get(CONFIG_MAPS).body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap();
    assert_eq!(broken.call(request()).await.unwrap().status(), 503);
    assert_eq!(api.service().call(request()).await.unwrap().status(), 200);
    assert_eq!(api.faults().counts()["status"], 1);
}

#[tokio::test(start_paused = true)]
async fn wat_6_from_a_version_only_later_events_are_sent() {
    let api = Api::start().await;
    let first = api.add("a", json!({})).await;
    api.add("b", json!({})).await;
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?resourceVersion={first}")).await;
    assert_eq!(watch.all_ready(), ["ADDED b"]);
}

#[tokio::test(start_paused = true)]
async fn wat_6_a_watch_ahead_of_a_replica_sends_nothing_until_then() {
    let api = Api::start().await;
    api.add("a", json!({})).await;
    api.faults().lag_replica(2);
    let b = api.add("b", json!({})).await;
    let opened = Instant::now();
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?resourceVersion={b}&allowWatchBookmarks=true")).await;
    assert_eq!(opened.elapsed(), Duration::ZERO);
    pass(130).await;
    assert!(watch.is_silent(), "neither earlier events nor a bookmark before the replica reaches the revision");
    api.add("c", json!({})).await;
    api.add("d", json!({})).await;
    assert!(watch.is_silent());
    api.faults().lag_replica(0);
    assert_eq!(watch.all_ready(), ["ADDED c", "ADDED d"]);
}

#[tokio::test(start_paused = true)]
async fn wat_6_a_watch_from_a_version_that_was_never_issued_receives_410() {
    let api = Api::start().await;
    let now = api.now().await;
    let opened = Instant::now();
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?resourceVersion={}", now + 1)).await;
    let error = watch.ready().unwrap();
    assert_eq!(
        (error.kind.as_str(), &error.object["code"], &error.object["reason"]),
        ("ERROR", &json!(410), &json!("Expired"))
    );
    assert_eq!(error.object["message"], format!("too large resource version: {} ({now})", now + 1));
    assert!(watch.has_ended());
    assert_eq!(opened.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn wat_7_initial_events_are_the_present_then_its_bookmark_then_changes() {
    let api = Api::start().await;
    api.add("a", json!({})).await;
    let b = api.add("b", json!({})).await;
    for version in [String::new(), "&resourceVersion=0".into(), format!("&resourceVersion={}", b - 1)] {
        let mut watch = api.watch(&format!("{CONFIG_MAPS}?{INITIAL}&allowWatchBookmarks=true{version}")).await;
        assert_eq!(watch.ready().unwrap().to_string(), "ADDED a");
        assert_eq!(watch.ready().unwrap().to_string(), "ADDED b");
        let end = watch.ready().unwrap();
        assert!(end.ends_initial_events() && end.version() >= b, "{end:?}");
        assert!(watch.is_silent());
        api.touch("a", &version).await;
        assert_eq!(watch.all_ready(), ["MODIFIED a"]);
    }
    let mut unmarked = api.watch(&format!("{CONFIG_MAPS}?{INITIAL}")).await;
    assert_eq!(unmarked.all_ready(), ["ADDED a", "ADDED b"], "no bookmark without allowWatchBookmarks");
}

#[tokio::test(start_paused = true)]
async fn wat_7_err_12_initial_events_wait_for_a_future_version() {
    let api = Api::start().await;
    api.add("a", json!({})).await;
    let now = api.now().await;
    let path = format!("{CONFIG_MAPS}?{INITIAL}&resourceVersion={}", now + 1);
    let start = Instant::now();
    let mut watch = api.watch(&path).await;
    let event = watch.ready().unwrap();
    assert_eq!(start.elapsed().as_secs(), 3);
    assert_eq!((event.kind.as_str(), &event.object["code"]), ("ERROR", &json!(504)));
    assert_eq!(event.object["message"], format!("Timeout: Too large resource version: {}, current: {now}", now + 1));
    assert_eq!(event.object["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert!(watch.has_ended());
    let (mut watch, _) = tokio::join!(api.watch(&path), async {
        pass(1).await;
        api.add("b", json!({})).await
    });
    assert_eq!(watch.all_ready(), ["ADDED a", "ADDED b"]);
}

#[tokio::test(start_paused = true)]
async fn wat_8_without_initial_events_a_watch_starts_after_the_latest_revision() {
    let api = Api::start().await;
    let a = api.add("a", json!({})).await;
    api.add("b", json!({})).await;
    for version in ["", "&resourceVersion=0"] {
        let mut watch = api.watch(&format!("{CONFIG_MAPS}?{NO_INITIAL}{version}")).await;
        assert!(watch.is_silent());
        api.touch("a", version).await;
        assert_eq!(watch.all_ready(), ["MODIFIED a"]);
    }
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?{NO_INITIAL}&resourceVersion={a}")).await;
    assert_eq!(watch.all_ready(), ["ADDED b", "MODIFIED a", "MODIFIED a"]);
    // The latest revision of a replica is the last one it has applied.
    api.faults().lag_replica(1);
    let c = api.add("c", json!({})).await;
    let mut stale = api.watch(&format!("{CONFIG_MAPS}?{NO_INITIAL}&resourceVersion=0")).await;
    let mut fresh = api.watch(&format!("{CONFIG_MAPS}?{NO_INITIAL}")).await;
    api.faults().lag_replica(0);
    assert_eq!(stale.ready().unwrap().version(), c);
    assert!(fresh.is_silent());
}

#[tokio::test(start_paused = true)]
async fn wat_9_wat_12_wat_21_a_compacted_version_is_an_error_event_and_closes_the_watch() {
    let api = Api::with(|builder| builder.history(3)).await;
    let start = api.now().await;
    for number in 0..4 {
        api.add(&format!("o{number}"), json!({})).await;
    }
    let oldest = start + 2;
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?resourceVersion={start}")).await;
    let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("too old resource version: {start} ({})", oldest - 1), "reason": "Expired", "code": 410});
    let event = watch.ready().unwrap();
    assert_eq!((event.kind.as_str(), &event.object), ("ERROR", &expected));
    assert!(watch.has_ended(), "nothing follows an error");
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?resourceVersion={}", oldest - 1)).await;
    assert_eq!(watch.all_ready(), ["ADDED o1", "ADDED o2", "ADDED o3"], "the version that the error names is good");
}

#[tokio::test(start_paused = true)]
async fn wat_21_the_history_of_every_resource_starts_with_the_server() {
    let api = Api::start().await;
    let start = api.list(CONFIG_MAPS).await.version();
    // Others are written to before the first of these is; that loses nothing.
    api.add_namespace("other").await;
    let mut early = api.watch(&format!("{CONFIG_MAPS}?resourceVersion={start}")).await;
    api.add("a", json!({})).await;
    let mut late = api.watch(&format!("{CONFIG_MAPS}?resourceVersion={start}")).await;
    assert_eq!((early.all_ready(), late.all_ready()), (vec!["ADDED a".into()], vec!["ADDED a".into()]));
    let exact = format!("{CONFIG_MAPS}?resourceVersion={start}&resourceVersionMatch=Exact");
    assert_eq!(api.list(&exact).await.names(), Vec::<&str>::new());
    let mut before = api.watch(&format!("{CONFIG_MAPS}?resourceVersion={}", start - 1)).await;
    let error = before.ready().unwrap();
    assert_eq!(error.object["message"], format!("too old resource version: {} ({start})", start - 1));
}

#[tokio::test(start_paused = true)]
async fn wat_10_options_that_contradict_each_other_are_refused_before_the_stream() {
    let api = Api::start().await;
    let invalid = "ListOptions.meta.k8s.io \"\" is invalid: ";
    for (query, why) in [
        (
            "sendInitialEvents=true",
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            "resourceVersion=1&resourceVersionMatch=NotOlderThan",
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is \
             provided",
        ),
        (
            "sendInitialEvents=true&resourceVersionMatch=Exact",
            "resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"",
        ),
        (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x",
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
        ),
    ] {
        let response = api.refused_watch(&format!("{CONFIG_MAPS}?{query}")).await;
        assert_eq!(response.refused(422), format!("{invalid}{why}"), "{query}");
    }
    let response = api.refused_watch(&format!("{CONFIG_MAPS}?resourceVersion=x")).await;
    assert_eq!(response.body.get("reason"), None);
    assert_eq!(
        response.refused(500),
        "resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax"
    );
    api.faults().add(Faults::parse("status:code=429,retry-after=2,verb=watch").unwrap());
    let response = api.refused_watch(CONFIG_MAPS).await;
    assert_eq!((response.code, &response.headers["retry-after"]), (429, &"2".parse().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn wat_11_expiry_is_an_event_or_a_response() {
    let api = Api::start().await;
    api.add("a", json!({})).await;
    let rule = api.faults().add(Rule::watch(WatchAction::Expire { event: 0, form: ExpireForm::Http }));
    let response = api.refused_watch(CONFIG_MAPS).await;
    assert_eq!((response.code, &response.body["reason"]), (410, &json!("Expired")));
    api.faults().remove(rule);
    api.faults().add(Rule::watch(WatchAction::Expire { event: 0, form: ExpireForm::Event }));
    let mut watch = api.watch(CONFIG_MAPS).await;
    let event = watch.ready().unwrap();
    assert_eq!((event.kind.as_str(), &event.object["code"]), ("ERROR", &json!(410)));
    assert!(watch.has_ended());
}

#[tokio::test(start_paused = true)]
async fn wat_13_entering_and_leaving_a_selection_are_added_and_deleted() {
    let api = Api::start().await;
    let start = api.now().await;
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?labelSelector=sel%3Din&resourceVersion={start}")).await;
    let label = |value: &str| json!({"metadata": {"labels": {"sel": value}}});
    let path = format!("{CONFIG_MAPS}/a");
    api.add("a", json!({"sel": "out"})).await;
    assert!(watch.is_silent(), "no to no");
    api.patch(&path, label("in")).await.ok();
    assert_eq!(watch.all_ready(), ["ADDED a"], "no to yes");
    api.touch("a", "kept").await;
    assert_eq!(watch.all_ready(), ["MODIFIED a"], "yes to yes");
    let mut change = label("out");
    change["data"] = json!({"k": "new"});
    let left = crate::api::version(&api.patch(&path, change).await.ok());
    let event = watch.ready().unwrap();
    assert_eq!((event.to_string().as_str(), event.version()), ("DELETED a", left), "yes to no");
    assert_eq!(event.object["metadata"]["labels"]["sel"], "in", "the state before the change");
    assert_eq!(event.object["data"]["k"], "kept");
    api.touch("a", "unseen").await;
    api.remove("a").await;
    assert!(watch.is_silent(), "deletes of unselected objects are not sent");
    api.add("b", json!({"sel": "in"})).await;
    api.remove("b").await;
    assert_eq!(watch.all_ready(), ["ADDED b", "DELETED b"]);
}

#[tokio::test(start_paused = true)]
async fn wat_14_namespace_and_name_select_too() {
    let api = Api::start().await;
    api.add_namespace("other").await;
    let start = api.now().await;
    let query = format!("resourceVersion={start}");
    let mut everywhere = api.watch(&format!("/api/v1/configmaps?{query}")).await;
    let mut here = api.watch(&format!("{CONFIG_MAPS}?{query}")).await;
    let mut named = api.watch(&format!("{CONFIG_MAPS}?{query}&fieldSelector=metadata.name%3Da")).await;
    let path = format!("/api/v1/watch/namespaces/default/configmaps/a?{query}");
    let mut deprecated = Watch::new(api.send("GET", &path, &[], None).await.into_body());
    let mut named_anywhere = api.watch(&format!("/api/v1/configmaps?{query}&fieldSelector=metadata.name%3Da")).await;
    api.add("a", json!({})).await;
    api.add("ab", json!({})).await;
    api.add_to("other", "a", json!({})).await;
    assert_eq!(everywhere.all_ready(), ["ADDED a", "ADDED ab", "ADDED a"]);
    assert_eq!(here.all_ready(), ["ADDED a", "ADDED ab"]);
    assert_eq!(named_anywhere.all_ready(), ["ADDED a", "ADDED a"]);
    for watch in [&mut named, &mut deprecated] {
        assert_eq!(watch.all_ready(), ["ADDED a"]);
    }
    let mut initial = api.watch(&format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Da")).await;
    assert_eq!(initial.all_ready(), ["ADDED a"]);
}

#[tokio::test(start_paused = true)]
async fn wat_14_a_namespace_can_be_watched_by_its_name() {
    let api = Api::start().await;
    let mut named = api.watch("/api/v1/namespaces?fieldSelector=metadata.name%3Dblue").await;
    let mut by_path = Watch::new(api.send("GET", "/api/v1/watch/namespaces/blue", &[], None).await.into_body());
    for name in ["blue", "bluebell"] {
        api.add_namespace(name).await;
    }
    assert_eq!((named.all_ready(), by_path.all_ready()), (vec!["ADDED blue".into()], vec!["ADDED blue".into()]));
}

#[tokio::test(start_paused = true)]
async fn wat_14_a_watch_by_field_sends_added_and_deleted() {
    let api = Api::start().await;
    let mut watch = api.watch("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1").await;
    let mut unassigned = api.watch("/api/v1/pods?fieldSelector=spec.nodeName%3D").await;
    api.post(PODS, pod("a")).await.ok();
    assert!(watch.is_silent());
    let binding = json!({"kind": "Binding", "apiVersion": "v1", "metadata": {"name": "a"},
                         "target": {"kind": "Node", "name": "n1"}});
    api.post(&format!("{PODS}/a/binding"), binding).await.ok();
    assert_eq!(watch.all_ready(), ["ADDED a"]);
    assert_eq!(unassigned.all_ready(), ["ADDED a", "DELETED a"]);
}

#[tokio::test(start_paused = true)]
async fn wat_23_a_watch_ends_cleanly_when_its_time_is_up() {
    let api = Api::start().await;
    let ends_after = async |query: &str| {
        let start = Instant::now();
        let mut watch = api.watch(&format!("{CONFIG_MAPS}?{query}")).await;
        assert_eq!(watch.next().await, None);
        start.elapsed().as_secs_f64()
    };
    for seconds in [1.0, 5.0, 90.0] {
        let ended = ends_after(&format!("timeoutSeconds={seconds}")).await;
        assert!((seconds..seconds + 1.01).contains(&ended), "{seconds}: {ended}");
    }
    let mut defaults = Vec::new();
    for query in ["", "timeoutSeconds=0", ""] {
        let ended = ends_after(query).await;
        assert!((1800.0..3601.0).contains(&ended), "{ended}");
        defaults.push(ended as u64);
    }
    assert!(
        defaults[0] != defaults[1] || defaults[1] != defaults[2],
        "spread, so that clients do not reconnect at once"
    );
}

#[tokio::test(start_paused = true)]
async fn wat_24_the_shutdown_of_the_server_closes_its_watches() {
    let api = Api::start().await;
    let mut all = api.watch(CONFIG_MAPS).await;
    let mut one = api.watch(&format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Da")).await;
    let mut nodes = api.watch("/api/v1/nodes").await;
    let reader = tokio::spawn(async move { all.next().await });
    let start = Instant::now();
    api.shutdown().await;
    assert_eq!(reader.await.unwrap(), None);
    assert!(one.has_ended() && nodes.has_ended());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn wat_25_a_change_of_the_definition_ends_the_watches_of_its_resource() {
    let api = Api::start().await;
    let definition = api.post(DEFINITIONS, widget_definition()).await.ok();
    assert_eq!(definition["metadata"]["name"], "widgets.example.com");
    let mut first = api.watch(WIDGETS).await;
    let mut second = api.watch("/apis/example.com/v2/widgets").await;
    let mut others = api.watch(CONFIG_MAPS).await;
    let path = format!("{DEFINITIONS}/widgets.example.com");
    api.post(WIDGETS, widget("w", json!({}))).await.ok();
    api.patch(&path, json!({"spec": {"names": {"shortNames": ["wd"]}}})).await.ok();
    assert_eq!(first.all_ready(), ["ADDED w"], "events before the change are sent");
    assert!(first.has_ended());
    assert_eq!((second.all_ready(), second.has_ended()), (vec!["ADDED w".to_owned()], true));
    assert!(others.is_silent());
    let mut again = api.watch(WIDGETS).await;
    let mut late = api.watch(WIDGETS).await;
    assert_eq!(again.all_ready(), ["ADDED w"]);
    assert_eq!(late.all_ready(), ["ADDED w"]);
    api.patch(&path, json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    assert!(again.is_silent(), "a change that is not of the specification ends nothing");
    api.patch(&path, json!({"spec": {"names": {"categories": ["all"]}}})).await.ok();
    assert!(again.has_ended());
    for number in 0..200 {
        api.post(WIDGETS, widget(&format!("late-{number}"), json!({}))).await.ok();
    }
    late.all_ready();
    assert!(late.has_ended(), "a busy resource does not keep a closed watch open");
}

#[tokio::test(start_paused = true)]
async fn wat_25_the_deletion_of_the_definition_ends_its_watches_after_the_objects_are_deleted() {
    let api = Api::start().await;
    api.post(DEFINITIONS, widget_definition()).await.ok();
    api.post(WIDGETS, widget("a", json!({}))).await.ok();
    api.post(WIDGETS, widget("b", json!({}))).await.ok();
    let mut watch = api.watch(WIDGETS).await;
    let mut reader = api.watch(WIDGETS).await;
    assert_eq!(watch.all_ready(), ["ADDED a", "ADDED b"]);
    api.delete(&format!("{DEFINITIONS}/widgets.example.com")).await.ok();
    assert_eq!(watch.all_ready(), ["DELETED a", "DELETED b"]);
    assert!(watch.has_ended());
    assert_eq!(reader.all_ready(), ["ADDED a", "ADDED b", "DELETED a", "DELETED b"]);
    assert!(reader.has_ended());
    assert_eq!(api.get(WIDGETS).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn crd_13_a_watch_shows_every_object_in_its_own_version() {
    let api = Api::start().await;
    api.post(DEFINITIONS, widget_definition()).await.ok();
    let mut v1 = api.watch("/apis/example.com/v1/widgets").await;
    let mut v2 = api.watch("/apis/example.com/v2/widgets").await;
    api.post(WIDGETS, widget("old", json!({"color": "red"}))).await.ok();
    let mut newer = widget("new", json!({"color": "blue"}));
    newer["apiVersion"] = "example.com/v2".into();
    api.post("/apis/example.com/v2/namespaces/default/widgets", newer).await.ok();
    api.delete(&format!("{WIDGETS}/old")).await.ok();
    for (watch, version) in [(&mut v1, "example.com/v1"), (&mut v2, "example.com/v2")] {
        for expected in ["ADDED old", "ADDED new", "DELETED old"] {
            let event = watch.ready().unwrap();
            assert_eq!((event.to_string().as_str(), &event.object["apiVersion"]), (expected, &json!(version)));
        }
    }
    let mut late = api.watch("/apis/example.com/v2/widgets").await;
    assert_eq!(late.ready().unwrap().object["apiVersion"], "example.com/v2");
    for (version, path) in [("v1", WIDGETS), ("v2", "/apis/example.com/v2/widgets")] {
        let list = api.list(path).await;
        assert_eq!(list.0["kind"], "WidgetList");
        assert_eq!(list.0["items"][0]["apiVersion"], format!("example.com/{version}"));
        assert_eq!(list.0["items"][0]["kind"], "Widget");
    }
}

#[tokio::test(start_paused = true)]
async fn msc_1_events_expire_and_watches_see_it() {
    let api = Api::start().await;
    let event = json!({"kind": "Event", "apiVersion": "v1", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "Tested", "type": "Normal"});
    let path = "/api/v1/namespaces/default/events";
    api.post(path, event).await.ok();
    let mut core = api.watch(&format!("{path}?timeoutSeconds=9000")).await;
    let mut group = api.watch("/apis/events.k8s.io/v1/namespaces/default/events?timeoutSeconds=9000").await;
    assert_eq!((core.all_ready(), group.all_ready()), (vec!["ADDED e".into()], vec!["ADDED e".into()]));
    pass(3590).await;
    assert!(core.is_silent());
    pass(15).await;
    let (one, other) = (core.ready().unwrap(), group.ready().unwrap());
    assert_eq!((one.to_string().as_str(), &one.object["apiVersion"]), ("DELETED e", &json!("v1")));
    assert_eq!((other.to_string().as_str(), &other.object["apiVersion"]), ("DELETED e", &json!("events.k8s.io/v1")));
    assert_eq!(api.list(path).await.names(), Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn msc_1_events_may_be_kept_forever() {
    let api = Api::with(|builder| builder.event_ttl(None)).await;
    let event = json!({"kind": "Event", "apiVersion": "v1", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "Tested", "type": "Normal"});
    api.post("/api/v1/namespaces/default/events", event).await.ok();
    pass(4000).await;
    assert_eq!(api.list("/api/v1/events").await.names(), ["e"]);
}
