//! Create, update and patch: from an object that was sent to a version that is stored.

use std::sync::{Arc, PoisonError};

use evenkeel_core::{Status, StatusDetails};
use serde_json::{Value, json};

use super::options::WriteOptions;
use super::services::is_service;
use super::{ApiEngine, convert, object};
use crate::env::{rfc3339, uuid};
use crate::field::{self, FieldError};
use crate::registry::Resource;
use crate::store::{Draft, Expect, Record, Write};
use crate::{crd, field_ownership, kinds, meta};

/// How often a generated name may collide before the client is told to try again (OBJ-5).
const NAME_ATTEMPTS: usize = 8;
/// How often a write is tried again when another one got in between. Someone makes progress each time, so this is
/// reached only by a client that never stops writing the same object.
const WRITE_ATTEMPTS: usize = 1000;

/// The object that a write is about, as its URL names it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) resource: &'a Arc<Resource>,
    pub(super) namespace: Option<&'a str>,
    pub(super) name: &'a str,
    pub(super) scope: Scope<'a>,
}

/// Which part of an object an endpoint writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope<'a> {
    /// Everything but the status.
    Main,
    Status,
    /// A field of the specification or status that has a sub-resource of its own.
    Field {
        subresource: &'a str,
        path: &'a [&'a str],
    },
    /// Whatever the server itself changes on behalf of a sub-resource.
    Whole {
        subresource: &'a str,
    },
}

impl<'a> Scope<'a> {
    pub(super) fn subresource(self) -> Option<&'a str> {
        match self {
            Scope::Main => None,
            Scope::Status => Some("status"),
            Scope::Field { subresource, .. } | Scope::Whole { subresource } => Some(subresource),
        }
    }
}

/// Who writes, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writer<'a> {
    pub(super) options: &'a WriteOptions,
    pub(super) manager: &'a str,
    pub(super) ownership: Ownership,
}

/// Who owns the fields of an object that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    /// The writer owns what it changes (SSA-5).
    OfChanges,
    /// The `managedFields` of the object say it: an apply has worked that out already.
    AsGiven,
}

impl<'a> Writer<'a> {
    /// Someone who creates or updates.
    pub(super) fn new(options: &'a WriteOptions, manager: &'a str) -> Self {
        Writer { options, manager, ownership: Ownership::OfChanges }
    }
}

/// What a write came to.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) record: Arc<Record>,
    pub(super) created: bool,
    pub(super) warnings: Vec<String>,
}

/// The key of an object: `namespace/name`, or `name`.
pub(super) fn key(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

impl Target<'_> {
    pub(super) fn key(&self) -> String {
        key(self.namespace, self.name)
    }

    pub(super) fn not_found(&self) -> Status {
        Status::not_found(&self.resource.group, &self.resource.plural, self.name)
    }

    pub(super) fn conflict(&self, why: impl std::fmt::Display) -> Status {
        Status::conflict(&self.resource.group, &self.resource.plural, self.name, why)
    }

    pub(super) fn modified(&self) -> Status {
        self.conflict("the object has been modified; please apply your changes to the latest version and try again")
    }

    /// The fields that the endpoint does not write (SSA-4).
    pub(super) fn reset_fields(&self) -> &'static [&'static str] {
        match self.scope {
            Scope::Main if self.resource.strategy.has_status => &["status"],
            Scope::Status if self.resource.custom.is_some() => &["metadata", "spec"],
            _ => &[],
        }
    }

    pub(super) fn invalid(&self, errors: &[FieldError]) -> Status {
        field::invalid(&self.resource.group, &self.resource.kind, self.name, errors)
    }
}

impl ApiEngine {
    /// Stores a new object. `object` has been decoded and defaulted.
    pub(super) fn create(
        &self,
        resource: &Arc<Resource>,
        namespace: Option<&str>,
        mut new: Value,
        writer: Writer<'_>,
    ) -> Result<Written, Status> {
        check_namespace(&mut new, namespace)?;
        let _nothing_begins_to_go = self.creates.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(custom) = &resource.custom {
            self.check_definition_takes_objects(resource, custom, object::text(&new, "name"))?;
        }
        if let Some(namespace) = namespace {
            self.check_namespace_takes_content(resource, namespace, object::text(&new, "name"))?;
        }
        if has_version(&new) {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Status::failure(500, Default::default(), message));
        }
        self.fill_system_metadata(&mut new);
        if !object::text(&new, "name").is_empty() || object::text(&new, "generateName").is_empty() {
            return self.create_named(resource, namespace, new, writer);
        }
        let mut name = String::new();
        for _ in 0..NAME_ATTEMPTS {
            name = meta::generate_name(object::text(&new, "generateName"), || self.env.random());
            let mut named = new.clone();
            object::metadata_mut(&mut named).insert("name".into(), name.as_str().into());
            match self.create_named(resource, namespace, named, writer) {
                Err(status) if status.is_already_exists() => {}
                other => return other,
            }
        }
        let mut status = Status::already_exists(&resource.group, &resource.plural, &name);
        status.message.push_str(", the server was not able to generate a unique name for the object");
        status.details.get_or_insert_default().retry_after_seconds = 1;
        Err(status)
    }

    /// Stores a new object that has its name, or is refused for having none.
    fn create_named(
        &self,
        resource: &Arc<Resource>,
        namespace: Option<&str>,
        mut new: Value,
        writer: Writer<'_>,
    ) -> Result<Written, Status> {
        let mut warnings = Vec::new();
        let _one_at_a_time = self.one_service_at_a_time(resource);
        let name = object::text(&new, "name").to_owned();
        let target = Target { resource, namespace, name: &name, scope: Scope::Main };
        // The writer owns what it sent, not what the server adds.
        if writer.ownership == Ownership::OfChanges {
            self.track_ownership(&target, None, &mut new, writer);
        }
        self.prepare_create(resource, &mut new, &mut warnings)?;
        let errors = validate_create(resource, &new);
        if !errors.is_empty() {
            return Err(target.invalid(&errors));
        }
        let facts = object::facts(resource, &new);
        let stored = convert::to_storage(new, resource);
        let draft = Draft::new(&stored, facts, self.store.revision() + 1);
        let key = target.key();
        if writer.options.dry_run {
            if let Some(present) = self.store.get(&resource.storage, &key) {
                return Err(already_exists(&target, &present));
            }
            return Ok(Written { record: Arc::new(draft.preview(0)), created: true, warnings });
        }
        let now = self.env.monotonic();
        match self.store.commit(&resource.storage, &key, Expect::Absent, Write::Put(draft), now) {
            Ok((_, Some(record))) => Ok(Written { record, created: true, warnings }),
            Ok((_, None)) => Err(Status::internal("a create left no object")),
            Err(_) => Err(match self.store.get(&resource.storage, &key) {
                Some(present) => already_exists(&target, &present),
                None => Status::already_exists(&resource.group, &resource.plural, &name),
            }),
        }
    }

    fn fill_system_metadata(&self, new: &mut Value) {
        let now = rfc3339(self.env.wall());
        let uid = uuid(&*self.env);
        let metadata = object::metadata_mut(new);
        for key in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            metadata.remove(key);
        }
        metadata.insert("uid".into(), uid.into());
        metadata.insert("creationTimestamp".into(), now.into());
    }

    /// What a kind does to its new objects before they are checked.
    fn prepare_create(
        &self,
        resource: &Arc<Resource>,
        new: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        if resource.strategy.has_status
            && let Some(fields) = new.as_object_mut()
        {
            fields.remove("status");
        }
        if resource.custom.is_none() {
            let uid = object::text(new, "uid").to_owned();
            kinds::prepare_create(&resource.group, &resource.version, &resource.kind, new, &uid);
            if is_service(resource) {
                self.assign_addresses(resource, new)?;
            }
        }
        if resource.strategy.tracks_generation && kinds::has_first_generation(&resource.group, &resource.kind) {
            object::metadata_mut(new).insert("generation".into(), 1.into());
        }
        if let Some(metadata) = new.get_mut("metadata") {
            warnings.extend(meta::dedup_owner_references(metadata));
        }
        if is_definition(resource) {
            let errors = crd::admit::create(new);
            if !errors.is_empty() {
                let name = object::text(new, "name");
                return Err(field::invalid(&resource.group, &resource.kind, name, &errors));
            }
        }
        Ok(())
    }

    /// Changes an object. `make` is given the object as it is, in the version of the endpoint, and gives the object as
    /// it should be, decoded and defaulted; it is asked again if someone else writes in between.
    pub(super) fn update(
        &self,
        target: Target<'_>,
        writer: Writer<'_>,
        mut make: impl FnMut(&Value) -> Result<Value, Status>,
    ) -> Result<Written, Status> {
        for _ in 0..WRITE_ATTEMPTS {
            let key = target.key();
            let Some(record) = self.store.get(&target.resource.storage, &key) else {
                return Err(target.not_found());
            };
            let old = convert::to_version(record.value(), target.resource);
            let new = make(&old)?;
            if let Some(written) = self.try_update(target, writer, &record, &old, new)? {
                return Ok(written);
            }
        }
        Err(server_timeout("update", target))
    }

    /// One attempt; `None` if another write got in between.
    fn try_update(
        &self,
        target: Target<'_>,
        writer: Writer<'_>,
        record: &Arc<Record>,
        old: &Value,
        mut new: Value,
    ) -> Result<Option<Written>, Status> {
        let resource = target.resource;
        let _one_at_a_time = self.one_service_at_a_time(resource);
        check_version(target, record, &new)?;
        check_namespace(&mut new, target.namespace)?;
        let mut warnings = Vec::new();
        let owners = match writer.ownership {
            Ownership::OfChanges => None,
            Ownership::AsGiven => Some(object::metadata_mut(&mut new).remove("managedFields")),
        };
        restrict_to_scope(target, old, &mut new);
        if let Some(metadata) = new.get_mut("metadata") {
            meta::inherit_metadata(metadata, object::metadata(old));
            warnings.extend(meta::dedup_owner_references(metadata));
        }
        let mut errors = Vec::new();
        if resource.custom.is_none() && target.scope == Scope::Main {
            kinds::prepare_update(&resource.group, &resource.kind, &mut new, old);
            if is_service(resource) {
                self.assign_addresses(resource, &mut new)?;
            }
            if is_definition(resource) {
                errors.extend(crd::admit::update(&mut new, old));
            }
        }
        let whole = matches!(target.scope, Scope::Whole { .. });
        if resource.strategy.tracks_generation && !whole && generation_changes(resource, &new, old) {
            let generation = object::metadata(old).get("generation").and_then(Value::as_i64).unwrap_or(0);
            object::metadata_mut(&mut new).insert("generation".into(), generation.saturating_add(1).into());
        }
        errors.extend(validate_update(resource, target.scope, &new, old));
        if !errors.is_empty() {
            return Err(target.invalid(&errors));
        }
        match owners {
            None => self.track_ownership(&target, Some(old), &mut new, writer),
            Some(owners) => set_path(&mut new, &["metadata", "managedFields"], owners),
        }
        object::metadata_mut(&mut new).insert("resourceVersion".into(), record.revision.to_string().into());
        if field_ownership::equal_ignoring_managed_times(&new, old) {
            return Ok(Some(Written { record: Arc::clone(record), created: false, warnings }));
        }
        let facts = object::facts(resource, &new);
        let stored = convert::to_storage(new, resource);
        if writer.options.dry_run {
            let draft = Draft::new(&stored, facts, record.revision);
            let record = Arc::new(draft.preview(record.revision));
            return Ok(Some(Written { record, created: false, warnings }));
        }
        let draft = Draft::new(&stored, facts, self.store.revision() + 1);
        let expect = Expect::Revision(record.revision);
        let now = self.env.monotonic();
        let key = target.key();
        if is_deletion_complete(resource, &stored) {
            return match self.store.commit(&resource.storage, &key, expect, Write::Delete, now) {
                Ok((revision, _)) => {
                    let record = Arc::new(draft.preview(revision));
                    Ok(Some(Written { record, created: false, warnings }))
                }
                Err(_) => Ok(None),
            };
        }
        match self.store.commit(&resource.storage, &key, expect, Write::Put(draft), now) {
            Ok((_, Some(record))) => Ok(Some(Written { record, created: false, warnings })),
            Ok((_, None)) => Err(Status::internal("an update left no object")),
            Err(_) => Ok(None),
        }
    }

    fn track_ownership(&self, target: &Target<'_>, old: Option<&Value>, new: &mut Value, writer: Writer<'_>) {
        let resource = target.resource;
        let write = field_ownership::Write {
            manager: writer.manager,
            api_version: &resource.api_version(),
            subresource: target.scope.subresource(),
            now: &rfc3339(self.env.wall()),
            reset: target.reset_fields(),
        };
        field_ownership::update_managed_fields(old, new, resource.schema(), &write);
    }
}

/// Whether this is the resource of CustomResourceDefinitions.
pub(super) fn is_definition(resource: &Resource) -> bool {
    resource.group == "apiextensions.k8s.io" && resource.plural == "customresourcedefinitions"
}

/// Whether this is the resource of Namespaces.
pub(super) fn is_namespace(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == "namespaces"
}

/// Nothing holds a deleting object any more (UPD-9).
pub(super) fn is_deletion_complete(resource: &Resource, object: &Value) -> bool {
    let grace = object::metadata(object).get("deletionGracePeriodSeconds").and_then(Value::as_i64);
    let held = is_namespace(resource)
        && object.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    object::is_deleting(object) && grace.unwrap_or(0) == 0 && object::finalizers(object).next().is_none() && !held
}

/// ERR-15.
pub(super) fn server_timeout(operation: &str, target: Target<'_>) -> Status {
    let resource = evenkeel_core::status::qualified(&target.resource.group, &target.resource.plural);
    let message =
        format!("The {operation} operation against {resource} could not be completed at this time, please try again.");
    Status::failure(500, evenkeel_core::Reason::SERVER_TIMEOUT, message).with_details(StatusDetails {
        group: target.resource.group.clone(),
        kind: target.resource.plural.clone(),
        name: operation.to_owned(),
        retry_after_seconds: 2,
        ..StatusDetails::default()
    })
}

fn already_exists(target: &Target<'_>, present: &Record) -> Status {
    let mut status = Status::already_exists(&target.resource.group, &target.resource.plural, target.name);
    if present.facts.deleting {
        status.message.insert_str(0, "object is being deleted: ");
    }
    status
}

/// OBJ-3.
fn check_namespace(new: &mut Value, namespace: Option<&str>) -> Result<(), Status> {
    match (namespace, object::text(new, "namespace")) {
        (None, _) => {
            object::metadata_mut(new).remove("namespace");
        }
        (Some(namespace), "") => {
            object::metadata_mut(new).insert("namespace".into(), namespace.into());
        }
        (Some(namespace), given) if given == namespace => {}
        _ => {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    }
    Ok(())
}

/// UPD-5: a client that sends an object whole means the one with its uid, and no other.
pub(super) fn check_uid(target: Target<'_>, old: &Value, uid: &str) -> Result<(), Status> {
    let stored = object::text(old, "uid");
    if !uid.is_empty() && uid != stored {
        let resource = target.resource;
        let group = if resource.group.is_empty() { String::new() } else { format!("{}/", resource.group) };
        return Err(target.conflict(format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{group}{}/{}, ResourceVersion: 0, \
             AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {stored}",
            resource.plural,
            target.key()
        )));
    }
    Ok(())
}

/// UPD-3 and UPD-4: the resource version that the client sent must be the one that is stored.
fn check_version(target: Target<'_>, record: &Record, new: &Value) -> Result<(), Status> {
    if has_version(new) {
        let same = object::text(new, "resourceVersion") == record.revision.to_string();
        return if same { Ok(()) } else { Err(target.modified()) };
    }
    if target.resource.strategy.unconditional_update {
        return Ok(());
    }
    let detail = "must be specified for an update";
    Err(target.invalid(&[FieldError::invalid("metadata.resourceVersion", &json!(0), detail)]))
}

/// Whether the client named a resource version; zero is none.
pub(super) fn has_version(object: &Value) -> bool {
    !matches!(object::text(object, "resourceVersion"), "" | "0")
}

/// Takes from the request only what the endpoint writes (SUB-2, SUB-3).
fn restrict_to_scope(target: Target<'_>, old: &Value, new: &mut Value) {
    match target.scope {
        Scope::Main => {
            if target.resource.strategy.has_status {
                object::copy_field(new, old, "status");
            }
        }
        Scope::Status => {
            let mut kept = old.clone();
            object::copy_field(&mut kept, new, "status");
            *new = kept;
        }
        Scope::Field { path, .. } => {
            let mut kept = old.clone();
            let wanted = path.iter().try_fold(&*new, |value, key| value.get(key)).cloned();
            set_path(&mut kept, path, wanted);
            *new = kept;
        }
        Scope::Whole { .. } => {}
    }
}

/// Sets a field by its path; parents are made as needed.
pub(super) fn set_path(object: &mut Value, path: &[&str], value: Option<Value>) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut place = object;
    for key in parents {
        let Some(fields) = place.as_object_mut() else { return };
        place = fields.entry(*key).or_insert_with(|| json!({}));
    }
    let Some(fields) = place.as_object_mut() else { return };
    match value {
        Some(value) => fields.insert((*last).to_owned(), value),
        None => fields.remove(*last),
    };
}

/// SUB-9 and SUB-10.
fn generation_changes(resource: &Resource, new: &Value, old: &Value) -> bool {
    if resource.custom.is_none() {
        return kinds::generation_changes(&resource.group, &resource.kind, new, old);
    }
    // What a custom resource means by an empty list or map is its own affair: it is not the same as none.
    let counts = |key: &str| match key {
        "apiVersion" | "kind" | "metadata" => false,
        "status" => !resource.strategy.has_status,
        _ => true,
    };
    !content(new, &counts).eq(content(old, &counts))
}

/// The fields of an object that count, in order.
fn content<'a>(object: &'a Value, counts: &dyn Fn(&str) -> bool) -> impl Iterator<Item = (&'a String, &'a Value)> {
    object.as_object().into_iter().flatten().filter(|(key, _)| counts(key))
}

fn validate_create(resource: &Resource, new: &Value) -> Vec<FieldError> {
    let names = resource.strategy.names;
    let mut errors = meta::validate_object_meta(object::metadata(new), names, resource.namespaced);
    match (resource.schema(), &resource.custom) {
        (Some(schema), Some(_)) => errors.extend(schema.validate(new)),
        (Some(schema), None) => {
            let found = kinds::validate_create(&resource.group, &resource.kind, new);
            add_new(&mut errors, found);
            add_new(&mut errors, schema.validate_builtin(new));
        }
        (None, _) => {}
    }
    errors
}

fn validate_update(resource: &Resource, scope: Scope<'_>, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = meta::validate_object_meta_update(object::metadata(new), object::metadata(old));
    match (resource.schema(), &resource.custom) {
        (Some(schema), Some(_)) => errors.extend(schema.validate_update(new, old)),
        (Some(_), None) if scope == Scope::Main || is_namespace(resource) => {
            let found = kinds::validate_update(&resource.group, &resource.kind, new, old);
            add_new(&mut errors, found);
        }
        (Some(_), None) if scope.subresource() == Some("ephemeralcontainers") => {
            errors.extend(kinds::validate_ephemeral_containers_update(new, old));
        }
        _ => {}
    }
    errors
}

/// Two validators may find the same fault; it is told once, in the words of the first.
fn add_new(errors: &mut Vec<FieldError>, found: Vec<FieldError>) {
    for error in found {
        if !errors.iter().any(|known| known.field == error.field && known.fault == error.fault) {
            errors.push(error);
        }
    }
}

#[cfg(test)]
mod tests;
