//! Long lists and maps in built-in objects.

use serde_json::{Map, Value, json};

use crate::api::Api;
use crate::{CONFIG_MAPS, MAX_CAUSES, PODS, SERVICES, causes, config_map, pod, timed};

/// Returns the path for a dry run, which serves the object without storing it: with their owners recorded, most of these
/// exceed the limit of stored objects.
fn unstored(collection: &str) -> String {
    format!("{collection}?dryRun=All")
}

#[tokio::test]
async fn bud_5_owner_references_are_compared_by_a_set() {
    let api = Api::start().await;
    let reference = |index: usize| json!({"apiVersion": "v1", "kind": "A", "name": "n", "uid": format!("{index:05}")});
    let mut object = config_map("owned");
    object["metadata"]["ownerReferences"] = (0..25_000).map(reference).collect();
    let created = timed("25,000 owner references", api.post(&unstored(CONFIG_MAPS), &object)).await.expect(201);
    assert_eq!(created["metadata"]["ownerReferences"].as_array().unwrap().len(), 25_000);

    let same = vec![reference(7); 40_000];
    let mut object = config_map("duplicates");
    object["metadata"]["ownerReferences"] = same.into();
    let created = timed("40,000 equal owner references", api.post(CONFIG_MAPS, &object)).await;
    let warnings = created.warnings().join("\n");
    assert!(warnings.contains("duplicate UID(s) observed: 00007"), "{warnings}");
    assert_eq!(created.expect(201)["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn bud_5_many_controllers_are_reported_without_repeating_the_list_each_time() {
    let api = Api::start().await;
    let reference = |index: usize| json!({"apiVersion": "v1", "kind": "A", "name": "n", "uid": format!("{index}"), "controller": true});
    let mut object = config_map("owned");
    object["metadata"]["ownerReferences"] = (0..30_000).map(reference).collect();
    let refused = timed("30,000 controllers", api.post(CONFIG_MAPS, &object)).await;
    assert!(refused.refusal(422, "Invalid").contains("Only one reference can have Controller set to true"));
    assert!(refused.text.len() < 20 << 20, "{} bytes", refused.text.len());
}

#[tokio::test]
async fn bud_5_errors_of_labels_are_capped() {
    let api = Api::start().await;
    let labels: Map<String, Value> = (0..50_000).map(|index| (format!("-bad-{index}-"), "-bad-".into())).collect();
    let mut object = config_map("labels");
    object["metadata"]["labels"] = labels.into();
    let refused = timed("50,000 invalid labels", api.post(CONFIG_MAPS, &object)).await;
    assert!(refused.refusal(422, "Invalid").contains("name part must consist of alphanumeric characters"));
    assert_eq!(causes(&refused.body), MAX_CAUSES);
}

#[tokio::test]
async fn bud_5_volumes_and_mounts_are_compared_by_sets() {
    let api = Api::start().await;
    let mut object = pod("volumes");
    object["spec"]["volumes"] = (0..30_000).map(|index| json!({"name": format!("v{index}"), "emptyDir": {}})).collect();
    timed("30,000 volumes", api.post(&unstored(PODS), &object)).await.expect(201);
    let mut object = pod("mounts");
    object["spec"]["volumes"] = (0..10_000).map(|index| json!({"name": format!("v{index}"), "emptyDir": {}})).collect();
    object["spec"]["containers"][0]["volumeMounts"] = (0..10_000)
        .map(|index| json!({"name": format!("v{}", 9_999 - index), "mountPath": format!("/{index}")}))
        .collect();
    timed("10,000 mounts of 10,000 volumes", api.post(&unstored(PODS), &object)).await.expect(201);
    let mut object = pod("duplicates");
    object["spec"]["volumes"] = vec![json!({"name": "v", "emptyDir": {}}); 30_000].into();
    let refused = timed("30,000 equal volumes", api.post(PODS, &object)).await;
    assert!(refused.refusal(422, "Invalid").contains("spec.volumes[1].name: Duplicate value: \"v\""));
    assert_eq!(causes(&refused.body), MAX_CAUSES);
}

#[tokio::test]
async fn bud_5_containers_and_their_ports_are_compared_by_sets() {
    let api = Api::start().await;
    let mut object = pod("ports");
    object["spec"]["containers"][0]["ports"] =
        (0..20_000).map(|index| json!({"name": format!("p-{index}"), "containerPort": 1 + index})).collect();
    timed("20,000 container ports", api.post(&unstored(PODS), &object)).await.expect(201);
    let mut object = pod("containers");
    object["spec"]["containers"] = (0..8_000).map(|index| json!({"name": format!("c{index}"), "image": "i"})).collect();
    timed("8,000 containers", api.post(&unstored(PODS), &object)).await.expect(201);
}

#[tokio::test]
async fn bud_5_ports_of_services_are_compared_by_sets() {
    let api = Api::start().await;
    let service = |name: &str, kind: &str, ports: Vec<Value>| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"type": kind, "ports": ports}});
    let port = |index: usize| json!({"name": format!("p{index}"), "port": 1 + index});
    let wide = service("wide", "ClusterIP", (0..20_000).map(port).collect());
    timed("20,000 ports of a Service", api.post(&unstored(SERVICES), &wide)).await.expect(201);
    let some = service("some", "ClusterIP", (0..5_000).map(port).collect());
    api.post(SERVICES, &some).await.expect(201);
    timed("update of 5,000 ports", api.put(&format!("{SERVICES}/some"), &some)).await.expect(200);
    let nodes = service("nodes", "NodePort", (0..2_768).map(port).collect());
    let created = timed("2,768 node ports", api.post(SERVICES, &nodes)).await.expect(201);
    assert_eq!(created["spec"]["ports"][2_767]["nodePort"], 32_767);
    let full = service("full", "NodePort", (0..20_000).map(port).collect());
    let refused = timed("20,000 node ports", api.post(SERVICES, &full)).await;
    assert!(refused.refusal(422, "Invalid").contains("range is full"), "{}", refused.text);
}

#[tokio::test]
async fn bud_5_managed_fields_of_many_managers_are_merged_in_one_pass() {
    let api = Api::start().await;
    let entry = |index: usize| {
        json!({"manager": format!("m{index}"), "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
               "time": "2030-01-01T00:00:00Z", "fieldsV1": {"f:data": {format!("f:k{index}"): {}}}})
    };
    let mut object = config_map("managed");
    object["data"] = (0..5_000).map(|index| (format!("k{index}"), Value::from("v"))).collect::<Map<_, _>>().into();
    object["metadata"]["managedFields"] = (0..12_000).map(entry).collect();
    let created = timed("12,000 managedFields entries", api.post(CONFIG_MAPS, &object)).await.expect(201);
    assert!(created["metadata"]["managedFields"].as_array().unwrap().len() <= 11);
}

#[tokio::test]
async fn bud_5_new_finalizers_of_a_deleting_object_are_compared_by_a_set() {
    let api = Api::start().await;
    let finalizers =
        |prefix: &str| -> Vec<String> { (0..20_000).map(|i| format!("example.com/{prefix}{i}")).collect() };
    let mut object = config_map("held");
    object["metadata"]["finalizers"] = finalizers("a").into();
    api.post(CONFIG_MAPS, &object).await.expect(201);
    let path = format!("{CONFIG_MAPS}/held");
    api.delete(&path).await.expect(200);
    object["metadata"]["finalizers"] = finalizers("b").into();
    let refused = timed("20,000 new finalizers", api.put(&path, &object)).await;
    assert!(refused.refusal(422, "Invalid").contains("no new finalizers can be added"));
}
