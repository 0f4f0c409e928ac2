use std::sync::Arc;

use evenkeel_core::ResourceInfo;
use k8s_openapi::api::core::v1::Pod;

use super::*;

fn pod(rest: &str) -> Obj<Pod> {
    let json = format!(r#"{{"metadata":{{"name":"a","uid":"u1","generation":3}}{rest}}}"#);
    Obj::from_json(&Arc::new(ResourceInfo::of::<Pod>()), json).unwrap()
}

fn ready(pod: &Obj<Pod>) -> bool {
    condition_true("Ready")(Some(pod))
}

#[test]
fn conditions_are_read_from_the_status() {
    let status =
        r#","status":{"conditions":[{"type":"Initialized","status":"False"},{"type":"Ready","status":"True"}]}"#;
    assert!(ready(&pod(status)));
    assert!(!condition_true("Initialized")(Some(&pod(status))));
    assert!(condition_is("Initialized", "False")(Some(&pod(status))));
    assert!(!condition_is("Missing", "False")(Some(&pod(status))));
    assert!(!condition_true::<Pod>("Ready")(None));
}

#[test]
fn malformed_statuses_have_no_condition() {
    for odd in [
        "",
        r#","status":null"#,
        r#","status":{}"#,
        r#","status":{"conditions":null}"#,
        r#","status":{"conditions":{"Ready":"True"}}"#,
        r#","status":{"conditions":[{"type":"Ready"}]}"#,
    ] {
        assert!(!ready(&pod(odd)), "{odd}");
    }
}

#[test]
fn outdated_conditions_are_ignored() {
    let own = |generation| {
        format!(r#","status":{{"conditions":[{{"type":"Ready","status":"True","observedGeneration":{generation}}}]}}"#)
    };
    assert!(!ready(&pod(&own(2))) && ready(&pod(&own(3))));
    let whole = |generation| {
        format!(r#","status":{{"observedGeneration":{generation},"conditions":[{{"type":"Ready","status":"True"}}]}}"#)
    };
    assert!(!ready(&pod(&whole(2))) && ready(&pod(&whole(3))));
}

#[test]
fn wco_008_deleted_is_absent_or_of_another_uid() {
    let there = pod("");
    assert!(exists()(Some(&there)) && !exists::<Pod>()(None));
    assert!(is_deleted::<Pod>()(None) && !is_deleted()(Some(&there)));
    let gone = is_deleted_or_replaced("u1");
    assert!(!gone(Some(&there)) && gone(None) && is_deleted_or_replaced("u2")(Some(&there)));
    assert!(or(exists(), is_deleted())(Some(&there)).is_met());
    assert!(and(exists(), is_deleted())(Some(&there)).is_pending());
    assert!(not(is_deleted())(Some(&there)).is_met());
}

/// Returns what a condition says about an object with these members, of generation 3.
fn says<C: Into<ConditionState>>(condition: impl Fn(Option<&Obj<Pod>>) -> C, members: &str) -> ConditionState {
    condition(Some(&pod(&format!(",{members}")))).into()
}

fn with_condition(name: &str, status: &str) -> String {
    let details = r#""reason":"Because","message":"of this","observedGeneration":3"#;
    format!(r#""status":{{"conditions":[{{"type":"{name}","status":"{status}",{details}}}]}}"#)
}

fn with_phase(phase: &str) -> String {
    format!(r#""status":{{"phase":"{phase}"}}"#)
}

fn never(reason: &str) -> ConditionState {
    ConditionState::Never(reason.to_owned())
}

use ConditionState::{Met, Pending};

#[test]
fn wco_001_conditions_of_the_usual_kinds() {
    assert_eq!(says(pod_ready(), &with_condition("Ready", "True")), Met);
    assert_eq!(says(pod_ready(), &with_condition("Ready", "False")), Pending);
    let leaving = r#"{"metadata":{"name":"a","deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;
    let leaving = Obj::<Pod>::from_json(&Arc::new(ResourceInfo::of::<Pod>()), leaving).unwrap();
    assert_eq!(pod_ready()(Some(&leaving)), Pending);
    for (phase, state) in [("Running", Pending), ("Succeeded", Met), ("Failed", Met)] {
        assert_eq!(says(pod_finished(), &with_phase(phase)), state, "{phase}");
    }
    assert_eq!(says(node_ready(), &with_condition("Ready", "True")), Met);
    assert_eq!(says(node_ready(), &with_condition("Ready", "Unknown")), Pending);
    assert_eq!(says(pvc_bound(), &with_phase("Bound")), Met);
    assert_eq!(says(pvc_bound(), &with_phase("Pending")), Pending);
    assert_eq!(says(namespace_active(), &with_phase("Active")), Met);
    assert_eq!(says(api_service_available(), &with_condition("Available", "True")), Met);
    assert_eq!(says(crd_established(), &with_condition("Established", "True")), Met);
    // All are pending without an object, and combine.
    assert_eq!(pod_ready::<Pod>()(None), Pending);
    assert_eq!(or(pod_finished(), is_deleted::<Pod>())(None), Met);
}

#[test]
fn wco_002_a_condition_can_be_out_of_reach() {
    let finished = never("the pod has finished with the phase Failed: Evicted: no memory");
    let failed = r#""status":{"phase":"Failed","reason":"Evicted","message":"no memory"}"#;
    assert_eq!(says(pod_ready(), failed), finished);
    assert_eq!(says(pvc_bound(), &with_phase("Lost")), never("the volume of the claim is lost"));
    assert_eq!(says(namespace_active(), &with_phase("Terminating")), never("the namespace is being deleted"));
    let names = never("the names are not accepted: Because: of this");
    assert_eq!(says(crd_established(), &with_condition("NamesAccepted", "False")), names);
    assert_eq!(says(and(exists(), pod_ready()), failed), finished);
    assert_eq!(says(or(pod_ready(), is_deleted()), failed), Pending);
    assert_eq!(says(or(pod_ready(), pod_finished()), failed), Met);
    assert_eq!(says(not(pod_ready()), failed), Met);
    let both = never("the volume of the claim is lost; the volume of the claim is lost");
    assert_eq!(says(or(pvc_bound(), pvc_bound()), &with_phase("Lost")), both);
}

#[test]
fn wco_003_deployments_are_available_and_rolled_out() {
    let available = |observed: u32| {
        format!(r#""status":{{"observedGeneration":{observed},"conditions":[{{"type":"Available","status":"True"}}]}}"#)
    };
    assert_eq!(says(deployment_available(), &available(3)), Met);
    assert_eq!(says(deployment_available(), &available(2)), Pending);
    assert_eq!(says(deployment_available(), &with_condition("Available", "True")), Pending, "not observed");
    let counts = |observed: u32, [replicas, updated, available]: [u32; 3]| {
        format!(
            r#""spec":{{"replicas":3}},"status":{{"observedGeneration":{observed},"replicas":{replicas},"updatedReplicas":{updated},"availableReplicas":{available}}}"#
        )
    };
    for (members, state) in [
        (counts(3, [3, 3, 3]), Met),
        (counts(2, [3, 3, 3]), Pending),
        (counts(3, [3, 2, 3]), Pending),
        (counts(3, [4, 3, 3]), Pending),
        (counts(3, [3, 3, 2]), Pending),
        (r#""spec":{"replicas":0},"status":{"observedGeneration":3}"#.to_owned(), Met),
    ] {
        assert_eq!(says(deployment_rolled_out(), &members), state, "{members}");
    }
    let overdue = r#""status":{"observedGeneration":3,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"too slow"}]}"#;
    assert_eq!(says(deployment_rolled_out(), overdue), never("ProgressDeadlineExceeded: too slow"));
    assert_eq!(says(deployment_rolled_out(), &overdue.replace(":3,", ":2,")), Pending, "of an older generation");
}

#[test]
fn wco_004_stateful_sets_and_daemon_sets_roll_out() {
    let set = |partition: &str, ready: u32, updated: u32, revision: &str| {
        format!(
            r#""spec":{{"replicas":3,"updateStrategy":{{"type":"RollingUpdate"{partition}}}}},"status":{{"observedGeneration":3,"readyReplicas":{ready},"updatedReplicas":{updated},"currentRevision":"{revision}","updateRevision":"b"}}"#
        )
    };
    let partition = r#","rollingUpdate":{"partition":2}"#;
    for (members, state) in [
        (set("", 3, 3, "b"), Met),
        (set("", 3, 3, "a"), Pending),
        (set("", 2, 3, "b"), Pending),
        (set(partition, 3, 1, "a"), Met),
        (set(partition, 3, 0, "a"), Pending),
    ] {
        assert_eq!(says(stateful_set_rolled_out(), &members), state, "{members}");
    }
    let daemons = |updated: u32, available: u32| {
        format!(
            r#""status":{{"observedGeneration":3,"desiredNumberScheduled":2,"updatedNumberScheduled":{updated},"numberAvailable":{available}}}"#
        )
    };
    assert_eq!(says(daemon_set_rolled_out(), &daemons(2, 2)), Met);
    assert_eq!(says(daemon_set_rolled_out(), &daemons(1, 2)), Pending);
    assert_eq!(says(daemon_set_rolled_out(), &daemons(2, 1)), Pending);
    let by_hand = r#""spec":{"updateStrategy":{"type":"OnDelete"}},"status":{"observedGeneration":3}"#;
    let refused = never("the update strategy OnDelete has no rollout; only RollingUpdate has one");
    assert_eq!(says(stateful_set_rolled_out(), by_hand), refused);
    assert_eq!(says(daemon_set_rolled_out(), by_hand), refused);
}

#[test]
fn wco_005_jobs_succeed_or_fail() {
    let failed = with_condition("Failed", "True");
    assert_eq!(says(job_complete(), &failed), never("the job has failed: Because: of this"));
    assert_eq!(says(job_finished(), &failed), Met);
    assert_eq!(says(job_complete(), &with_condition("Complete", "True")), Met);
    assert_eq!(says(job_finished(), &with_condition("Complete", "True")), Met);
    assert_eq!(says(job_complete(), &with_condition("Suspended", "True")), Pending);
}

#[test]
fn wco_007_load_balancers_need_an_address_in_every_entry() {
    let service = |name: &str, entries: &str| {
        format!(r#""spec":{{"type":"{name}"}},"status":{{"loadBalancer":{{"ingress":{entries}}}}}"#)
    };
    for (entries, state) in [
        (r#"[{"ip":"1.2.3.4"},{"hostname":"lb"}]"#, Met),
        (r#"[{"ip":"1.2.3.4"},{}]"#, Pending),
        (r#"[{"ip":""}]"#, Pending),
        ("[]", Pending),
        ("null", Pending),
    ] {
        let members = service("LoadBalancer", entries);
        assert_eq!(says(service_load_balancer_ready(), &members), state, "{entries}");
        assert_eq!(says(ingress_load_balancer_ready(), &members), state, "{entries}");
    }
    let other = never("the service has no load balancer: its type is NodePort");
    assert_eq!(says(service_load_balancer_ready(), &service("NodePort", "[]")), other);
}
