//! The plugin MutatingAdmissionPolicy.

use evenkeel_core::{Reason, Status, StatusCause};
use serde_json::Value;

use super::conditions::CONDITIONS_BUDGET;
use super::matching::{Invocation, Met, PolicyFault, namespace_of};
use super::mutations::{MutationFault, Mutations};
use crate::engine::ApiEngine;
use crate::engine::admission::reviewed::{ReviewedWrite, mutate_as_reviewed};
use crate::engine::admission::{AdmissionPlugin, AdmissionWrite, MutationPass, Operation};
use crate::engine::request_error::RequestError;

/// What one mutation may cost.
const MUTATION_BUDGET: u64 = 10_000_000;

#[derive(Debug)]
pub(in crate::engine::admission) struct MutatingAdmissionPolicy;

impl AdmissionPlugin for MutatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        "MutatingAdmissionPolicy"
    }

    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        // A delete has no object to change.
        write.operation != Operation::Delete && !write.is_of_configuration() && !write.is_of_review()
    }

    fn mutate_in_pass(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        object: Option<&mut Value>,
        _: &mut Vec<String>,
        pass: &mut MutationPass,
    ) -> Result<(), RequestError> {
        // Asked once per pass, here: the halves of the chain ask for active plugins several times.
        if engine.policies.mutating.is_empty(engine) {
            return Ok(());
        }
        mutate_as_reviewed(write, object, |write, object| match object {
            Some(object) => run(engine, write, object, pass),
            None => Ok(()),
        })
    }
}

/// Runs all policies on an object, each on the result of the one before (MUP-001).
fn run(
    engine: &ApiEngine,
    write: &AdmissionWrite<'_>,
    object: &mut Value,
    pass: &mut MutationPass,
) -> Result<(), RequestError> {
    if pass.is_second {
        pass.policies.compare(Some(object));
    }
    let current = engine.policies.mutating.current(engine);
    let (mut denials, mut invocations) = (Vec::new(), Vec::new());
    for met in current.met_by(engine, write, Some(object)) {
        match met {
            Met::Fault(fault) => denials.push((fault, Reason::FORBIDDEN)),
            Met::Invocation(invocation) => invocations.push(invocation),
        }
    }
    let namespace = namespace_of(engine, write);
    for invocation in &invocations {
        let failures = invoke(engine, write, invocation, &namespace, object, pass)?;
        if !invocation.policy.fails_open {
            denials.extend(failures.into_iter().map(|message| (invocation.fault(message), Reason::INVALID)));
        }
    }
    if !pass.is_second {
        pass.policies.finish(Some(object));
    }
    match denials.is_empty() {
        true => Ok(()),
        false => Err(denied(write, object, denials).into()),
    }
}

impl Invocation<'_, Mutations> {
    fn fault(&self, message: String) -> PolicyFault {
        PolicyFault { policy: self.policy_name.to_owned(), binding: Some(self.binding_name.to_owned()), message }
    }

    /// Tells the invocation from all others of a write.
    fn id(&self) -> String {
        let text = |path| self.params.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        format!("{}/{}/{namespace}/{name}", self.policy_name, self.binding_name)
    }
}

/// Runs one policy. Returns why its mutations could not be applied.
fn invoke(
    engine: &ApiEngine,
    write: &AdmissionWrite<'_>,
    invocation: &Invocation<'_, Mutations>,
    namespace: &Value,
    object: &mut Value,
    pass: &mut MutationPass,
) -> Result<Vec<String>, RequestError> {
    let mut reviewed = ReviewedWrite::new(engine, write, Some(object), &invocation.resource)?;
    let expressions = invocation.expressions;
    let user = &write.request.user;
    match expressions
        .conditions
        .hold(&invocation.variables(engine, user, &reviewed, namespace).with_budget(CONDITIONS_BUDGET))
    {
        Ok(true) => {}
        Ok(false) => return Ok(Vec::new()),
        Err(error) => return Ok(vec![error]),
    }
    let id = invocation.id();
    if pass.is_second && !pass.policies.is_due(&id) {
        return Ok(Vec::new());
    }
    let before = reviewed.object.clone();
    let mut failures = Vec::new();
    for mutation in &expressions.own.mutations {
        let variables = invocation.variables(engine, user, &reviewed, namespace).with_budget(MUTATION_BUDGET);
        let result = mutation.result(write, &reviewed, &variables);
        drop(variables);
        match result {
            Ok(Some(new)) => reviewed.object = new,
            Ok(None) => {}
            Err(MutationFault::Policy(message)) => failures.push(message),
            Err(MutationFault::Request(status)) => return Err((*status).into()),
        }
    }
    if reviewed.object != before {
        engine.accept_reviewed(write, &invocation.resource, object, reviewed.object)?;
        pass.policies.changed();
        pass.wants_second = true;
    }
    if expressions.own.reinvokes {
        pass.policies.invoked(id);
    }
    Ok(failures)
}

/// Returns the refusal of a write (MUP-004): the first denial is its message, each is a cause.
fn denied(write: &AdmissionWrite<'_>, object: &Value, denials: Vec<(PolicyFault, Reason)>) -> Status {
    let mut status = write.forbidden_status(Some(object), "");
    let mut details = status.details.take().unwrap_or_default();
    for (index, (PolicyFault { policy, binding, message }, reason)) in denials.into_iter().enumerate() {
        let message = match binding {
            Some(binding) => format!("policy '{policy}' with binding '{binding}' denied request: {message}"),
            None => format!("policy {policy:?} denied request: {message}"),
        };
        if index == 0 {
            (status.message, status.reason) = (message.clone(), reason);
        }
        details.causes.push(StatusCause { message, ..StatusCause::default() });
    }
    status.with_details(details)
}
