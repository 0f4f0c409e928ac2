//! The controller of default ServiceAccounts: every active namespace has one of the name `default`.

use std::sync::PoisonError;
use std::time::Duration;

use serde_json::json;

use crate::engine::options::WriteOptions;
use crate::engine::target::Writer;
use crate::engine::{ApiEngine, ControllerTiming, object};
use crate::store::{At, Span};

const DEFAULT: &str = "default";

impl ApiEngine {
    /// Adds the default ServiceAccount of a namespace if it has none, now or later.
    pub(crate) fn schedule_default_service_account(&self, namespace: &str) {
        match self.settings.service_accounts {
            ControllerTiming::Off => {}
            ControllerTiming::Immediate => self.add_default_service_account(namespace),
            ControllerTiming::Delayed(delay) => {
                let due = self.env.monotonic().saturating_add(delay);
                let mut accounts = self.due_accounts.lock().unwrap_or_else(PoisonError::into_inner);
                accounts.insert((due, namespace.to_owned()));
            }
        }
    }

    /// Adds the default ServiceAccount to all namespaces without one, at the start of the server.
    pub(crate) fn add_default_service_accounts(&self) {
        let page = self.store.list("namespaces", Span::default(), At::Latest, |_, record| !record.facts.deleting);
        for record in page.map(|page| page.records).unwrap_or_default() {
            self.add_default_service_account(object::text(&record.value(), "name"));
        }
    }

    /// Adds one of the default ServiceAccounts that are due. Returns whether there was one.
    pub(crate) fn add_due_service_accounts(&self, now: Duration) -> bool {
        let due = {
            let mut accounts = self.due_accounts.lock().unwrap_or_else(PoisonError::into_inner);
            let is_due = accounts.first().is_some_and(|(at, _)| *at <= now);
            if is_due { accounts.pop_first() } else { None }
        };
        let Some((_, namespace)) = due else { return false };
        self.add_default_service_account(&namespace);
        true
    }

    fn has_default_account(&self, namespace: &str) -> bool {
        self.store.get("serviceaccounts", &format!("{namespace}/{DEFAULT}")).is_some()
    }

    fn add_default_service_account(&self, namespace: &str) {
        if self.has_default_account(namespace) {
            return;
        }
        let registry = self.registry();
        let Some(resource) = registry.lookup("", "v1", "serviceaccounts") else { return };
        let options = WriteOptions::default();
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": DEFAULT}});
        let created = self.create_object(resource, Some(namespace), account, Writer::server(&options));
        // A namespace that is terminating or removed needs none, and a client may have been faster.
        if let Err(error) = created
            && !error.is_already_exists()
            && self.check_namespace_accepts_objects(resource, namespace, DEFAULT).is_ok()
        {
            tracing::warn!(namespace, %error, "default ServiceAccount not created");
        }
    }
}
