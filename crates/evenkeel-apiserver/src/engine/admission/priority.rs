//! Priority: the number that a PriorityClass stands for (ADM-022, ADM-023).

use serde_json::Value;

use super::{AdmissionPlugin, AdmissionWrite, Operation, text_at, value_at};
use crate::engine::object::set_path;
use crate::engine::request_error::RequestError;
use crate::engine::target::WriteScope;
use crate::engine::{ApiEngine, object};

const CLASSES: &str = "priorityclasses.scheduling.k8s.io";
const PREEMPT: &str = "PreemptLowerPriority";
/// Classes that every cluster has. They count as present also where a snapshot or a backup lacks them.
const SYSTEM: [(&str, i64); 2] = [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// What pods take from a PriorityClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PriorityClass {
    value: i64,
    preemption_policy: Option<String>,
    is_default: bool,
}

impl PriorityClass {
    pub(super) fn read(class: &Value) -> Option<Self> {
        Some(PriorityClass {
            value: class.get("value").and_then(Value::as_i64).unwrap_or_default(),
            preemption_policy: class.get("preemptionPolicy").and_then(Value::as_str).map(str::to_owned),
            is_default: class.get("globalDefault") == Some(&Value::Bool(true)),
        })
    }

    fn preempting(value: i64) -> Self {
        PriorityClass { value, preemption_policy: Some(PREEMPT.to_owned()), is_default: false }
    }
}

pub(super) struct Priority;

impl AdmissionPlugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        write.target.scope == WriteScope::Main && write.has_object() && (write.is_of("pods") || write.is_of(CLASSES))
    }

    fn mutate(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        pod: &mut Value,
        _: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        match write.old {
            _ if !write.is_of("pods") => Ok(()),
            None => resolve(engine, write, pod),
            Some(old) => {
                keep(pod, old);
                Ok(())
            }
        }
    }

    fn validate(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        object: Option<&Value>,
        _: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        let Some(class) = object.filter(|_| write.is_of(CLASSES)) else { return Ok(()) };
        if class.get("globalDefault") != Some(&Value::Bool(true)) {
            return Ok(());
        }
        match default_class(engine) {
            Some((name, _)) if write.operation == Operation::Create || name != object::text(class, "name") => {
                let why = format!("PriorityClass {name} is already marked as default. Only one default can exist");
                Err(write.forbidden(class, why))
            }
            _ => Ok(()),
        }
    }
}

/// Sets the priority of a new pod from its class, or from the default class.
fn resolve(engine: &ApiEngine, write: &AdmissionWrite<'_>, pod: &mut Value) -> Result<(), RequestError> {
    let name = text_at(pod, &["spec", "priorityClassName"]).to_owned();
    let class = match name.as_str() {
        "" => match default_class(engine) {
            Some((name, class)) => {
                set_path(pod, &["spec", "priorityClassName"], Some(name.into()));
                class
            }
            None => PriorityClass::preempting(0),
        },
        name => match class_of(engine, name) {
            Some(class) => class,
            None => return Err(write.forbidden(pod, format!("no PriorityClass with name {name} was found"))),
        },
    };
    let given = |key: &str| value_at(pod, &["spec", key]).filter(|value| !value.is_null());
    if let Some(priority) = given("priority").and_then(Value::as_i64)
        && priority != class.value
    {
        let why = format!(
            "the integer value of priority ({priority}) must not be provided in pod spec; priority admission controller \
             computed {} from the given PriorityClass name",
            class.value
        );
        return Err(write.forbidden(pod, why));
    }
    if let Some(policy) = &class.preemption_policy {
        if let Some(given) = given("preemptionPolicy").and_then(Value::as_str)
            && given != policy
        {
            let why = format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
                 controller computed {policy} from the given PriorityClass name"
            );
            return Err(write.forbidden(pod, why));
        }
        set_path(pod, &["spec", "preemptionPolicy"], Some(policy.as_str().into()));
    }
    set_path(pod, &["spec", "priority"], Some(class.value.into()));
    Ok(())
}

/// Keeps what the create has set when an update leaves it out.
fn keep(pod: &mut Value, old: &Value) {
    for key in ["priority", "preemptionPolicy"] {
        let is_absent = value_at(pod, &["spec", key]).is_none_or(Value::is_null);
        if let Some(value) = value_at(old, &["spec", key]).filter(|_| is_absent) {
            set_path(pod, &["spec", key], Some(value.clone()));
        }
    }
}

fn class_of(engine: &ApiEngine, name: &str) -> Option<PriorityClass> {
    let stored = engine.admission.priority_classes.with(&engine.store, |classes| classes.get(name).cloned());
    let system = || SYSTEM.iter().find(|(system, _)| *system == name);
    stored.or_else(|| system().map(|(_, value)| PriorityClass::preempting(*value)))
}

/// Returns the class for pods without one. Of several, which only a race or a backup leaves, it is the lowest.
fn default_class(engine: &ApiEngine) -> Option<(String, PriorityClass)> {
    engine.admission.priority_classes.with(&engine.store, |classes| {
        let defaults = classes.iter().filter(|(_, class)| class.is_default);
        let lowest = defaults.min_by_key(|(_, class)| class.value);
        lowest.map(|(name, class)| (name.to_string(), class.clone()))
    })
}
