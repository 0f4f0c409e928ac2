//! Validation of built-in kinds beyond their schema.

use serde_json::{Value, json};

use crate::api::Api;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const AUTOSCALERS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
const FLOW_SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const PRIORITY_LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";

/// Sends a dry run of a create, and returns the messages of its causes, each with its field.
async fn faults(api: &Api, path: &str, object: &Value) -> Vec<String> {
    let response = api.post(&format!("{path}?dryRun=All"), object).await;
    if response.status == 201 {
        return Vec::new();
    }
    response.refusal(422, "Invalid");
    let causes = response.body["details"]["causes"].as_array().unwrap();
    let text = |cause: &Value, key: &str| cause[key].as_str().unwrap().to_owned();
    causes.iter().map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message"))).collect()
}

#[tokio::test]
async fn obj_15_node_ports_have_a_range() {
    let api = Api::start().await;
    let service = |port: i64| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
               "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}})
    };
    for port in [1, 80, 29_999, 32_768] {
        let expected = format!(
            "spec.ports[0].nodePort: Invalid value: {port}: provided port is not in the valid range. The range of valid \
             ports is 30000-32767"
        );
        assert_eq!(faults(&api, SERVICES, &service(port)).await, [expected]);
    }
    for port in [30_000, 32_767] {
        assert_eq!(faults(&api, SERVICES, &service(port)).await, Vec::<String>::new());
    }
}

fn ingress(spec: Value) -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "i"}, "spec": spec})
}

fn backend() -> Value {
    json!({"service": {"name": "web", "port": {"number": 80}}})
}

fn ingress_path(path: Value) -> Value {
    ingress(json!({"rules": [{"http": {"paths": [path]}}]}))
}

#[tokio::test]
async fn obj_15_ingresses_need_rules_or_a_backend() {
    let api = Api::start().await;
    let of = async |spec: Value| faults(&api, INGRESSES, &ingress(spec)).await;
    assert_eq!(
        of(json!({})).await,
        ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]
    );
    assert_eq!(of(json!({"defaultBackend": backend()})).await, Vec::<String>::new());
    let at = "spec.defaultBackend";
    for (backend, expected) in [
        (json!({}), format!("{at}: Invalid value: \"\": resource or service backend is required")),
        (json!({"service": {"name": "web"}}), format!("{at}: Required value: port name or number is required")),
        (
            json!({"service": {"name": "web", "port": {"number": 80, "name": "http"}}}),
            format!("{at}: Invalid value: \"\": cannot set both port name & port number"),
        ),
        (
            json!({"service": {"name": "web", "port": {"number": 70_000}}}),
            format!("{at}.service.port.number: Invalid value: 70000: must be between 1 and 65535, inclusive"),
        ),
        (
            json!({"service": {"name": "web", "port": {"number": 80}}, "resource": {"kind": "A", "name": "a"}}),
            format!("{at}: Invalid value: \"\": cannot set both resource and service backends"),
        ),
    ] {
        assert_eq!(of(json!({"defaultBackend": backend})).await, [expected]);
    }
    assert_eq!(
        of(json!({"rules": [{"host": "10.0.0.1", "http": {"paths": []}}]})).await,
        [
            "spec.rules[0].host: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address",
            "spec.rules[0].http.paths: Required value",
        ]
    );
    let wildcard = of(json!({"rules": [{"host": "a.*.com"}]})).await;
    assert!(wildcard[0].starts_with(
        "spec.rules[0].host: Invalid value: \"a.*.com\": a wildcard DNS-1123 subdomain must start with '*.'"
    ));
    assert!(wildcard[0].ends_with(
        r"regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    ));
    assert_eq!(of(json!({"rules": [{"host": "*.example.com"}]})).await, Vec::<String>::new());
}

#[tokio::test]
async fn obj_15_paths_of_ingresses_are_absolute_and_plain() {
    let api = Api::start().await;
    let at = "spec.rules[0].http.paths[0]";
    for (kind, path, expected) in [
        ("Prefix", "", vec!["must be an absolute path"]),
        ("Exact", "a", vec!["must be an absolute path"]),
        (
            "Prefix",
            "/a//b/./c/../d%2f%2F",
            vec![
                "must not contain '//'",
                "must not contain '/./'",
                "must not contain '/../'",
                "must not contain '%2f'",
                "must not contain '%2F'",
            ],
        ),
        ("Exact", "/a/..", vec!["cannot end with '/..'"]),
        ("Exact", "/a/.", vec!["cannot end with '/.'"]),
        ("ImplementationSpecific", "a", vec!["must be an absolute path"]),
        ("ImplementationSpecific", "", vec![]),
        ("ImplementationSpecific", "/a//*", vec![]),
        ("Prefix", "/", vec![]),
    ] {
        let object = ingress_path(json!({"path": path, "pathType": kind, "backend": backend()}));
        let expected: Vec<String> =
            expected.iter().map(|detail| format!("{at}.path: Invalid value: {path:?}: {detail}")).collect();
        assert_eq!(faults(&api, INGRESSES, &object).await, expected, "{kind} {path}");
    }
    let object = ingress_path(json!({"path": "/", "pathType": "Other", "backend": backend()}));
    assert_eq!(
        faults(&api, INGRESSES, &object).await,
        [format!(
            "{at}.pathType: Unsupported value: \"Other\": supported values: \"Exact\", \"ImplementationSpecific\", \"Prefix\""
        )]
    );
}

#[tokio::test]
async fn obj_15_network_policies_have_valid_ranges_and_ports() {
    let api = Api::start().await;
    let policy = |rule: Value| {
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p"},
               "spec": {"podSelector": {}, "ingress": [rule]}})
    };
    let at = "spec.ingress[0].from[0]";
    for (peer, expected) in [
        (json!({}), vec![format!("{at}: Required value: must specify a peer")]),
        (json!({"ipBlock": {"cidr": "10.0.0.0/8"}}), vec![]),
        (json!({"ipBlock": {"cidr": "2001:db8::/32", "except": ["2001:db8:1::/48"]}}), vec![]),
        (
            json!({"ipBlock": {"cidr": "10.0.0.0"}}),
            vec![format!(
                "{at}.ipBlock.cidr: Invalid value: \"10.0.0.0\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            )],
        ),
        (
            json!({"ipBlock": {"cidr": "10.0.0.1/8"}}),
            vec![format!(
                "{at}.ipBlock.cidr: Invalid value: \"10.0.0.1/8\": must not have bits set beyond the prefix length"
            )],
        ),
        (
            json!({"ipBlock": {"cidr": "010.0.0.0/8"}}),
            vec![format!(
                "{at}.ipBlock.cidr: Invalid value: \"010.0.0.0/8\": must not have leading 0s in IP or prefix length"
            )],
        ),
        (
            json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16", "10.0.0.0/8", "10.1.0.0/16"]}}),
            vec![
                format!("{at}.ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`"),
                format!("{at}.ipBlock.except[1]: Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`"),
            ],
        ),
        (
            json!({"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}),
            vec![format!("{at}: Forbidden: may not specify both ipBlock and another peer")],
        ),
    ] {
        assert_eq!(faults(&api, POLICIES, &policy(json!({"from": [peer]}))).await, expected, "{peer}");
    }
    let at = "spec.ingress[0].ports[0]";
    for (port, expected) in [
        (json!({"port": 80, "endPort": 90}), vec![]),
        (json!({"port": "http"}), vec![]),
        (json!({"port": 0}), vec![format!("{at}.port: Invalid value: 0: must be between 1 and 65535, inclusive")]),
        (
            json!({"port": 90, "endPort": 80}),
            vec![format!("{at}.endPort: Invalid value: 80: must be greater than or equal to `port`")],
        ),
        (
            json!({"endPort": 80}),
            vec![format!("{at}.endPort: Invalid value: 80: may not be specified when `port` is not specified")],
        ),
        (
            json!({"port": "http", "endPort": 80}),
            vec![format!("{at}.endPort: Invalid value: 80: may not be specified when `port` is non-numeric")],
        ),
    ] {
        assert_eq!(faults(&api, POLICIES, &policy(json!({"ports": [port]}))).await, expected, "{port}");
    }
}

fn cron_job(schedule: &str, zone: Value) -> Value {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "app"}]}});
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"},
           "spec": {"schedule": schedule, "timeZone": zone, "jobTemplate": {"spec": {"template": template}}}})
}

#[tokio::test]
async fn obj_15_schedules_are_those_of_cron() {
    let api = Api::start().await;
    for schedule in ["* * * * *", "0 0 1,15 */2 MON-fri", "5/15 * ? jan 0", "@hourly", "@every 1h30m", "59 23 31 12 6"]
    {
        assert_eq!(faults(&api, CRON_JOBS, &cron_job(schedule, Value::Null)).await, Vec::<String>::new(), "{schedule}");
    }
    for (schedule, detail) in [
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("0 0 0 0 0 0", "expected exactly 5 fields, found 6: [0 0 0 0 0 0]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
        ("@never", "unrecognized descriptor: @never"),
    ] {
        let expected = format!("spec.schedule: Invalid value: {schedule:?}: {detail}");
        assert_eq!(faults(&api, CRON_JOBS, &cron_job(schedule, Value::Null)).await, [expected]);
    }
    let zoned = "TZ=UTC * * * * *";
    let expected = format!(
        "spec.schedule: Invalid value: {zoned:?}: cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    );
    assert_eq!(faults(&api, CRON_JOBS, &cron_job(zoned, Value::Null)).await, [expected]);
}

#[tokio::test]
async fn obj_15_time_zones_have_a_form() {
    let api = Api::start().await;
    for zone in ["Europe/Berlin", "Etc/GMT+1", "UTC"] {
        assert_eq!(faults(&api, CRON_JOBS, &cron_job("@daily", json!(zone))).await, Vec::<String>::new());
    }
    for (zone, detail) in [
        ("", "timeZone must be nil or non-empty string"),
        ("../etc", "unknown time zone ../etc"),
        ("a b", "unknown time zone a b"),
        ("Local", "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"),
    ] {
        let expected = format!("spec.timeZone: Invalid value: {zone:?}: {detail}");
        assert_eq!(faults(&api, CRON_JOBS, &cron_job("@daily", json!(zone))).await, [expected]);
    }
}

#[tokio::test]
async fn obj_15_autoscalers_have_bounds_and_complete_metrics() {
    let api = Api::start().await;
    let of = async |change: Value| {
        let mut spec =
            json!({"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}});
        for (key, value) in change.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let object = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}, "spec": spec});
        faults(&api, AUTOSCALERS, &object).await
    };
    assert_eq!(of(json!({})).await, Vec::<String>::new());
    assert_eq!(
        of(json!({"maxReplicas": 0})).await,
        [
            "spec.maxReplicas: Required value: must be set and greater than 0",
            "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
        ]
    );
    assert_eq!(
        of(json!({"minReplicas": 5})).await,
        ["spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`"]
    );
    assert_eq!(
        of(json!({"minReplicas": 0})).await,
        [
            "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas"
        ]
    );
    assert_eq!(
        of(json!({"scaleTargetRef": {"kind": "Deployment", "name": "a/b"}})).await,
        ["spec.scaleTargetRef.name: Invalid value: \"a/b\": may not contain '/'"]
    );
    let at = "spec.metrics[0]";
    assert_eq!(
        of(json!({"metrics": [{"type": "Resource"}]})).await,
        [format!("{at}.resource: Required value: must populate information for the given metric source")]
    );
    let target = json!({"type": "Utilization", "averageUtilization": 0});
    assert_eq!(
        of(json!({"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]})).await,
        [format!("{at}.resource.target.averageUtilization: Invalid value: 0: must be greater than 0")]
    );
    let behavior = json!({"scaleUp": {"stabilizationWindowSeconds": 4000, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 2000}]}});
    assert_eq!(
        of(json!({"behavior": behavior})).await,
        [
            "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 4000: must be less than or equal to 3600",
            "spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 2000: must be less than or equal to 1800",
        ]
    );
}

#[tokio::test]
async fn obj_15_priority_levels_and_flow_schemas_are_consistent() {
    let api = Api::start().await;
    let level = |spec: Value| {
        json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration",
               "metadata": {"name": "l"}, "spec": spec})
    };
    let queuing = |queues: i64, hand: i64| {
        level(json!({"type": "Limited", "limited": {"limitResponse": {"type": "Queue",
            "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 50}}}}))
    };
    let at = "spec.limited.limitResponse.queuing.handSize";
    assert_eq!(faults(&api, PRIORITY_LEVELS, &queuing(64, 8)).await, Vec::<String>::new());
    assert_eq!(
        faults(&api, PRIORITY_LEVELS, &queuing(4, 8)).await,
        [format!("{at}: Invalid value: 8: should not be greater than queues (4)")]
    );
    assert_eq!(
        faults(&api, PRIORITY_LEVELS, &queuing(1000, 10)).await,
        [format!(
            "{at}: Invalid value: 10: required entropy bits of deckSize 1000 and handSize 10 should not be greater than 60"
        )]
    );
    assert_eq!(
        faults(&api, PRIORITY_LEVELS, &level(json!({"type": "Exempt"}))).await,
        ["spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'"]
    );
    assert_eq!(
        faults(&api, PRIORITY_LEVELS, &level(json!({"type": "Limited"}))).await,
        ["spec.limited: Required value: must not be empty when type is Limited"]
    );
    let schema = |spec: Value| json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": "f"}, "spec": spec});
    let rule = json!({"subjects": [{"kind": "User", "user": {"name": "u"}}],
                      "resourceRules": [{"verbs": ["get", "*"], "apiGroups": ["*"], "resources": ["pods"], "namespaces": ["A"]}]});
    let found = faults(
        &api,
        FLOW_SCHEMAS,
        &schema(json!({
        "matchingPrecedence": 1, "priorityLevelConfiguration": {"name": "l"}, "rules": [rule]})),
    )
    .await;
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(
        found[0],
        "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1"
    );
    assert_eq!(
        found[1],
        "spec.rules[0].resourceRules[0].verbs: Invalid value: [\"get\",\"*\"]: if '*' is present, must not specify other verbs"
    );
    assert!(found[2].starts_with("spec.rules[0].resourceRules[0].namespaces[0]: Invalid value: \"A\": each member of this list must be '*' or a DNS-1123 label; "));
}
