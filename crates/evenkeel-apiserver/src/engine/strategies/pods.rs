//! Pods, which are deleted with a grace period, and Bindings, which assign them to nodes.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{CreateAnswer, KindHooks, add_new};
use crate::engine::object::set_path;
use crate::engine::options::DeleteOptions;
use crate::engine::request::ResourceRequest;
use crate::engine::request_error::RequestError;
use crate::engine::target::{Target, WriteScope, Writer};
use crate::engine::verbs::delete::{DeletePlan, mark, set_propagation};
use crate::engine::{ApiEngine, not_implemented, object};
use crate::env::rfc3339;
use crate::field::FieldError;
use crate::kinds;
use crate::registry::Resource;

#[derive(Debug)]
pub(crate) struct PodHooks;

impl KindHooks for PodHooks {
    fn validate_update(
        &self,
        resource: &Resource,
        scope: WriteScope<'_>,
        new: &Value,
        old: &Value,
        errors: &mut Vec<FieldError>,
    ) {
        match scope.subresource() {
            None => add_new(errors, kinds::validate_update(&resource.group, &resource.kind, new, old)),
            Some("ephemeralcontainers") => errors.extend(kinds::validate_ephemeral_containers_update(new, old)),
            Some(_) => {}
        }
    }

    /// Keeps what kubelets and other writers of the status do not know.
    fn prepare_status_update(&self, _: &ApiEngine, new: &mut Value, old: &Value) {
        for key in ["qosClass", "resourceClaimStatuses", "extendedResourceClaimStatus"] {
            let is_unset = |value: &Value| value.is_null() || value.as_str().is_some_and(str::is_empty);
            let is_given = new.get("status").and_then(|status| status.get(key)).is_some_and(|value| !is_unset(value));
            if let Some(known) = old.get("status").and_then(|status| status.get(key)).filter(|_| !is_given) {
                set_path(new, &["status", key], Some(known.clone()));
            }
        }
    }

    fn plan_delete(&self, resource: &Resource, old: &Value, options: &DeleteOptions, now: Timestamp) -> DeletePlan {
        let mut new = old.clone();
        if object::is_deleting(old) {
            return plan_second_delete(new, options, now);
        }
        set_propagation(resource, &mut new, options);
        let held = object::finalizers(&new).next().is_some();
        let period = kinds::pod_grace_period(&new, options.grace_period);
        let end = now.checked_add(SignedDuration::from_secs(period)).unwrap_or(now);
        mark(&mut new, end, period);
        if period == 0 && !held { DeletePlan::MarkAndRemove(new) } else { DeletePlan::Mark(new) }
    }
}

/// Deletes a pod that is already being deleted: only a shorter grace period changes it (DEL-8 to DEL-10).
fn plan_second_delete(mut new: Value, options: &DeleteOptions, now: Timestamp) -> DeletePlan {
    let held = object::finalizers(&new).next().is_some();
    let remaining = object::metadata(&new).get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    let requested = match options.grace_period {
        // A negative period means the shortest one.
        Some(..0) if remaining > 0 => 1.min(remaining),
        Some(requested) if requested < remaining || remaining == 0 => requested.max(0),
        _ if remaining == 0 && !held => 0,
        _ => return DeletePlan::Nothing,
    };
    let start = object::text(&new, "deletionTimestamp").parse::<Timestamp>().unwrap_or(now);
    let start = start.checked_sub(SignedDuration::from_secs(remaining)).unwrap_or(now);
    let mut end = start.checked_add(SignedDuration::from_secs(requested)).unwrap_or(now);
    let mut period = requested;
    if end < now {
        end = now;
        period = period.min(1);
    }
    let metadata = object::metadata_mut(&mut new);
    metadata.insert("deletionTimestamp".into(), rfc3339(end).into());
    metadata.insert("deletionGracePeriodSeconds".into(), period.into());
    match (period, held) {
        (0, false) => DeletePlan::MarkAndRemove(new),
        (0, true) if remaining == 0 => DeletePlan::Nothing,
        _ => DeletePlan::Mark(new),
    }
}

#[derive(Debug)]
pub(crate) struct BindingHooks;

impl KindHooks for BindingHooks {
    fn answers_creates(&self) -> bool {
        true
    }

    /// Serves `POST bindings`: the body names the pod, and no Binding is stored.
    fn answer_create(
        &self,
        engine: &ApiEngine,
        request: &ResourceRequest<'_>,
        binding: &Value,
        writer: Writer<'_>,
    ) -> Result<CreateAnswer, RequestError> {
        let registry = engine.registry();
        let Some(pods) = registry.lookup("", "v1", "pods") else { return Err(not_implemented("bindings").into()) };
        let name = object::text(binding, "name");
        let target = Target { resource: pods, namespace: request.namespace(), name, scope: WriteScope::Main };
        engine.bind(target, binding, writer)?;
        Ok(CreateAnswer::Success)
    }
}
