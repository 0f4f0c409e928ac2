//! TaintNodesByCondition: a new node takes no pods before its controller has found it ready (ADM-025).

use serde_json::{Value, json};

use super::{AdmissionPlugin, AdmissionWrite, list_at, text_at};
use crate::engine::ApiEngine;
use crate::engine::object::set_path;
use crate::engine::request_error::RequestError;

const TAINT: &str = "node.kubernetes.io/not-ready";
const EFFECT: &str = "NoSchedule";

pub(super) struct TaintNodesByCondition;

impl AdmissionPlugin for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        write.creates("nodes")
    }

    fn mutate(
        &self,
        _: &ApiEngine,
        _: &AdmissionWrite<'_>,
        node: &mut Value,
        _: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        let mut taints = list_at(node, &["spec", "taints"]).to_vec();
        let is_present = |taint: &Value| text_at(taint, &["key"]) == TAINT && text_at(taint, &["effect"]) == EFFECT;
        if !taints.iter().any(is_present) {
            taints.push(json!({"effect": EFFECT, "key": TAINT}));
            set_path(node, &["spec", "taints"], Some(Value::Array(taints)));
        }
        Ok(())
    }
}
