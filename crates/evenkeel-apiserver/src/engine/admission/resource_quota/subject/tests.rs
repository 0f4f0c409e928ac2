use serde_json::json;

use super::QuotaSubject;

#[test]
fn adm_016_names_belong_to_one_resource() {
    let cases = [
        ("pods", "pods"),
        ("cpu", "pods"),
        ("limits.ephemeral-storage", "pods"),
        ("requests.hugepages-2Mi", "pods"),
        ("requests.example.com/gpu", "pods"),
        ("count/pods", "pods"),
        ("services.nodeports", "services"),
        ("requests.storage", "persistentvolumeclaims"),
        ("gold.storageclass.storage.k8s.io/persistentvolumeclaims", "persistentvolumeclaims"),
        ("secrets", "secrets"),
    ];
    for (name, store) in cases {
        let subjects = QuotaSubject::of_name(name);
        assert_eq!(subjects.iter().map(QuotaSubject::store).collect::<Vec<_>>(), [store], "{name}");
        assert!(subjects.iter().all(|subject| subject.counts(name)), "{name}");
    }
    let grouped = QuotaSubject::of_name("count/widgets.example.com");
    assert_eq!(
        grouped.iter().map(QuotaSubject::store).collect::<Vec<_>>(),
        ["widgets.example.com", "example.com/widgets"]
    );
    assert!(grouped.iter().all(|subject| subject.counts("count/widgets.example.com")));
    for name in ["count/events", "deployments.apps", "example.com/gpu", "limits.example.com/gpu"] {
        assert_eq!(QuotaSubject::of_name(name), [], "{name}");
    }
}

#[test]
fn adm_016_a_pod_uses_its_containers_its_sidecars_and_its_overhead() {
    let container = |cpu: &str| json!({"name": "c", "resources": {"requests": {"cpu": cpu, "example.com/gpu": "1"}}});
    let mut sidecar = container("200m");
    sidecar["restartPolicy"] = json!("Always");
    let pod = json!({"spec": {"containers": [container("1"), container("500m")],
                              "initContainers": [sidecar, container("100m")], "overhead": {"cpu": "50m", "memory": "1Mi"}}});
    let usage = QuotaSubject::Pods.usage(&pod);
    let usage: Vec<String> = usage.iter().map(|(name, quantity)| format!("{name}={quantity}")).collect();
    let expected = [
        "count/pods=1",
        "cpu=1750m",
        "memory=1Mi",
        "pods=1",
        "requests.cpu=1750m",
        "requests.example.com/gpu=3",
        "requests.memory=1Mi",
    ];
    assert_eq!(usage, expected);
}

#[test]
fn adm_016_a_large_init_container_counts_instead_of_the_others() {
    let container = |cpu: &str| json!({"name": "c", "resources": {"limits": {"cpu": cpu}}});
    let pod = json!({"spec": {"containers": [container("1")], "initContainers": [container("3")]}});
    let usage = QuotaSubject::Pods.usage(&pod);
    assert_eq!(usage.get("limits.cpu").map(ToString::to_string).as_deref(), Some("3"));
}
