//! ServiceAccounts: the one that every namespace has comes back after its deletion.

use super::KindHooks;
use crate::engine::ApiEngine;
use crate::registry::Resource;

#[derive(Debug)]
pub(crate) struct ServiceAccountHooks;

impl KindHooks for ServiceAccountHooks {
    fn after_delete(&self, engine: &ApiEngine, _: &Resource, namespace: Option<&str>, _: &str) {
        if let Some(namespace) = namespace {
            engine.schedule_default_service_account(namespace);
        }
    }
}
