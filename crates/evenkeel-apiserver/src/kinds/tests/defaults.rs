use serde_json::json;

use super::*;

#[test]
fn obj_14_a_deployment_is_defaulted_as_recorded() {
    let object = created("apps", "v1", "Deployment", deployment());
    assert_eq!(
        object["spec"],
        json!({
            "progressDeadlineSeconds": 600, "replicas": 2, "revisionHistoryLimit": 10,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}, "type": "RollingUpdate"},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
                "containers": [{
                    "image": "nginx:1", "imagePullPolicy": "IfNotPresent", "name": "c", "resources": {},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                }],
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                "securityContext": {}, "terminationGracePeriodSeconds": 30,
            }},
        })
    );
    assert_eq!(object["status"], json!({}));
}

#[test]
fn obj_14_a_pod_is_created_as_recorded() {
    let object = created("", "v1", "Pod", pod());
    assert_eq!(object["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    let mut spec = object["spec"].clone();
    let spec = spec.as_object_mut().unwrap();
    assert_eq!(spec.remove("containers").unwrap()[0]["imagePullPolicy"], "Always");
    assert_eq!(
        Value::Object(spec.clone()),
        json!({
            "dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "restartPolicy": "Always", "schedulerName": "default-scheduler", "securityContext": {},
            "terminationGracePeriodSeconds": 30,
        })
    );
}

#[test]
fn obj_14_defaulting_twice_changes_nothing() {
    let objects = [
        ("", "v1", "Pod", pod()),
        ("apps", "v1", "Deployment", deployment()),
        ("apps", "v1", "StatefulSet", deployment()),
        ("apps", "v1", "DaemonSet", deployment()),
        ("batch", "v1", "Job", deployment()),
        ("", "v1", "Service", json!({"spec": {"ports": [{"port": 80}], "type": "LoadBalancer"}})),
        ("", "v1", "Secret", json!({"stringData": {"a": "b"}})),
        ("autoscaling", "v2", "HorizontalPodAutoscaler", json!({"spec": {"behavior": {}}})),
        ("networking.k8s.io", "v1", "NetworkPolicy", json!({"spec": {"egress": [{"ports": [{"port": 1}]}]}})),
        ("", "v1", "Event", json!({})),
        ("", "v1", "Namespace", json!({"metadata": {"name": "a"}})),
    ];
    for (group, version, kind, object) in objects {
        let once = defaulted(group, version, kind, object);
        assert_eq!(defaulted(group, version, kind, once.clone()), once, "{kind}");
    }
}

#[test]
fn obj_14_given_values_are_kept() {
    let mut given = deployment();
    given["spec"]["strategy"] = json!({"type": "Recreate"});
    given["spec"]["replicas"] = json!(0);
    given["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    let object = defaulted("apps", "v1", "Deployment", given);
    assert_eq!(object["spec"]["strategy"], json!({"type": "Recreate"}));
    assert_eq!(object["spec"]["replicas"], 0);
    assert_eq!(object["spec"]["template"]["spec"]["restartPolicy"], "Never");
}

#[test]
fn obj_14_unexpected_shapes_do_not_panic() {
    for object in [json!({"spec": 3}), json!({"spec": {"template": []}}), json!([]), json!(null)] {
        for kind in ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"] {
            let mut object = object.clone();
            default_object("apps", "v1", kind, &mut object);
            prepare_create("apps", "v1", kind, &mut object, "u");
            let _ = validate_update("apps", kind, &object, &object);
        }
    }
}

#[test]
fn obj_14_probes_ports_and_environment() {
    let mut given = pod();
    given["spec"]["hostNetwork"] = json!(true);
    given["spec"]["containers"][0] = json!({
        "name": "c", "image": "a:1",
        "ports": [{"containerPort": 80}],
        "livenessProbe": {"httpGet": {"port": 80}},
        "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}},
    });
    let object = defaulted("", "v1", "Pod", given);
    let container = &object["spec"]["containers"][0];
    assert_eq!(container["ports"], json!([{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]));
    assert_eq!(
        container["livenessProbe"],
        json!({
            "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
            "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
        })
    );
    assert_eq!(container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], "v1");
    assert_eq!(container["resources"]["requests"], json!({"cpu": "1", "memory": "1Gi"}));
}

#[test]
fn obj_14_stateful_sets_daemon_sets_and_replica_sets() {
    let mut given = deployment();
    given["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {}}]);
    let object = created("apps", "v1", "StatefulSet", given);
    let spec = &object["spec"];
    assert_eq!(spec["podManagementPolicy"], "OrderedReady");
    assert_eq!(
        spec["updateStrategy"],
        json!({"rollingUpdate": {"maxUnavailable": 1, "partition": 0}, "type": "RollingUpdate"})
    );
    let retention = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    assert_eq!(spec["persistentVolumeClaimRetentionPolicy"], retention);
    assert_eq!(
        spec["volumeClaimTemplates"][0],
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
            "spec": {"resources": {}, "volumeMode": "Filesystem"}, "status": {"phase": "Pending"},
        })
    );
    assert_eq!(object["status"], json!({"availableReplicas": 0, "replicas": 0}));

    let object = created("apps", "v1", "DaemonSet", deployment());
    let rolling = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}, "type": "RollingUpdate"});
    assert_eq!(object["spec"]["updateStrategy"], rolling);
    assert_eq!(object["status"]["numberReady"], 0);

    let object = created("apps", "v1", "ReplicaSet", json!({"status": {"replicas": 9}}));
    assert_eq!(object["spec"]["replicas"], 1);
    assert_eq!(object["status"], json!({"replicas": 0}));
}

#[test]
fn obj_14_a_job_finds_its_pods_by_its_uid() {
    let given = json!({
        "metadata": {"name": "pi"},
        "spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [], "restartPolicy": "Never"}}},
    });
    let object = created("batch", "v1", "Job", given);
    let spec = &object["spec"];
    assert_eq!(spec["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "uid-1"}}));
    assert_eq!(
        spec["template"]["metadata"]["labels"],
        json!({
            "a": "b", "job-name": "pi", "batch.kubernetes.io/job-name": "pi",
            "controller-uid": "uid-1", "batch.kubernetes.io/controller-uid": "uid-1",
        })
    );
    assert_eq!(object["metadata"]["labels"], spec["template"]["metadata"]["labels"]);
    for (key, value) in [
        ("completions", json!(1)),
        ("parallelism", json!(1)),
        ("backoffLimit", json!(6)),
        ("completionMode", json!("NonIndexed")),
        ("suspend", json!(false)),
        ("manualSelector", json!(false)),
        ("podReplacementPolicy", json!("TerminatingOrFailed")),
    ] {
        assert_eq!(spec[key], value, "{key}");
    }
}

#[test]
fn obj_14_services_get_the_lowest_free_address() {
    let mut object = created("", "v1", "Service", json!({"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}));
    assign_service_addresses(&mut object, &UsedAddresses(&["10.0.0.1"], &[])).unwrap();
    assert_eq!(
        object["spec"],
        json!({
            "clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"], "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            "selector": {"a": "b"}, "sessionAffinity": "None", "type": "ClusterIP",
        })
    );
    assert_eq!(object["status"], json!({"loadBalancer": {}}));

    let mut headless = created("", "v1", "Service", json!({"spec": {"clusterIP": "None", "selector": {"a": "b"}}}));
    assign_service_addresses(&mut headless, &UsedAddresses(&[], &[])).unwrap();
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));

    let mut nodes =
        created("", "v1", "Service", json!({"spec": {"type": "NodePort", "ports": [{"port": 1}, {"port": 2}]}}));
    assign_service_addresses(&mut nodes, &UsedAddresses(&[], &[30000])).unwrap();
    assert_eq!(nodes["spec"]["ports"][0]["nodePort"], 30001);
    assert_eq!(nodes["spec"]["ports"][1]["nodePort"], 30002);
    assert_eq!(nodes["spec"]["externalTrafficPolicy"], "Cluster");

    let mut wanted = created("", "v1", "Service", json!({"spec": {"clusterIP": "10.0.0.9", "ports": [{"port": 1}]}}));
    let refused = assign_service_addresses(&mut wanted, &UsedAddresses(&["10.0.0.9"], &[])).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "spec.clusterIPs: Invalid value: [\"10.0.0.9\"]: failed to allocate IP 10.0.0.9: provided IP is already allocated"
    );
}

#[test]
fn obj_14_secrets_turn_string_data_into_data() {
    let object = defaulted("", "v1", "Secret", json!({"data": {"b": "AAEC"}, "stringData": {"pw": "hunter2"}}));
    assert_eq!(object, json!({"data": {"b": "AAEC", "pw": "aHVudGVyMg=="}, "type": "Opaque"}));
}

#[test]
fn obj_14_other_kinds() {
    let object = defaulted("networking.k8s.io", "v1", "NetworkPolicy", json!({"spec": {"egress": [{}]}}));
    assert_eq!(object["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    let binding = json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [
        {"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
    ]});
    let object = defaulted("rbac.authorization.k8s.io", "v1", "RoleBinding", binding);
    assert_eq!(object["roleRef"]["apiGroup"], "rbac.authorization.k8s.io");
    assert_eq!(object["subjects"][0]["apiGroup"], "rbac.authorization.k8s.io");
    assert_eq!(object["subjects"][1].get("apiGroup"), None);
    let object = defaulted("autoscaling", "v2", "HorizontalPodAutoscaler", json!({"spec": {"maxReplicas": 3}}));
    assert_eq!(object["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 80);
    assert_eq!(object["spec"]["minReplicas"], 1);
    let object = defaulted("scheduling.k8s.io", "v1", "PriorityClass", json!({"value": 5}));
    assert_eq!(object, json!({"preemptionPolicy": "PreemptLowerPriority", "value": 5}));
    let object = defaulted("storage.k8s.io", "v1", "StorageClass", json!({"provisioner": "p"}));
    assert_eq!(object["volumeBindingMode"], "Immediate");
    let event = defaulted("", "v1", "Event", json!({"source": {"component": "x"}, "reason": "r"}));
    assert_eq!(event["eventTime"], Value::Null);
    assert_eq!(event["reportingComponent"], "");
    let range = json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}]}});
    let object = defaulted("", "v1", "LimitRange", range);
    assert_eq!(object["spec"]["limits"][0]["default"], json!({"cpu": "2"}));
    assert_eq!(object["spec"]["limits"][0]["defaultRequest"], json!({"cpu": "2", "memory": "1Mi"}));
}

#[test]
fn obj_14_the_qos_class_follows_from_requests_and_limits() {
    let of = |containers: Value| pod::qos_class(&json!({"containers": containers}));
    assert_eq!(of(json!([{}])), "BestEffort");
    assert_eq!(of(json!([{"resources": {"requests": {"nvidia.com/gpu": 1}}}])), "BestEffort");
    let full = json!({"resources": {
        "limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"},
    }});
    assert_eq!(of(json!([full])), "Guaranteed");
    assert_eq!(of(json!([full, {}])), "Burstable");
    assert_eq!(of(json!([{"resources": {"requests": {"cpu": "10m"}}}])), "Burstable");
}

#[test]
fn ns_2_a_new_namespace_is_active_labelled_and_held_by_its_finalizer() {
    let object = created("", "v1", "Namespace", json!({"metadata": {"name": "a"}, "status": {"phase": "x"}}));
    assert_eq!(
        object,
        json!({
            "metadata": {"name": "a", "labels": {"kubernetes.io/metadata.name": "a"}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        })
    );
    let mut update = json!({"metadata": {"name": "a"}, "spec": {"finalizers": []}});
    prepare_update("", "Namespace", &mut update, &object);
    assert_eq!(update["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(update["metadata"]["labels"]["kubernetes.io/metadata.name"], "a");
}

#[test]
fn sub_9_generation_counts_changes_outside_metadata_and_status() {
    let old = created("apps", "v1", "ReplicaSet", deployment());
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({"x": "y"});
    new["metadata"]["annotations"] = json!({"x": "y"});
    new["status"]["replicas"] = json!(4);
    assert!(!generation_changes("apps", "ReplicaSet", &new, &old));
    new["spec"]["replicas"] = json!(4);
    assert!(generation_changes("apps", "ReplicaSet", &new, &old));
    let mut removed = old.clone();
    removed["spec"].as_object_mut().unwrap().remove("replicas");
    assert!(generation_changes("apps", "ReplicaSet", &removed, &old));

    let old = json!({"metadata": {}, "endpoints": []});
    let new = json!({"metadata": {"labels": {"a": "b"}}, "endpoints": []});
    assert!(generation_changes("discovery.k8s.io", "EndpointSlice", &new, &old));
    assert!(!generation_changes("scheduling.k8s.io", "PriorityClass", &json!({"value": 1}), &json!({"value": 2})));
}

#[test]
fn sub_10_annotations_count_for_deployments_and_status_for_objects_without_the_sub_resource() {
    let old = created("apps", "v1", "Deployment", deployment());
    let mut new = old.clone();
    new["metadata"]["annotations"] = json!({"x": "y"});
    assert!(generation_changes("apps", "Deployment", &new, &old));
    let (old, new) = (json!({"status": 1}), json!({"status": 2}));
    assert!(content_changes(&new, &old, false));
    assert!(!content_changes(&new, &old, true));
}

#[test]
fn del_8_the_grace_period_is_for_pods_that_run() {
    let mut pod = json!({"spec": {"terminationGracePeriodSeconds": 30}});
    assert_eq!(pod_grace_period(&pod, Some(5)), 0);
    pod["spec"]["nodeName"] = json!("n");
    assert_eq!(pod_grace_period(&pod, None), 30);
    assert_eq!(pod_grace_period(&pod, Some(5)), 5);
    assert_eq!(pod_grace_period(&pod, Some(-1)), 1);
    pod["status"] = json!({"phase": "Failed"});
    assert_eq!(pod_grace_period(&pod, None), 0);
}
