//! Which policies a write meets, with which bindings and parameters.

use std::sync::Arc;

use serde_json::Value;

use super::CurrentPolicies;
use super::compiled::{CompiledBinding, CompiledPolicy, PolicyExpressions};
use super::environment::{PolicyVariables, authorizer};
use super::params::{ParamFault, params};
use crate::engine::ApiEngine;
use crate::engine::admission::AdmissionWrite;
use crate::engine::admission::reviewed::ReviewedWrite;
use crate::http_types::User;
use crate::registry::Resource;

/// A policy that a write meets, or why it cannot be known whether it does.
pub(super) enum Met<'p, E> {
    Invocation(Invocation<'p, E>),
    Fault(PolicyFault),
}

/// One evaluation of a policy: with a binding, and with one of its parameter objects.
pub(super) struct Invocation<'p, E> {
    pub(super) policy_name: &'p str,
    pub(super) policy: &'p CompiledPolicy<E>,
    pub(super) expressions: &'p PolicyExpressions<E>,
    pub(super) binding_name: &'p str,
    pub(super) binding: &'p CompiledBinding,
    /// The resource in whose version the policy sees the objects.
    pub(super) resource: Arc<Resource>,
    /// Null without parameters.
    pub(super) params: Value,
}

impl<E> Invocation<'_, E> {
    /// Returns the values that its expressions see, without a budget.
    pub(super) fn variables<'a>(
        &'a self,
        engine: &'a ApiEngine,
        user: &'a User,
        reviewed: &'a ReviewedWrite,
        namespace: &'a Value,
    ) -> PolicyVariables<'a> {
        let named = &self.expressions.variables;
        PolicyVariables::new(reviewed, (namespace, &self.params), authorizer(engine, user), named)
    }
}

/// A policy that cannot be evaluated, or whose evaluation failed.
#[derive(Debug)]
pub(super) struct PolicyFault {
    pub(super) policy: String,
    /// `None` if the policy itself is at fault.
    pub(super) binding: Option<String>,
    pub(super) message: String,
}

impl<E> CurrentPolicies<E> {
    /// Returns the policies that a write meets, in the order of their names and of their bindings' names. Faults of policies
    /// that fail open are left out.
    pub(super) fn met_by(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        new: Option<&Value>,
    ) -> Vec<Met<'_, E>> {
        let mut met = Vec::new();
        for (name, policy) in self.policies.iter() {
            let found = Finder { engine, write, new, name, policy, met: &mut met }.policy(self);
            if let Err(fault) = found
                && !policy.fails_open
            {
                met.push(Met::Fault(fault));
            }
        }
        met
    }
}

struct Finder<'f, 'p, E> {
    engine: &'f ApiEngine,
    write: &'f AdmissionWrite<'f>,
    new: Option<&'f Value>,
    name: &'p str,
    policy: &'p CompiledPolicy<E>,
    met: &'f mut Vec<Met<'p, E>>,
}

impl<'p, E> Finder<'_, 'p, E> {
    fn policy(&mut self, all: &'p CurrentPolicies<E>) -> Result<(), PolicyFault> {
        let mut bindings = all.bindings.iter().filter(|(_, binding)| *binding.policy == *self.name).peekable();
        if bindings.peek().is_none() {
            return Ok(());
        }
        let matched = match &self.policy.rules {
            Ok(rules) => rules.select(self.engine, self.write, self.new).map_err(|status| status.message),
            Err(error) => Err(error.clone()),
        };
        let Some(resource) = matched.map_err(|error| self.fault(None, &error))? else { return Ok(()) };
        let expressions = self.policy.expressions.as_ref().map_err(|error| self.fault(None, &error.to_string()))?;
        for (name, binding) in bindings {
            if let Err(fault) = self.binding(name, binding, expressions, &resource)
                && !self.policy.fails_open
            {
                self.met.push(Met::Fault(fault));
            }
        }
        Ok(())
    }

    fn binding(
        &mut self,
        name: &'p str,
        binding: &'p CompiledBinding,
        expressions: &'p PolicyExpressions<E>,
        resource: &Arc<Resource>,
    ) -> Result<(), PolicyFault> {
        let selected = match &binding.rules {
            Ok(rules) => rules.select(self.engine, self.write, self.new).map_err(|status| status.message),
            Err(error) => Err(error.clone()),
        };
        if selected.map_err(|error| self.fault(Some(name), &error))?.is_none() {
            return Ok(());
        }
        let params = params(self.engine, self.policy, binding, self.write.target.namespace);
        let params = params.map_err(|fault| match fault {
            ParamFault::Policy(error) => self.fault(None, &error),
            ParamFault::Binding(error) => self.fault(Some(name), &error),
        })?;
        self.met.extend(params.into_iter().map(|params| {
            Met::Invocation(Invocation {
                policy_name: self.name,
                policy: self.policy,
                expressions,
                binding_name: name,
                binding,
                resource: Arc::clone(resource),
                params,
            })
        }));
        Ok(())
    }

    fn fault(&self, binding: Option<&str>, error: &str) -> PolicyFault {
        let what = if binding.is_some() { "binding" } else { "policy" };
        PolicyFault {
            policy: self.name.to_owned(),
            binding: binding.map(str::to_owned),
            message: format!("failed to configure {what}: {error}"),
        }
    }
}

/// Returns the namespace of a request; null for objects without one, and for namespaces themselves.
pub(super) fn namespace_of(engine: &ApiEngine, write: &AdmissionWrite<'_>) -> Value {
    match write.target.namespace {
        Some(name) if !write.is_namespace() => {
            engine.store.get("namespaces", name).map_or(Value::Null, |record| record.value())
        }
        _ => Value::Null,
    }
}
