//! The plugin ValidatingAdmissionPolicy.

use std::sync::Arc;

use evenkeel_cel::{Check, Value as CelValue};
use evenkeel_core::{Reason, Status, StatusCause};
use serde_json::Value;

use super::compiled::{CompiledBinding, CompiledPolicy, CompiledValidation, PolicyExpressions};
use super::conditions::{CONDITIONS_BUDGET, fault_text};
use super::environment::{PolicyVariables, authorizer, request_of};
use super::params::{ParamFault, params};
use crate::engine::admission::{AdmissionPlugin, AdmissionWrite};
use crate::engine::request_error::RequestError;
use crate::engine::{ApiEngine, object};
use crate::registry::Resource;

/// What all validations of a binding may cost.
const VALIDATIONS_BUDGET: u64 = 10_000_000;

/// The longest computed message, in bytes.
const MAX_MESSAGE: usize = 5 << 10;

#[derive(Debug)]
pub(in crate::engine::admission) struct ValidatingAdmissionPolicy;

/// A validation that did not hold, or could not be evaluated.
struct Denial {
    message: String,
    /// Empty for the default.
    reason: String,
}

impl Denial {
    fn new(message: String) -> Self {
        Denial { message, reason: String::new() }
    }
}

/// The objects of a write in the version that a policy matches.
struct Reviewed {
    resource: Arc<Resource>,
    object: Value,
    old: Value,
    request: Value,
}

impl AdmissionPlugin for ValidatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionPolicy"
    }

    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        !write.is_of_configuration() && !write.is_of_review()
    }

    fn validate(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        new: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        let policies = engine.validating_policies.current(&engine.store);
        if policies.is_empty() {
            return Ok(());
        }
        let bindings = engine.validating_bindings.current(&engine.store);
        let mut run = PolicyRun { engine, write, new, warnings, denied: None, reviewed: None };
        for (name, policy) in policies.iter() {
            let bound = bindings.iter().filter(|(_, binding)| *binding.policy == **name);
            run.policy(name, policy, bound.map(|(name, binding)| (&**name, &**binding)))?;
        }
        match run.denied {
            Some(denied) => Err(denied.into()),
            None => Ok(()),
        }
    }
}

struct PolicyRun<'r> {
    engine: &'r ApiEngine,
    write: &'r AdmissionWrite<'r>,
    new: Option<&'r Value>,
    warnings: &'r mut Vec<String>,
    /// The first denial. Later ones do not count, but policies that warn still do.
    denied: Option<Status>,
    reviewed: Option<Reviewed>,
}

impl PolicyRun<'_> {
    fn policy<'b>(
        &mut self,
        name: &str,
        policy: &CompiledPolicy,
        bindings: impl Iterator<Item = (&'b str, &'b CompiledBinding)>,
    ) -> Result<(), RequestError> {
        let mut bindings = bindings.peekable();
        if bindings.peek().is_none() {
            return Ok(());
        }
        let matched = match &policy.rules {
            Ok(rules) => rules.select(self.engine, self.write, self.new).map_err(|status| status.message),
            Err(error) => Err(error.clone()),
        };
        let resource = match matched {
            Ok(None) => return Ok(()),
            Ok(Some(resource)) => resource,
            Err(error) => {
                self.misconfigured(policy, name, None, &error);
                return Ok(());
            }
        };
        let expressions = match &policy.expressions {
            Ok(expressions) => expressions,
            Err(error) => {
                self.misconfigured(policy, name, None, &error.to_string());
                return Ok(());
            }
        };
        self.review(&resource)?;
        for (binding_name, binding) in bindings {
            self.binding(name, policy, expressions, binding_name, binding);
        }
        Ok(())
    }

    fn binding(
        &mut self,
        policy_name: &str,
        policy: &CompiledPolicy,
        expressions: &PolicyExpressions,
        name: &str,
        binding: &CompiledBinding,
    ) {
        let selected = match &binding.rules {
            Ok(rules) => rules.select(self.engine, self.write, self.new).map_err(|status| status.message),
            Err(error) => Err(error.clone()),
        };
        match selected {
            Ok(None) => return,
            Ok(Some(_)) => {}
            Err(error) => return self.misconfigured(policy, policy_name, Some(name), &error),
        }
        let params = match params(self.engine, policy, binding, self.write.target.namespace) {
            Ok(params) => params,
            Err(ParamFault::Policy(error)) => return self.misconfigured(policy, policy_name, None, &error),
            Err(ParamFault::Binding(error)) => return self.misconfigured(policy, policy_name, Some(name), &error),
        };
        let namespace = self.namespace();
        for params in &params {
            let Some(reviewed) = &self.reviewed else { return };
            let authorizer = authorizer(self.engine, &self.write.request.user);
            let denials = evaluate(policy, expressions, reviewed, (&namespace, params), &authorizer);
            for denial in denials {
                for action in &binding.actions {
                    match action.as_str() {
                        "Deny" => self.deny(policy_name, Some(name), &denial),
                        "Warn" => self.warnings.push(format!(
                            "Validation failed for ValidatingAdmissionPolicy '{policy_name}' with binding '{name}': {}",
                            denial.message
                        )),
                        _ => {}
                    }
                }
            }
        }
    }

    /// Converts the objects to the version that a policy matches.
    fn review(&mut self, resource: &Arc<Resource>) -> Result<(), RequestError> {
        if self.reviewed.as_ref().is_some_and(|reviewed| Arc::ptr_eq(&reviewed.resource, resource)) {
            return Ok(());
        }
        let is_own = Arc::ptr_eq(self.write.target.resource, resource);
        let converted = |value: Option<&Value>| match value {
            Some(value) if is_own => Ok(value.clone()),
            Some(value) => {
                let own = self.write.target.resource;
                self.engine.object_between(own, resource, value.clone(), self.write.request)
            }
            None => Ok(Value::Null),
        };
        self.reviewed = Some(Reviewed {
            object: converted(self.new)?,
            old: converted(self.write.old)?,
            request: request_of(self.write, resource),
            resource: Arc::clone(resource),
        });
        Ok(())
    }

    /// Returns the namespace of the request; null for objects without one, and for namespaces themselves.
    fn namespace(&self) -> Value {
        match self.write.target.namespace {
            Some(name) if !self.write.is_namespace() => {
                self.engine.store.get("namespaces", name).map_or(Value::Null, |record| record.value())
            }
            _ => Value::Null,
        }
    }

    fn misconfigured(&mut self, policy: &CompiledPolicy, name: &str, binding: Option<&str>, error: &str) {
        if policy.fails_open {
            return;
        }
        let what = if binding.is_some() { "binding" } else { "policy" };
        self.deny(name, binding, &Denial::new(format!("failed to configure {what}: {error}")));
    }

    fn deny(&mut self, policy: &str, binding: Option<&str>, denial: &Denial) {
        if self.denied.is_some() {
            return;
        }
        let with = binding.map(|binding| format!(" with binding '{binding}'")).unwrap_or_default();
        let message = format!("ValidatingAdmissionPolicy '{policy}'{with} denied request: {}", denial.message);
        let target = self.write.target;
        let generated = || self.new.map(|new| object::text(new, "generateName").to_owned()).unwrap_or_default();
        let name = if target.name.is_empty() { generated() } else { target.name.to_owned() };
        let mut status = Status::forbidden(&target.resource.group, &target.resource.plural, &name, &message);
        let (reason, code) = match denial.reason.as_str() {
            "Unauthorized" => (Reason::UNAUTHORIZED, 401),
            "Forbidden" => (Reason::FORBIDDEN, 403),
            "RequestEntityTooLarge" => (Reason::REQUEST_ENTITY_TOO_LARGE, 413),
            _ => (Reason::INVALID, 422),
        };
        (status.reason, status.code) = (reason, code);
        let mut details = status.details.take().unwrap_or_default();
        details.causes.push(StatusCause { message, ..StatusCause::default() });
        self.denied = Some(status.with_details(details));
    }
}

/// Returns the denials of one evaluation of a policy.
fn evaluate(
    policy: &CompiledPolicy,
    expressions: &PolicyExpressions,
    reviewed: &Reviewed,
    objects: (&Value, &Value),
    authorizer: &Check<'_>,
) -> Vec<Denial> {
    let variables = |budget: u64| {
        PolicyVariables::new(
            (&reviewed.object, &reviewed.old),
            &reviewed.request,
            objects,
            authorizer.clone(),
            &expressions.variables,
            budget,
        )
    };
    let unless_ignored = |message: String| if policy.fails_open { Vec::new() } else { vec![Denial::new(message)] };
    match expressions.conditions.hold(&variables(CONDITIONS_BUDGET)) {
        Ok(true) => {}
        Ok(false) => return Vec::new(),
        Err(error) => return unless_ignored(error),
    }
    let variables = variables(VALIDATIONS_BUDGET);
    let mut denials = Vec::new();
    for validation in &expressions.validations {
        match variables.evaluate(&validation.program) {
            Ok(CelValue::Bool(true)) => {}
            Ok(_) => {
                denials.push(Denial { message: message(validation, &variables), reason: validation.reason.clone() })
            }
            Err(fault) => denials.extend(unless_ignored(fault_text(&validation.expression, &fault))),
        }
    }
    for (_, expression, program) in &expressions.audit_annotations {
        if let Err(fault) = variables.evaluate(program) {
            denials.extend(unless_ignored(fault_text(expression, &fault)));
        }
    }
    denials
}

fn message(validation: &CompiledValidation, variables: &PolicyVariables<'_>) -> String {
    if let Some(program) = &validation.message_program
        && let Ok(CelValue::String(text)) = variables.evaluate(program)
    {
        let text = text.trim();
        if !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n') {
            return text.to_owned();
        }
    }
    if validation.message.is_empty() {
        return format!("failed expression: {}", validation.expression);
    }
    validation.message.clone()
}
