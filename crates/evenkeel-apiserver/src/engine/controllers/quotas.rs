//! The quota controller: publishes in `status` what the objects of a namespace use (RQS-001).

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use evenkeel_core::quantity::ExactQuantity;

use crate::engine::admission::resource_quota::{QUOTAS, QuotaIndex, quota_status};
use crate::engine::options::WriteOptions;
use crate::engine::request_error::RequestError;
use crate::engine::target::{Target, WriteScope, Writer};
use crate::engine::{ApiEngine, ControllerTiming};

impl ApiEngine {
    /// Publishes the usage of a namespace that a request has written to.
    pub(crate) fn settle_quotas(&self, namespace: &str) {
        if self.store.size(QUOTAS).0 > 0 {
            self.settle_quotas_of(&mut self.lock_quotas(), namespace);
        }
    }

    /// Publishes the usage of a namespace, if the controller acts within requests.
    pub(crate) fn settle_quotas_of(&self, index: &mut QuotaIndex, namespace: &str) {
        if self.settings.quotas == ControllerTiming::Immediate {
            self.publish_quotas_of(index, namespace);
        }
    }

    fn publish_quotas_of(&self, index: &mut QuotaIndex, namespace: &str) {
        for (name, used) in index.unpublished(&self.store, namespace) {
            if let Err(error) = self.publish_usage(index, namespace, &name, &used)
                && !error.is_not_found()
            {
                tracing::warn!(namespace, quota = name, %error, "cannot update the status of a quota; retrying");
            }
        }
    }

    /// Writes `status.hard` and `status.used` of a quota.
    pub(crate) fn publish_usage(
        &self,
        index: &mut QuotaIndex,
        namespace: &str,
        name: &str,
        used: &BTreeMap<String, ExactQuantity>,
    ) -> Result<(), RequestError> {
        let registry = self.registry();
        let Some(resource) = registry.lookup("", "v1", QUOTAS) else { return Ok(()) };
        let target = Target { resource, namespace: Some(namespace), name, scope: WriteScope::Status };
        let options = WriteOptions::default();
        let written = self.update_object(target, Writer::server(&options), |old| {
            let mut new = old.clone();
            new["status"] = quota_status(old, used);
            Ok(new)
        })?;
        index.update(namespace, &written.record);
        Ok(())
    }

    /// Publishes the usage of all namespaces with quotas: what changed without a request, or with a delayed controller.
    pub(crate) fn run_quota_controller(&self, now: Duration) {
        if self.settings.quotas == ControllerTiming::Off || self.store.size(QUOTAS).0 == 0 {
            return;
        }
        let mut index = self.lock_quotas();
        let revision = self.store.revision();
        if index.settled == Some(revision) {
            return;
        }
        if let ControllerTiming::Delayed(delay) = self.settings.quotas {
            let mut due = self.next_quota_pass.lock().unwrap_or_else(PoisonError::into_inner);
            if now < *due.get_or_insert_with(|| now.saturating_add(delay)) {
                return;
            }
            *due = None;
        }
        let mut namespaces = index.namespaces();
        namespaces.extend(self.namespaces_with_quotas());
        namespaces.sort_unstable();
        namespaces.dedup();
        for namespace in namespaces {
            self.publish_quotas_of(&mut index, &namespace);
        }
        // What was committed meanwhile is for the next pass.
        index.settled = Some(revision);
    }

    fn namespaces_with_quotas(&self) -> Vec<String> {
        let (_, quotas) = self.store.unread(QUOTAS, None);
        let crate::store::Unread::Everything(quotas) = quotas else { return Vec::new() };
        quotas.iter().filter_map(|(key, _)| Some(key.split_once('/')?.0.to_owned())).collect()
    }
}
