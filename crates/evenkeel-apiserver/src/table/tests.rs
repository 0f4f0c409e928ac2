use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::registry::{CustomFacts, KindStrategy};

fn now() -> Timestamp {
    "2026-01-01T00:02:05Z".parse().unwrap()
}

fn resource(group: &str, kind: &str, columns: Option<Vec<PrinterColumn>>) -> Resource {
    Resource {
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
        list_kind: format!("{kind}List"),
        plural: String::new(),
        singular: String::new(),
        short_names: vec![],
        categories: vec![],
        namespaced: true,
        verbs: vec![],
        subresources: vec![],
        storage: "x".into(),
        strategy: KindStrategy::default(),
        schema: None,
        custom: columns.map(|columns| Arc::new(CustomFacts { columns, ..CustomFacts::default() })),
    }
}

/// Returns the headings and cells of one object, whose age is two minutes and five seconds.
fn print(group: &str, kind: &str, mut object: Value) -> Vec<(String, Value)> {
    object["metadata"]["name"] = json!("x");
    object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    let printer = Printer::new(&resource(group, kind, None));
    let names = printer.columns().into_iter().map(|column| column.name.into_owned());
    let cells = printer.cells(&object, now());
    assert_eq!(printer.columns().len(), cells.len());
    names.zip(cells).collect()
}

fn cells(group: &str, kind: &str, object: Value) -> Vec<Value> {
    print(group, kind, object).into_iter().map(|(_, cell)| cell).collect()
}

fn shape(group: &str, kind: &str) -> Vec<String> {
    let columns = Printer::new(&resource(group, kind, None)).columns();
    let column = |column: ColumnDefinition| match column.priority {
        0 => column.name.into_owned(),
        _ => format!("{}*", column.name),
    };
    columns.into_iter().map(column).collect()
}

/// Returns the Ready, Status and Restarts cells of a pod.
fn pod(object: Value) -> [String; 3] {
    let cells = cells("", "Pod", object);
    [1, 2, 3].map(|index| cells[index].as_str().unwrap().to_owned())
}

#[test]
fn tab_3_other_kinds_show_their_name_and_when_they_were_created() {
    assert_eq!(
        print("rbac.authorization.k8s.io", "Role", json!({})),
        [("Name".to_owned(), json!("x")), ("Created At".to_owned(), json!("2026-01-01T00:00:00Z")),]
    );
    let columns = Printer::new(&resource("apiextensions.k8s.io", "CustomResourceDefinition", None)).columns();
    assert_eq!(columns[0].format, "name");
    assert_eq!(columns[1].kind, "date");
}

#[test]
fn tab_4_custom_columns_follow_their_paths_and_types() {
    let column = |name: &str, kind: &str, path: &str| PrinterColumn {
        name: name.into(),
        kind: kind.into(),
        json_path: path.into(),
        ..PrinterColumn::default()
    };
    let printer = Printer::new(&resource(
        "sample.evenkeel.dev",
        "Bar",
        Some(vec![
            column("Replicas", "integer", ".spec.replicas"),
            column("Age", "date", ".metadata.creationTimestamp"),
            column("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status"),
            column("Missing", "string", ".status.none"),
            column("Wrong", "boolean", ".spec.replicas"),
            column("Bad date", "date", ".spec.text"),
            column("Whole", "string", ".spec.map"),
            column("Count", "string", ".spec.replicas"),
            column("Broken", "string", ".spec["),
            column("Outside", "string", ".status.conditions[7].status"),
            column("Key as a path", "string", ".metadata.annotations['example.com/a']"),
            column("Key", "string", ".metadata.annotations['example\\.com/a']"),
        ]),
    ));
    let columns = printer.columns();
    assert_eq!(
        serde_json::to_value(&columns[1]).unwrap(),
        json!({
            "name": "Replicas", "type": "integer", "format": "", "priority": 0,
            "description": "Custom resource definition column (in JSONPath format): .spec.replicas",
        })
    );
    let object = json!({
        "metadata": {
            "name": "x", "creationTimestamp": "2026-01-01T00:02:05Z", "annotations": {"example.com/a": "b"},
        },
        "spec": {"replicas": 2, "text": "soon", "map": {"a": [1]}},
        "status": {"conditions": [{}, {"type": "Ready", "status": "True"}]},
    });
    assert_eq!(
        printer.cells(&object, now()),
        [
            json!("x"),
            json!(2),
            json!("0s"),
            json!("True"),
            json!(null),
            json!(null),
            json!("<invalid>"),
            json!("{\"a\":[1]}"),
            json!("2"),
            json!(null),
            json!(null),
            json!(null),
            json!("b"),
        ]
    );
}

#[test]
fn tab_4_without_columns_the_age_is_shown() {
    let printer = Printer::new(&resource("sample.evenkeel.dev", "Bar", Some(vec![])));
    let columns: Vec<_> = printer.columns().into_iter().map(|column| (column.name, column.kind)).collect();
    assert_eq!(columns, [("Name".into(), "string".into()), ("Age".into(), "date".into())]);
}

#[test]
fn tab_5_a_config_map_counts_its_entries() {
    let printer = Printer::new(&resource("", "ConfigMap", None));
    let columns: Vec<_> = printer.columns().into_iter().map(|column| (column.name, column.kind)).collect();
    assert_eq!(
        columns,
        [("Name".into(), "string".into()), ("Data".into(), "string".into()), ("Age".into(), "string".into()),]
    );
    let object = json!({"data": {"k": "v"}, "binaryData": {"l": ""}});
    assert_eq!(cells("", "ConfigMap", object), [json!("x"), json!(2), json!("2m5s")]);
}

#[test]
fn tab_5_columns_are_in_order_with_the_wide_ones_marked() {
    for (group, kind, columns) in [
        ("", "Pod", "Name Ready Status Restarts Age IP* Node* Nominated Node* Readiness Gates*"),
        ("apps", "Deployment", "Name Ready Up-to-date Available Age Containers* Images* Selector*"),
        ("apps", "ReplicaSet", "Name Desired Current Ready Age Containers* Images* Selector*"),
        ("", "ReplicationController", "Name Desired Current Ready Age Containers* Images* Selector*"),
        ("apps", "StatefulSet", "Name Ready Age Containers* Images*"),
        (
            "apps",
            "DaemonSet",
            "Name Desired Current Ready Up-to-date Available Node Selector Age Containers* Images* Selector*",
        ),
        ("batch", "Job", "Name Status Completions Duration Age Containers* Images* Selector*"),
        ("batch", "CronJob", "Name Schedule Timezone Suspend Active Last Schedule Age Containers* Images* Selector*"),
        ("", "Service", "Name Type Cluster-IP External-IP Port(s) Age Selector*"),
        ("networking.k8s.io", "Ingress", "Name Class Hosts Address Ports Age"),
        (
            "",
            "Node",
            "Name Status Roles Age Version Internal-IP* External-IP* OS-Image* Kernel-Version* Container-Runtime*",
        ),
        ("", "Namespace", "Name Status Age"),
        ("", "Secret", "Name Type Data Age"),
        ("", "ServiceAccount", "Name Age"),
        ("", "Event", "Last Seen Type Reason Object Subobject* Source* Message First Seen* Count* Name*"),
        (
            "",
            "PersistentVolume",
            "Name Capacity Access Modes Reclaim Policy Status Claim StorageClass VolumeAttributesClass Reason Age \
             VolumeMode*",
        ),
        (
            "",
            "PersistentVolumeClaim",
            "Name Status Volume Capacity Access Modes StorageClass VolumeAttributesClass Age VolumeMode*",
        ),
        ("storage.k8s.io", "StorageClass", "Name Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion Age"),
        ("autoscaling", "HorizontalPodAutoscaler", "Name Reference Targets MinPods MaxPods Replicas Age"),
        ("policy", "PodDisruptionBudget", "Name Min Available Max Unavailable Allowed Disruptions Age"),
        ("coordination.k8s.io", "Lease", "Name Holder Age"),
        ("discovery.k8s.io", "EndpointSlice", "Name AddressType Ports Endpoints Age"),
        ("networking.k8s.io", "NetworkPolicy", "Name Pod-Selector Age"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding", "Name Role Age Users* Groups* ServiceAccounts*"),
        ("apps", "ControllerRevision", "Name Controller Revision Age"),
        ("scheduling.k8s.io", "PriorityClass", "Name Value Global-Default Age PreemptionPolicy"),
        (
            "certificates.k8s.io",
            "CertificateSigningRequest",
            "Name Age SignerName Requestor RequestedDuration Condition",
        ),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "Name Webhooks Age"),
    ] {
        assert_eq!(shape(group, kind).join(" "), columns, "{kind}");
    }
}

#[test]
fn tab_5_workloads() {
    let template = json!({"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j:2"}]}});
    let object = json!({
        "spec": {"replicas": 3, "template": template, "selector": {
            "matchLabels": {"z": "1"},
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["y", "x"]}, {"key": "b", "operator": "DoesNotExist"},
            ],
        }},
        "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1, "replicas": 3},
    });
    let selector = json!("a in (x,y),!b,z=1");
    assert_eq!(
        cells("apps", "Deployment", object.clone()),
        [json!("x"), json!("2/3"), json!(3), json!(1), json!("2m5s"), json!("a,b"), json!("i:1,j:2"), selector.clone(),]
    );
    let cells_of_set = cells("apps", "ReplicaSet", object);
    assert_eq!(cells_of_set[1..5], [json!(3), json!(3), json!(2), json!("2m5s")]);
    assert_eq!(cells_of_set[7], selector);

    let job = json!({
        "spec": {"completions": 2, "template": template},
        "status": {"succeeded": 1, "startTime": "2026-01-01T00:00:05Z"},
    });
    assert_eq!(cells("batch", "Job", job)[1..4], [json!("Running"), json!("1/2"), json!("2m")]);
    let done = json!({
        "spec": {"parallelism": 4},
        "status": {
            "succeeded": 4, "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:01:00Z",
            "conditions": [{"type": "Complete", "status": "True"}],
        },
    });
    assert_eq!(cells("batch", "Job", done)[1..4], [json!("Complete"), json!("4/1 of 4"), json!("60s")]);

    let cron = json!({"spec": {"schedule": "* * * * *", "suspend": false}, "status": {"active": [{}]}});
    assert_eq!(
        cells("batch", "CronJob", cron)[1..6],
        [json!("* * * * *"), json!("<none>"), json!("False"), json!(1), json!("<none>"),]
    );
    let hpa = json!({
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 1, "maxReplicas": 5,
            "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}},
                {"type": "Pods", "pods": {"target": {"averageValue": "10"}}},
                {"type": "External"},
            ],
        },
        "status": {"currentReplicas": 2, "currentMetrics": [
            {"type": "Resource", "resource": {"current": {"averageUtilization": 42}}},
        ]},
    });
    assert_eq!(
        cells("autoscaling", "HorizontalPodAutoscaler", hpa)[1..6],
        [json!("Deployment/web"), json!("cpu: 42%/80%, <unknown>/10 + 1 more..."), json!("1"), json!(5), json!(2),]
    );
}

#[test]
fn tab_5_services_and_their_endpoints() {
    let service = json!({
        "spec": {
            "type": "LoadBalancer", "clusterIPs": ["10.0.0.2"], "selector": {"a": "b"}, "externalIPs": ["9.9.9.9"],
            "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30001}, {"port": 53, "protocol": "UDP"}],
        },
        "status": {"loadBalancer": {"ingress": [{"ip": "2.2.2.2"}, {"hostname": "lb"}, {"ip": "1.1.1.1"}]}},
    });
    assert_eq!(
        cells("", "Service", service),
        [
            json!("x"),
            json!("LoadBalancer"),
            json!("10.0.0.2"),
            json!("1.1.1.1,2.2.2.2,lb,9.9.9.9"),
            json!("80:30001/TCP,53/UDP"),
            json!("2m5s"),
            json!("a=b"),
        ]
    );
    let bare = cells("", "Service", json!({"spec": {"type": "ClusterIP"}}));
    assert_eq!(bare[2..5], [json!("<none>"), json!("<none>"), json!("<none>")]);
    assert_eq!(bare[6], "<none>");
    let waiting = cells("", "Service", json!({"spec": {"type": "LoadBalancer"}}));
    assert_eq!(waiting[3], "<pending>");

    let slice = json!({
        "addressType": "IPv4", "ports": [{"port": 80}, {"name": "n", "port": null}, {}],
        "endpoints": [{"addresses": ["a"]}, {"addresses": ["b"]}, {"addresses": ["c"]}, {"addresses": ["d"]}],
    });
    assert_eq!(
        cells("discovery.k8s.io", "EndpointSlice", slice)[1..4],
        [json!("IPv4"), json!("80,n,*"), json!("a,b,c + 1 more..."),]
    );
    let endpoints = json!({"subsets": [{"addresses": [{"ip": "1.1.1.1"}, {"ip": "::1"}], "ports": [{"port": 80}]}]});
    assert_eq!(cells("", "Endpoints", endpoints)[1], "1.1.1.1:80,[::1]:80");
    assert_eq!(cells("", "Endpoints", json!({}))[1], "<none>");

    let ingress = json!({"spec": {"rules": [{"host": "a"}, {}, {"host": "b"}], "tls": [{}]}});
    assert_eq!(
        cells("networking.k8s.io", "Ingress", ingress)[1..5],
        [json!("<none>"), json!("a,b"), json!(""), json!("80, 443"),]
    );
}

#[test]
fn tab_5_nodes_volumes_bindings_and_the_rest() {
    let node = json!({
        "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": ""}},
        "spec": {"unschedulable": true},
        "status": {
            "conditions": [{"type": "Ready", "status": "False"}],
            "addresses": [{"type": "InternalIP", "address": "10.1.1.1"}],
            "nodeInfo": {"kubeletVersion": "v1.37.0", "kernelVersion": "6.1", "architecture": "arm64"},
        },
    });
    assert_eq!(
        cells("", "Node", node),
        [
            json!("x"),
            json!("NotReady,SchedulingDisabled"),
            json!("control-plane,worker"),
            json!("2m5s"),
            json!("v1.37.0"),
            json!("10.1.1.1"),
            json!("<none>"),
            json!("<unknown>"),
            json!("6.1 (arm64)"),
            json!("<unknown>"),
        ]
    );
    let claim = json!({
        "spec": {"volumeName": "pv", "storageClassName": "fast", "volumeMode": "Filesystem"},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"]},
    });
    assert_eq!(
        cells("", "PersistentVolumeClaim", claim)[1..7],
        [json!("Bound"), json!("pv"), json!("1Gi"), json!("RWO,RWX"), json!("fast"), json!("<unset>"),]
    );
    let binding = json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [
        {"kind": "User", "name": "u"}, {"kind": "User", "name": "v"},
        {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
    ]});
    assert_eq!(
        cells("rbac.authorization.k8s.io", "RoleBinding", binding)[1..],
        [json!("Role/r"), json!("2m5s"), json!("u, v"), json!(""), json!("n/s"),]
    );
    let request = json!({"spec": {"signerName": "s", "username": "u", "expirationSeconds": 3600}, "status": {
        "conditions": [{"type": "Approved"}], "certificate": "YQ==",
    }});
    assert_eq!(
        cells("certificates.k8s.io", "CertificateSigningRequest", request)[2..],
        [json!("s"), json!("u"), json!("60m"), json!("Approved,Issued"),]
    );
    let lease = cells("coordination.k8s.io", "Lease", json!({"spec": {"holderIdentity": "two"}}));
    assert_eq!(lease, [json!("x"), json!("two"), json!("2m5s")]);
    let quota = json!({"status": {"hard": {"pods": "5", "limits.cpu": "2"}, "used": {"pods": "1"}}});
    assert_eq!(cells("", "ResourceQuota", quota)[1..3], [json!("pods: 1/5"), json!("limits.cpu: 0/2")]);
    let revision = json!({"revision": 3, "metadata": {"ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": true},
    ]}});
    assert_eq!(cells("apps", "ControllerRevision", revision)[1..3], [json!("statefulset.apps/db"), json!(3)]);
}

#[test]
fn tab_5_events_in_both_forms() {
    let old = json!({
        "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"}, "type": "Normal", "reason": "Tested",
        "message": " hello\n", "count": 2, "source": {"component": "c", "host": "h"},
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:02:00Z", "eventTime": null,
    });
    assert_eq!(
        cells("", "Event", old),
        [
            json!("5s"),
            json!("Normal"),
            json!("Tested"),
            json!("pod/p"),
            json!("spec"),
            json!("c, h"),
            json!("hello"),
            json!("2m5s"),
            json!(2),
            json!("x"),
        ]
    );
    let new = json!({
        "regarding": {"kind": "Pod", "name": "p"}, "note": "hello", "eventTime": "2026-01-01T00:02:04.500000Z",
        "reportingController": "c", "reportingInstance": "c-1",
    });
    let cells = cells("events.k8s.io", "Event", new);
    assert_eq!(cells[0], "0s");
    assert_eq!(cells[3], "pod/p");
    assert_eq!(cells[5..9], [json!("c, c-1"), json!("hello"), json!("0s"), json!(1)]);
}

#[test]
fn tab_6_a_waiting_or_running_pod() {
    let pending = json!({"spec": {"containers": [{}]}, "status": {"phase": "Pending"}});
    assert_eq!(pod(pending), ["0/1", "Pending", "0"]);
    let evicted = json!({"spec": {"containers": [{}]}, "status": {"phase": "Failed", "reason": "Evicted"}});
    assert_eq!(pod(evicted), ["0/1", "Evicted", "0"]);
    let gated = json!({"spec": {"containers": [{}]}, "status": {
        "phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}],
    }});
    assert_eq!(pod(gated), ["0/1", "SchedulingGated", "0"]);
    let running = json!({"spec": {"containers": [{}, {}]}, "status": {"phase": "Running", "containerStatuses": [
        {"ready": true, "state": {"running": {}}, "restartCount": 3,
         "lastState": {"terminated": {"finishedAt": "2026-01-01T00:01:00Z"}}},
        {"ready": false, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 2},
    ]}});
    assert_eq!(pod(running), ["1/2", "CrashLoopBackOff", "5 (65s ago)"]);
}

#[test]
fn tab_6_init_containers_and_sidecars() {
    let containers = json!({"containers": [{"name": "c"}], "initContainers": [
        {"name": "a"}, {"name": "b", "restartPolicy": "Always"},
    ]});
    let first = json!({"spec": containers, "status": {"phase": "Pending", "initContainerStatuses": [
        {"name": "a", "state": {"running": {}}}, {"name": "b", "state": {}},
    ]}});
    assert_eq!(pod(first), ["0/2", "Init:0/2", "0"]);
    let failed = json!({"spec": containers, "status": {"phase": "Pending", "initContainerStatuses": [
        {"name": "a", "restartCount": 1, "state": {"terminated": {"exitCode": 3}}},
    ]}});
    assert_eq!(pod(failed), ["0/2", "Init:ExitCode:3", "1"]);
    let killed = json!({"spec": containers, "status": {"phase": "Pending", "initContainerStatuses": [
        {"name": "a", "state": {"terminated": {"exitCode": 137, "signal": 9}}},
    ]}});
    assert_eq!(pod(killed)[1], "Init:Signal:9");
    let pulling = json!({"spec": containers, "status": {"phase": "Pending", "initContainerStatuses": [
        {"name": "a", "state": {"waiting": {"reason": "ImagePullBackOff"}}},
    ]}});
    assert_eq!(pod(pulling)[1], "Init:ImagePullBackOff");
    let running = json!({"spec": containers, "status": {
        "phase": "Running",
        "initContainerStatuses": [
            {"name": "a", "restartCount": 4, "state": {"terminated": {"exitCode": 0}}},
            {"name": "b", "restartCount": 1, "started": true, "ready": true, "state": {"running": {}}},
        ],
        "containerStatuses": [{"name": "c", "ready": true, "state": {"running": {}}}],
    }});
    assert_eq!(pod(running), ["2/2", "Running", "1"]);
}

#[test]
fn tab_6_completion_and_deletion() {
    let statuses = json!([
        {"state": {"terminated": {"reason": "Completed", "exitCode": 0}}},
        {"ready": true, "state": {"running": {}}},
    ]);
    let half = json!({"spec": {"containers": [{}, {}]}, "status": {"phase": "Running", "containerStatuses": statuses}});
    assert_eq!(pod(half.clone())[1], "NotReady");
    let mut ready = half.clone();
    ready["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    assert_eq!(pod(ready)[1], "Running");
    let mut failed = half.clone();
    failed["status"]["containerStatuses"][1]["state"] = json!({"terminated": {"exitCode": 2, "reason": "Error"}});
    assert_eq!(pod(failed)[1], "Error");
    let mut deleted = half;
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(pod(deleted.clone())[1], "Terminating");
    deleted["status"]["reason"] = json!("NodeLost");
    assert_eq!(pod(deleted)[1], "Unknown");
    let mut done = json!({"spec": {"containers": [{}]}, "status": {"phase": "Succeeded", "containerStatuses": [
        {"state": {"terminated": {"reason": "Completed", "exitCode": 0}}},
    ]}});
    assert_eq!(row_conditions("", "Pod", &done).unwrap()[0]["reason"], "Succeeded");
    done["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(pod(done), ["0/1", "Completed", "0"]);
}

#[test]
fn tab_6_wide_cells_of_a_pod() {
    let object = json!({
        "spec": {"containers": [], "nodeName": "n1", "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}]},
        "status": {"podIPs": [{"ip": "1.2.3.4"}], "conditions": [{"type": "a", "status": "True"}]},
    });
    assert_eq!(cells("", "Pod", object)[5..], [json!("1.2.3.4"), json!("n1"), json!("<none>"), json!("1/2")]);
}

proptest::proptest! {
    #[test]
    fn tab_5_any_object_fills_its_row(bits: u64, text in "[ -~é]{0,12}") {
        let odd = match bits % 5 {
            0 => json!(null),
            1 => json!(text),
            2 => json!([text, {"type": text}]),
            3 => json!({"conditions": text, "rules": [{}], "ports": [3], "loadBalancer": {"ingress": [1]}}),
            _ => json!(bits as i64),
        };
        for kind in ["Pod", "Service", "Node", "Event", "PersistentVolume", "Endpoints", "ResourceQuota"] {
            cells("", kind, json!({"spec": odd, "status": odd, "subsets": odd}));
        }
        for kind in ["Deployment", "DaemonSet", "ControllerRevision"] {
            cells("apps", kind, json!({"spec": odd, "status": odd}));
        }
        cells("networking.k8s.io", "Ingress", json!({"spec": odd, "status": odd}));
        cells("autoscaling", "HorizontalPodAutoscaler", json!({"spec": odd, "status": odd}));
    }
}
