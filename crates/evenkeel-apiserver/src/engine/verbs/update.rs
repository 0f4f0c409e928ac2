//! PUT: replaces an object; and the write that update, patch and apply share.

use std::sync::Arc;

use evenkeel_core::Status;
use serde_json::Value;

use super::create::memory_of;
use crate::engine::admission::{AdmissionWrite, Operation};
use crate::engine::controllers::PendingWork;
use crate::engine::decode::{self, Incoming};
use crate::engine::object::set_path;
use crate::engine::options::WriteOptions;
use crate::engine::request::ResourceRequest;
use crate::engine::request_error::RequestError;
use crate::engine::target::{
    OwnershipSource, Target, WriteScope, Writer, Written, check_name, check_namespace, check_uid, check_version,
    has_version, server_timeout,
};
use crate::engine::{ApiEngine, object};
use crate::env::rfc3339;
use crate::http_types::HandlerOutcome;
use crate::limits::{MAX_OBJECT_BYTES, object_too_large};
use crate::negotiate::Endpoint;
use crate::registry::{Resource, StatusMetadata};
use crate::store::{Draft, Expect, Record, Write};
use crate::{field_ownership, meta};

/// How often a write retries when another write commits in between. One of the two makes progress each time, so only
/// a client that never stops writing the same object exhausts this.
const WRITE_ATTEMPTS: usize = 1000;

impl ApiEngine {
    /// Serves a PUT of an object or of one of its subresources.
    pub(crate) fn update(
        self: &Arc<Self>,
        request: &ResourceRequest<'_>,
        scope: WriteScope<'_>,
    ) -> Result<HandlerOutcome, RequestError> {
        let resource = request.resource();
        let options = WriteOptions::from_query(request.query, "UpdateOptions")?;
        let view = self.view(request, Endpoint::Object)?;
        let Incoming { object: sent, warnings } =
            decode::object(&self.registry(), resource, request.http, options.field_validation)?;
        check_name(&sent, request.name())?;
        let manager = request.manager(&options);
        let writer = Writer::new(request.http, &options, &manager);
        let target = request.target(scope);
        let replace = |old: &Value| {
            check_uid(target, old, object::text(&sent, "uid"))?;
            Ok(sent.clone())
        };
        let creates = resource.strategy.create_on_update && scope == WriteScope::Main;
        let mut written = match self.update_object(target, writer, replace) {
            Err(error) if error.is_not_found() && creates => {
                match self.create_by_update(request, sent.clone(), writer) {
                    // A concurrent create committed first, so there is an object to update.
                    Err(error) if error.is_already_exists() => self.update_object(target, writer, replace)?,
                    other => other?,
                }
            }
            other => other?,
        };
        written.warnings.splice(0..0, warnings);
        let work = self.after_write(resource, request.namespace(), request.name(), &written, &options);
        Ok(work.then(self.write_response(&view, &written, options.dry_run)?))
    }

    /// Creates an object by PUT (UPD-6). A resource version in the body requires an existing object.
    fn create_by_update(
        &self,
        request: &ResourceRequest<'_>,
        object: Value,
        writer: Writer<'_>,
    ) -> Result<Written, RequestError> {
        if has_version(&object) {
            return Err(request.target(WriteScope::Main).not_found().into());
        }
        self.create_object(request.resource(), request.namespace(), object, writer).map(|(_, written)| written)
    }

    /// Changes an object. `make` receives the stored object in the version of the endpoint and returns the new object,
    /// decoded and defaulted. It runs again if another write commits in between.
    pub(crate) fn update_object(
        &self,
        target: Target<'_>,
        writer: Writer<'_>,
        mut make: impl FnMut(&Value) -> Result<Value, Status>,
    ) -> Result<Written, RequestError> {
        self.update_object_by(target, writer, |old| make(old).map_err(RequestError::from))
    }

    /// Updates an object like [`ApiEngine::update_object`], by a function that may need calls.
    pub(crate) fn update_object_by(
        &self,
        target: Target<'_>,
        writer: Writer<'_>,
        mut make: impl FnMut(&Value) -> Result<Value, RequestError>,
    ) -> Result<Written, RequestError> {
        for _ in 0..WRITE_ATTEMPTS {
            let key = target.key();
            let Some(record) = self.store.get(&target.resource.storage, &key) else {
                return Err(target.not_found().into());
            };
            let old = self.object_in_version(target.resource, record.value(), writer.request)?;
            let new = make(&old)?;
            if let Some(written) = self.try_update(target, writer, &record, &old, new)? {
                return Ok(written);
            }
        }
        Err(server_timeout("update", target).into())
    }

    /// Tries once to write; returns `None` if another write committed in between.
    fn try_update(
        &self,
        target: Target<'_>,
        writer: Writer<'_>,
        record: &Arc<Record>,
        old: &Value,
        mut new: Value,
    ) -> Result<Option<Written>, RequestError> {
        let resource = target.resource;
        let hooks = resource.strategy.hooks;
        let _lock = hooks.lock_write(self);
        check_version(target, record, &new)?;
        check_namespace(&mut new, target.namespace)?;
        let mut warnings = Vec::new();
        let managed_fields = match writer.ownership {
            OwnershipSource::Changes => None,
            OwnershipSource::ManagedFields => Some(object::metadata_mut(&mut new).remove("managedFields")),
        };
        restrict_to_scope(target, old, &mut new);
        if let Some(metadata) = new.get_mut("metadata") {
            meta::inherit_metadata(metadata, object::metadata(old));
            warnings.extend(meta::dedup_owner_references(metadata));
        }
        // The writer owns what it sent, not what admission and the kind change.
        match managed_fields {
            None => self.track_ownership(&target, old, &mut new, writer),
            Some(managed_fields) => set_path(&mut new, &["metadata", "managedFields"], managed_fields),
        }
        let admission = writer.request.map(|request| AdmissionWrite {
            operation: Operation::Update,
            target,
            old: Some(old),
            request,
            dry_run: writer.options.dry_run,
        });
        if let Some(write) = &admission {
            self.mutate(write, &mut new, &mut warnings)?;
            hooks.authorize_write(self, write, &new)?;
        }
        let mut errors = Vec::new();
        if target.scope == WriteScope::Main {
            errors.extend(hooks.prepare_update(self, resource, &mut new, old)?);
        }
        let whole = matches!(target.scope, WriteScope::Whole { .. });
        if target.scope == WriteScope::Status {
            hooks.prepare_status_update(self, &mut new, old);
        }
        let counts = resource.strategy.tracks_generation && !whole && target.scope != WriteScope::Status;
        if counts && hooks.generation_changes(resource, &new, old) {
            let generation = object::metadata(old).get("generation").and_then(Value::as_i64).unwrap_or(0);
            object::metadata_mut(&mut new).insert("generation".into(), generation.saturating_add(1).into());
        }
        errors.extend(meta::validate_object_meta_update(object::metadata(&new), object::metadata(old)));
        hooks.validate_update(resource, target.scope, &new, old, &mut errors);
        hooks.check_rules(resource, &new, Some(old), &mut errors, &mut warnings);
        if !errors.is_empty() {
            return Err(target.invalid(&errors).into());
        }
        if target.scope == WriteScope::Main {
            warnings.extend(hooks.update_warnings(resource, &new, old));
        }
        let reservation = match &admission {
            Some(write) => self.validate(write, &new, &mut warnings)?,
            None => None,
        };
        object::metadata_mut(&mut new).insert("resourceVersion".into(), record.revision.to_string().into());
        if field_ownership::equal_ignoring_managed_times(&new, old) {
            let converted = self.shown_of(resource, old);
            return Ok(Some(Written { record: Arc::clone(record), converted, created: false, warnings }));
        }
        let facts = object::facts(resource, &new);
        let converted = self.shown_of(resource, &new);
        let stored = self.object_for_storage(resource, new, writer.request)?;
        if writer.options.dry_run {
            let draft = Draft::new(&stored, facts, record.revision);
            let record = Arc::new(draft.preview(record.revision));
            return Ok(Some(Written { record, converted, created: false, warnings }));
        }
        let draft = Draft::new(&stored, facts, self.store.revision() + 1);
        let expect = Expect::Revision(record.revision);
        let now = self.env.monotonic();
        let key = target.key();
        if is_deletion_complete(resource, &stored) {
            return match self.store.commit(&resource.storage, &key, expect, Write::Delete, now) {
                Ok((revision, _)) => {
                    let record = Arc::new(draft.preview(revision));
                    Ok(Some(Written { record, converted, created: false, warnings }))
                }
                Err(_) => Ok(None),
            };
        }
        if draft.len() > MAX_OBJECT_BYTES {
            return Err(object_too_large().into());
        }
        let previous = memory_of(resource, old, record.json().len());
        let new = memory_of(resource, &stored, draft.len());
        self.settings.memory.admit_write(Some(previous), new, record.facts.deleting)?;
        match self.store.commit(&resource.storage, &key, expect, Write::Put(draft), now) {
            Ok((_, Some(record))) => {
                if let Some(reservation) = reservation {
                    reservation.keep();
                }
                Ok(Some(Written { record, converted, created: false, warnings }))
            }
            Ok((_, None)) => Err(Status::internal("an update left no object").into()),
            Err(_) => Ok(None),
        }
    }

    /// Records in `new` which fields the writer owns.
    fn track_ownership(&self, target: &Target<'_>, old: &Value, new: &mut Value, writer: Writer<'_>) {
        self.with_ownership_write(target, writer, |write| {
            field_ownership::update_managed_fields(old, new, target.resource.schema(), write);
        });
    }

    /// Returns which fields the writer of a new object owns, as JSON.
    pub(super) fn first_ownership(&self, target: &Target<'_>, new: &mut Value, writer: Writer<'_>) -> Option<Vec<u8>> {
        self.with_ownership_write(target, writer, |write| {
            field_ownership::first_managed_fields(new, target.resource.schema(), write)
        })
    }

    fn with_ownership_write<T>(
        &self,
        target: &Target<'_>,
        writer: Writer<'_>,
        track: impl FnOnce(&field_ownership::Write<'_>) -> T,
    ) -> T {
        track(&field_ownership::Write {
            manager: writer.manager,
            api_version: &target.resource.api_version(),
            subresource: target.scope.subresource(),
            now: &rfc3339(self.env_of(writer).wall()),
            reset: target.reset_fields(),
        })
    }

    /// Runs what a committed write gives rise to: the kind's own work, and the controllers of a deletion. Returns the work
    /// that the response waits for.
    pub(crate) fn after_write(
        self: &Arc<Self>,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
        written: &Written,
        options: &WriteOptions,
    ) -> PendingWork {
        let mut work = PendingWork::none(self);
        match written.record.facts.deleting {
            _ if options.dry_run => {}
            true => self.after_delete(resource, namespace, name, &mut work),
            false => {
                work.add_write(&written.record);
                resource.strategy.hooks.after_write(self, name);
            }
        }
        work
    }
}

/// Returns whether a deleting object has no finalizer and no grace period left (UPD-9).
fn is_deletion_complete(resource: &Resource, object: &Value) -> bool {
    let grace = object::metadata(object).get("deletionGracePeriodSeconds").and_then(Value::as_i64);
    object::is_deleting(object)
        && grace.unwrap_or(0) == 0
        && object::finalizers(object).next().is_none()
        && !resource.strategy.hooks.has_own_finalizers(object)
}

/// Takes from the request only what the endpoint writes (SUB-2, SUB-3).
pub(crate) fn restrict_to_scope(target: Target<'_>, old: &Value, new: &mut Value) {
    match target.scope {
        WriteScope::Main => {
            if target.resource.strategy.has_status {
                object::copy_field(new, old, "status");
            }
        }
        WriteScope::Status => {
            let mut kept = old.clone();
            object::copy_field(&mut kept, new, "status");
            let metadata = target.resource.strategy.status_metadata;
            if metadata != StatusMetadata::Kept {
                object::copy_field(&mut kept, new, "metadata");
            }
            for key in metadata.kept_fields() {
                set_path(&mut kept, &["metadata", key], object::metadata(old).get(key).cloned());
            }
            *new = kept;
        }
        WriteScope::Field { path, .. } => {
            let mut kept = old.clone();
            let wanted = path.iter().try_fold(&*new, |value, key| value.get(key)).cloned();
            set_path(&mut kept, path, wanted);
            *new = kept;
        }
        WriteScope::Whole { .. } => {}
    }
}
