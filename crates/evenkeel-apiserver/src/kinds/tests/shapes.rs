//! For any JSON, the hooks do not panic and are idempotent.

use proptest::prelude::*;

use super::*;

const KINDS: &[(&str, &str, &str)] = &[
    ("", "v1", "Pod"),
    ("", "v1", "PodTemplate"),
    ("", "v1", "ReplicationController"),
    ("", "v1", "Service"),
    ("", "v1", "Endpoints"),
    ("", "v1", "Secret"),
    ("", "v1", "ConfigMap"),
    ("", "v1", "Namespace"),
    ("", "v1", "Node"),
    ("", "v1", "Event"),
    ("", "v1", "LimitRange"),
    ("", "v1", "PersistentVolume"),
    ("", "v1", "PersistentVolumeClaim"),
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "ReplicaSet"),
    ("apps", "v1", "StatefulSet"),
    ("apps", "v1", "DaemonSet"),
    ("batch", "v1", "Job"),
    ("batch", "v1", "CronJob"),
    ("autoscaling", "v1", "HorizontalPodAutoscaler"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler"),
    ("networking.k8s.io", "v1", "NetworkPolicy"),
    ("networking.k8s.io", "v1", "IngressClass"),
    ("discovery.k8s.io", "v1", "EndpointSlice"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
    ("storage.k8s.io", "v1", "CSIDriver"),
    ("coordination.k8s.io", "v1", "Lease"),
    ("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy"),
    ("flowcontrol.apiserver.k8s.io", "v1", "PriorityLevelConfiguration"),
];

/// JSON made of the keys that the hooks use, in expected and unexpected positions.
fn shapes() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "metadata",
        "name",
        "labels",
        "annotations",
        "finalizers",
        "spec",
        "status",
        "template",
        "jobTemplate",
        "containers",
        "initContainers",
        "volumes",
        "volumeMounts",
        "ports",
        "port",
        "env",
        "resources",
        "limits",
        "requests",
        "cpu",
        "selector",
        "matchLabels",
        "matchExpressions",
        "replicas",
        "strategy",
        "rollingUpdate",
        "type",
        "clusterIP",
        "clusterIPs",
        "data",
        "stringData",
        "subjects",
        "rules",
        "webhooks",
        "metrics",
        "behavior",
        "tolerations",
        "image",
        "secret",
        "projected",
        "sources",
        "livenessProbe",
        "httpGet",
        "nodePort",
        "key",
        "operator",
        "values",
        "podIPs",
        "limited",
        "capacity",
        "egress",
        "roleRef",
        "ephemeral",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2i64..3).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "a",
            "A b",
            "é",
            "None",
            "NodePort",
            "LoadBalancer",
            "RollingUpdate",
            "1Gi",
            "In"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 96, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(words.clone(), inner, 0..6)
                .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn obj_14_any_json_is_defaulted_and_a_second_time_changes_nothing(object in shapes(), old in shapes()) {
        for (group, version, kind) in KINDS {
            let once = defaulted(group, version, kind, object.clone());
            prop_assert_eq!(&defaulted(group, version, kind, once.clone()), &once, "{}", kind);
            let mut new = once;
            prepare_create(group, version, kind, &mut new, "uid");
            prepare_update(group, kind, &mut new, &old);
            let _ = assign_service_addresses(&mut new, &UsedAddresses(&[], &[]));
            let _ = validate_create(group, kind, &new);
            let _ = validate_update(group, kind, &new, &old);
            prop_assert!(!generation_changes(group, kind, &new, &new));
            pod::qos_class(&new);
            convert(kind, &mut new, "autoscaling/v1");
            convert(kind, &mut new, "autoscaling/v2");
        }
    }
}
