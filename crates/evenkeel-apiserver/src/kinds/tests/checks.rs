use serde_json::json;

use super::*;

#[test]
fn obj_15_selectors_are_required_match_the_template_and_stay() {
    let good = created("apps", "v1", "Deployment", deployment());
    assert!(validate_create("apps", "Deployment", &good).is_empty());

    let mut bad = good.clone();
    bad["spec"].as_object_mut().unwrap().remove("selector");
    assert_eq!(
        messages(validate_create("apps", "Deployment", &bad)),
        [
            "spec.selector: Required value",
            "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template \
             `labels`",
        ]
    );

    let mut bad = good.clone();
    bad["spec"]["selector"]["matchLabels"] = json!({"app": "other"});
    let mismatch = "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template \
                    `labels`";
    assert_eq!(messages(validate_create("apps", "Deployment", &bad)), [mismatch]);
    assert_eq!(
        messages(validate_update("apps", "Deployment", &bad, &good)),
        [mismatch, "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"other\"}}: field is immutable",]
    );

    let mut bad = good.clone();
    bad["spec"]["selector"] = json!({});
    assert_eq!(
        messages(validate_create("apps", "DaemonSet", &bad)),
        ["spec.selector: Invalid value: {}: empty selector is invalid for daemonset"]
    );
    let mut bad = good;
    bad["spec"]["replicas"] = json!(-1);
    assert_eq!(
        messages(validate_create("apps", "Deployment", &bad)),
        ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]
    );
}

#[test]
fn obj_15_containers_need_names_and_images() {
    let found = |containers: Value| {
        let object = defaulted("", "v1", "Pod", json!({"spec": {"containers": containers}}));
        messages(validate_create("", "Pod", &object))
    };
    assert_eq!(found(json!([])), ["spec.containers: Required value"]);
    assert_eq!(
        found(json!([{}])),
        ["spec.containers[0].name: Required value", "spec.containers[0].image: Required value",]
    );
    assert_eq!(
        found(json!([{"name": "a", "image": "i"}, {"name": "a", "image": "i"}])),
        ["spec.containers[1].name: Duplicate value: \"a\""]
    );
    let upper = found(json!([{"name": "A", "image": "i"}]));
    assert!(
        upper[0]
            .starts_with("spec.containers[0].name: Invalid value: \"A\": a lowercase RFC 1123 label must consist of")
    );
    assert_eq!(
        found(json!([{"name": "a", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}])),
        ["spec.containers[0].volumeMounts[0].name: Not found: \"v\""]
    );
    assert_eq!(
        found(json!([{"name": "a", "image": "i", "ports": [{"containerPort": 70000}]}])),
        ["spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"]
    );
    let resources = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}});
    assert_eq!(
        found(json!([{"name": "a", "image": "i", "resources": resources}])),
        ["spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"]
    );
}

#[test]
fn obj_15_only_mutable_fields_of_a_pod_change() {
    let mut old = created("", "v1", "Pod", pod());
    old["spec"]["tolerations"] = json!([{"key": "y", "operator": "Exists"}]);
    let mut new = old.clone();
    new["spec"]["containers"][0]["image"] = json!("busybox:2");
    new["spec"]["activeDeadlineSeconds"] = json!(10);
    new["spec"]["tolerations"].as_array_mut().unwrap().push(json!({"key": "x", "operator": "Exists"}));
    new["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(messages(validate_update("", "Pod", &new, &old)), [""; 0]);

    new["spec"]["nodeName"] = json!("n1");
    new["spec"]["containers"][0]["command"] = json!(["x"]);
    let found = messages(validate_update("", "Pod", &new, &old));
    assert_eq!(found.len(), 1);
    assert!(
        found[0]
            .starts_with("spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,")
    );
    assert!(found[0].ends_with("changed: spec.containers[0].command, spec.nodeName"));

    let mut new = old.clone();
    new["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "d", "image": "i"}));
    assert_eq!(
        messages(validate_update("", "Pod", &new, &old)),
        ["spec.containers: Forbidden: pod updates may not add or remove containers"]
    );
    let mut new = old.clone();
    new["spec"]["tolerations"] = json!([]);
    assert_eq!(
        messages(validate_update("", "Pod", &new, &old)),
        ["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"]
    );
}

#[test]
fn obj_15_a_service_keeps_its_address() {
    let mut old = created("", "v1", "Service", json!({"spec": {"ports": [{"port": 80}]}}));
    assign_service_addresses(&mut old, &UsedAddresses(&[], &[])).unwrap();
    let mut new = defaulted("", "v1", "Service", json!({"spec": {"ports": [{"port": 81}]}}));
    prepare_update("", "Service", &mut new, &old);
    assert_eq!(new["spec"]["clusterIP"], "10.0.0.1");
    assert_eq!(messages(validate_update("", "Service", &new, &old)), [""; 0]);

    new["spec"]["clusterIP"] = json!("10.0.0.7");
    prepare_update("", "Service", &mut new, &old);
    assert_eq!(
        messages(validate_update("", "Service", &new, &old)),
        ["spec.clusterIPs[0]: Invalid value: [\"10.0.0.7\"]: may not change once set"]
    );
    assert_eq!(
        messages(validate_create("", "Service", &json!({"spec": {"type": "ClusterIP"}}))),
        ["spec.ports: Required value"]
    );
}

#[test]
fn obj_15_a_service_that_becomes_external_releases_its_address() {
    let mut old = created("", "v1", "Service", json!({"spec": {"ports": [{"port": 80}]}}));
    assign_service_addresses(&mut old, &UsedAddresses(&[], &[])).unwrap();
    let mut new = old.clone();
    new["spec"]["type"] = json!("ExternalName");
    new["spec"]["externalName"] = json!("example.com");
    prepare_update("", "Service", &mut new, &old);
    assert_eq!(new["spec"].get("clusterIP"), None);
    assert_eq!(messages(validate_update("", "Service", &new, &old)), [""; 0]);
}

#[test]
fn obj_15_immutable_secrets_and_config_maps() {
    let old = json!({"immutable": true, "data": {"a": "YQ=="}, "type": "Opaque"});
    let new = json!({"data": {"a": "Yg=="}, "type": "x"});
    let frozen = "field is immutable when `immutable` is set";
    assert_eq!(
        messages(validate_update("", "Secret", &new, &old)),
        [
            "type: Invalid value: \"x\": field is immutable".to_owned(),
            format!("immutable: Forbidden: {frozen}"),
            format!("data: Forbidden: {frozen}"),
        ]
    );
    let new = json!({"immutable": true, "data": {"a": "c"}, "binaryData": {"b": "YQ=="}});
    assert_eq!(
        messages(validate_update("", "ConfigMap", &new, &old)),
        [format!("data: Forbidden: {frozen}"), format!("binaryData: Forbidden: {frozen}"),]
    );
    let found = messages(validate_create("", "ConfigMap", &json!({"data": {"a/b": ""}})));
    assert!(found[0].starts_with("data[a/b]: Invalid value: \"a/b\": a valid config key must consist of"));
    let tls = json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}});
    assert_eq!(messages(validate_create("", "Secret", &tls)), ["data[tls.key]: Required value"]);
}

#[test]
fn obj_15_leases_scales_bindings_and_claims() {
    let lease = json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}});
    assert_eq!(
        messages(validate_create("coordination.k8s.io", "Lease", &lease)),
        [
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
            "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
        ]
    );
    assert_eq!(
        messages(validate_create("autoscaling", "Scale", &json!({"spec": {"replicas": -1}}))),
        ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]
    );
    let group = "rbac.authorization.k8s.io";
    let old = json!({"roleRef": {"apiGroup": group, "kind": "Role", "name": "a"}});
    let new = json!({"roleRef": {"apiGroup": group, "kind": "Role", "name": "b"}});
    let found = messages(validate_update(group, "RoleBinding", &new, &old));
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("roleRef: Invalid value: {") && found[0].ends_with(": field is immutable"));
    assert_eq!(
        messages(validate_create("", "PersistentVolumeClaim", &json!({"spec": {}}))),
        [
            "spec.accessModes: Required value: at least 1 access mode is required",
            "spec.resources[storage]: Required value",
        ]
    );
}

#[test]
fn obj_15_a_job_runs_to_its_end_and_keeps_its_template() {
    let mut given = deployment();
    given["spec"].as_object_mut().unwrap().remove("selector");
    let object = created("batch", "v1", "Job", given.clone());
    assert_eq!(
        messages(validate_create("batch", "Job", &object)),
        ["spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""]
    );
    given["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    let old = created("batch", "v1", "Job", given);
    assert_eq!(messages(validate_create("batch", "Job", &old)), [""; 0]);
    let mut new = old.clone();
    new["spec"]["parallelism"] = json!(3);
    assert_eq!(messages(validate_update("batch", "Job", &new, &old)), [""; 0]);
    new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("other");
    let found = messages(validate_update("batch", "Job", &new, &old));
    assert!(found[0].starts_with("spec.template: Invalid value: ") && found[0].ends_with(": field is immutable"));
}

#[test]
fn obj_15_finalizers_of_built_in_kinds_are_fully_qualified() {
    let object = json!({"metadata": {"finalizers": ["hold", "orphan", "a.b/c"]}});
    assert_eq!(
        messages(validate_create("", "ConfigMap", &object)),
        ["metadata.finalizers[0]: Invalid value: \"hold\": name is neither a standard finalizer name nor is it fully \
         qualified"]
    );
    assert!(validate_create("example.com", "Foo", &object).is_empty());
}

#[test]
fn obj_15_a_pod_keeps_what_creation_added() {
    let old = created("", "v1", "Pod", pod());
    let mut new = defaulted("", "v1", "Pod", pod());
    prepare_update("", "Pod", &mut new, &old);
    assert_eq!(messages(validate_update("", "Pod", &new, &old)), [""; 0]);
}

#[test]
fn obj_15_events_belong_to_the_namespace_of_their_object() {
    let mut event = json!({"metadata": {"namespace": "n"}, "involvedObject": {"namespace": "n"}, "eventTime": null});
    assert_eq!(messages(validate_create("", "Event", &event)), [""; 0]);
    event["involvedObject"]["namespace"] = json!("m");
    assert_eq!(
        messages(validate_create("", "Event", &event)),
        ["involvedObject.namespace: Invalid value: \"m\": does not match event.namespace"]
    );
    let mut event = json!({
        "metadata": {"namespace": "n"}, "regarding": {"namespace": "n"}, "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "c", "reportingInstance": "c-1", "action": "a", "reason": "r", "type": "Normal",
    });
    let event = {
        default_object("events.k8s.io", "v1", "Event", &mut event);
        event
    };
    assert_eq!(messages(validate_create("events.k8s.io", "Event", &event)), [""; 0]);
    let mut bad = event.clone();
    bad["type"] = json!("Odd");
    bad["deprecatedCount"] = json!(3);
    bad["reportingController"] = json!("");
    bad["series"] = json!({"count": 1});
    let found = messages(validate_create("events.k8s.io", "Event", &bad));
    assert_eq!(found[0], "reportingController: Required value");
    assert!(found.contains(&"type: Invalid value: \"\": has invalid value: Odd".to_owned()));
    assert!(found.contains(&"count: Invalid value: \"\": needs to be unset".to_owned()));
    assert!(found.contains(&"series.lastObservedTime: Required value".to_owned()));
    let mut next = event.clone();
    next["note"] = json!("other");
    assert_eq!(
        messages(validate_update("events.k8s.io", "Event", &next, &event)),
        ["message: Invalid value: \"other\": field is immutable"]
    );
}
