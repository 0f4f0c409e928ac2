//! The plugin ValidatingAdmissionPolicy.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_core::{Reason, Status, StatusCause};
use serde::Serialize;
use serde_json::Value;

use super::matching::{Invocation, Met, namespace_of};
use super::validations::{Denial, Validations};
use crate::engine::ApiEngine;
use crate::engine::admission::reviewed::{ReviewedWrite, validate_as_reviewed};
use crate::engine::admission::{AdmissionPlugin, AdmissionWrite};
use crate::engine::request_error::RequestError;

/// The annotation with the failed validations of bindings with the action `Audit`.
const FAILURES: &str = "validation.policy.admission.k8s.io/validation_failure";

/// How many failed validations the annotation lists.
const MAX_FAILURES: usize = 50;

/// The longest value of an annotation, in bytes.
const MAX_ANNOTATION: usize = 10 << 10;

#[derive(Debug)]
pub(in crate::engine::admission) struct ValidatingAdmissionPolicy;

impl AdmissionPlugin for ValidatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionPolicy"
    }

    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        !write.is_of_configuration() && !write.is_of_review()
    }

    fn is_active(&self, engine: &ApiEngine) -> bool {
        !engine.policies.validating.is_empty(engine)
    }

    fn validate(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        new: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        validate_as_reviewed(write, new, |write, new| {
            let current = engine.policies.validating.current(engine);
            let mut run = ValidationRun {
                write,
                new,
                warnings,
                namespace: namespace_of(engine, write),
                denied: None,
                failures: Vec::new(),
                annotations: BTreeMap::new(),
                reviewed: None,
            };
            for met in current.met_by(engine, write, new) {
                match met {
                    Met::Fault(fault) => {
                        run.deny(&fault.policy, fault.binding.as_deref(), &Denial::new(fault.message));
                    }
                    Met::Invocation(invocation) => run.invoke(engine, &invocation)?,
                }
            }
            run.finish()
        })
    }
}

/// An element of the annotation [`FAILURES`].
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AuditedFailure {
    message: String,
    policy: String,
    binding: String,
    expression_index: usize,
    validation_actions: Vec<String>,
}

struct ValidationRun<'r> {
    write: &'r AdmissionWrite<'r>,
    new: Option<&'r Value>,
    warnings: &'r mut Vec<String>,
    namespace: Value,
    /// The first denial. Later ones do not count, but policies that warn still do.
    denied: Option<Status>,
    failures: Vec<AuditedFailure>,
    /// The annotations of policies: the distinct values that their bindings and parameters lead to.
    annotations: BTreeMap<String, Vec<String>>,
    reviewed: Option<ReviewedWrite>,
}

impl ValidationRun<'_> {
    fn invoke(&mut self, engine: &ApiEngine, invocation: &Invocation<'_, Validations>) -> Result<(), RequestError> {
        let reviewed = match self.reviewed.take() {
            Some(reviewed) if Arc::ptr_eq(&reviewed.resource, &invocation.resource) => reviewed,
            _ => ReviewedWrite::new(engine, self.write, self.new, &invocation.resource)?,
        };
        let expressions = invocation.expressions;
        let outcome = expressions.evaluate(invocation.policy.fails_open, || {
            invocation.variables(engine, &self.write.request.user, &reviewed, &self.namespace)
        });
        let (policy, binding) = (invocation.policy_name, invocation.binding_name);
        for denial in outcome.denials {
            for action in &invocation.binding.actions {
                match action.as_str() {
                    "Deny" => self.deny(policy, Some(binding), &denial),
                    "Warn" => self.warnings.push(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {}",
                        denial.message
                    )),
                    "Audit" if self.failures.len() < MAX_FAILURES => self.failures.push(AuditedFailure {
                        message: denial.message.clone(),
                        policy: policy.to_owned(),
                        binding: binding.to_owned(),
                        expression_index: denial.index,
                        validation_actions: invocation.binding.actions.clone(),
                    }),
                    _ => {}
                }
            }
        }
        for (key, mut value) in outcome.annotations {
            let end = (0..=MAX_ANNOTATION.min(value.len())).rev().find(|end| value.is_char_boundary(*end));
            value.truncate(end.unwrap_or_default());
            let values = self.annotations.entry(format!("{policy}/{key}")).or_default();
            if !values.contains(&value) {
                values.push(value);
            }
        }
        for fault in outcome.annotation_faults {
            self.deny(policy, Some(binding), &Denial::new(fault));
        }
        self.reviewed = Some(reviewed);
        Ok(())
    }

    /// Publishes the annotations, and returns the first denial.
    fn finish(self) -> Result<(), RequestError> {
        let state = &self.write.request.state;
        for (key, values) in self.annotations {
            state.annotate(key, values.join(", "));
        }
        if !self.failures.is_empty()
            && let Ok(text) = serde_json::to_string(&self.failures)
        {
            state.annotate(FAILURES.to_owned(), text);
        }
        match self.denied {
            Some(denied) => Err(denied.into()),
            None => Ok(()),
        }
    }

    fn deny(&mut self, policy: &str, binding: Option<&str>, denial: &Denial) {
        if self.denied.is_some() {
            return;
        }
        let with = binding.map(|binding| format!(" with binding '{binding}'")).unwrap_or_default();
        let message = format!("ValidatingAdmissionPolicy '{policy}'{with} denied request: {}", denial.message);
        let mut status = self.write.forbidden_status(self.new, &message);
        (status.reason, status.code) = match denial.reason.as_str() {
            "Unauthorized" => (Reason::UNAUTHORIZED, 401),
            "Forbidden" => (Reason::FORBIDDEN, 403),
            "RequestEntityTooLarge" => (Reason::REQUEST_ENTITY_TOO_LARGE, 413),
            _ => (Reason::INVALID, 422),
        };
        let mut details = status.details.take().unwrap_or_default();
        details.causes.push(StatusCause { message, ..StatusCause::default() });
        self.denied = Some(status.with_details(details));
    }
}
