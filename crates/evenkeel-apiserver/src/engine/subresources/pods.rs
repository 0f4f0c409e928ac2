//! The subresources that change pods: binding, eviction and resize.

use std::collections::HashMap;
use std::sync::Arc;

use evenkeel_core::LabelSelector;
use evenkeel_core::{Reason, Status, StatusCause, StatusDetails};
use serde_json::{Value, json};

use super::check_kind;
use crate::engine::admission::Operation;
use crate::engine::controllers::PendingWork;
use crate::engine::object::set_path;
use crate::engine::options::{DeleteOptions, WriteOptions};
use crate::engine::request::ResourceRequest;
use crate::engine::request_error::RequestError;
use crate::engine::target::{Target, WriteScope, Writer, Written, check_name, check_uid};
use crate::engine::verbs::delete::check_preconditions;
use crate::engine::verbs::patch::apply_patch;
use crate::engine::{ApiEngine, decode, object, response};
use crate::env::rfc3339;
use crate::http_types::HandlerOutcome;
use crate::negotiate::{Endpoint, PatchType};
use crate::route::Verb;
use crate::store::{At, Record, Span};

const BUDGETS: &str = "poddisruptionbudgets.policy";
const VIOLATED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

impl ApiEngine {
    /// Serves `POST pods/X/binding`.
    pub(super) fn create_binding(
        self: &Arc<Self>,
        request: &ResourceRequest<'_>,
    ) -> Result<HandlerOutcome, RequestError> {
        let options = WriteOptions::from_query(request.query, "CreateOptions")?;
        let manager = request.manager(&options);
        let mut body = decode::parse(request.http, "Binding")?.value;
        let target = request.target(WriteScope::Main);
        let warnings =
            self.admit_subresource(Operation::Create, target, "binding", &mut body, request.http, options.dry_run)?;
        self.bind(target, &body, Writer::new(request.http, &options, &manager))?;
        let mut response = response::created(request);
        response::warn(&mut response, &warnings);
        Ok(HandlerOutcome::Response(response))
    }

    /// Serves `POST pods/X/eviction`.
    pub(super) fn create_eviction(
        self: &Arc<Self>,
        request: &ResourceRequest<'_>,
    ) -> Result<HandlerOutcome, RequestError> {
        let options = WriteOptions::from_query(request.query, "CreateOptions")?;
        let manager = request.manager(&options);
        let mut body = decode::parse(request.http, "Eviction")?.value;
        let target = request.target(WriteScope::Main);
        let warnings =
            self.admit_subresource(Operation::Create, target, "eviction", &mut body, request.http, options.dry_run)?;
        self.evict(target, &body, Writer::new(request.http, &options, &manager))?;
        let mut work = PendingWork::none(self);
        if !options.dry_run {
            self.after_delete(target.resource, target.namespace, target.name, &mut work);
        }
        let mut response = response::created(request);
        response::warn(&mut response, &warnings);
        Ok(work.then(HandlerOutcome::Response(response)))
    }

    /// Serves `GET|PUT|PATCH pods/X/resize`.
    pub(super) fn resize(self: &Arc<Self>, request: &ResourceRequest<'_>) -> Result<HandlerOutcome, RequestError> {
        if request.route.verb == Verb::Get {
            return self.get(request);
        }
        let view = self.view(request, Endpoint::Object)?;
        let options = WriteOptions::from_query(request.query, "UpdateOptions")?;
        let manager = request.manager(&options);
        let writer = Writer::new(request.http, &options, &manager);
        let target = request.target(WriteScope::Main);
        let mut warnings = Vec::new();
        let mut written = if request.route.verb == Verb::Patch {
            let kind = PatchType::of(&request.http.headers, false)?;
            self.resize_containers(target, writer, |old| {
                let (new, complaints) = apply_patch(request, kind, old, options.field_validation)?;
                warnings = complaints;
                Ok(new)
            })?
        } else {
            let registry = self.registry();
            let sent = decode::object(&registry, target.resource, request.http, options.field_validation)?;
            check_name(&sent.object, request.name())?;
            warnings = sent.warnings;
            self.resize_containers(target, writer, |_| Ok(sent.object.clone()))?
        };
        written.warnings.splice(0..0, warnings);
        self.write_response(&view, &written, options.dry_run)
    }

    /// Assigns a pod to a node (MSC-4).
    pub(crate) fn bind(&self, target: Target<'_>, binding: &Value, writer: Writer<'_>) -> Result<(), RequestError> {
        check_kind(binding, &["v1"], "Binding")?;
        let node = binding.pointer("/target/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if node.is_empty() {
            let error = crate::field::FieldError::required("target.name", "");
            return Err(crate::field::invalid("", "Binding", target.name, &[error]).into());
        }
        let given = object::text(binding, "name");
        if !given.is_empty() && given != target.name {
            return Err(Status::bad_request("name in URL does not match name in Binding object").into());
        }
        // The Binding has passed admission, not the pod.
        let writer = writer.past_admission();
        let now = rfc3339(self.env.wall());
        let name = target.name;
        let refuse = |why: String| Err(Status::conflict("", "pods/binding", name, why));
        let target = Target { scope: WriteScope::Whole { subresource: "binding" }, ..target };
        self.update_object(target, writer, |old| {
            if object::is_deleting(old) {
                return refuse(format!("pod {name} is being deleted, cannot be assigned to a host"));
            }
            let present = old.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default();
            if !present.is_empty() {
                return refuse(format!("pod {name} is already assigned to node {present:?}"));
            }
            let gates = old.pointer("/spec/schedulingGates").and_then(Value::as_array);
            if gates.is_some_and(|gates| !gates.is_empty()) {
                return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
            }
            check_uid(target, old, object::text(binding, "uid"))?;
            let mut new = old.clone();
            require_version(&mut new, object::text(binding, "resourceVersion"));
            for field in ["annotations", "labels"] {
                let given = object::metadata(binding).get(field).and_then(Value::as_object);
                for (key, value) in given.into_iter().flatten() {
                    set_path(&mut new, &["metadata", field, key.as_str()], Some(value.clone()));
                }
            }
            set_path(&mut new, &["spec", "nodeName"], Some(node.as_str().into()));
            set_path(&mut new, &["status", "nominatedNodeName"], None);
            let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null,
                                   "lastTransitionTime": now});
            set_condition(&mut new, condition);
            Ok(new)
        })?;
        Ok(())
    }

    /// Deletes a pod if its disruption budget allows it (MSC-3).
    fn evict(&self, target: Target<'_>, eviction: &Value, writer: Writer<'_>) -> Result<(), RequestError> {
        check_kind(eviction, &["policy/v1", "policy/v1beta1"], "Eviction")?;
        let given = object::text(eviction, "name");
        if !given.is_empty() && given != target.name {
            return Err(Status::bad_request("name in URL does not match name in Eviction object").into());
        }
        let options = eviction.get("deleteOptions").filter(|options| options.is_object());
        let query = crate::query::Query::parse(None);
        let mut options = DeleteOptions::from_request(&query, options, "policy/v1")?;
        options.dry_run |= writer.options.dry_run;
        let write_options = WriteOptions { dry_run: options.dry_run, ..writer.options.clone() };
        // The Eviction has passed admission, not what it writes.
        let writer = Writer { options: &write_options, ..writer }.past_admission();
        let Some(record) = self.store.get(&target.resource.storage, &target.key()) else {
            return Err(target.not_found().into());
        };
        // Checked before anything is written: a refused eviction changes nothing.
        check_preconditions(target, &record, &options)?;
        let pod = record.value();
        let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
        let unprotected = object::is_deleting(&pod) || matches!(phase, "Pending" | "Succeeded" | "Failed");
        if !unprotected {
            self.charge_budget(target, &pod, writer)?;
        }
        let now = rfc3339(self.env.wall());
        let marked = Target { scope: WriteScope::Whole { subresource: "eviction" }, ..target };
        let written = self.update_object(marked, writer, |old| {
            check_uid(marked, old, options.uid.as_deref().unwrap_or_default())?;
            let mut new = old.clone();
            require_version(&mut new, options.resource_version.as_deref().unwrap_or_default());
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": now});
            set_condition(&mut new, condition);
            Ok(new)
        })?;
        if let Some(version) = &mut options.resource_version {
            // The condition is a write of this eviction, which must not fail its own precondition.
            *version = written.record.revision.to_string();
        }
        match self.delete_object(target, &options, None) {
            Err(error) if error.is_not_found() => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Charges an eviction to the one budget that covers the pod.
    fn charge_budget(&self, target: Target<'_>, pod: &Value, writer: Writer<'_>) -> Result<(), RequestError> {
        let budgets = self.budgets_of(target.namespace.unwrap_or_default(), pod);
        let budget = match budgets.as_slice() {
            [] => return Ok(()),
            [budget] => budget.value(),
            _ => {
                return Err(Status::failure(
                    500,
                    Reason::default(),
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                )
                .into());
            }
        };
        let name = object::text(&budget, "name");
        if is_unready(pod) && may_evict_unready(&budget) {
            return Ok(());
        }
        let registry = self.registry();
        let Some(resource) = registry.lookup("policy", "v1", "poddisruptionbudgets") else { return Ok(()) };
        let charged = Target { resource, namespace: target.namespace, name, scope: WriteScope::Status };
        let now = rfc3339(self.env.wall());
        self.update_object(charged, writer, |budget| {
            // Decided on the version that is charged: of two concurrent evictions for the last disruption, one is refused.
            let left = disruptions_left(budget)?;
            let mut new = budget.clone();
            new["status"]["disruptionsAllowed"] = left.into();
            new["status"]["disruptedPods"][target.name] = now.as_str().into();
            Ok(new)
        })?;
        Ok(())
    }

    fn budgets_of(&self, namespace: &str, pod: &Value) -> Vec<Arc<Record>> {
        let prefix = format!("{namespace}/");
        let span = Span { prefix: &prefix, ..Span::default() };
        let labels = object::metadata(pod).get("labels");
        let covers = |record: &Record| {
            let selector = record.value().pointer("/spec/selector").and_then(|it| LabelSelector::from_json(it).ok());
            selector.is_some_and(|selector| {
                selector.matches(|key| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str))
            })
        };
        let page = self.store.list(BUDGETS, span, At::Latest, |_, _| true);
        let mut budgets = page.map(|page| page.records).unwrap_or_default();
        budgets.retain(|record| covers(record));
        budgets
    }

    /// Changes the resources and resize policies of containers and nothing else (MSC-8).
    fn resize_containers(
        &self,
        target: Target<'_>,
        writer: Writer<'_>,
        mut make: impl FnMut(&Value) -> Result<Value, Status>,
    ) -> Result<Written, RequestError> {
        let target = Target { scope: WriteScope::Field { subresource: "resize", path: &["spec"] }, ..target };
        self.update_object(target, writer, |old| {
            let wanted = make(old)?;
            let mut new = old.clone();
            for list in ["containers", "initContainers"] {
                let Some(Value::Array(containers)) = new.pointer_mut(&format!("/spec/{list}")) else { continue };
                let wanted = wanted.pointer(&format!("/spec/{list}")).and_then(Value::as_array);
                let name = |container: &Value| container.get("name").and_then(Value::as_str).map(str::to_owned);
                let by_name: HashMap<Option<String>, &Value> =
                    wanted.into_iter().flatten().rev().map(|container| (name(container), container)).collect();
                for container in containers {
                    if let Some(other) = by_name.get(&name(container)) {
                        object::copy_field(container, other, "resources");
                        object::copy_field(container, other, "resizePolicy");
                    }
                }
            }
            let version = object::text(&wanted, "resourceVersion");
            object::metadata_mut(&mut new).insert("resourceVersion".into(), version.into());
            Ok(new)
        })
    }
}

/// Returns how many disruptions a budget allows after this one; an error if it allows none.
fn disruptions_left(budget: &Value) -> Result<i64, Status> {
    let name = object::text(budget, "name");
    let number = |pointer: &str| budget.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    if number("/status/observedGeneration") < number("/metadata/generation") {
        let text = format!("The disruption budget {name} is still being processed by the server.");
        return Err(too_many(text, 10));
    }
    let allowed = number("/status/disruptionsAllowed");
    if allowed <= 0 {
        let text = format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            number("/status/desiredHealthy"),
            number("/status/currentHealthy")
        );
        return Err(too_many(text, 0));
    }
    Ok(allowed - 1)
}

/// Makes a resource version of the client a precondition of the write.
fn require_version(object: &mut Value, version: &str) {
    if !version.is_empty() {
        object::metadata_mut(object).insert("resourceVersion".into(), version.into());
    }
}

fn is_unready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    !conditions.into_iter().flatten().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Returns whether a pod that is not ready may be evicted: always, if the policy allows it, else if enough others are
/// healthy.
fn may_evict_unready(budget: &Value) -> bool {
    let number = |pointer: &str| budget.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let always = budget.pointer("/spec/unhealthyPodEvictionPolicy").and_then(Value::as_str) == Some("AlwaysAllow");
    let healthy = number("/status/currentHealthy") >= number("/status/desiredHealthy");
    always || (healthy && number("/status/desiredHealthy") > 0)
}

fn too_many(text: String, retry_after_seconds: u32) -> Status {
    let cause = StatusCause { reason: "DisruptionBudget".into(), message: text, field: String::new() };
    Status::failure(429, Reason::TOO_MANY_REQUESTS, VIOLATED).with_details(StatusDetails {
        causes: vec![cause],
        retry_after_seconds,
        ..StatusDetails::default()
    })
}

fn set_condition(pod: &mut Value, condition: Value) {
    let Some(fields) = pod.as_object_mut() else { return };
    let status = fields.entry("status").or_insert_with(|| json!({}));
    let Some(status) = status.as_object_mut() else { return };
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    match conditions.iter_mut().find(|present| present.get("type") == condition.get("type")) {
        Some(present) => *present = condition,
        None => conditions.push(condition),
    }
}
