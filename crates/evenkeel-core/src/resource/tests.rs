use k8s_openapi::api::core::v1::{Node, Pod};
use kube_core::{ApiResource, DynamicObject, GroupVersionKind};

use super::*;

#[test]
fn the_core_group_has_its_own_root() {
    let pods = ResourceInfo::of::<Pod>();
    assert_eq!(pods.api_version(), "v1");
    assert_eq!(pods.url_path(Some("ns")), "/api/v1/namespaces/ns/pods");
    assert_eq!(pods.url_path(None), "/api/v1/pods");
    assert_eq!(pods.url_path(Some("")), "/api/v1/pods");
}

#[test]
fn cluster_kinds_have_one_collection() {
    let nodes = ResourceInfo::of::<Node>();
    assert!(!nodes.namespaced());
    assert_eq!(nodes.url_path(Some("ns")), "/api/v1/nodes");
}

#[test]
fn dynamic_kinds_are_captured_once() {
    let gvk = GroupVersionKind::gvk("samplecontroller.k8s.io", "v1alpha1", "Foo");
    let info = ResourceInfo::describe::<DynamicObject>(&ApiResource::from_gvk(&gvk), true);
    assert_eq!(info, ResourceInfo::new("samplecontroller.k8s.io", "v1alpha1", "Foo", "foos", true));
    assert_eq!(info.url_path(Some("default")), "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/default/foos");
}
