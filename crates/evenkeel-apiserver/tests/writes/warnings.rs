//! Warnings about built-in kinds.

use serde_json::{Value, json};

use crate::api::Api;
use crate::{DEPLOYMENTS, PODS, deployment, pod};

/// Sends a dry run of a create, and returns its warnings without their headers' agent and code.
async fn warnings(api: &Api, path: &str, object: &Value) -> Vec<String> {
    let response = api.post(&format!("{path}?dryRun=All"), object).await;
    assert_eq!(response.status, 201, "{}", response.text);
    let text = |warning: &&str| {
        let quoted = warning.strip_prefix("299 - \"").unwrap().strip_suffix('"').unwrap();
        quoted.replace("\\\"", "\"")
    };
    response.warnings().iter().map(text).collect()
}

#[tokio::test]
async fn obj_16_pods_with_deprecated_fields() {
    let api = Api::start().await;
    let mut object = pod("p");
    assert_eq!(warnings(&api, PODS, &object).await, Vec::<String>::new());
    object["metadata"]["name"] = json!("a.b");
    object["metadata"]["annotations"] = json!({
        "scheduler.alpha.kubernetes.io/critical-pod": "", "seccomp.security.alpha.kubernetes.io/pod": "runtime/default"});
    object["spec"]["nodeSelector"] = json!({"beta.kubernetes.io/os": "linux"});
    object["spec"]["volumes"] = json!([{"name": "v", "gitRepo": {"repository": "r"}}]);
    object["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"},
                                                    {"name": "A", "value": "$(A)3"}]);
    object["spec"]["containers"][0]["resources"] = json!({"requests": {"memory": "100m"}});
    object["spec"]["topologySpreadConstraints"] =
        json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]);
    assert_eq!(
        warnings(&api, PODS, &object).await,
        [
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is \
         recommended: [must not contain dots]",
            "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
            "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
            "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the \
         \"priorityClassName\" field instead",
            "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
            "metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the \
         \"seccompProfile\" field instead",
            "spec.containers[0].resources.requests[memory]: fractional byte value \"100m\" is invalid, must be an integer",
            "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
        ]
    );
}

#[tokio::test]
async fn obj_16_ports_that_overlap() {
    let api = Api::start().await;
    let mut object = pod("p");
    object["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "name": "http"}]);
    let second = json!({"name": "b", "image": "app", "ports": [
        {"containerPort": 80, "name": "http"}, {"containerPort": 81, "hostIP": "10.0.0.1"}]});
    object["spec"]["containers"].as_array_mut().unwrap().push(second);
    assert_eq!(
        warnings(&api, PODS, &object).await,
        [
            "spec.containers[1].ports[0]: duplicate port definition with spec.containers[0].ports[0]",
            "spec.containers[1].ports[1]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:81 Protocol:TCP \
         HostIP:10.0.0.1}",
            "spec.containers[1].ports[0]: duplicate port name \"http\" with spec.containers[0].ports[0], services and probes \
         that select ports by name will use spec.containers[0].ports[0]",
        ]
    );
}

#[tokio::test]
async fn obj_16_templates_warn_when_they_change() {
    let api = Api::start().await;
    let mut object = deployment("d");
    object["spec"]["template"]["spec"]["nodeSelector"] = json!({"beta.kubernetes.io/arch": "arm64"});
    let expected = "299 - \"spec.template.spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use \
                    \\\"kubernetes.io/arch\\\" instead\"";
    let created = api.post(DEPLOYMENTS, &object).await;
    assert_eq!(created.warnings(), [expected]);
    let path = format!("{DEPLOYMENTS}/d");
    let labelled = api.patch(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(labelled.warnings(), Vec::<&str>::new());
    let changed = api.patch(&path, &json!({"spec": {"replicas": 2}})).await;
    assert_eq!(changed.warnings(), [expected]);
}

#[tokio::test]
async fn obj_16_services_ingresses_and_volumes() {
    let api = Api::start().await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s",
        "annotations": {"service.kubernetes.io/topology-aware-hints": "auto"}},
        "spec": {"ports": [{"port": 80}], "externalIPs": ["1.2.3.4"], "externalName": "x.example.com",
                 "trafficDistribution": "PreferClose"}});
    assert_eq!(
        warnings(&api, "/api/v1/namespaces/default/services", &service).await,
        [
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use \
         service.kubernetes.io/topology-mode instead",
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
        ]
    );
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "i", "annotations": {"kubernetes.io/ingress.class": "nginx"}},
        "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}});
    let path = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let expected =
        "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead";
    assert_eq!(warnings(&api, path, &ingress).await, [expected]);
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp"},
                 "persistentVolumeReclaimPolicy": "Recycle"}});
    assert_eq!(
        warnings(&api, "/api/v1/persistentvolumes", &volume).await,
        [
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach \
         is to use dynamic provisioning."
        ]
    );
}

#[tokio::test]
async fn obj_16_every_response_about_a_deprecated_kind_warns() {
    let api = Api::start().await;
    let expected = "299 - \"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\"";
    let path = "/api/v1/namespaces/default/endpoints";
    assert_eq!(api.get(path).await.warnings(), [expected]);
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "e"}});
    assert_eq!(api.post(path, &endpoints).await.warnings(), [expected]);
    assert_eq!(api.get(PODS).await.warnings(), Vec::<&str>::new());
}
