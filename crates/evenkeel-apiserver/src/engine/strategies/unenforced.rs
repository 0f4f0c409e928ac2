//! Kinds whose objects would change what this server does, and do not yet.

use super::KindHooks;
use crate::engine::ApiEngine;
use crate::registry::Resource;
use crate::store::Record;

/// The kind is stored and otherwise ignored: every write carries a warning.
#[derive(Debug)]
pub(crate) struct UnenforcedHooks;

impl KindHooks for UnenforcedHooks {
    fn warnings(&self, _: &ApiEngine, resource: &Resource, _: &Record) -> Vec<String> {
        vec![format!("evenkeel: {} is stored but not enforced", resource.kind)]
    }
}
