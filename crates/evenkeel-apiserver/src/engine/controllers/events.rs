//! Expiry of events.

use std::sync::PoisonError;
use std::time::Duration;

use evenkeel_core::json::JsonValue;

use crate::engine::options::DeleteOptions;
use crate::engine::target::{Target, WriteScope};
use crate::engine::{ApiEngine, object};
use crate::env::rfc3339;
use crate::store::{At, Record, Span};

impl ApiEngine {
    /// Deletes events older than their time to live (MSC-1). A pass reads every event, so it runs at most once per
    /// minute.
    pub(crate) fn expire_events(&self, now: Duration) {
        let Some(ttl) = self.settings.event_ttl else { return };
        {
            let mut due = self.next_expiry.lock().unwrap_or_else(PoisonError::into_inner);
            if now < *due {
                return;
            }
            *due = now + (ttl / 60).min(Duration::from_secs(60));
        }
        let registry = self.registry();
        let Some(resource) = registry.lookup("", "v1", "events") else { return };
        let Ok(ttl) = jiff::SignedDuration::try_from(ttl) else { return };
        let Ok(oldest) = self.env.wall().checked_sub(ttl) else { return };
        let oldest = rfc3339(oldest);
        let is_old = |record: &Record| {
            let metadata = std::str::from_utf8(record.metadata()).unwrap_or_default();
            let created = JsonValue::at_path(metadata, "creationTimestamp").ok().flatten();
            created.is_some_and(|created| *created.text() < *oldest)
        };
        let events = self.store.list(&resource.storage, Span::default(), At::Latest, |_, _| true);
        let events = events.map(|page| page.records).unwrap_or_default();
        for record in events.into_iter().filter(|record| is_old(record)) {
            let event = record.value();
            let (namespace, name) = (object::text(&event, "namespace"), object::text(&event, "name"));
            let target = Target { resource, namespace: Some(namespace), name, scope: WriteScope::Main };
            let options = DeleteOptions { uid: Some(record.facts.uid.to_string()), ..DeleteOptions::default() };
            if let Err(error) = self.delete_object(target, &options, None) {
                tracing::debug!(namespace, name, %error, "expired event already deleted");
            }
        }
    }
}
