//! Tables and bare metadata.

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::api::{
    Api, CONFIG_MAPS, DEFINITIONS, List, METADATA, METADATA_LIST, PODS, TABLE, WIDGETS, name, pass, pod, version,
    widget, widget_definition,
};

const INITIAL: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

fn columns(table: &Value) -> Vec<&str> {
    table["columnDefinitions"].as_array().into_iter().flatten().map(|column| column["name"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn tab_1_a_table_has_columns_rows_and_the_metadata_of_the_list() {
    let api = Api::start().await;
    for name in ["a", "b", "c"] {
        api.add(name, json!({})).await;
    }
    let table = api.get_as(TABLE, &format!("{CONFIG_MAPS}?limit=2")).await.ok();
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(version(&table), api.now().await);
    assert_eq!(table["metadata"]["remainingItemCount"], 1);
    assert_eq!(columns(&table), ["Name", "Data", "Age"]);
    let first = table["columnDefinitions"][0].as_object().unwrap();
    assert_eq!(first.keys().collect::<Vec<_>>(), ["description", "format", "name", "priority", "type"]);
    assert_eq!((&first["type"], &first["format"], &first["priority"]), (&json!("string"), &json!("name"), &json!(0)));
    let rows = table["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| row["cells"][0].as_str().unwrap()).collect::<Vec<_>>(), ["a", "b"]);
    let token = table["metadata"]["continue"].as_str().unwrap();
    let next = api.get_as(TABLE, &format!("{CONFIG_MAPS}?limit=2&continue={token}")).await.ok();
    assert_eq!((&next["rows"][0]["cells"][0], next["rows"].as_array().unwrap().len()), (&json!("c"), 1));
    assert_eq!(next["metadata"].get("continue"), None);
    let single = api.get_as(TABLE, &format!("{CONFIG_MAPS}/a")).await.ok();
    assert_eq!((&single["kind"], &single["rows"][0]["cells"][0]), (&json!("Table"), &json!("a")));
    let older = api.get_as("application/json;as=Table;v=v1beta1;g=meta.k8s.io", CONFIG_MAPS).await.ok();
    assert_eq!(older["apiVersion"], "meta.k8s.io/v1beta1");
}

#[tokio::test(start_paused = true)]
async fn tab_1_a_finished_pod_has_a_condition_on_its_row() {
    let api = Api::start().await;
    api.post(PODS, pod("p")).await.ok();
    api.patch(&format!("{PODS}/p/status"), json!({"status": {"phase": "Succeeded"}})).await.ok();
    let table = api.get_as(TABLE, PODS).await.ok();
    let condition = &table["rows"][0]["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("Completed"), &json!("True")));
    assert_eq!(condition["reason"], "Succeeded");
}

#[tokio::test(start_paused = true)]
async fn tab_2_rows_carry_the_requested_part_of_the_object() {
    let api = Api::start().await;
    api.add("a", json!({"k": "v"})).await;
    let row = async |query: &str| api.get_as(TABLE, &format!("{CONFIG_MAPS}{query}")).await.ok()["rows"][0].clone();
    for query in ["", "?includeObject=Metadata", "?includeObject="] {
        let object = row(query).await["object"].clone();
        assert_eq!(object["kind"], "PartialObjectMetadata");
        assert_eq!((object["apiVersion"].as_str(), name(&object)), (Some("meta.k8s.io/v1"), "a"));
        assert_eq!(object["metadata"]["labels"], json!({"k": "v"}));
    }
    let object = row("?includeObject=Object").await["object"].clone();
    assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    assert_eq!(row("?includeObject=None").await["object"], Value::Null);
    api.get_as(TABLE, &format!("{CONFIG_MAPS}?includeObject=Everything")).await.refused(400);
    let mut watch = api.watch_as(TABLE, &format!("{CONFIG_MAPS}?{INITIAL}&includeObject=None")).await;
    assert_eq!(watch.ready().unwrap().object["rows"][0]["object"], Value::Null);
    let end = watch.ready().unwrap();
    let annotation = &end.object["rows"][0]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"];
    assert_eq!((end.kind.as_str(), annotation), ("BOOKMARK", &json!("true")));
}

#[tokio::test(start_paused = true)]
async fn tab_3_tab_5_kinds_have_their_columns() {
    let api = Api::start().await;
    let of = async |path: &str| {
        let table = api.get_as(TABLE, path).await.ok();
        columns(&table).join(", ")
    };
    assert_eq!(of("/api/v1/limitranges").await, "Name, Created At");
    assert_eq!(
        of("/api/v1/pods").await,
        "Name, Ready, Status, Restarts, Age, IP, Node, Nominated Node, Readiness Gates"
    );
    assert_eq!(
        of("/apis/apps/v1/deployments").await,
        "Name, Ready, Up-to-date, Available, Age, Containers, Images, Selector"
    );
    assert_eq!(of("/apis/coordination.k8s.io/v1/leases").await, "Name, Holder, Age");
    assert_eq!(of(DEFINITIONS).await, "Name, Created At");
}

#[tokio::test(start_paused = true)]
async fn tab_4_custom_resources_have_the_columns_of_their_definition() {
    let api = Api::start().await;
    let mut definition = widget_definition();
    definition["spec"]["versions"][0]["additionalPrinterColumns"] = json!([{"name": "Color", "type": "string", "jsonPath": ".spec.color"},
               {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas", "priority": 1},
               {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]);
    api.post(DEFINITIONS, definition).await.ok();
    api.post(WIDGETS, widget("w", json!({"color": "red"}))).await.ok();
    pass(90).await;
    let table = api.get_as(TABLE, WIDGETS).await.ok();
    assert_eq!(columns(&table), ["Name", "Color", "Replicas", "Since"]);
    assert_eq!(table["rows"][0]["cells"], json!(["w", "red", null, "90s"]));
    let description = table["columnDefinitions"][1]["description"].as_str().unwrap();
    assert!(description.starts_with("Custom resource definition column (in JSONPath format): "), "{description}");
    let other = api.get_as(TABLE, "/apis/example.com/v2/widgets").await.ok();
    assert_eq!(columns(&other), ["Name", "Age"], "a version without columns shows the age");
}

#[tokio::test(start_paused = true)]
async fn tab_7_ages_use_the_clock_of_the_server() {
    let api = Api::start().await;
    api.add("a", json!({})).await;
    let age = async || api.get_as(TABLE, CONFIG_MAPS).await.ok()["rows"][0]["cells"][2].clone();
    assert_eq!(age().await, "0s");
    for (seconds, text) in [(119, "119s"), (1, "2m"), (24 * 60, "26m"), (3 * 3600, "3h26m")] {
        pass(seconds).await;
        assert_eq!(age().await, text);
    }
    api.faults().jump_wall(SignedDuration::from_hours(72));
    assert_eq!(age().await, "3d3h");
}

#[tokio::test(start_paused = true)]
async fn wat_26_a_watched_table_has_its_columns_once() {
    let api = Api::start().await;
    api.add("a", json!({})).await;
    let mut watch = api.watch_as(TABLE, CONFIG_MAPS).await;
    pass(30).await;
    api.add("b", json!({})).await;
    api.remove("b").await;
    let first = watch.ready().unwrap();
    assert_eq!((first.kind.as_str(), columns(&first.object).len()), ("ADDED", 3));
    assert_eq!((&first.object["kind"], &first.object["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    let second = watch.ready().unwrap();
    assert_eq!((second.kind.as_str(), columns(&second.object).len()), ("ADDED", 0));
    assert_eq!(
        second.object["rows"][0]["cells"],
        json!(["b", 0, "0s"]),
        "as old as it is now, not when the watch began"
    );
    let third = watch.ready().unwrap();
    assert_eq!((third.kind.as_str(), version(&third.object)), ("DELETED", api.now().await));
    assert_eq!(version(&third.object["rows"][0]["object"]), api.now().await);
}

#[tokio::test(start_paused = true)]
async fn wat_26_a_bookmark_may_be_the_frame_that_brings_the_columns() {
    let api = Api::start().await;
    let mut watch = api.watch_as(TABLE, &format!("{CONFIG_MAPS}?{INITIAL}")).await;
    let bookmark = watch.ready().unwrap();
    assert_eq!((bookmark.kind.as_str(), columns(&bookmark.object).len()), ("BOOKMARK", 3));
    assert_eq!(bookmark.object["rows"][0]["cells"].as_array().unwrap().len(), 3, "one cell per column");
    api.add("a", json!({})).await;
    assert_eq!(columns(&watch.ready().unwrap().object).len(), 0);
    pass(61).await;
    let bookmark = watch.ready().unwrap();
    assert_eq!((bookmark.kind.as_str(), version(&bookmark.object)), ("BOOKMARK", api.now().await));
}

#[tokio::test(start_paused = true)]
async fn tab_8_metadata_alone_for_lists_gets_and_watches() {
    let api = Api::start().await;
    api.add("a", json!({"k": "v"})).await;
    api.touch("a", "data").await;
    let whole = api.get(&format!("{CONFIG_MAPS}/a")).await.ok();
    let partial = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                         "metadata": whole["metadata"]});
    let list = api.get_as(METADATA_LIST, CONFIG_MAPS).await;
    assert_eq!(list.headers["content-type"], "application/json");
    let list = List(list.ok());
    assert_eq!(list.0["kind"], "PartialObjectMetadataList");
    assert_eq!((&list.0["apiVersion"], list.version()), (&json!("meta.k8s.io/v1"), api.now().await));
    assert_eq!(list.0["items"], json!([partial]));
    assert_eq!(api.get_as(METADATA, &format!("{CONFIG_MAPS}/a")).await.ok(), partial);
    let mut watch = api.watch_as(METADATA, &format!("{CONFIG_MAPS}?{INITIAL}")).await;
    assert_eq!(watch.ready().unwrap().object, partial);
    assert!(watch.ready().unwrap().ends_initial_events());
    api.touch("a", "more").await;
    let changed = watch.ready().unwrap();
    assert_eq!((changed.to_string().as_str(), changed.object.get("data")), ("MODIFIED a", None));
    api.remove("a").await;
    let deleted = watch.ready().unwrap();
    assert_eq!((deleted.to_string().as_str(), deleted.version()), ("DELETED a", api.now().await));
    assert_eq!(deleted.object["kind"], "PartialObjectMetadata");
}

#[tokio::test(start_paused = true)]
async fn tab_8_metadata_of_custom_resources() {
    let api = Api::start().await;
    api.post(DEFINITIONS, widget_definition()).await.ok();
    let mut watch = api.watch_as(METADATA, "/apis/example.com/v2/widgets").await;
    api.post(WIDGETS, widget("w", json!({"color": "red"}))).await.ok();
    let event = watch.ready().unwrap();
    assert_eq!((event.to_string().as_str(), &event.object["kind"]), ("ADDED w", &json!("PartialObjectMetadata")));
    assert_eq!(event.object.as_object().unwrap().len(), 3);
    let list = List(api.get_as(METADATA_LIST, WIDGETS).await.ok());
    assert_eq!(list.names(), ["w"]);
}
