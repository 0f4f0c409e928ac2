//! LimitRanger: defaults and bounds for the resources of containers, pods and claims (ADM-004 to ADM-006).

use std::collections::HashSet;

use evenkeel_core::quantity::ExactQuantity;
use serde_json::Value;

use super::pod_resources::{ResourceKind, ResourceList, read};
use super::{AdmissionPlugin, AdmissionWrite, Operation, list_at, text_at};
use crate::engine::ApiEngine;
use crate::engine::object::{self, set_path};
use crate::engine::request_error::RequestError;
use crate::engine::target::WriteScope;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// The largest value that is compared in thousandths.
const MAX_MILLI: i64 = i64::MAX / 1000;

/// The limits of a LimitRange.
pub(super) type LimitRange = Vec<Limit>;

/// One element of `spec.limits`.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    subject: String,
    default: ResourceList,
    default_request: ResourceList,
    min: ResourceList,
    max: ResourceList,
    max_ratio: ResourceList,
}

impl Limit {
    pub(super) fn read_all(range: &Value) -> Option<LimitRange> {
        let limits = list_at(range, &["spec", "limits"]).iter().map(|limit| Limit {
            subject: text_at(limit, &["type"]).to_owned(),
            default: read(limit.get("default")),
            default_request: read(limit.get("defaultRequest")),
            min: read(limit.get("min")),
            max: read(limit.get("max")),
            max_ratio: read(limit.get("maxLimitRequestRatio")),
        });
        Some(limits.collect())
    }
}

pub(super) struct LimitRanger;

impl AdmissionPlugin for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    /// The containers of a pod change by `resize` only.
    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        let resizes = write.operation == Operation::Update && write.subresource() == "resize" && write.is_of("pods");
        let writes_claim =
            write.has_object() && write.target.scope == WriteScope::Main && write.is_of("persistentvolumeclaims");
        resizes || writes_claim || write.creates("pods")
    }

    fn mutate(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        pod: &mut Value,
        _: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        if write.is_of("pods") && !is_deleting(write) {
            ranges_of(engine, write.namespace()).iter().for_each(|range| set_defaults(range, pod));
        }
        Ok(())
    }

    fn validate(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        object: Option<&Value>,
        _: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        let Some(object) = object.filter(|_| !is_deleting(write)) else { return Ok(()) };
        for range in ranges_of(engine, write.namespace()) {
            let faults =
                if write.is_of("pods") { faults_of_pod(&range, object) } else { faults_of_claim(&range, object) };
            if !faults.is_empty() {
                return Err(write.forbidden(object, joined(faults)));
            }
        }
        Ok(())
    }
}

fn is_deleting(write: &AdmissionWrite<'_>) -> bool {
    write.old.is_some_and(object::is_deleting)
}

/// Returns the LimitRanges of a namespace by name.
fn ranges_of(engine: &ApiEngine, namespace: &str) -> Vec<LimitRange> {
    engine.admission.limit_ranges.with(&engine.store, |ranges| {
        if ranges.is_empty() {
            return Vec::new();
        }
        let prefix = format!("{namespace}/");
        let own = ranges.range(Box::from(prefix.as_str())..).take_while(|(key, _)| key.starts_with(&prefix));
        own.map(|(_, range)| range.clone()).collect()
    })
}

/// Sets the requests and limits that containers leave out, and notes that in an annotation.
fn set_defaults(range: &LimitRange, pod: &mut Value) {
    let (mut requests, mut limits) = (ResourceList::new(), ResourceList::new());
    for limit in range.iter().filter(|limit| limit.subject == "Container") {
        requests.extend(limit.default_request.clone());
        limits.extend(limit.default.clone());
    }
    let mut notes = Vec::new();
    for (list, word) in [("containers", "container"), ("initContainers", "init container")] {
        let containers = pod.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let limits = set_missing(container, "limits", &limits);
            let requests = set_missing(container, "requests", &requests);
            let name = text_at(container, &["name"]);
            for (set, what) in [(requests, "request"), (limits, "limit")] {
                if !set.is_empty() {
                    notes.push(format!("{} {what} for {word} {name}", set.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        set_path(pod, &["metadata", "annotations", ANNOTATION], Some(note.into()));
    }
}

/// Sets the resources that a list of a container lacks, and returns their names in order.
fn set_missing<'a>(container: &mut Value, list: &str, defaults: &'a ResourceList) -> Vec<&'a str> {
    let present = container.pointer(&format!("/resources/{list}")).cloned().unwrap_or_default();
    let missing = defaults.iter().filter(|(name, _)| present.get(name.as_str()).is_none());
    missing
        .map(|(name, quantity)| {
            set_path(container, &["resources", list, name], Some(quantity.to_string().into()));
            name.as_str()
        })
        .collect()
}

fn faults_of_pod(range: &LimitRange, pod: &Value) -> Vec<String> {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let containers = || list_at(spec, &["containers"]).iter().chain(list_at(spec, &["initContainers"]));
    let mut faults = Vec::new();
    for limit in range {
        match limit.subject.as_str() {
            "Container" => containers().for_each(|container| {
                let [requests, limits] = [ResourceKind::Requests, ResourceKind::Limits].map(|kind| kind.of(container));
                limit.check(&requests, &limits, &mut faults);
            }),
            "Pod" => {
                let [requests, limits] = [ResourceKind::Requests, ResourceKind::Limits].map(|kind| kind.total(spec));
                limit.check(&requests, &limits, &mut faults);
            }
            _ => {}
        }
    }
    faults
}

/// A claim has requests only.
fn faults_of_claim(range: &LimitRange, claim: &Value) -> Vec<String> {
    let requests = read(claim.pointer("/spec/resources/requests"));
    let mut faults = Vec::new();
    for limit in range.iter().filter(|limit| limit.subject == "PersistentVolumeClaim") {
        for (name, min) in &limit.min {
            faults.extend(Bound::new(limit, name, min, &requests, &ResourceList::new()).below_min());
        }
        for (name, max) in &limit.max {
            faults.extend(Bound::new(limit, name, max, &requests, &ResourceList::new()).request_above_max());
        }
    }
    faults
}

impl Limit {
    fn check(&self, requests: &ResourceList, limits: &ResourceList, faults: &mut Vec<String>) {
        let bound = |name, value| Bound::new(self, name, value, requests, limits);
        faults.extend(self.min.iter().filter_map(|(name, min)| bound(name, min).below_min()));
        faults.extend(self.max.iter().filter_map(|(name, max)| bound(name, max).above_max()));
        faults.extend(self.max_ratio.iter().filter_map(|(name, ratio)| bound(name, ratio).above_ratio()));
    }
}

/// A bound of one resource, and what is compared with it.
struct Bound<'a> {
    name: &'a str,
    subject: &'a str,
    bound: &'a ExactQuantity,
    request: Option<&'a ExactQuantity>,
    limit: Option<&'a ExactQuantity>,
}

impl<'a> Bound<'a> {
    fn new(
        limit: &'a Limit,
        name: &'a str,
        bound: &'a ExactQuantity,
        requests: &'a ResourceList,
        limits: &'a ResourceList,
    ) -> Self {
        Bound { name, subject: &limit.subject, bound, request: requests.get(name), limit: limits.get(name) }
    }

    /// Returns the request, the limit and the bound in thousandths, or as whole numbers if one of them is too large for that.
    fn numbers(&self) -> [i64; 3] {
        let zero = ExactQuantity::default();
        let all = [self.request.unwrap_or(&zero), self.limit.unwrap_or(&zero), self.bound];
        let whole = all.map(|quantity| quantity.value().unwrap_or(i64::MAX));
        if whole.iter().any(|value| *value > MAX_MILLI) {
            return whole;
        }
        all.map(|quantity| quantity.milli_value().unwrap_or(i64::MAX))
    }

    fn below_min(&self) -> Option<String> {
        let [request, limit, min] = self.numbers();
        let text = format!("minimum {} usage per {} is {}", self.name, self.subject, self.bound);
        match (self.request, self.limit) {
            (None, _) => Some(format!("{text}.  No request is specified")),
            (Some(given), _) if request < min => Some(format!("{text}, but request is {given}")),
            (_, Some(given)) if limit < min => Some(format!("{text}, but limit is {given}")),
            _ => None,
        }
    }

    fn above_max(&self) -> Option<String> {
        let [request, limit, max] = self.numbers();
        let text = format!("maximum {} usage per {} is {}", self.name, self.subject, self.bound);
        match (self.limit, self.request) {
            (None, _) => Some(format!("{text}.  No limit is specified")),
            (Some(given), _) if limit > max => Some(format!("{text}, but limit is {given}")),
            (_, Some(given)) if request > max => Some(format!("{text}, but request is {given}")),
            _ => None,
        }
    }

    fn request_above_max(&self) -> Option<String> {
        let [request, _, max] = self.numbers();
        let text = format!("maximum {} usage per {} is {}", self.name, self.subject, self.bound);
        match self.request {
            None => Some(format!("{text}.  No request is specified")),
            Some(given) => (request > max).then(|| format!("{text}, but request is {given}")),
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "the ratio is compared and printed as upstream's, a float")]
    fn above_ratio(&self) -> Option<String> {
        let [request, limit, _] = self.numbers();
        let text = format!("{} max limit to request ratio per {} is {}", self.name, self.subject, self.bound);
        if self.request.is_none() || request == 0 {
            return Some(format!("{text}, but no request is specified or request is 0"));
        }
        if self.limit.is_none() || limit == 0 {
            return Some(format!("{text}, but no limit is specified or limit is 0"));
        }
        let ratio = limit as f64 / request as f64;
        let whole = self.bound.value().unwrap_or(i64::MAX);
        let is_above = if whole <= MAX_MILLI {
            ratio * 1000.0 > self.bound.milli_value().unwrap_or(i64::MAX) as f64
        } else {
            ratio > whole as f64
        };
        is_above.then(|| format!("{text}, but provided ratio is {ratio:.6}"))
    }
}

/// Joins the faults of one LimitRange; each is shown once.
fn joined(mut faults: Vec<String>) -> String {
    let mut seen = HashSet::new();
    faults.retain(|fault| seen.insert(fault.clone()));
    match faults.as_slice() {
        [fault] => fault.clone(),
        faults => format!("[{}]", faults.join(", ")),
    }
}
