//! DefaultTolerationSeconds: every pod tolerates a node that is not ready or unreachable for five minutes (ADM-024).

use serde_json::{Value, json};

use super::{AdmissionPlugin, AdmissionWrite, Operation};
use crate::engine::ApiEngine;
use crate::engine::request_error::RequestError;
use crate::engine::target::WriteScope;

const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const SECONDS: i64 = 300;

pub(super) struct DefaultTolerationSeconds;

impl AdmissionPlugin for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        *write.target.resource.storage == *"pods"
            && write.target.scope == WriteScope::Main
            && matches!(write.operation, Operation::Create | Operation::Update)
    }

    fn mutate(
        &self,
        _: &ApiEngine,
        _: &AdmissionWrite<'_>,
        pod: &mut Value,
        _: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
        let tolerations = spec.get("tolerations").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let missing: Vec<Value> = TAINTS
            .into_iter()
            .filter(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
            .map(|taint| json!({"effect": "NoExecute", "key": taint, "operator": "Exists", "tolerationSeconds": SECONDS}))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        match spec.entry("tolerations").or_insert(Value::Null) {
            Value::Array(list) => list.extend(missing),
            other => *other = Value::Array(missing),
        }
        Ok(())
    }
}

/// Returns whether a toleration is for this taint, or for all, with the effect of eviction.
fn tolerates(toleration: &Value, taint: &str) -> bool {
    let text = |key: &str| toleration.get(key).and_then(Value::as_str).unwrap_or_default();
    (text("key") == taint || text("key").is_empty()) && matches!(text("effect"), "NoExecute" | "")
}
