use super::*;

#[test]
fn msc_1_events_are_readable_in_both_forms() {
    let mut event = json!({
        "apiVersion": "v1", "kind": "Event", "count": 1, "eventTime": null, "message": "hello", "reason": "Tested",
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
        "involvedObject": {"kind": "Pod", "name": "p"}, "reportingComponent": "", "reportingInstance": "",
        "source": {"component": "evenkeel"}, "type": "Normal",
    });
    let before = event.clone();
    convert("Event", &mut event, "events.k8s.io/v1");
    assert_eq!(
        event,
        json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "deprecatedCount": 1, "eventTime": null,
            "note": "hello", "reason": "Tested", "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
            "deprecatedLastTimestamp": "2026-01-01T00:00:00Z", "regarding": {"kind": "Pod", "name": "p"},
            "deprecatedSource": {"component": "evenkeel"}, "type": "Normal",
        })
    );
    convert("Event", &mut event, "v1");
    assert_eq!(event, before);
}

#[test]
fn obj_14_an_autoscaler_keeps_everything_through_its_first_version() {
    let before = json!({
        "apiVersion": "autoscaling/v2", "metadata": {"name": "a"},
        "spec": {
            "behavior": {"scaleUp": {"policies": [], "selectPolicy": "Max", "stabilizationWindowSeconds": 0},
                         "scaleDown": {"policies": [], "selectPolicy": "Max"}},
            "maxReplicas": 3, "minReplicas": 1,
            "metrics": [
                {"type": "Resource",
                 "resource": {"name": "cpu", "target": {"averageUtilization": 50, "type": "Utilization"}}},
                {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"averageValue": "1"}}},
            ],
        },
        "status": {"currentReplicas": 1, "desiredReplicas": 1, "currentMetrics": [
            {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 42}}},
        ]},
    });
    let mut object = before.clone();
    convert("HorizontalPodAutoscaler", &mut object, "autoscaling/v1");
    assert_eq!(object["spec"]["targetCPUUtilizationPercentage"], 50);
    assert_eq!(object["spec"].get("metrics"), None);
    assert_eq!(object["status"]["currentCPUUtilizationPercentage"], 42);
    convert("HorizontalPodAutoscaler", &mut object, "autoscaling/v2");
    assert_eq!(object, before);
}

#[test]
fn obj_14_other_kinds_change_their_api_version_only() {
    let mut object = json!({"apiVersion": "networking.k8s.io/v1beta1", "spec": {"cidrs": []}});
    convert("ServiceCIDR", &mut object, "networking.k8s.io/v1");
    assert_eq!(object, json!({"apiVersion": "networking.k8s.io/v1", "spec": {"cidrs": []}}));
}
