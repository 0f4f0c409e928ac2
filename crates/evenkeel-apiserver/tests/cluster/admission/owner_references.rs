//! OwnerReferencesPermissionEnforcement.

use serde_json::{Value, json};

use super::{builder, config_map};
use crate::api::{Api, Handle};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Starts a server with the plugin, and a user that may do this.
async fn start(on: bool, rules: Value) -> (Api, Handle) {
    let api = Api::with(builder().rbac(true).admission("OwnerReferencesPermissionEnforcement", on).unwrap()).await;
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "joe"});
    let subject = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "joe"});
    api.post(&format!("{RBAC}/clusterroles"), &json!({"metadata": {"name": "joe"}, "rules": rules})).await.expect(201);
    let binding = json!({"metadata": {"name": "joe"}, "roleRef": reference, "subjects": [subject]});
    api.post(&format!("{RBAC}/clusterrolebindings"), &binding).await.expect(201);
    let joe = api.acting_as("joe", &["system:authenticated"]);
    (api, joe)
}

fn allows(verbs: &[&str], resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": [""], "resources": resources})
}

/// Creates an owner, and returns a reference to it.
async fn owner(api: &Api, blocks: Option<bool>) -> Value {
    let owner = api.post(MAPS, &config_map("owner")).await.expect(201);
    let mut reference =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
    if let Some(blocks) = blocks {
        reference["blockOwnerDeletion"] = blocks.into();
    }
    reference
}

fn owned(name: &str, reference: &Value) -> Value {
    let mut map = config_map(name);
    map["metadata"]["ownerReferences"] = json!([reference]);
    map
}

#[tokio::test]
async fn gcx_020_a_changed_owner_needs_the_permission_to_delete() {
    let (api, joe) = start(true, json!([allows(&["create", "patch"], &["configmaps"])])).await;
    let reference = owner(&api, None).await;
    joe.post(MAPS, &owned("a", &reference)).await.expect(201);
    joe.post(MAPS, &config_map("b")).await.expect(201);
    joe.patch(&format!("{MAPS}/b"), &json!({"data": {"x": "y"}})).await.expect(200);
    let change = json!({"metadata": {"ownerReferences": [reference]}});
    assert_eq!(
        joe.patch(&format!("{MAPS}/b"), &change).await.refusal(403, "Forbidden"),
        "configmaps \"b\" is forbidden: cannot set an ownerRef on a resource you can't delete: , <nil>"
    );
    joe.patch(&format!("{MAPS}/a"), &json!({"metadata": {"ownerReferences": []}})).await.refusal(403, "Forbidden");

    let (api, joe) = start(true, json!([allows(&["create", "patch", "delete"], &["configmaps"])])).await;
    let reference = owner(&api, Some(false)).await;
    joe.post(MAPS, &config_map("b")).await.expect(201);
    joe.patch(&format!("{MAPS}/b"), &json!({"metadata": {"ownerReferences": [reference]}})).await.expect(200);
}

#[tokio::test]
async fn gcx_020_the_plugin_is_off_by_default_and_spares_the_status_of_pods() {
    let (api, joe) = start(false, json!([allows(&["create", "patch"], &["configmaps"])])).await;
    let reference = owner(&api, Some(true)).await;
    joe.post(MAPS, &config_map("b")).await.expect(201);
    joe.patch(&format!("{MAPS}/b"), &json!({"metadata": {"ownerReferences": [reference]}})).await.expect(200);

    let (api, joe) = start(true, json!([allows(&["patch"], &["pods", "pods/status"])])).await;
    let reference = owner(&api, None).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "b"}]}});
    api.post(PODS, &pod).await.expect(201);
    let change = json!({"metadata": {"ownerReferences": [reference]}});
    joe.patch(&format!("{PODS}/p/status"), &change).await.expect(200);
    joe.patch(&format!("{PODS}/p"), &change).await.refusal(403, "Forbidden");
}

#[tokio::test]
async fn gcx_021_a_blocking_reference_needs_the_finalizers_of_the_owner() {
    let (api, joe) = start(true, json!([allows(&["create", "patch", "delete"], &["configmaps"])])).await;
    let mut reference = owner(&api, Some(true)).await;
    assert_eq!(
        joe.post(MAPS, &owned("a", &reference)).await.refusal(403, "Forbidden"),
        "configmaps \"a\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set \
         finalizers on: , <nil>"
    );
    reference["blockOwnerDeletion"] = false.into();
    joe.post(MAPS, &owned("a", &reference)).await.expect(201);
    reference["blockOwnerDeletion"] = true.into();
    let change = json!({"metadata": {"ownerReferences": [reference]}});
    joe.patch(&format!("{MAPS}/a"), &change).await.refusal(403, "Forbidden");
    // A reference that blocks already may stay.
    api.patch(&format!("{MAPS}/a"), &change).await.expect(200);
    let mut kept = change.clone();
    kept["metadata"]["ownerReferences"][0]["controller"] = true.into();
    joe.patch(&format!("{MAPS}/a"), &kept).await.expect(200);
    let unknown =
        json!({"apiVersion": "x.example.com/v1", "kind": "None", "name": "n", "uid": "u", "blockOwnerDeletion": true});
    assert!(joe.post(MAPS, &owned("c", &unknown)).await.refusal(403, "Forbidden").ends_with(
        "cannot find RESTMapping for APIVersion x.example.com/v1 Kind None: no matches for kind \"None\" in version \
         \"x.example.com/v1\""
    ));
}

#[tokio::test]
async fn gcx_021_finalizers_of_the_owner_or_of_everything_satisfy_it() {
    let everything = json!({"verbs": ["update"], "apiGroups": ["*"], "resources": ["*/finalizers"]});
    for more in [allows(&["update"], &["configmaps/finalizers"]), everything] {
        let (api, joe) = start(true, json!([allows(&["create"], &["configmaps"]), more])).await;
        let reference = owner(&api, Some(true)).await;
        joe.post(MAPS, &owned("a", &reference)).await.expect(201);
    }
}
