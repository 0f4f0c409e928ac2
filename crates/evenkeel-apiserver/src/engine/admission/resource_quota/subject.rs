//! [`QuotaSubject`]: what objects of a resource use of a quota (ADM-016).

use evenkeel_core::quantity::{ExactQuantity, QuantityFormat};
use serde_json::Value;

use super::quota::ScopeRequirement;
use crate::engine::admission::claim_resize::class_of;
use crate::engine::admission::pod_resources::{ResourceKind, ResourceList, add, quantity, read};
use crate::engine::admission::{AdmissionWrite, Operation, list_at, text_at};
use crate::engine::target::WriteScope;

/// The resources that are not counted: events, and kinds without stored objects.
const IGNORED: [&str; 9] = [
    "events",
    "bindings",
    "componentstatuses",
    "tokenreviews.authentication.k8s.io",
    "selfsubjectreviews.authentication.k8s.io",
    "subjectaccessreviews.authorization.k8s.io",
    "selfsubjectaccessreviews.authorization.k8s.io",
    "localsubjectaccessreviews.authorization.k8s.io",
    "selfsubjectrulesreviews.authorization.k8s.io",
];
/// The resources that are also counted by their plain name.
const ALIASES: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];
const CLAIM_NAMES: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
const EXTENDED_BY_CLASS: &str = "requests.deviceclass.resource.kubernetes.io/";

/// A resource whose objects are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum QuotaSubject {
    Pods,
    Services,
    Claims,
    /// Any other resource, of which the objects are counted. Quotas name a resource with its group last, while the stores of
    /// custom resources have it first.
    Objects {
        store: Box<str>,
        name: Box<str>,
    },
}

impl QuotaSubject {
    /// Returns the subject of a store; `None` if its objects are not counted.
    pub(super) fn of_store(store: &str) -> Option<Self> {
        match store {
            "pods" => Some(QuotaSubject::Pods),
            "services" => Some(QuotaSubject::Services),
            "persistentvolumeclaims" => Some(QuotaSubject::Claims),
            store if IGNORED.contains(&store) => None,
            store => {
                let name = match store.split_once('/') {
                    Some((group, plural)) => format!("{plural}.{group}").into(),
                    None => store.into(),
                };
                Some(QuotaSubject::Objects { store: store.into(), name })
            }
        }
    }

    /// Returns the subjects that a name in `hard` counts. A name with a group is that of a built-in resource or of a custom
    /// one: only one of the stores has objects.
    pub(super) fn of_name(name: &str) -> Vec<Self> {
        if let Some(resource) = name.strip_prefix("count/") {
            let custom = resource.split_once('.').map(|(plural, group)| format!("{group}/{plural}"));
            let stores = [Some(resource), custom.as_deref()];
            return stores.into_iter().flatten().filter_map(Self::of_store).collect();
        }
        if ALIASES.contains(&name) {
            return Self::of_store(name).into_iter().collect();
        }
        let others = [QuotaSubject::Claims, QuotaSubject::Services, QuotaSubject::Pods];
        others.into_iter().filter(|subject| subject.counts(name)).take(1).collect()
    }

    pub(super) fn store(&self) -> &str {
        match self {
            QuotaSubject::Pods => "pods",
            QuotaSubject::Services => "services",
            QuotaSubject::Claims => "persistentvolumeclaims",
            QuotaSubject::Objects { store, .. } => store,
        }
    }

    /// Returns the resource as quotas name it.
    fn name(&self) -> &str {
        match self {
            QuotaSubject::Objects { name, .. } => name,
            other => other.store(),
        }
    }

    /// Returns whether objects use the resource of this name.
    pub(super) fn counts(&self, name: &str) -> bool {
        if let Some(resource) = name.strip_prefix("count/") {
            return resource == self.name();
        }
        match self {
            QuotaSubject::Pods => is_of_pods(name),
            QuotaSubject::Services => matches!(name, "services" | "services.nodeports" | "services.loadbalancers"),
            QuotaSubject::Claims => {
                let of_class = name.split_once(OF_CLASS).map(|(_, name)| name);
                CLAIM_NAMES.contains(&of_class.unwrap_or(name))
            }
            QuotaSubject::Objects { name: own, .. } => ALIASES.contains(&name) && **own == *name,
        }
    }

    /// Returns whether a write can change what its object uses.
    pub(super) fn is_charged(&self, write: &AdmissionWrite<'_>, object: &Value) -> bool {
        let is_main = write.target.scope == WriteScope::Main;
        let creates = write.operation == Operation::Create && is_main;
        match self {
            QuotaSubject::Objects { .. } => creates,
            QuotaSubject::Services => is_main,
            QuotaSubject::Claims => is_main || write.subresource() == "status",
            QuotaSubject::Pods => {
                let changes_scope = || write.old.is_some_and(|old| is_terminating(old) != is_terminating(object));
                creates || write.subresource() == "resize" || (is_main && changes_scope())
            }
        }
    }

    /// Returns what an object uses.
    pub(super) fn usage(&self, object: &Value) -> ResourceList {
        let mut usage = ResourceList::from([(format!("count/{}", self.name()), one())]);
        match self {
            QuotaSubject::Pods => usage_of_pod(object, &mut usage),
            QuotaSubject::Services => usage_of_service(object, &mut usage),
            QuotaSubject::Claims => usage_of_claim(object, &mut usage),
            QuotaSubject::Objects { name, .. } => {
                if ALIASES.contains(&&**name) {
                    usage.insert(name.to_string(), one());
                }
            }
        }
        usage
    }

    /// Returns whether all objects use the same, so that they need not be read.
    pub(super) fn is_only_counted(&self, scopes: &[ScopeRequirement]) -> bool {
        matches!(self, QuotaSubject::Objects { .. }) && scopes.is_empty()
    }

    /// Returns whether an object is in all scopes of a quota. Scopes exist for pods and claims.
    pub(super) fn is_in_scopes(&self, object: &Value, scopes: &[ScopeRequirement]) -> bool {
        scopes.iter().all(|requirement| match self {
            QuotaSubject::Pods => is_pod_in_scope(object, requirement),
            QuotaSubject::Claims => is_claim_in_scope(object, requirement),
            QuotaSubject::Services | QuotaSubject::Objects { .. } => false,
        })
    }

    /// Returns what a pod must set for a quota that counts these names, and does not (ADM-014).
    pub(super) fn missing(&self, object: &Value, names: &[&str]) -> Option<String> {
        if *self != QuotaSubject::Pods {
            return None;
        }
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let has_own = |kind: ResourceKind| !kind.of(spec).is_empty();
        if has_own(ResourceKind::Requests) || has_own(ResourceKind::Limits) {
            return None;
        }
        let containers = || list_at(spec, &["containers"]).iter().chain(list_at(spec, &["initContainers"]));
        let mut names: Vec<&str> = names.iter().copied().filter(|name| is_required(name)).collect();
        names.sort_unstable();
        let lacking = |name: &&str| {
            let lacks = |container: &&Value| !compute_usage(container).contains_key(*name);
            let mut containers: Vec<&str> = containers().filter(lacks).map(|it| text_at(it, &["name"])).collect();
            containers.sort_unstable();
            containers.dedup();
            (!containers.is_empty()).then(|| format!("{name} for: {}", containers.join(",")))
        };
        let lacking: Vec<String> = names.iter().filter_map(lacking).collect();
        (!lacking.is_empty()).then(|| format!("must specify {}", lacking.join("; ")))
    }
}

fn one() -> ExactQuantity {
    ExactQuantity::new(1, QuantityFormat::DecimalSi)
}

fn zero() -> ExactQuantity {
    ExactQuantity::new(0, QuantityFormat::DecimalSi)
}

/// Containers must set these if a quota counts them.
fn is_required(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "requests.cpu" | "requests.memory" | "limits.cpu" | "limits.memory")
}

fn is_of_pods(name: &str) -> bool {
    let plain = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
    let is_native = matches!(plain, "cpu" | "memory" | "ephemeral-storage");
    let is_huge = name.starts_with("hugepages-") || name.starts_with("requests.hugepages-");
    name == "pods" || is_native || is_huge || is_extended(name)
}

/// Returns whether a name counts an extended resource, such as `requests.example.com/gpu`.
fn is_extended(name: &str) -> bool {
    let Some(resource) = name.strip_prefix("requests.") else { return false };
    let is_native = !resource.contains('/') || resource.contains("kubernetes.io/");
    !is_native || name.starts_with(EXTENDED_BY_CLASS)
}

fn usage_of_pod(pod: &Value, usage: &mut ResourceList) {
    // A pod that has finished uses nothing but its place in the store.
    if matches!(text_at(pod, &["status", "phase"]), "Succeeded" | "Failed") {
        return;
    }
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let overhead = read(spec.get("overhead"));
    let mut requests = ResourceKind::Requests.total(spec);
    add(&mut requests, &overhead);
    let mut limits = ResourceKind::Limits.total(spec);
    let limited: ResourceList = overhead.into_iter().filter(|(name, _)| limits.contains_key(name)).collect();
    add(&mut limits, &limited);
    usage.insert("pods".to_owned(), one());
    usage.extend(compute_names(&requests, &limits));
}

/// Returns what a container uses.
fn compute_usage(container: &Value) -> ResourceList {
    compute_names(&ResourceKind::Requests.of(container), &ResourceKind::Limits.of(container))
}

/// Returns requests and limits by the names that quotas have for them.
fn compute_names(requests: &ResourceList, limits: &ResourceList) -> ResourceList {
    let mut names = ResourceList::new();
    for (name, quantity) in requests {
        let is_extended = is_extended(&format!("requests.{name}"));
        let is_native =
            matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
        if is_native || is_extended {
            names.insert(format!("requests.{name}"), quantity.clone());
        }
        if is_native {
            names.insert(name.clone(), quantity.clone());
        }
    }
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(quantity) = limits.get(name) {
            names.insert(format!("limits.{name}"), quantity.clone());
        }
    }
    names
}

fn usage_of_service(service: &Value, usage: &mut ResourceList) {
    let ports = list_at(service, &["spec", "ports"]);
    let with_node_port = || ports.iter().filter(|port| port.get("nodePort").and_then(Value::as_i64).unwrap_or(0) != 0);
    let kind = text_at(service, &["spec", "type"]);
    let node_ports = match kind {
        "NodePort" => ports.len(),
        "LoadBalancer" if service.pointer("/spec/allocateLoadBalancerNodePorts") == Some(&Value::Bool(false)) => {
            with_node_port().count()
        }
        "LoadBalancer" => ports.len(),
        _ => 0,
    };
    let node_ports = ExactQuantity::new(i64::try_from(node_ports).unwrap_or(i64::MAX), QuantityFormat::DecimalSi);
    usage.insert("services".to_owned(), one());
    usage.insert("services.nodeports".to_owned(), node_ports);
    usage.insert("services.loadbalancers".to_owned(), if kind == "LoadBalancer" { one() } else { zero() });
}

fn usage_of_claim(claim: &Value, usage: &mut ResourceList) {
    let requested = claim.pointer("/spec/resources/requests/storage").and_then(quantity);
    let allocated = claim.pointer("/status/allocatedResources/storage").and_then(quantity);
    let storage = requested.map(|requested| {
        let mut most = allocated.filter(|allocated| *allocated > requested).unwrap_or(requested);
        most.round_up(0);
        most
    });
    let class = class_of(claim);
    for (name, quantity) in [("persistentvolumeclaims", Some(one())), ("requests.storage", storage)] {
        let Some(quantity) = quantity else { continue };
        if !class.is_empty() {
            usage.insert(format!("{class}{OF_CLASS}{name}"), quantity.clone());
        }
        usage.insert(name.to_owned(), quantity);
    }
}

/// Returns whether a pod is limited in time.
fn is_terminating(pod: &Value) -> bool {
    pod.pointer("/spec/activeDeadlineSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds >= 0)
}

fn is_pod_in_scope(pod: &Value, requirement: &ScopeRequirement) -> bool {
    match requirement.scope.as_str() {
        "Terminating" => is_terminating(pod),
        "NotTerminating" => !is_terminating(pod),
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "PriorityClass" => {
            let class = text_at(pod, &["spec", "priorityClassName"]);
            selects(requirement, Some(class).filter(|class| !class.is_empty()))
        }
        "CrossNamespacePodAffinity" => has_cross_namespace_affinity(pod),
        _ => false,
    }
}

fn is_claim_in_scope(claim: &Value, requirement: &ScopeRequirement) -> bool {
    if requirement.scope != "VolumeAttributesClass" {
        return false;
    }
    const CLASSES: [&str; 3] = [
        "/spec/volumeAttributesClassName",
        "/status/currentVolumeAttributesClassName",
        "/status/modifyVolumeStatus/targetVolumeAttributesClassName",
    ];
    let classes = CLASSES.iter().filter_map(|pointer| claim.pointer(pointer)?.as_str()).filter(|it| !it.is_empty());
    let classes: Vec<&str> = classes.collect();
    match classes.as_slice() {
        [] => selects(requirement, None),
        classes => classes.iter().any(|class| selects(requirement, Some(class))),
    }
}

/// Returns whether a requirement selects the class of an object, or objects without one.
fn selects(requirement: &ScopeRequirement, class: Option<&str>) -> bool {
    let is_named = class.is_some_and(|class| requirement.values.iter().any(|value| value == class));
    match requirement.operator.as_str() {
        "In" => is_named,
        "NotIn" => !is_named,
        "Exists" => class.is_some(),
        "DoesNotExist" => class.is_none(),
        _ => false,
    }
}

/// Returns whether no container requests or limits cpu or memory.
fn is_best_effort(pod: &Value) -> bool {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let lists = ["containers", "initContainers"].into_iter().flat_map(|list| list_at(spec, &[list]));
    let sets_any = |owner: &Value| {
        let lists = [ResourceKind::Requests, ResourceKind::Limits].map(|kind| kind.of(owner));
        let all = lists.iter().flatten();
        all.into_iter().any(|(name, it)| matches!(name.as_str(), "cpu" | "memory") && it.signum().is_gt())
    };
    !lists.chain([spec]).any(sets_any)
}

fn has_cross_namespace_affinity(pod: &Value) -> bool {
    let crosses = |term: &Value| {
        !list_at(term, &["namespaces"]).is_empty() || term.get("namespaceSelector").is_some_and(|it| !it.is_null())
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let path = |list: &'static str| ["spec", "affinity", *kind, list];
        let required = list_at(pod, &path("requiredDuringSchedulingIgnoredDuringExecution")).iter();
        let preferred = list_at(pod, &path("preferredDuringSchedulingIgnoredDuringExecution")).iter();
        let preferred = preferred.filter_map(|weighted| weighted.get("podAffinityTerm"));
        required.chain(preferred).any(crosses)
    })
}

#[cfg(test)]
mod tests;
