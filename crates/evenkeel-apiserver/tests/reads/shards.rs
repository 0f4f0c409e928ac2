//! Sharded lists and watches.

use std::collections::BTreeSet;

use evenkeel_core::shard::{PLACES, ShardField, ShardRange, ShardRanges, ShardSelector, place};
use serde_json::{Value, json};

use crate::api::{
    Api, CONFIG_MAPS, DEFINITIONS, List, METADATA_LIST, TABLE, WIDGETS, name, pass, version, widget, widget_definition,
};
use crate::wire::BINARY;

const EVERYWHERE: &str = "/api/v1/configmaps";
const INITIAL: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

async fn sharded() -> Api {
    Api::with(|builder| builder.sharded_lists(true)).await
}

/// Returns the parameter for a selector.
fn parameter(selector: impl ToString) -> String {
    let escaped = selector.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    format!("shardSelector={escaped}")
}

fn uids(range: impl Into<ShardRanges>) -> ShardSelector {
    ShardSelector::new(ShardField::Uid, range)
}

fn namespaces(range: impl Into<ShardRanges>) -> ShardSelector {
    ShardSelector::new(ShardField::Namespace, range)
}

fn uid_place(object: &Value) -> u64 {
    place(object["metadata"]["uid"].as_str().unwrap())
}

/// ConfigMaps `a0` to `a11`, and two ranges of which each has about half of them.
struct Halves {
    lower: ShardRange,
    upper: ShardRange,
    lower_names: Vec<String>,
    upper_names: Vec<String>,
}

impl Halves {
    async fn of(api: &Api) -> Self {
        for index in 0..12 {
            api.add(&format!("a{index}"), json!({"even": (index % 2 == 0).to_string()})).await;
        }
        Self::of_items(&api.list(CONFIG_MAPS).await)
    }

    fn of_items(list: &List) -> Self {
        let mut places: Vec<(u64, String)> = Vec::new();
        for item in list.0["items"].as_array().unwrap() {
            places.push((uid_place(item), name(item).to_owned()));
        }
        places.sort();
        let (bound, _) = places[places.len() / 2];
        let [lower, upper] = ShardRange::FULL.split_at(bound).unwrap();
        let names = |range: ShardRange| {
            let mut names: Vec<String> =
                places.iter().filter(|(place, _)| range.contains(*place)).map(|(_, name)| name.clone()).collect();
            names.sort();
            names
        };
        Halves { lower, upper, lower_names: names(lower), upper_names: names(upper) }
    }

    /// Returns the range in which an object is.
    fn range_of(&self, object: &Value) -> ShardRange {
        if self.lower.contains(uid_place(object)) { self.lower } else { self.upper }
    }
}

#[tokio::test(start_paused = true)]
async fn shd_002_lists_and_watches_select_by_place() {
    let api = sharded().await;
    let halves = Halves::of(&api).await;
    for (range, names) in [(halves.lower, &halves.lower_names), (halves.upper, &halves.upper_names)] {
        let path = format!("{CONFIG_MAPS}?{}", parameter(uids(range)));
        assert_eq!(api.list(&path).await.names(), *names);
        let mut watch = api.watch(&path).await;
        let added: BTreeSet<String> = watch.all_ready().into_iter().collect();
        assert_eq!(added, names.iter().map(|name| format!("ADDED {name}")).collect());
    }
    let both = format!("{CONFIG_MAPS}?{}&{}", parameter(uids(halves.upper)), parameter("nonsense"));
    assert_eq!(api.list(&both).await.names(), halves.upper_names, "the first value counts");
    assert_eq!(api.list(&format!("{CONFIG_MAPS}?shardSelector=")).await.names().len(), 12);
    let outside = &halves.lower_names[0];
    api.get(&format!("{CONFIG_MAPS}/{outside}?{}", parameter(uids(halves.upper)))).await.ok();
    api.get(&format!("{CONFIG_MAPS}/{outside}?{}", parameter("nonsense"))).await.ok();
}

#[tokio::test(start_paused = true)]
async fn shd_008_cluster_scoped_objects_have_one_namespace_place() {
    let api = sharded().await;
    let [before, from] = ShardRange::FULL.split_at(place("")).unwrap();
    let all = api.list("/api/v1/namespaces").await;
    assert!(!all.names().is_empty());
    let list = |range| format!("/api/v1/namespaces?{}", parameter(namespaces(range)));
    assert_eq!(api.list(&list(from)).await.names(), all.names());
    assert!(api.list(&list(before)).await.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn shd_010_ranges_may_overlap_and_may_be_everything() {
    let api = sharded().await;
    let halves = Halves::of(&api).await;
    let twice = format!("{} || {}", uids(halves.lower), uids(ShardRange::FULL));
    let list = api.list(&format!("{CONFIG_MAPS}?{}", parameter(&twice))).await;
    assert_eq!(list.names().len(), 12);
    assert_eq!(list.0["metadata"]["shardInfo"]["selector"], twice);
}

#[tokio::test(start_paused = true)]
async fn shd_011_all_selectors_and_the_namespace_are_combined() {
    let api = sharded().await;
    let halves = Halves::of(&api).await;
    api.add_namespace("other").await;
    api.add_to("other", "b", json!({})).await;
    let by_namespace = namespaces(ShardRange::new(place("other"), u128::from(place("other")) + 1).unwrap());
    let of_other = parameter(by_namespace);
    assert_eq!(api.list(&format!("{EVERYWHERE}?{of_other}")).await.names(), ["b"]);
    assert!(api.list(&format!("{CONFIG_MAPS}?{of_other}")).await.names().is_empty());
    let upper = parameter(uids(halves.upper));
    let even: Vec<&String> =
        halves.upper_names.iter().filter(|name| name[1..].parse::<u32>().unwrap() % 2 == 0).collect();
    assert_eq!(api.list(&format!("{CONFIG_MAPS}?{upper}&labelSelector=even%3Dtrue")).await.names(), even);
    let (inside, outside) = (&halves.upper_names[0], &halves.lower_names[0]);
    let by_name = |name: &str| format!("{CONFIG_MAPS}?{upper}&fieldSelector=metadata.name%3D{name}");
    assert_eq!(api.list(&by_name(inside)).await.names(), [inside]);
    assert!(api.list(&by_name(outside)).await.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn shd_013_lists_tell_the_selector_in_json_and_protobuf() {
    let api = sharded().await;
    let halves = Halves::of(&api).await;
    let path = format!("{CONFIG_MAPS}?{}", parameter(uids(halves.lower).to_string().replace(' ', "")));
    let rendered = uids(halves.lower).to_string();
    assert_eq!(api.list(&path).await.0["metadata"]["shardInfo"], json!({"selector": rendered}));
    assert_eq!(api.get_as(BINARY, &path).await.ok()["metadata"]["shardInfo"], json!({"selector": rendered}));
}

#[tokio::test(start_paused = true)]
async fn shd_014_custom_resources_metadata_and_tables_are_filtered_and_tell_nothing() {
    let api = sharded().await;
    let halves = Halves::of(&api).await;
    let path = format!("{CONFIG_MAPS}?{}", parameter(uids(halves.lower)));
    for (accept, member) in [(METADATA_LIST, "items"), (TABLE, "rows")] {
        let list = api.get_as(accept, &path).await.ok();
        assert_eq!(list[member].as_array().unwrap().len(), halves.lower_names.len());
        assert_eq!(list["metadata"]["shardInfo"], Value::Null, "{accept}");
    }
    api.post(DEFINITIONS, widget_definition()).await.ok();
    for index in 0..8 {
        api.post(WIDGETS, widget(&format!("w{index}"), json!({}))).await.ok();
    }
    let halves = Halves::of_items(&api.list(WIDGETS).await);
    let list = api.list(&format!("{WIDGETS}?{}", parameter(uids(halves.upper)))).await;
    assert_eq!(list.names(), halves.upper_names);
    assert_eq!(list.0["metadata"]["shardInfo"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn shd_015_and_shd_019_watches_start_with_matching_objects_and_tell_no_selector() {
    let api = sharded().await;
    let halves = Halves::of(&api).await;
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?{INITIAL}&{}", parameter(uids(halves.lower)))).await;
    let mut names = Vec::new();
    loop {
        let event = watch.next().await.unwrap();
        assert_eq!(event.object["metadata"]["shardInfo"], Value::Null);
        if event.ends_initial_events() {
            break;
        }
        names.push(event.name().to_owned());
    }
    names.sort();
    assert_eq!(names, halves.lower_names);
}

#[tokio::test(start_paused = true)]
async fn shd_016_lists_of_all_ranges_at_one_version_are_one_cut() {
    let api = sharded().await;
    let halves = Halves::of(&api).await;
    let whole = api.list(CONFIG_MAPS).await;
    let exact = format!("resourceVersion={}&resourceVersionMatch=Exact", whole.version());
    let lower = api.list(&format!("{CONFIG_MAPS}?{}", parameter(uids(halves.lower)))).await;
    assert_eq!(lower.version(), whole.version(), "the version is that of the whole collection");
    api.touch(&halves.upper_names[0], "new").await;
    api.remove(&halves.upper_names[1]).await;
    let mut union: Vec<Value> = Vec::new();
    for range in [halves.lower, halves.upper] {
        let part = api.list(&format!("{CONFIG_MAPS}?{exact}&{}", parameter(uids(range)))).await;
        assert_eq!(part.version(), whole.version());
        union.extend(part.0["items"].as_array().unwrap().iter().cloned());
    }
    union.sort_by_key(|item| name(item).to_owned());
    assert_eq!(Value::from(union), whole.0["items"]);
}

#[tokio::test(start_paused = true)]
async fn shd_017_a_limit_counts_matching_objects() {
    let api = sharded().await;
    let halves = Halves::of(&api).await;
    let path = format!("{CONFIG_MAPS}?{}&limit=2", parameter(uids(halves.upper)));
    let page = api.list(&path).await;
    assert_eq!(page.names(), halves.upper_names[..2]);
    assert!(!page.next().is_empty());
    assert_eq!(page.remaining(), None);
    assert_eq!(api.list(&format!("{CONFIG_MAPS}?limit=2")).await.remaining(), Some(10));
    assert_eq!(api.list(&format!("{path}&resourceVersion=0")).await.names(), halves.upper_names);
}

#[tokio::test(start_paused = true)]
async fn shd_018_a_continue_token_does_not_hold_the_selector() {
    let api = sharded().await;
    let halves = Halves::of(&api).await;
    let page = api.list(&format!("{CONFIG_MAPS}?{}&limit=2", parameter(uids(halves.upper)))).await;
    let last = page.names()[1].to_owned();
    let after = |names: &[String]| names.iter().filter(|name| **name > last).cloned().collect::<Vec<_>>();
    let next = format!("{CONFIG_MAPS}?continue={}", page.next());
    assert_eq!(
        api.list(&format!("{next}&{}", parameter(uids(halves.upper)))).await.names(),
        after(&halves.upper_names)
    );
    assert_eq!(
        api.list(&format!("{next}&{}", parameter(uids(halves.lower)))).await.names(),
        after(&halves.lower_names)
    );
    let all = api.list(CONFIG_MAPS).await.names().into_iter().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(api.list(&next).await.names(), after(&all));
}

#[tokio::test(start_paused = true)]
async fn shd_020_bookmarks_pass_every_selector() {
    let api = sharded().await;
    let halves = Halves::of(&api).await;
    let path = format!("{CONFIG_MAPS}?allowWatchBookmarks=true&{}", parameter(uids(halves.lower)));
    let mut watch = api.watch(&format!("{path}&resourceVersion={}", api.now().await)).await;
    let changed = api.touch(&halves.upper_names[0], "new").await;
    assert!(watch.is_silent());
    pass(61).await;
    let bookmark = watch.ready().unwrap();
    assert_eq!((bookmark.kind.as_str(), bookmark.version()), ("BOOKMARK", changed));
}

#[tokio::test(start_paused = true)]
async fn shd_021_a_name_that_is_created_again_may_be_in_another_range() {
    let api = sharded().await;
    let halves = Halves::of(&api).await;
    let named = halves.lower_names[0].clone();
    let start = api.now().await;
    let watch = |range| format!("{CONFIG_MAPS}?resourceVersion={start}&{}", parameter(uids(range)));
    let (mut lower, mut upper) = (api.watch(&watch(halves.lower)).await, api.watch(&watch(halves.upper)).await);
    let mut expected = [vec![format!("DELETED {named}")], Vec::new()];
    for _ in 0..8 {
        api.remove(&named).await;
        api.add(&named, json!({})).await;
        let object = api.get(&format!("{CONFIG_MAPS}/{named}")).await.ok();
        let side = usize::from(halves.range_of(&object) == halves.upper);
        expected[side].push(format!("ADDED {named}"));
        if side == 1 {
            break;
        }
        expected[0].push(format!("DELETED {named}"));
    }
    assert_eq!(lower.all_ready(), expected[0]);
    assert_eq!(upper.all_ready(), expected[1]);
    assert_eq!(expected[1].len(), 1, "one of eight uids is in the upper range");
}

#[tokio::test(start_paused = true)]
async fn shd_022_a_malformed_selector_is_an_error_of_the_server() {
    let api = sharded().await;
    let malformed = format!("{CONFIG_MAPS}?{}", parameter("shardRange(object.metadata.uid,'0x0','0x8')"));
    for response in [
        api.get(&malformed).await,
        api.refused_watch(&malformed).await,
        api.delete(&malformed).await,
        api.refused_watch(&format!("{malformed}&{INITIAL}")).await,
    ] {
        assert_eq!(response.body["reason"], Value::Null);
        assert_eq!(
            response.refused(500),
            "invalid shard selector: hexStart must be a 0x-prefixed 16-digit hex value, got \"0x0\" (did you mean \
             \"0x0000000000000000\"?)"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn shd_024_and_shd_038_the_parameter_is_ignored_by_default() {
    let api = Api::start().await;
    let halves = Halves::of(&api).await;
    for selector in [uids(halves.lower).to_string(), "nonsense".to_owned()] {
        let response = api.get(&format!("{CONFIG_MAPS}?limit=5&{}", parameter(&selector))).await;
        assert_eq!(response.headers.get("warning"), None);
        let list = List(response.ok());
        assert_eq!((list.names().len(), list.remaining()), (5, Some(7)));
        assert_eq!(list.0["metadata"]["shardInfo"], Value::Null);
        let mut watch = api.watch(&format!("{CONFIG_MAPS}?{}", parameter(&selector))).await;
        assert_eq!(watch.all_ready().len(), 12);
    }
}

#[tokio::test(start_paused = true)]
async fn shd_025_openapi_lists_the_parameter_in_any_case() {
    for enabled in [false, true] {
        let api = Api::with(|builder| builder.sharded_lists(enabled)).await;
        let document = api.get("/openapi/v3/api/v1").await.ok();
        let parameters = document["paths"]["/api/v1/namespaces/{namespace}/configmaps"]["get"]["parameters"].clone();
        assert!(parameters.as_array().unwrap().iter().any(|it| it["name"] == "shardSelector"), "{parameters}");
        let response = api.send("GET", "/metrics", &[], None).await;
        let text = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        let line = format!(
            "kubernetes_feature_enabled{{name=\"ShardedListAndWatch\",stage=\"ALPHA\"}} {}\n",
            u8::from(enabled)
        );
        assert!(String::from_utf8_lossy(&text).contains(&line));
    }
}

#[tokio::test(start_paused = true)]
async fn shd_026_a_deletion_of_a_collection_selects_everything_unless_shards_are_served() {
    for enabled in [false, true] {
        let api = Api::with(|builder| builder.sharded_lists(enabled)).await;
        let halves = Halves::of(&api).await;
        let path = format!("{CONFIG_MAPS}?dryRun=All&{}", parameter(uids(halves.lower)));
        let deleted = List(api.delete(&path).await.ok());
        let expected = if enabled { halves.lower_names.len() } else { 12 };
        assert_eq!(deleted.names().len(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn shd_005_the_last_place_is_before_two_to_the_64() {
    let api = sharded().await;
    api.add("a", json!({})).await;
    let place = uid_place(&api.list(CONFIG_MAPS).await.0["items"][0]);
    for (start, end, found) in [
        (place, PLACES, true),
        (place + 1, PLACES, false),
        (0, u128::from(place), false),
        (place, u128::from(place) + 1, true),
    ] {
        let list = api.list(&format!("{CONFIG_MAPS}?{}", parameter(uids(ShardRange::new(start, end).unwrap())))).await;
        assert_eq!(!list.names().is_empty(), found, "{start:x} {end:x}");
        assert!(version(&list.0) > 0);
    }
}
