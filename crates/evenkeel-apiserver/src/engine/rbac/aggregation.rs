//! The aggregation controller: the rules of a ClusterRole with an `aggregationRule` are those of the roles that its selectors
//! match (RBA-009).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use evenkeel_core::Status;
use serde_json::{Value, json};

use super::GROUP;
use super::index::RbacIndex;
use super::rule::PolicyRule;
use crate::engine::options::WriteOptions;
use crate::engine::target::{OwnershipSource, Target, WriteScope, Writer};
use crate::engine::{ApiEngine, ControllerTiming};
use crate::env::rfc3339;
use crate::field_ownership::{self, FieldTypes};
use crate::kinds::selector_matches;

/// The field manager of upstream's controller.
const MANAGER: &str = "clusterrole-aggregation-controller";

/// When the controller runs next, if it is due later.
#[derive(Debug, Default)]
pub(in crate::engine) struct AggregationTimer(Mutex<Option<Duration>>);

impl AggregationTimer {
    fn set(&self, at: Duration) {
        let mut due = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Work that is already due sooner includes this.
        due.get_or_insert(at);
    }

    /// Returns whether the controller is due, once.
    fn take(&self, now: Duration) -> bool {
        let mut due = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        due.take_if(|at| *at <= now).is_some()
    }
}

impl ApiEngine {
    /// Brings aggregated roles up to date after a write of a ClusterRole, now or later.
    pub(in crate::engine) fn cluster_roles_changed(&self) {
        match self.settings.role_aggregation {
            ControllerTiming::Immediate => self.aggregate_roles(),
            ControllerTiming::Delayed(delay) => self.aggregation.set(self.env.monotonic().saturating_add(delay)),
            ControllerTiming::Off => {}
        }
    }

    /// Runs the controller if it is due. Returns whether it was.
    pub(in crate::engine) fn run_due_aggregation(&self, now: Duration) -> bool {
        let is_due = self.aggregation.take(now);
        if is_due {
            self.aggregate_roles();
        }
        is_due
    }

    /// Writes the rules of aggregated roles that differ from what their selectors gather. A role may gather another one that
    /// is aggregated itself, so this repeats until nothing changes; roles that gather each other have the same rules after as
    /// many rounds as there are roles.
    pub(super) fn aggregate_roles(&self) {
        let rounds =
            1 + self.read_rbac(|index| index.cluster_roles().values().filter(|role| role.selectors.is_some()).count());
        for _ in 0..rounds {
            let outdated = self.read_rbac(outdated_roles);
            if outdated.is_empty() {
                return;
            }
            for (name, rules) in outdated {
                self.apply_rules(&name, &rules);
            }
        }
    }

    /// Applies rules as upstream's controller does.
    fn apply_rules(&self, name: &str, rules: &[PolicyRule]) {
        let registry = self.registry();
        let Some(resource) = registry.lookup(GROUP, "v1", "clusterroles") else { return };
        let target = Target { resource, namespace: None, name, scope: WriteScope::Main };
        let options = WriteOptions::default();
        let writer = Writer { manager: MANAGER, ownership: OwnershipSource::ManagedFields, ..Writer::server(&options) };
        let rules: Vec<Value> = rules.iter().map(PolicyRule::to_value).collect();
        let done = self.update_object(target, writer, |live| {
            aggregated(live, &rules, &rfc3339(self.env.wall()), resource.schema())
        });
        if let Err(error) = done
            && !error.is_not_found()
        {
            tracing::warn!(name, %error, "rules of aggregated ClusterRole cannot be written");
        }
    }
}

/// Returns a ClusterRole with the rules that the controller gives it.
pub(in crate::engine) fn aggregated<T: FieldTypes>(
    live: &Value,
    rules: &[Value],
    now: &str,
    types: Option<&T>,
) -> Result<Value, Status> {
    let name = live.pointer("/metadata/name").cloned().unwrap_or_default();
    let mut intent = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole", "metadata": {"name": name}});
    if !rules.is_empty() {
        intent["rules"] = rules.into();
    }
    let write = field_ownership::Write {
        manager: MANAGER,
        api_version: &format!("{GROUP}/v1"),
        subresource: None,
        now,
        reset: &[],
    };
    let mut made = field_ownership::apply(Some(live), &intent, types, &write, true)?;
    // Rules that no role gathers any more leave the field to its default.
    if rules.is_empty() {
        made["rules"] = Value::Null;
    }
    Ok(made)
}

/// Returns the aggregated roles whose rules differ from what they should be, with those rules.
fn outdated_roles(index: &RbacIndex) -> Vec<(Box<str>, Vec<PolicyRule>)> {
    let aggregated = index.cluster_roles().iter().filter_map(|(name, role)| {
        let rules = gather(index, name, role.selectors.as_deref()?);
        (*rules != *role.rules).then(|| (name.clone(), rules))
    });
    aggregated.collect()
}

/// Returns the rules that selectors gather: selector by selector, the roles by name, equal rules once, the role itself left
/// out.
fn gather(index: &RbacIndex, own: &str, selectors: &[Value]) -> Vec<PolicyRule> {
    let mut gathered: Vec<PolicyRule> = Vec::new();
    for selector in selectors {
        for (name, role) in index.cluster_roles() {
            if **name == *own || !selector_matches(selector, |key| label(&role.labels, key)) {
                continue;
            }
            for rule in role.rules.iter() {
                if !gathered.contains(rule) {
                    gathered.push(rule.clone());
                }
            }
        }
    }
    gathered
}

fn label<'a>(labels: &'a [(Box<str>, Box<str>)], key: &str) -> Option<&'a str> {
    labels.iter().find(|(candidate, _)| **candidate == *key).map(|(_, value)| &**value)
}
