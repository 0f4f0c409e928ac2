//! Configurations of admission webhooks: what they ask for beyond what this server does carries a warning.

use serde_json::Value;

use super::KindHooks;
use crate::engine::ApiEngine;
use crate::registry::Resource;
use crate::store::Record;

#[derive(Debug)]
pub(crate) struct WebhookConfigurationHooks;

impl KindHooks for WebhookConfigurationHooks {
    fn warnings(&self, _: &ApiEngine, resource: &Resource, record: &Record) -> Vec<String> {
        let configuration = record.value();
        let webhooks = configuration.get("webhooks").and_then(Value::as_array).into_iter().flatten();
        let conditional = webhooks.filter(|webhook| {
            webhook.get("matchConditions").and_then(Value::as_array).is_some_and(|conditions| !conditions.is_empty())
        });
        let names = conditional.filter_map(|webhook| webhook.get("name")?.as_str());
        names
            .map(|name| format!("evenkeel: matchConditions of {} {name:?} are stored but not enforced", resource.kind))
            .collect()
    }
}
