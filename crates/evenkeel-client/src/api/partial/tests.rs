use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Container, PodSpec, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use kube_derive::CustomResource;
use serde::Deserialize;
use serde_json::json;

use super::*;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "example.com", version = "v1", kind = "Bakery", namespaced, status = "BakeryStatus")]
#[kube(schema = "disabled", crates(kube_core = "kube_core", k8s_openapi = "k8s_openapi"))]
#[serde(rename_all = "camelCase")]
struct BakerySpec {
    oven_count: i32,
    owner_name: String,
    breads: Vec<Bread>,
    #[serde(rename = "open")]
    is_open: Option<bool>,
    prices: Option<BTreeMap<String, f64>>,
    extra: Option<serde_json::Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BakeryStatus {
    sold: i64,
    r#type: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bread {
    flour: Flour,
    grams: Option<u32>,
    #[serde(flatten)]
    rest: BTreeMap<String, serde_json::Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Flour {
    Rye,
    Wheat,
}

#[test]
fn acf_001_the_body_has_kind_version_name_and_the_fields_that_were_written() {
    let service = apply!(Service {
        metadata: { name: "web", namespace: "default", annotations: { (format!("a/{}", 1)): "b" } },
        spec: {
            cluster_ips: ["10.0.0.1"],
            external_ips: [],
            type_: "ClusterIP",
            ports: [{ port: 80, target_port: "http" }, { port: 81, target_port: 8081 }],
        },
    });
    assert_eq!((service.name().as_deref(), service.namespace().as_deref()), (Some("web"), Some("default")));
    let ports = json!([{"port": 80, "targetPort": "http"}, {"port": 81, "targetPort": 8081}]);
    let expected = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default", "annotations": {"a/1": "b"}},
        "spec": {"clusterIPs": ["10.0.0.1"], "externalIPs": [], "type": "ClusterIP", "ports": ports},
    });
    assert_eq!(serde_json::to_value(&service).unwrap(), expected);
    assert!(!service.has_managed_fields());
    assert!(!format!("{service:?}").contains("10.0.0.1"), "{service:?}");
}

#[test]
fn acf_001_the_name_of_the_request_is_added_unless_the_object_has_one() {
    use super::super::object::with_name;
    let unnamed = apply!(Service { spec: { cluster_ip: "None" } });
    let expected = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"clusterIP": "None"},
    });
    assert_eq!(with_name(&unnamed, "web"), Some(expected));
    let labelled = apply!(Service { metadata: { labels: { "a": "b" } } });
    let metadata = with_name(&labelled, "web").map(|mut service| service["metadata"].take());
    assert_eq!(metadata, Some(json!({"name": "web", "labels": {"a": "b"}})));
    assert_eq!(with_name(&apply!(Service { metadata: { name: "other" } }), "web"), None);
    let faulty = apply!(Bread { grams: 500 });
    assert!(serde_json::to_value(&faulty).is_err(), "and it has no name: {faulty:?}");
    assert_eq!(with_name(&faulty, "web"), None, "the error is that of the object");
}

#[test]
fn acf_002_required_fields_are_not_sent_and_null_is_never_written() {
    // `maxReplicas` and `scaleTargetRef` are required in the type.
    let none: Option<i32> = None;
    let scaler =
        apply!(HorizontalPodAutoscaler { metadata: { name: "web" }, spec: { min_replicas: 2, max_replicas: none } });
    assert_eq!(scaler.as_json()["spec"], json!({"minReplicas": 2}));
    let empty = apply!(HorizontalPodAutoscaler {});
    assert_eq!(*empty.as_json(), json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}));
    let nested = apply!(k8s_openapi::api::core::v1::Pod { spec: {}, metadata: { labels: {} } });
    assert_eq!(nested.as_json()["spec"], json!({}));
    assert_eq!(nested.as_json()["metadata"], json!({"labels": {}}));
}

#[test]
fn acf_002_values_are_text_numbers_whole_values_and_parts() {
    let (name, image) = ("web", String::from("web:1"));
    let container = apply!(Container {
        name,
        image: &image,
        resources: { requests: { "cpu": "500m" }, limits: { "memory": Quantity("1Gi".into()) } },
        command: vec!["run".to_owned()],
        liveness_probe: { http_get: { path: "/".to_owned() + "live", port: IntOrString::Int(80) } },
    });
    let resources = json!({"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}});
    let probe = json!({"httpGet": {"path": "/live", "port": 80}});
    let expected = json!({
        "name": "web", "image": "web:1", "resources": resources, "command": ["run"], "livenessProbe": probe,
    });
    assert_eq!(*container.as_json(), expected, "a type that is no resource has no kind");
    let name = "other";
    let other = apply!(Container { name });
    let spec = apply!(PodSpec { containers: vec![container, other.clone()], init_containers: [other], host_pid: true });
    assert_eq!(spec.as_json()["containers"][1], json!({"name": "other"}));
    assert_eq!(spec.as_json()["initContainers"], json!([{"name": "other"}]));
    assert_eq!(spec.as_json()["hostPID"], json!(true));

    let schema =
        apply!(JSONSchemaProps { ref_path: "#/a", additional_items: None, not: { type_: "string", nullable: false } });
    assert_eq!(*schema.as_json(), json!({"$ref": "#/a", "not": {"type": "string", "nullable": false}}));
}

#[test]
fn acf_002_derived_custom_resources_have_partial_objects_too() {
    let bakery = apply!(Bakery {
        metadata: { name: "b" },
        spec: {
            oven_count: 2,
            is_open as "open": true,
            prices: { "rye": 3.5 },
            extra: json!({"a": null, "b": [1]}),
        },
        status: { sold: 7, r#type: "small" },
    });
    let expected = json!({
        "apiVersion": "example.com/v1",
        "kind": "Bakery",
        "metadata": {"name": "b"},
        "spec": {"ovenCount": 2, "open": true, "prices": {"rye": 3.5}, "extra": {"b": [1]}},
        "status": {"sold": 7, "type": "small"},
    });
    assert_eq!(*bakery.as_json(), expected);
    let whole = apply!(BakerySpec { breads: [Bread { flour: Flour::Rye, grams: None, rest: BTreeMap::new() }] });
    assert_eq!(*whole.as_json(), json!({"breads": [{"flour": "Rye"}]}));
}

#[test]
fn acf_002_a_field_without_a_json_name_is_an_error_and_says_what_to_write() {
    for partial in [
        serde_json::to_string(&apply!(BakerySpec { is_open: true })),
        serde_json::to_string(&apply!(BakerySpec { breads: [{ grams: 500, flour: Flour::Wheat }] })),
    ] {
        let error = partial.unwrap_err().to_string();
        assert!(error.contains("is unknown: write `") && error.contains(" as \"name\""), "{error}");
    }
    let named = apply!(BakerySpec { breads: [{ grams as "grams": 500 }] });
    assert_eq!(*named.as_json(), json!({"breads": [{"grams": 500}]}));
}

#[test]
fn acf_002_every_field_of_the_common_kinds_has_a_json_name() {
    // The names of these types are not the usual camel case.
    for (names, field, name) in [
        (FieldNames::of::<k8s_openapi::api::core::v1::ServiceSpec>(), "external_ips", "externalIPs"),
        (FieldNames::of::<k8s_openapi::api::core::v1::PodStatus>(), "host_ip", "hostIP"),
        (FieldNames::of::<k8s_openapi::api::rbac::v1::PolicyRule>(), "non_resource_urls", "nonResourceURLs"),
        (FieldNames::of::<JSONSchemaProps>(), "x_kubernetes_list_type", "x-kubernetes-list-type"),
        (FieldNames::of::<Box<JSONSchemaProps>>(), "max_items", "maxItems"),
    ] {
        assert_eq!(names.json_name(field), Some(name));
    }
    assert_eq!(FieldNames::of::<String>().json_name("a"), None);
    assert_eq!(FieldNames::of::<Vec<Container>>().json_name("name"), None);
}
