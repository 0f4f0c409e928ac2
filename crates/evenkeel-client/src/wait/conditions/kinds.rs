//! Conditions of the usual kinds.

use evenkeel_core::Obj;
use serde::Deserialize;

use super::{ConditionState, stated, states};

/// The pod has the condition `Ready`, and is not being deleted. Never if it has finished.
pub fn pod_ready<K>() -> impl Fn(Option<&Obj<K>>) -> ConditionState + Clone {
    of(|pod| match phase(pod).as_str() {
        finished @ ("Succeeded" | "Failed") => ConditionState::Never(finished_pod(pod, finished)),
        _ => (pod.deletion_timestamp().is_none() && states(pod, "Ready", "True")).into(),
    })
}

/// The pod has finished: its phase is `Succeeded` or `Failed`.
pub fn pod_finished<K>() -> impl Fn(Option<&Obj<K>>) -> ConditionState + Clone {
    of(|pod| matches!(phase(pod).as_str(), "Succeeded" | "Failed").into())
}

/// The job has succeeded. Never if it has failed; the reason is that of its condition.
pub fn job_complete<K>() -> impl Fn(Option<&Obj<K>>) -> ConditionState + Clone {
    of(|job| match stated(job, "Failed", "True") {
        Some(details) => ConditionState::Never(with_details("the job has failed", &details)),
        None => states(job, "Complete", "True").into(),
    })
}

/// The job has succeeded or failed.
pub fn job_finished<K>() -> impl Fn(Option<&Obj<K>>) -> ConditionState + Clone {
    of(|job| (states(job, "Complete", "True") || states(job, "Failed", "True")).into())
}

/// The definition has the condition `Established`. Never if its names are in use.
///
/// The first request for the kind may still fail with 404: [`wait_for_crd`](crate::wait::wait_for_crd) waits for
/// discovery as well.
pub fn crd_established<K>() -> impl Fn(Option<&Obj<K>>) -> ConditionState + Clone {
    of(|definition| match stated(definition, "NamesAccepted", "False") {
        Some(details) => ConditionState::Never(with_details("the names are not accepted", &details)),
        None => states(definition, "Established", "True").into(),
    })
}

/// The node has the condition `Ready`.
pub fn node_ready<K>() -> impl Fn(Option<&Obj<K>>) -> ConditionState + Clone {
    of(|node| states(node, "Ready", "True").into())
}

/// The claim is bound to a volume. Never if it has lost its volume.
pub fn pvc_bound<K>() -> impl Fn(Option<&Obj<K>>) -> ConditionState + Clone {
    of(|claim| match phase(claim).as_str() {
        "Lost" => ConditionState::Never("the volume of the claim is lost".to_owned()),
        phase => (phase == "Bound").into(),
    })
}

/// The namespace is active. Never if it is being deleted.
pub fn namespace_active<K>() -> impl Fn(Option<&Obj<K>>) -> ConditionState + Clone {
    of(|namespace| match phase(namespace).as_str() {
        "Terminating" => ConditionState::Never("the namespace is being deleted".to_owned()),
        phase => (phase == "Active").into(),
    })
}

/// The API service has the condition `Available`.
pub fn api_service_available<K>() -> impl Fn(Option<&Obj<K>>) -> ConditionState + Clone {
    of(|service| states(service, "Available", "True").into())
}

/// The load balancer of the service has at least one entry, each with an address or a host name. Never if the service
/// has another type.
pub fn service_load_balancer_ready<K>() -> impl Fn(Option<&Obj<K>>) -> ConditionState + Clone {
    of(|service| match text(service, "spec.type").as_str() {
        "LoadBalancer" => has_addresses(service).into(),
        "" => ConditionState::Never("the service has no load balancer: its type is ClusterIP".to_owned()),
        other => ConditionState::Never(format!("the service has no load balancer: its type is {other}")),
    })
}

/// The load balancer of the ingress has at least one entry, each with an address or a host name.
pub fn ingress_load_balancer_ready<K>() -> impl Fn(Option<&Obj<K>>) -> ConditionState + Clone {
    of(|ingress| has_addresses(ingress).into())
}

/// A condition of an object that exists.
pub(super) fn of<K>(
    condition: impl Fn(&Obj<K>) -> ConditionState + Clone,
) -> impl Fn(Option<&Obj<K>>) -> ConditionState + Clone {
    move |object: Option<&Obj<K>>| object.map_or(ConditionState::Pending, &condition)
}

fn phase<K>(object: &Obj<K>) -> String {
    text(object, "status.phase")
}

/// Returns a string of the object; empty if it has none.
fn text<K>(object: &Obj<K>, path: &str) -> String {
    let value = object.path(path).ok().flatten();
    value.and_then(|value| value.as_str().map(|text| text.into_owned())).unwrap_or_default()
}

fn finished_pod<K>(pod: &Obj<K>, phase: &str) -> String {
    let [reason, message] = ["status.reason", "status.message"].map(|path| text(pod, path));
    let details: Vec<String> = [reason, message].into_iter().filter(|text| !text.is_empty()).collect();
    with_details(&format!("the pod has finished with the phase {phase}"), &details.join(": "))
}

fn with_details(what: &str, details: &str) -> String {
    if details.is_empty() { what.to_owned() } else { format!("{what}: {details}") }
}

#[derive(Deserialize)]
struct LoadBalancerEntry {
    ip: Option<String>,
    hostname: Option<String>,
}

fn has_addresses<K>(object: &Obj<K>) -> bool {
    let Ok(Some(entries)) = object.path("status.loadBalancer.ingress") else { return false };
    let entries: Vec<LoadBalancerEntry> = serde_json::from_str(entries.json()).unwrap_or_default();
    let is_set = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    !entries.is_empty() && entries.iter().all(|entry| is_set(&entry.ip) || is_set(&entry.hostname))
}
