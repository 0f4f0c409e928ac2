//! CustomResourceDefinitions: a write brings the definition into force before the response is sent.

use std::sync::{PoisonError, RwLockReadGuard};

use evenkeel_core::Status;
use jiff::Timestamp;
use serde_json::Value;

use super::KindHooks;
use crate::engine::options::DeleteOptions;
use crate::engine::verbs::delete::DeletePlan;
use crate::engine::{ApiEngine, object};
use crate::env::rfc3339;
use crate::field::{self, FieldError};
use crate::registry::Resource;
use crate::store::Record;
use crate::{crd, kinds};

#[derive(Debug)]
pub(crate) struct DefinitionHooks;

impl KindHooks for DefinitionHooks {
    fn serialises_writes(&self) -> bool {
        true
    }

    /// Keeps snapshots out until the definition is in force.
    fn lock_request<'e>(&self, engine: &'e ApiEngine) -> Option<RwLockReadGuard<'e, ()>> {
        Some(engine.definition_writes.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn prepare_create(&self, _: &ApiEngine, resource: &Resource, new: &mut Value) -> Result<(), Status> {
        let errors = crd::admit::create(new);
        if errors.is_empty() {
            return Ok(());
        }
        Err(field::invalid(&resource.group, &resource.kind, object::text(new, "name"), &errors))
    }

    fn prepare_update(
        &self,
        _: &ApiEngine,
        resource: &Resource,
        new: &mut Value,
        old: &Value,
    ) -> Result<Vec<FieldError>, Status> {
        kinds::prepare_update(&resource.group, &resource.kind, new, old);
        Ok(crd::admit::update(new, old))
    }

    fn warnings(&self, _: &ApiEngine, _: &Resource, record: &Record) -> Vec<String> {
        let definition = record.value();
        crd::admit::warnings(&definition)
    }

    fn after_write(&self, engine: &ApiEngine, name: &str) {
        engine.sync_definition(name);
    }

    fn contains_objects(&self) -> bool {
        true
    }

    /// Marks the definition, which waits until its objects are removed (CRD-15).
    fn plan_delete(&self, _: &Resource, old: &Value, _: &DeleteOptions, now: Timestamp) -> DeletePlan {
        if object::is_deleting(old) {
            let held = object::finalizers(old).next().is_some();
            return if held { DeletePlan::Nothing } else { DeletePlan::Remove };
        }
        let mut new = old.clone();
        object::metadata_mut(&mut new).insert("deletionTimestamp".into(), rfc3339(now).into());
        crd::conditions::start_deletion(&mut new, &rfc3339(now));
        DeletePlan::Mark(new)
    }

    fn after_delete(&self, engine: &ApiEngine, _: &Resource, _: Option<&str>, name: &str) {
        engine.sync_definition(name);
    }

    /// A snapshot must not contain a half-deleted collection, and definitions are few.
    fn deletes_collection_at_once(&self) -> bool {
        true
    }
}
