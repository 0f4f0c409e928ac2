//! ServiceAccount.

use serde_json::{Value, json};

use super::{builder, pod};
use crate::PODS;
use crate::api::Api;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Starts a server with the plugin and an account.
async fn start(name: &str, fields: Value) -> Api {
    let api = Api::with(builder().admission("ServiceAccount", true).unwrap()).await;
    let mut account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    account.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let path = format!("{ACCOUNTS}/{name}");
    match api.get(&path).await.status {
        // A server may create the account `default` itself.
        200 => api.patch(&path, &account).await.expect(200),
        _ => api.post(ACCOUNTS, &account).await.expect(201),
    };
    api
}

#[tokio::test]
async fn adm_007_pods_run_as_the_default_account_and_accounts_must_exist() {
    let api = start("default", json!({})).await;
    let created = api.post(PODS, &pod("p", json!({}))).await.expect(201);
    assert_eq!(created["spec"]["serviceAccountName"], "default");
    assert_eq!(created["spec"]["serviceAccount"], "default");
    let refused = api.post(PODS, &pod("q", json!({"serviceAccountName": "none"}))).await;
    let why = "error looking up service account default/none: serviceaccount \"none\" not found";
    assert_eq!(refused.refusal(403, "Forbidden"), format!("pods \"q\" is forbidden: {why}"));
}

#[tokio::test]
async fn adm_008_every_container_mounts_a_token() {
    let api = start("default", json!({})).await;
    let own = json!({"name": "own", "mountPath": PATH});
    let spec = json!({
        "containers": [{"name": "a", "image": "busybox"}, {"name": "b", "image": "busybox", "volumeMounts": [own]}],
        "initContainers": [{"name": "i", "image": "busybox"}],
        "volumes": [{"name": "own", "emptyDir": {}}]});
    let created = api.post(PODS, &pod("p", spec)).await.expect(201);
    let volume = &created["spec"]["volumes"][1];
    let name = volume["name"].as_str().unwrap();
    let suffix = name.strip_prefix("kube-api-access-").unwrap();
    assert_eq!(suffix.len(), 5, "{name}");
    let sources = json!([
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
        {"downwardAPI": {"items": [{"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}]}}]);
    assert_eq!(volume["projected"], json!({"defaultMode": 420, "sources": sources}));
    let mount = json!([{"mountPath": PATH, "name": name, "readOnly": true}]);
    assert_eq!(created["spec"]["containers"][0]["volumeMounts"], mount);
    assert_eq!(created["spec"]["initContainers"][0]["volumeMounts"], mount);
    assert_eq!(created["spec"]["containers"][1]["volumeMounts"], json!([own]));
}

#[tokio::test]
async fn adm_009_the_pod_decides_about_the_token_before_its_account() {
    let secrets = json!([{"name": "registry"}]);
    let api = start("robot", json!({"automountServiceAccountToken": false, "imagePullSecrets": secrets})).await;
    let spec = |wish: Option<bool>| json!({"serviceAccountName": "robot", "automountServiceAccountToken": wish});
    let silent = api.post(PODS, &pod("silent", spec(None))).await.expect(201);
    assert!(silent["spec"].get("volumes").is_none(), "{silent}");
    assert_eq!(silent["spec"]["imagePullSecrets"], secrets);
    let wishing = api.post(PODS, &pod("wishing", spec(Some(true)))).await.expect(201);
    assert_eq!(wishing["spec"]["volumes"].as_array().unwrap().len(), 1);
    let mut own = pod("own", spec(Some(false)));
    own["spec"]["imagePullSecrets"] = json!([{"name": "mine"}]);
    let created = api.post(PODS, &own).await.expect(201);
    assert!(created["spec"].get("volumes").is_none(), "{created}");
    assert_eq!(created["spec"]["imagePullSecrets"], json!([{"name": "mine"}]));
}

#[tokio::test]
async fn adm_009_an_account_may_limit_the_secrets_of_its_pods() {
    let metadata = json!({"name": "strict", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}});
    let api = start("strict", json!({"metadata": metadata, "secrets": [{"name": "listed"}]})).await;
    let with = |secret: &str| {
        pod("p", json!({"serviceAccountName": "strict", "volumes": [{"name": "v", "secret": {"secretName": secret}}]}))
    };
    let refused = api.post(PODS, &with("other")).await;
    let why = "volume with secret.secretName=\"other\" is not allowed because service account strict does not reference \
               that secret";
    assert_eq!(refused.refusal(403, "Forbidden"), format!("pods \"p\" is forbidden: {why}"));
    api.post(PODS, &with("listed")).await.expect(201);
}
