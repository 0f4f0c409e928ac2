use std::collections::HashSet;

use super::builtin::RESOURCES;
use super::*;

/// A custom resource as a definition would make it, for tests of everything that reads the registry.
pub(crate) fn custom(group: &str, version: &str, kind: &str, plural: &str) -> Resource {
    let own = |text: &str| text.to_owned();
    Resource {
        group: own(group),
        version: own(version),
        kind: own(kind),
        list_kind: format!("{kind}List"),
        plural: own(plural),
        singular: kind.to_lowercase(),
        short_names: vec![own("fo")],
        categories: Vec::new(),
        namespaced: true,
        verbs: ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
            .map(str::to_owned)
            .to_vec(),
        subresources: vec![Subresource {
            name: own("status"),
            verbs: ["get", "patch", "update"].map(str::to_owned).to_vec(),
            response_group: own(group),
            response_version: own(version),
            response_kind: own(kind),
        }],
        storage: storage_key(group, plural).into(),
        strategy: KindStrategy::default(),
        schema: None,
        custom: Some(Arc::new(CustomFacts {
            definition: format!("{plural}.{group}"),
            storage_version: own(version),
            published_schema: serde_json::json!({
                "type": "object",
                "properties": {"spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}}},
                "required": ["spec"],
            }),
            ..CustomFacts::default()
        })),
    }
}

/// The built-in registry with the transcript's `Foo`.
pub(crate) fn with_foo() -> Registry {
    Registry::builtin()
        .with_definition("foos.sample.evenkeel.dev", vec![custom("sample.evenkeel.dev", "v1", "Foo", "foos")])
}

fn builtin(group: &str, plural: &str) -> Arc<Resource> {
    RESOURCES
        .iter()
        .find(|resource| resource.group == group && resource.plural == plural)
        .unwrap_or_else(|| panic!("{plural}.{group} is served"))
        .clone()
}

fn kinds(chosen: impl Fn(&KindStrategy) -> bool) -> HashSet<String> {
    RESOURCES.iter().filter(|resource| chosen(&resource.strategy)).map(|resource| resource.kind.clone()).collect()
}

#[test]
fn arc_5_the_api_surface_is_data() {
    assert!(RESOURCES.len() > 60);
    let deployments = builtin("apps", "deployments");
    assert_eq!(
        (deployments.kind.as_str(), deployments.list_kind.as_str(), deployments.singular.as_str()),
        ("Deployment", "DeploymentList", "deployment")
    );
    assert_eq!((deployments.short_names.as_slice(), deployments.namespaced), (&["deploy".to_owned()][..], true));
    assert_eq!(deployments.api_version(), "apps/v1");
    let scale = deployments.subresource("scale").unwrap();
    assert_eq!((scale.response_group.as_str(), scale.response_kind.as_str()), ("autoscaling", "Scale"));
    let status = deployments.subresource("status").unwrap();
    assert_eq!((status.response_group.as_str(), status.response_version.as_str()), ("apps", "v1"));
    assert!(deployments.strategy.has_status && !builtin("", "configmaps").strategy.has_status);
}

#[test]
fn arc_5_strategy_tables_name_only_served_resources() {
    let served: HashSet<&str> = RESOURCES.iter().map(|resource| &*resource.storage).collect();
    for store in strategy::named_stores() {
        assert!(served.contains(store), "{store} is in a table but not served");
    }
}

#[test]
fn arc_5_versions_and_twins_share_a_store() {
    assert_eq!(&*builtin("", "pods").storage, "pods");
    assert_eq!(&*builtin("apps", "deployments").storage, "deployments.apps");
    assert_eq!(builtin("", "events").storage, builtin("events.k8s.io", "events").storage);
    let registry = Registry::builtin();
    let [v1, v2] = ["v1", "v2"]
        .map(|version| &registry.lookup("autoscaling", version, "horizontalpodautoscalers").unwrap().storage);
    assert_eq!(v1, v2);
}

#[test]
fn arc_5_every_builtin_kind_names_a_published_schema() {
    let facts: serde_json::Value = serde_json::from_str(include_str!("../../data/openapi-schemas-1.37.json")).unwrap();
    for resource in RESOURCES.iter() {
        let Some(SchemaHandle::Builtin(schema)) = &resource.schema else { panic!("{} has no schema", resource.plural) };
        let published = &facts[schema.id()]["x-kubernetes-group-version-kind"][0];
        assert_eq!(
            published,
            &serde_json::json!({"group": resource.group, "version": resource.version, "kind": resource.kind}),
            "{}",
            schema.id()
        );
    }
}

#[test]
fn obj_10_name_rules() {
    assert_eq!(builtin("", "namespaces").strategy.names, NameRule::DnsLabel);
    assert_eq!(builtin("", "services").strategy.names, NameRule::Dns1035Label);
    assert_eq!(builtin("", "pods").strategy.names, NameRule::DnsSubdomain);
    for plural in ["roles", "rolebindings", "clusterroles", "clusterrolebindings"] {
        assert_eq!(builtin("rbac.authorization.k8s.io", plural).strategy.names, NameRule::PathSegment);
    }
}

#[test]
fn sub_9_generation_is_tracked_where_upstream_does() {
    let tracking = kinds(|strategy| strategy.tracks_generation);
    for kind in [
        "Pod",
        "Deployment",
        "StatefulSet",
        "Job",
        "CronJob",
        "Ingress",
        "NetworkPolicy",
        "EndpointSlice",
        "FlowSchema",
        "CustomResourceDefinition",
        "ValidatingAdmissionPolicyBinding",
        "HorizontalPodAutoscaler",
        "PodTemplate",
        "ReplicationController",
    ] {
        assert!(tracking.contains(kind), "{kind}");
    }
    for kind in [
        "ConfigMap",
        "Secret",
        "Service",
        "Node",
        "Namespace",
        "ServiceAccount",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Role",
        "ClusterRoleBinding",
        "Lease",
        "Event",
    ] {
        assert!(!tracking.contains(kind), "{kind}");
    }
}

#[test]
fn upd_4_kinds_that_require_a_resource_version() {
    let conditional = kinds(|strategy| !strategy.unconditional_update);
    let expected = [
        "CustomResourceDefinition",
        "Lease",
        "PodDisruptionBudget",
        "RuntimeClass",
        "CSIDriver",
        "CSINode",
        "CSIStorageCapacity",
        "VolumeAttachment",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ClusterTrustBundle",
        "PodCertificateRequest",
        "StorageVersionMigration",
    ];
    assert_eq!(conditional, expected.map(str::to_owned).into());
}

#[test]
fn upd_6_kinds_that_an_update_creates() {
    let expected = [
        "Lease",
        "Endpoints",
        "Event",
        "LimitRange",
        "Service",
        "RuntimeClass",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
    ];
    assert_eq!(kinds(|strategy| strategy.create_on_update), expected.map(str::to_owned).into());
}

#[test]
fn del_5_kinds_whose_delete_returns_the_object() {
    let objects = kinds(|strategy| strategy.delete_returns_object);
    for kind in ["Namespace", "Pod", "PersistentVolumeClaim", "Service", "ServiceAccount", "ResourceClaim"] {
        assert!(objects.contains(kind), "{kind}");
    }
    for kind in ["ConfigMap", "Secret", "Deployment", "Job", "Lease", "Endpoints"] {
        assert!(!objects.contains(kind), "{kind}");
    }
    assert_eq!(objects.len(), 18);
}

#[test]
fn del_12_kinds_that_orphan_by_default() {
    assert_eq!(
        kinds(|strategy| strategy.orphans_by_default),
        ["Job", "ReplicationController"].map(str::to_owned).into()
    );
}

#[test]
fn sel_3_selectable_fields() {
    let labels = |group: &str, plural: &str| -> Vec<String> {
        let resource = builtin(group, plural);
        resource.strategy.selectable.iter().map(|field| field.label.clone()).collect()
    };
    assert_eq!(labels("", "pods").len(), 10);
    assert_eq!(labels("", "secrets"), ["type"]);
    assert_eq!(labels("", "nodes"), ["spec.unschedulable"]);
    assert!(labels("", "events").contains(&"involvedObject.uid".to_owned()));
    assert!(labels("events.k8s.io", "events").contains(&"regarding.uid".to_owned()));
    assert_eq!(labels("resource.k8s.io", "resourceslices"), ["spec.nodeName", "spec.driver", "spec.pool.name"]);
    assert!(labels("", "configmaps").is_empty());

    let path = |plural: &str, group: &str, label: &str| {
        let resource = builtin(group, plural);
        let field = resource.strategy.selectable.iter().find(|field| field.label == label);
        field.unwrap().path.join(".")
    };
    assert_eq!(path("pods", "", "spec.host"), "spec.nodeName");
    assert_eq!(path("events", "", "source"), "source.component");
    assert_eq!(path("jobs", "batch", "status.successful"), "status.succeeded");
    assert_eq!(builtin("", "nodes").absent_field("spec.unschedulable"), "false");
    assert_eq!(builtin("batch", "jobs").absent_field("status.successful"), "0");
    assert_eq!(builtin("", "pods").absent_field("spec.nodeName"), "");
}

#[test]
fn sel_4_how_unknown_fields_are_refused() {
    let words = |group: &str, plural: &str| builtin(group, plural).strategy.unknown_field;
    assert_eq!(words("", "pods"), UnknownField::NotSupported);
    assert_eq!(words("events.k8s.io", "events"), UnknownField::NotSupported);
    assert_eq!(words("", "configmaps"), UnknownField::OnlyMetadata);
    assert_eq!(words("apps", "deployments"), UnknownField::OnlyMetadata);
    assert_eq!(words("batch", "jobs"), UnknownField::NotSupportedForKind);
}

#[test]
fn dis_7_groups_by_priority_and_versions_by_stability() {
    let registry = Registry::builtin();
    let names: Vec<&str> = registry.groups().iter().map(|group| &*group.name).collect();
    assert_eq!(names[..5], ["", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io"]);
    assert_eq!(registry.group("autoscaling").unwrap().preferred().unwrap().name, "v2");

    let mut versions = [
        "foo1",
        "v1",
        "v1alpha1",
        "v10",
        "v2beta1",
        "v11alpha2",
        "foo10",
        "v3beta1",
        "v11beta2",
        "v2",
        "v01",
        "v1beta",
        "v1beta10",
        "v1beta2",
    ];
    versions.sort_by_cached_key(|version| snapshot::version_priority(version));
    assert_eq!(
        versions,
        [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v3beta1",
            "v2beta1",
            "v1beta10",
            "v1beta2",
            "v11alpha2",
            "v1alpha1",
            "foo1",
            "foo10",
            "v01",
            "v1beta"
        ]
    );
}

#[test]
fn dis_8_definitions_change_and_old_registries_stay() {
    let before = Registry::builtin();
    let with = with_foo();
    assert!(before.lookup("sample.evenkeel.dev", "v1", "foos").is_none());
    let foo = with.lookup("sample.evenkeel.dev", "v1", "foos").unwrap();
    assert_eq!(foo.kind, "Foo");
    assert_eq!(with.groups().last().unwrap().name, "sample.evenkeel.dev");
    assert!(
        with.lookup_kind("sample.evenkeel.dev", "v1", "Foo").is_some()
            && with.lookup_kind("apps", "v1", "Foo").is_none()
    );

    let more = with.with_definition(
        "bars.sample.evenkeel.dev",
        vec![
            custom("sample.evenkeel.dev", "v1", "Bar", "bars"),
            custom("sample.evenkeel.dev", "v1beta1", "Bar", "bars"),
        ],
    );
    let group = more.group("sample.evenkeel.dev").unwrap();
    let versions: Vec<&str> = group.versions.iter().map(|version| &*version.name).collect();
    assert_eq!(versions, ["v1", "v1beta1"]);
    let plurals: Vec<&str> = group.versions[0].resources.iter().map(|resource| &*resource.plural).collect();
    assert_eq!(plurals, ["bars", "foos"]);

    let without = more.without_definition("foos.sample.evenkeel.dev");
    assert!(without.lookup("sample.evenkeel.dev", "v1", "foos").is_none());
    assert!(without.lookup("sample.evenkeel.dev", "v1", "bars").is_some());
    let gone = without.without_definition("bars.sample.evenkeel.dev");
    assert!(gone.group("sample.evenkeel.dev").is_none());
    assert_eq!(gone.groups().len(), before.groups().len());
    // Unchanged groups are shared, with their documents.
    assert!(Arc::ptr_eq(before.group("apps").unwrap(), gone.group("apps").unwrap()));
    let kept = more.without_definition("unheard-of");
    assert!(Arc::ptr_eq(more.group("sample.evenkeel.dev").unwrap(), kept.group("sample.evenkeel.dev").unwrap()));
}

#[test]
fn dis_8_a_version_that_did_not_change_keeps_its_documents() {
    let one = with_foo();
    let two = one.with_definition("bars.sample.evenkeel.dev", vec![custom("sample.evenkeel.dev", "v2", "Bar", "bars")]);
    let v1 = |registry: &Registry| registry.group("sample.evenkeel.dev").unwrap().version("v1").unwrap().clone();
    assert!(Arc::ptr_eq(&v1(&one), &v1(&two)));
}

#[test]
fn dis_8_a_definition_may_join_a_builtin_group() {
    let joined = Registry::builtin()
        .with_definition("widgets.networking.k8s.io", vec![custom("networking.k8s.io", "v1", "Widget", "widgets")]);
    assert!(joined.lookup("networking.k8s.io", "v1", "widgets").is_some());
    assert!(joined.lookup("networking.k8s.io", "v1", "ingresses").is_some());
    let apart = joined.without_definition("widgets.networking.k8s.io");
    assert!(apart.lookup("networking.k8s.io", "v1", "widgets").is_none());
    assert!(apart.lookup("networking.k8s.io", "v1", "ingresses").is_some());
}

#[test]
fn ns_7_every_namespaced_store_once() {
    let registry = with_foo();
    let stores: Vec<&str> = registry.namespaced_stores().map(|resource| &*resource.storage).collect();
    let unique: HashSet<&&str> = stores.iter().collect();
    assert_eq!(unique.len(), stores.len());
    for store in ["pods", "events", "leases.coordination.k8s.io", "foos.sample.evenkeel.dev"] {
        assert!(stores.contains(&store), "{store}");
    }
    for store in ["nodes", "bindings", "localsubjectaccessreviews.authorization.k8s.io"] {
        assert!(!stores.contains(&store), "{store}");
    }
}

#[test]
fn dis_3_storage_version_hashes() {
    let hash = |group: &str, plural: &str| builtin(group, plural).storage_version_hash();
    assert_eq!(hash("", "pods").as_deref(), Some("xPOwRZ+Yhw8="));
    assert_eq!(hash("apps", "deployments").as_deref(), Some("8aSe+NMegvE="));
    assert_eq!(hash("events.k8s.io", "events"), hash("", "events"));
    assert_eq!(hash("autoscaling", "horizontalpodautoscalers").as_deref(), Some("qwQve8ut294="));
    assert_eq!(hash("", "bindings"), None);
    assert_eq!(
        custom("sample.evenkeel.dev", "v1", "Foo", "foos").storage_version_hash().as_deref(),
        Some("pI+VOG4ISJY=")
    );
}
