//! Configurations of admission webhooks: their match conditions are compiled when they are written (AWH-019).

use evenkeel_cel::Environment;
use serde_json::Value;

use super::policies::expressions::ExpressionCheck;
use super::{BuiltinKind, KindHooks, add_new};
use crate::engine::admission::policies::environment::{ExpressionScope, environment};
use crate::engine::target::WriteScope;
use crate::field::FieldError;
use crate::registry::Resource;

#[derive(Debug)]
pub(crate) struct WebhookConfigurationHooks;

impl KindHooks for WebhookConfigurationHooks {
    fn validate_create(&self, resource: &Resource, new: &Value, errors: &mut Vec<FieldError>) {
        BuiltinKind.validate_create(resource, new, errors);
        check_conditions(new, &Value::Null, errors);
    }

    fn validate_update(
        &self,
        resource: &Resource,
        scope: WriteScope<'_>,
        new: &Value,
        old: &Value,
        errors: &mut Vec<FieldError>,
    ) {
        BuiltinKind.validate_update(resource, scope, new, old, errors);
        check_conditions(new, old, errors);
    }
}

fn check_conditions(configuration: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let has_conditions = |webhook: &Value| webhook.get("matchConditions").is_some_and(|list| !list.is_null());
    let webhooks = configuration.get("webhooks").and_then(Value::as_array).into_iter().flatten().enumerate();
    let mut conditional = webhooks.filter(|(_, webhook)| has_conditions(webhook)).peekable();
    if conditional.peek().is_none() || conditions_of(configuration).eq(conditions_of(old)) {
        return;
    }
    let mut found = Vec::new();
    let mut check = ExpressionCheck::new(environment_of_webhooks(), old, &mut found);
    for (index, webhook) in conditional {
        check.conditions(webhook, &format!("webhooks[{index}]"));
    }
    add_new(errors, found);
}

/// Returns the conditions of each webhook.
fn conditions_of(configuration: &Value) -> impl Iterator<Item = Option<&Value>> {
    let webhooks = configuration.get("webhooks").and_then(Value::as_array).into_iter().flatten();
    webhooks.map(|webhook| webhook.get("matchConditions"))
}

/// Returns what the match conditions of webhooks may name.
pub(crate) fn environment_of_webhooks() -> Environment {
    environment(ExpressionScope { has_params: false, has_authorizer: true })
}
