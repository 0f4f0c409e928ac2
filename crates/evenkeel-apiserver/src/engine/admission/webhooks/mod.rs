//! Admission webhooks: programs outside of the server, and functions of the program, that change or refuse writes.
//!
//! A run of a request that needs a review ends with the call ([`RequestError::NeedsCalls`]); the next run finds the response.
//! Mutating webhooks need one run each, because each reviews the output of the one before. All validating webhooks are called
//! at the same time.

pub(crate) mod configuration;
mod metrics;
mod review;

use std::sync::Arc;

use evenkeel_core::Status;
use serde_json::{Value, json};

use self::configuration::{Webhook, WebhookKind, Webhooks};
use self::metrics::{RejectionCause, ReviewLabels};
pub(crate) use self::metrics::{WebhookCounts, WebhookMetrics};
use super::policies::conditions::CONDITIONS_BUDGET;
use super::policies::environment::{NamedExpressions, PolicyVariables, authorizer};
use super::reviewed::{ReviewedWrite, mutate_as_reviewed, normalise, review_request, validate_as_reviewed};
use super::{AdmissionPlugin, AdmissionWrite, MutationPass, Operation};
use crate::engine::ApiEngine;
use crate::engine::request_error::RequestError;
use crate::outbound::{CallId, OutboundCall};
use crate::patch::{self, PatchError};
use crate::registry::Resource;

/// The webhooks of a server, and what they have decided.
pub(crate) struct AdmissionWebhooks {
    mutating: Webhooks,
    validating: Webhooks,
    pub(crate) metrics: WebhookMetrics,
}

impl AdmissionWebhooks {
    pub(crate) fn new(functions: &[(WebhookKind, Arc<Webhook>)]) -> Self {
        AdmissionWebhooks {
            mutating: Webhooks::new(WebhookKind::Mutating, functions),
            validating: Webhooks::new(WebhookKind::Validating, functions),
            metrics: WebhookMetrics::default(),
        }
    }
}

/// MutatingAdmissionWebhook.
pub(super) struct MutatingAdmissionWebhook;

/// ValidatingAdmissionWebhook.
pub(super) struct ValidatingAdmissionWebhook;

impl AdmissionPlugin for MutatingAdmissionWebhook {
    fn name(&self) -> &'static str {
        "MutatingAdmissionWebhook"
    }

    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        !write.is_of_configuration()
    }

    fn is_active(&self, engine: &ApiEngine) -> bool {
        !engine.webhooks.mutating.is_empty(engine)
    }

    fn mutate_in_pass(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        object: Option<&mut Value>,
        warnings: &mut Vec<String>,
        pass: &mut MutationPass,
    ) -> Result<(), RequestError> {
        if engine.leaves_out_review(write) {
            return Ok(());
        }
        mutate_as_reviewed(write, object, |write, object| engine.run_mutating(write, object, warnings, pass))
    }
}

impl AdmissionPlugin for ValidatingAdmissionWebhook {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionWebhook"
    }

    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        !write.is_of_configuration()
    }

    fn is_active(&self, engine: &ApiEngine) -> bool {
        !engine.webhooks.validating.is_empty(engine)
    }

    fn validate(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        object: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        if engine.leaves_out_review(write) {
            return Ok(());
        }
        validate_as_reviewed(write, object, |write, object| engine.run_validating(write, object, warnings))
    }
}

/// What a webhook has decided about a write.
enum Verdict {
    /// A JSON patch; empty if there is none.
    Allowed(Vec<u8>),
    Denied(Status),
    /// No usable response; the failure policy decides.
    Failed(String),
    /// An error that fails the request whatever the failure policy.
    Refused(Status),
}

/// A review that is answered, or must be sent first.
enum Review {
    Answered(Verdict),
    Needed(OutboundCall),
}

impl ApiEngine {
    /// Returns whether a write is a review of a user or of permissions, which webhooks of 1.37 do not see.
    fn leaves_out_review(&self, write: &AdmissionWrite<'_>) -> bool {
        write.is_of_review() && self.settings.version.minor() >= 37
    }

    /// Runs the mutating webhooks one after the other (AWH-002).
    fn run_mutating(
        &self,
        write: &AdmissionWrite<'_>,
        mut object: Option<&mut Value>,
        warnings: &mut Vec<String>,
        pass: &mut MutationPass,
    ) -> Result<(), RequestError> {
        if pass.is_second {
            pass.webhooks.compare(object.as_deref());
        }
        let state = &write.request.state;
        let round = usize::from(pass.is_second);
        for (index, webhook) in self.webhooks.mutating.current(self).iter().enumerate() {
            let Some(resource) = self.reviewed_by(webhook, write, object.as_deref())? else { continue };
            if pass.is_second && !pass.webhooks.is_due(&webhook.id) {
                continue;
            }
            let verdict = match self.review(
                webhook,
                WebhookKind::Mutating,
                round,
                write,
                &resource,
                object.as_deref(),
                warnings,
            )? {
                Review::Answered(verdict) => verdict,
                Review::Needed(call) => return Err(RequestError::NeedsCalls(vec![call])),
            };
            let key = |prefix: &str| format!("{prefix}mutation.webhook.admission.k8s.io/round_{round}_index_{index}");
            let verdict = match verdict {
                Verdict::Allowed(patch) => self.patched(webhook, write, &resource, object.as_deref_mut(), &patch)?,
                other => Err(other),
            };
            let changed = matches!(verdict, Ok(true));
            state.annotate(
                key(""),
                json!({"configuration": webhook.configuration, "webhook": webhook.name, "mutated": changed})
                    .to_string(),
            );
            if changed {
                pass.webhooks.changed();
                pass.wants_second = true;
            }
            if webhook.reinvokes {
                pass.webhooks.invoked(webhook.id.clone());
            }
            match verdict {
                Ok(_) => {}
                Err(Verdict::Allowed(_)) => {}
                Err(Verdict::Failed(why)) if webhook.fails_open => {
                    tracing::warn!(webhook = webhook.name, why, "failed to call webhook; ignored by its policy");
                    state.annotate(key("failed-open."), webhook.name.clone());
                }
                Err(Verdict::Failed(why)) => return Err(call_failed(&webhook.name, &why).into()),
                Err(Verdict::Denied(status) | Verdict::Refused(status)) => return Err(status.into()),
            }
        }
        if !pass.is_second {
            pass.webhooks.finish(object.as_deref());
        }
        Ok(())
    }

    /// Runs all validating webhooks at the same time. The first error in their order refuses the write.
    fn run_validating(
        &self,
        write: &AdmissionWrite<'_>,
        object: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        let mut verdicts = Vec::new();
        let mut calls = Vec::new();
        for webhook in self.webhooks.validating.current(self) {
            let Some(resource) = self.reviewed_by(&webhook, write, object)? else { continue };
            match self.review(&webhook, WebhookKind::Validating, 0, write, &resource, object, warnings)? {
                Review::Answered(verdict) => verdicts.push((webhook, verdict)),
                Review::Needed(call) => calls.push(call),
            }
        }
        if !calls.is_empty() {
            return Err(RequestError::NeedsCalls(calls));
        }
        for (index, (webhook, verdict)) in verdicts.into_iter().enumerate() {
            match verdict {
                Verdict::Allowed(_) => {}
                Verdict::Failed(why) if webhook.fails_open => {
                    tracing::warn!(webhook = webhook.name, why, "failed to call webhook; ignored by its policy");
                    let key = format!("failed-open.validating.webhook.admission.k8s.io/round_0_index_{index}");
                    write.request.state.annotate(key, webhook.name.clone());
                }
                Verdict::Failed(why) => return Err(call_failed(&webhook.name, &why).into()),
                Verdict::Denied(status) | Verdict::Refused(status) => return Err(status.into()),
            }
        }
        Ok(())
    }

    /// Returns the resource in whose version a webhook reviews a write, if it does.
    fn reviewed_by(
        &self,
        webhook: &Webhook,
        write: &AdmissionWrite<'_>,
        object: Option<&Value>,
    ) -> Result<Option<Arc<Resource>>, RequestError> {
        let selected = match &webhook.rules {
            Ok(rules) => rules.select(self, write, object)?,
            Err(why) => return Err(Status::internal(why).into()),
        };
        match selected {
            Some(resource) if self.conditions_hold(webhook, write, &resource, object)? => Ok(Some(resource)),
            _ => Ok(None),
        }
    }

    /// Returns whether the match conditions of a webhook hold for a write that its rules select (AWH-019). An error refuses
    /// the write, or leaves out the webhook if it fails open.
    fn conditions_hold(
        &self,
        webhook: &Webhook,
        write: &AdmissionWrite<'_>,
        resource: &Arc<Resource>,
        object: Option<&Value>,
    ) -> Result<bool, RequestError> {
        let held = match &*webhook.conditions {
            Ok(conditions) if conditions.is_empty() => return Ok(true),
            Ok(conditions) => {
                let reviewed = ReviewedWrite::new(self, write, object, resource)?;
                let authorizer = authorizer(self, &write.request.user);
                let named = NamedExpressions::default();
                let variables = PolicyVariables::new(&reviewed, (&Value::Null, &Value::Null), authorizer, &named);
                conditions.hold(&variables.with_budget(CONDITIONS_BUDGET))
            }
            Err(error) => Err(error.to_string()),
        };
        match held {
            Ok(held) => Ok(held),
            Err(why) if webhook.fails_open => {
                tracing::warn!(webhook = webhook.name, why, "failed to evaluate match conditions; webhook not called");
                Ok(false)
            }
            Err(why) => {
                let (target, resource) = (write.target, write.target.resource);
                Err(Status::forbidden(&resource.group, &resource.plural, target.name, why).into())
            }
        }
    }

    /// Returns the verdict of a webhook, or the call that it needs.
    #[expect(clippy::too_many_arguments, reason = "the parts of one review")]
    fn review(
        &self,
        webhook: &Webhook,
        kind: WebhookKind,
        round: usize,
        write: &AdmissionWrite<'_>,
        resource: &Arc<Resource>,
        object: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<Review, RequestError> {
        let answered = |verdict| Ok(Review::Answered(verdict));
        if write.dry_run && !webhook.supports_dry_run {
            let message = format!("admission webhook {:?} does not support dry run", webhook.name);
            return answered(Verdict::Refused(Status::bad_request(message)));
        }
        let Some(version) = webhook.review_version else {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, \
                       v1beta1)";
            return answered(Verdict::Failed(why.to_owned()));
        };
        let new = object.map(|object| self.for_review(write, resource, object)).transpose()?;
        let old = write.old.map(|object| self.for_review(write, resource, object)).transpose()?;
        let mut review = review::envelope(version, review_request(write, resource, new.as_ref(), old.as_ref()));
        let id = CallId::new(&format!("{kind:?} {} {round}", webhook.id), review.to_string().as_bytes());
        let state = &write.request.state;
        let uid = state.review_uid(&id, &*self.env);
        let Some(result) = state.result(&id) else {
            review["request"]["uid"] = uid.into();
            let body = review.to_string().into();
            let endpoint = webhook.endpoint(self);
            return Ok(Review::Needed(OutboundCall { id, endpoint, body, timeout: webhook.timeout() }));
        };
        let response = match &*result {
            Ok(body) => review::response(webhook, kind, version, &uid, body),
            Err(error) => Err(format!("failed to call webhook: {error}")),
        };
        let labels = ReviewLabels { name: &webhook.name, kind, operation: write.operation };
        let first = state.count_result(id);
        let response = match response {
            Ok(response) => response,
            Err(why) => {
                if first {
                    self.webhooks.metrics.failed(labels, webhook.fails_open);
                }
                return answered(Verdict::Failed(why));
            }
        };
        for (key, value) in response.annotations {
            state.annotate(format!("{}/{key}", webhook.name), value);
        }
        warnings.extend(response.warnings);
        if first {
            match &response.denied {
                Some(status) => self.webhooks.metrics.rejected(labels, RejectionCause::Denied, status.code),
                None => self.webhooks.metrics.allowed(labels),
            }
        }
        answered(match response.denied {
            Some(status) => Verdict::Denied(status),
            None => Verdict::Allowed(response.patch),
        })
    }

    /// Applies the patch of a webhook. Returns whether the object has changed, or the verdict that the patch amounts to.
    fn patched(
        &self,
        webhook: &Webhook,
        write: &AdmissionWrite<'_>,
        resource: &Arc<Resource>,
        object: Option<&mut Value>,
        patch: &[u8],
    ) -> Result<Result<bool, Verdict>, RequestError> {
        if patch.is_empty() {
            return Ok(Ok(false));
        }
        let refused = |why: String| {
            let labels = ReviewLabels { name: &webhook.name, kind: WebhookKind::Mutating, operation: write.operation };
            self.webhooks.metrics.rejected(labels, RejectionCause::Internal, 0);
            Ok(Err(Verdict::Refused(Status::internal(why))))
        };
        let undecodable = |why: &dyn std::fmt::Display| {
            Ok(Err(Verdict::Failed(format!("received undecodable patch in webhook response: {why}"))))
        };
        match serde_json::from_slice::<Value>(patch) {
            Ok(Value::Array(operations)) if operations.is_empty() => return Ok(Ok(false)),
            Ok(Value::Null) => return Ok(Ok(false)),
            Ok(_) => {}
            Err(error) => return undecodable(&error),
        }
        let Some(object) = object.filter(|_| write.operation != Operation::Connect) else {
            return refused(format!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                webhook.name
            ));
        };
        let before = self.for_review(write, resource, object)?;
        let mut new = before.clone();
        match patch::apply_json_patch(&mut new, patch) {
            Ok(()) => {}
            Err(error @ (PatchError::NotJson | PatchError::Shape(_))) => return undecodable(&error),
            Err(error) => return refused(error.to_string()),
        }
        if let Err(why) = normalise(write, resource, &mut new) {
            return refused(why);
        }
        let changed = new != before;
        if changed {
            self.accept_reviewed(write, resource, object, new)?;
        }
        Ok(Ok(changed))
    }
}

/// Returns the error of a call without a usable response (AWH-007).
fn call_failed(name: &str, why: &str) -> Status {
    Status::internal(format!("failed calling webhook {name:?}: {why}"))
}
