//! Kubeconfigs of clusters, in Secrets and from elsewhere.

use evenkeel_client::Patch;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use serde_json::Value;

use super::*;

const LABEL: &str = "sigs.k8s.io/multicluster-runtime-kubeconfig";

/// A server with TLS and an address, whose kubeconfig can be used. These tests send no request to it.
async fn remote() -> ApiServer {
    ApiServer::builder().tls().start().await.unwrap()
}

/// A server with the namespace `fleet`.
async fn home() -> ApiServer {
    let home = server().await;
    let fleet = serde_json::from_value(json!({"metadata": {"name": "fleet"}})).unwrap();
    home.client().api::<Namespace>().create(&fleet).await.unwrap();
    home
}

async fn create_secret(home: &ApiServer, name: &str, label: &str, data: Value) {
    let secret = json!({"metadata": {"name": name, "labels": {LABEL: label}}, "stringData": data});
    let secret = serde_json::from_value(secret).unwrap();
    home.client().api::<Secret>().namespace("fleet").create(&secret).await.unwrap();
}

async fn patch_secret(home: &ApiServer, name: &str, patch: Value) {
    home.client().api::<Secret>().namespace("fleet").patch(name, &Patch::merge(&patch)).await.unwrap();
}

fn names(clusters: &Clusters) -> Vec<String> {
    clusters.list().iter().map(|cluster| cluster.name().to_owned()).collect()
}

/// A kubeconfig that would run a command.
fn with_plugin(server: &ApiServer) -> String {
    let plugin =
        json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/true", "interactiveMode": "Never"});
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server.url()}}],
        "users": [{"name": "u", "user": {"exec": plugin}}],
    })
    .to_string()
}

#[tokio::test(start_paused = true)]
async fn mcl_009_an_equal_configuration_does_nothing_and_a_changed_one_replaces() {
    let (first, second) = (remote().await, remote().await);
    let clusters = Clusters::new();
    assert!(clusters.engage_kubeconfig("eu", &first.kubeconfig()).unwrap());
    let engaged = clusters.get("eu").unwrap();
    assert!(!clusters.engage_kubeconfig("eu", &first.kubeconfig()).unwrap());
    assert!(clusters.get("eu").unwrap().is(&engaged));
    assert!(clusters.engage_kubeconfig("eu", &second.kubeconfig()).unwrap());
    assert!(!engaged.is_engaged());
    let replaced = clusters.get("eu").unwrap();
    assert_eq!(replaced.client().config().server.to_string(), second.url());

    let error = clusters.engage_kubeconfig("eu", "clusters: 7").unwrap_err().to_string();
    assert!(clusters.get("eu").unwrap().is(&replaced), "it continues with the previous one");
    let status = &clusters.statuses()[0];
    assert_eq!((status.rejected.is_some(), status.engaged_at.is_some()), (true, true), "{error}");
    assert!(!clusters.engage_kubeconfig("eu", &second.kubeconfig()).unwrap());
    assert_eq!(clusters.statuses()[0].rejected, None, "the error goes with its kubeconfig");
}

#[tokio::test(start_paused = true)]
async fn mcl_012_clusters_come_and_go_with_their_secrets() {
    let (home, first, second) = (home().await, remote().await, remote().await);
    create_secret(&home, "eu", "true", json!({"kubeconfig": first.kubeconfig()})).await;
    create_secret(&home, "other", "false", json!({"kubeconfig": first.kubeconfig()})).await;
    let clusters = Clusters::from_secrets(&home.client(), "fleet");
    settle().await;
    assert_eq!(names(&clusters), ["eu"]);
    create_secret(&home, "us", "true", json!({"kubeconfig": second.kubeconfig()})).await;
    settle().await;
    assert_eq!(names(&clusters), ["eu", "us"]);

    let engaged = clusters.get("eu").unwrap();
    patch_secret(&home, "eu", json!({"metadata": {"annotations": {"touched": "yes"}}})).await;
    settle().await;
    assert!(clusters.get("eu").unwrap().is(&engaged), "the kubeconfig is the same");
    patch_secret(&home, "eu", json!({"stringData": {"kubeconfig": second.kubeconfig()}})).await;
    settle().await;
    assert!(!engaged.is_engaged() && clusters.get("eu").unwrap().is_engaged());

    patch_secret(&home, "eu", json!({"metadata": {"labels": {LABEL: "false"}}})).await;
    home.client().api::<Secret>().namespace("fleet").delete("us").await.unwrap();
    settle().await;
    assert_eq!(names(&clusters), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn mcl_012_kubeconfigs_are_not_trusted() {
    let (home, remote) = (home().await, remote().await);
    create_secret(&home, "plugin", "true", json!({"kubeconfig": with_plugin(&remote)})).await;
    create_secret(&home, "empty", "true", json!({"another": "key"})).await;
    create_secret(&home, "refused", "true", json!({"kubeconfig": remote.kubeconfig()})).await;
    let allow = |name: &str, _: &evenkeel_client::Config| match name {
        "refused" => Err("not in this fleet".to_owned()),
        _ => Ok(()),
    };
    let clusters = KubeconfigSecrets::new(&home.client(), "fleet").allow(allow).start();
    settle().await;
    assert_eq!(names(&clusters), Vec::<String>::new());
    let statuses = clusters.statuses();
    let reasons: Vec<_> =
        statuses.iter().map(|status| (&*status.name, &*status.rejected.as_ref().unwrap().message)).collect();
    assert_eq!(reasons[0], ("empty", "the Secret fleet/empty has no key \"kubeconfig\""));
    assert!(reasons[1].0 == "plugin" && reasons[1].1.contains("may not have exec"), "{reasons:?}");
    assert!(reasons[2].0 == "refused" && reasons[2].1.contains("not in this fleet"), "{reasons:?}");
    let secrets = home.client().api::<Secret>().namespace("fleet");
    for name in ["plugin", "empty", "refused"] {
        secrets.delete(name).await.unwrap();
    }
    settle().await;
    assert!(clusters.statuses().is_empty(), "the status goes with the Secret");
}

#[tokio::test(start_paused = true)]
async fn mcl_012_the_set_owns_the_watch_and_readiness_waits_for_it() {
    let home = home().await;
    home.faults().fail_next(u64::MAX, 403, None);
    let before = alive_tasks();
    let clusters = Clusters::from_secrets(&home.client(), "fleet");
    let health = crate::health::Health::new();
    health.ready().add(clusters.home_check()).unwrap();
    settle().await;
    let ready = health.ready().run_one("home-cluster").await.unwrap();
    let reason = ready.failure.unwrap();
    assert!(reason.starts_with("the kubeconfigs have not been listed: clusters/secrets: "), "{reason}");
    assert!(reason.contains("forbidden by an injected fault"), "{reason}");
    home.faults().clear();
    sleep(secs(60)).await;
    assert_eq!(health.ready().run_one("home-cluster").await.unwrap().failure, None);
    clusters.engage(HOME, &home.client());
    drop(clusters);
    settle().await;
    assert_eq!(alive_tasks(), before);
}
