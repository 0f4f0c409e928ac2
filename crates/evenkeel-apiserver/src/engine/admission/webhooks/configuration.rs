//! Compiled webhooks: those of configurations in the store, and the functions of the program.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cel::CompileError;
use serde_json::Value;

use crate::engine::ApiEngine;
use crate::engine::admission::policies::conditions::MatchConditions;
use crate::engine::admission::rules::AdmissionRules;
use crate::engine::compiled_objects::CompiledObjects;
use crate::engine::strategies::environment_of_webhooks;
use crate::engine::webhook_client::WebhookClient;
use crate::outbound::{CallEndpoint, CallFunction};
use crate::store::Record;

/// The two kinds of webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WebhookKind {
    Mutating,
    Validating,
}

impl WebhookKind {
    /// Returns the value of the label `type` of metrics.
    pub(super) fn metric_type(self) -> &'static str {
        match self {
            WebhookKind::Mutating => "admit",
            WebhookKind::Validating => "validating",
        }
    }
}

/// The version of an AdmissionReview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    V1,
    V1beta1,
}

/// One webhook.
#[derive(Clone, Debug)]
pub(crate) struct Webhook {
    /// Tells the webhook from all others.
    pub(super) id: String,
    pub(super) configuration: String,
    pub(super) name: String,
    /// The rules, or why they cannot be used.
    pub(super) rules: Result<AdmissionRules, String>,
    /// What must hold of a write beyond the rules, or why it does not compile. Validation refuses such configurations.
    pub(super) conditions: Arc<Result<MatchConditions, CompileError>>,
    /// A failed call does not fail the request.
    pub(super) fails_open: bool,
    pub(super) timeout_seconds: u64,
    pub(super) supports_dry_run: bool,
    /// `None` if the webhook accepts no version that this server can send.
    pub(super) review_version: Option<ReviewVersion>,
    /// The webhook runs again if the object changes after it.
    pub(super) reinvokes: bool,
    receiver: Receiver,
}

#[derive(Clone)]
enum Receiver {
    Client(WebhookClient),
    Function(CallFunction),
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Receiver::Client(client) => client.fmt(f),
            Receiver::Function(_) => f.write_str("Function"),
        }
    }
}

impl Webhook {
    /// Compiles an element of `webhooks`.
    fn compile(configuration: &str, index: usize, webhook: &Value, receiver: Receiver) -> Self {
        let text = |key: &str| webhook.get(key).and_then(Value::as_str).unwrap_or_default();
        let versions = webhook.get("admissionReviewVersions").and_then(Value::as_array).into_iter().flatten();
        Webhook {
            id: format!("{configuration}/{}/{index}", text("name")),
            configuration: configuration.to_owned(),
            name: text("name").to_owned(),
            rules: AdmissionRules::of_webhook(webhook),
            conditions: Arc::new(conditions(webhook)),
            fails_open: text("failurePolicy") == "Ignore",
            timeout_seconds: webhook.get("timeoutSeconds").and_then(Value::as_u64).unwrap_or(10).clamp(1, 30),
            supports_dry_run: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
            review_version: versions.filter_map(Value::as_str).find_map(|version| match version {
                "v1" => Some(ReviewVersion::V1),
                "v1beta1" => Some(ReviewVersion::V1beta1),
                _ => None,
            }),
            reinvokes: text("reinvocationPolicy") == "IfNeeded",
            receiver,
        }
    }

    /// Compiles a function of the program: the fields of a webhook without `clientConfig`.
    pub(crate) fn of_function(webhook: &Value, function: CallFunction) -> Self {
        let name = webhook.get("name").and_then(Value::as_str).unwrap_or_default();
        Webhook::compile(name, 0, webhook, Receiver::Function(function))
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }

    /// Returns the receiver of a call now.
    pub(super) fn endpoint(&self, engine: &ApiEngine) -> CallEndpoint {
        match &self.receiver {
            Receiver::Client(client) => client.endpoint(engine, self.timeout_seconds),
            Receiver::Function(function) => CallEndpoint::Function(Arc::clone(function)),
        }
    }
}

fn conditions(webhook: &Value) -> Result<MatchConditions, CompileError> {
    match webhook.get("matchConditions").and_then(Value::as_array) {
        Some(list) if !list.is_empty() => MatchConditions::compile(&environment_of_webhooks(), list),
        _ => Ok(MatchConditions::default()),
    }
}

/// The webhooks of one configuration, in their order.
type Configuration = Vec<Arc<Webhook>>;

fn compile(key: &str, record: &Record) -> Configuration {
    let configuration = record.value();
    let webhooks = configuration.get("webhooks").and_then(Value::as_array).into_iter().flatten().enumerate();
    let compiled = webhooks.map(|(index, webhook)| {
        let client = WebhookClient::of(webhook.get("clientConfig").unwrap_or(&Value::Null));
        Arc::new(Webhook::compile(key, index, webhook, Receiver::Client(client)))
    });
    compiled.collect()
}

/// All webhooks of one kind.
pub(crate) struct Webhooks {
    stored: CompiledObjects<Configuration>,
    /// Sorted by name.
    functions: Vec<Arc<Webhook>>,
}

impl Webhooks {
    pub(crate) fn new(kind: WebhookKind, functions: &[(WebhookKind, Arc<Webhook>)]) -> Self {
        let table = match kind {
            WebhookKind::Mutating => "mutatingwebhookconfigurations.admissionregistration.k8s.io",
            WebhookKind::Validating => "validatingwebhookconfigurations.admissionregistration.k8s.io",
        };
        let own = functions.iter().filter(|(own, _)| *own == kind).map(|(_, webhook)| Arc::clone(webhook));
        let mut functions: Vec<Arc<Webhook>> = own.collect();
        functions.sort_by(|a, b| a.configuration.cmp(&b.configuration));
        Webhooks { stored: CompiledObjects::new(table, compile), functions }
    }

    /// Returns whether there is no webhook now.
    pub(super) fn is_empty(&self, engine: &ApiEngine) -> bool {
        self.functions.is_empty() && self.stored.current(&engine.store).is_empty()
    }

    /// Returns the webhooks in the order of their configurations' names (AWH-002). A function runs where a configuration of
    /// its name would.
    pub(super) fn current(&self, engine: &ApiEngine) -> Vec<Arc<Webhook>> {
        let stored = self.stored.current(&engine.store);
        let mut all: Vec<Arc<Webhook>> = stored.values().flat_map(|webhooks| webhooks.iter().cloned()).collect();
        if !self.functions.is_empty() {
            all.extend(self.functions.iter().cloned());
            // Stable: webhooks of one configuration keep their order.
            all.sort_by(|a, b| a.configuration.cmp(&b.configuration));
        }
        all
    }
}
