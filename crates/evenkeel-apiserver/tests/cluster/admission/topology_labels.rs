//! PodTopologyLabels.

use serde_json::json;

use super::pod;
use crate::PODS;
use crate::api::Api;

#[tokio::test]
async fn adm_001_a_bound_pod_gets_the_zone_and_region_of_its_node() {
    let api = Api::start().await;
    let labels = json!({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "other": "o"});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}});
    api.post("/api/v1/nodes", &node).await.expect(201);
    let expected = json!({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"});

    let created = api.post(PODS, &pod("early", json!({"nodeName": "n"}))).await.expect(201);
    assert_eq!(created["metadata"]["labels"], expected);

    api.post(PODS, &pod("late", json!({}))).await.expect(201);
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "late"},
                         "target": {"apiVersion": "v1", "kind": "Node", "name": "n"}});
    api.post(&format!("{PODS}/late/binding"), &binding).await.expect(201);
    let bound = api.get(&format!("{PODS}/late")).await.expect(200);
    assert_eq!(bound["metadata"]["labels"], expected);

    let created = api.post(PODS, &pod("unknown", json!({"nodeName": "none"}))).await.expect(201);
    assert!(created["metadata"].get("labels").is_none(), "{created}");
}
