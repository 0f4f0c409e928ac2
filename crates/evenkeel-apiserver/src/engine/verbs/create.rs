//! POST: stores a new object.

use std::sync::{Arc, PoisonError};

use evenkeel_core::Status;
use http::{Response, StatusCode};
use serde_json::Value;

use crate::crd;
use crate::engine::admission::{AdmissionWrite, Operation};
use crate::engine::decode::{self, Incoming};
use crate::engine::options::WriteOptions;
use crate::engine::request::ResourceRequest;
use crate::engine::request_error::RequestError;
use crate::engine::strategies::CreateAnswer;
use crate::engine::target::{OwnershipSource, Target, WriteScope, Writer, Written, check_namespace, has_version};
use crate::engine::view::{self, View};
use crate::engine::{ApiEngine, object, response};
use crate::env::{rfc3339, uuid};
use crate::field::FieldError;
use crate::http_types::{Body, HandlerOutcome};
use crate::limits::{MAX_OBJECT_BYTES, object_too_large};
use crate::meta;
use crate::negotiate::Endpoint;
use crate::registry::Resource;
use crate::request_state::RequestEnv;
use crate::store::{Draft, Expect, Record, Write};

/// How often a generated name may collide before the create fails (OBJ-5).
const NAME_ATTEMPTS: usize = 8;

/// An object that passed the first half of admission.
#[derive(Clone)]
struct NewObject {
    object: Value,
    /// Its `managedFields` as JSON, unless the object has them.
    managed: Option<Vec<u8>>,
    /// The client named a resource version.
    has_version: bool,
    warnings: Vec<String>,
}

impl ApiEngine {
    /// Serves a POST to a collection.
    pub(crate) fn create(self: &Arc<Self>, request: &ResourceRequest<'_>) -> Result<HandlerOutcome, RequestError> {
        let resource = request.resource();
        let options = WriteOptions::from_query(request.query, "CreateOptions")?;
        let view = self.view(request, Endpoint::Object)?;
        let Incoming { object: mut new, warnings } =
            decode::object(&self.registry(), resource, request.http, options.field_validation)?;
        let manager = request.manager(&options);
        let writer = Writer::new(request.http, &options, &manager);
        let hooks = resource.strategy.hooks;
        if hooks.answers_creates() {
            let name = object::text(&new, "name").to_owned();
            let target = Target { resource, namespace: request.namespace(), name: &name, scope: WriteScope::Main };
            let given = self.admit_unstored(Operation::Create, target, &mut new, request.http, options.dry_run)?;
            let mut response = match hooks.answer_create(self, request, &new, writer)? {
                CreateAnswer::Success => response::created(request),
                CreateAnswer::Object(object) => answered(object, &view)?,
                CreateAnswer::Status(status) => {
                    new["status"] = status;
                    answered(new, &view)?
                }
            };
            response::warn(&mut response, &given);
            return Ok(HandlerOutcome::Response(response));
        }
        hooks.set_requester(&mut new, &request.http.user);
        let (name, mut written) = self.create_object(resource, request.namespace(), new, writer)?;
        written.warnings.splice(0..0, warnings);
        let work = self.after_write(resource, request.namespace(), &name, &written, &options);
        Ok(work.then(self.write_response(&view, &written, options.dry_run)?))
    }

    /// Returns the response to a write.
    pub(crate) fn write_response(
        &self,
        view: &View,
        written: &Written,
        dry_run: bool,
    ) -> Result<HandlerOutcome, RequestError> {
        let shown = written.shown(&view.resource);
        let body = match dry_run && written.created {
            true => view.unstored(&shown)?,
            false => view.single(&shown, None)?,
        };
        let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        let mut response = response::with_code(code, view.representation, body);
        response::warn(&mut response, &written.warnings);
        response::warn(&mut response, &view.resource.strategy.hooks.warnings(self, &view.resource, &written.record));
        Ok(HandlerOutcome::Response(response))
    }

    /// Stores a new object, and returns the name that it was given or has got. `new` has been decoded and defaulted.
    pub(crate) fn create_object(
        &self,
        resource: &Arc<Resource>,
        namespace: Option<&str>,
        mut new: Value,
        writer: Writer<'_>,
    ) -> Result<(String, Written), RequestError> {
        check_namespace(&mut new, namespace)?;
        self.check_accepts_objects(resource, namespace, object::text(&new, "name"))?;
        let name = object::text(&new, "name").to_owned();
        let target = Target { resource, namespace, name: &name, scope: WriteScope::Main };
        let has_version = has_version(&new);
        wipe_system_metadata(&mut new);
        // The writer owns what it sent, not what admission and the server add.
        let managed = match writer.ownership {
            OwnershipSource::Changes => self.first_ownership(&target, &mut new, writer),
            OwnershipSource::ManagedFields => None,
        };
        let mut warnings = Vec::new();
        if let Some(request) = writer.request {
            let write = AdmissionWrite {
                operation: Operation::Create,
                target,
                old: None,
                request,
                dry_run: writer.options.dry_run,
            };
            self.mutate(&write, &mut new, &mut warnings)?;
            check_namespace(&mut new, namespace)?;
            resource.strategy.hooks.authorize_write(self, &write, &new)?;
        }
        let env = self.env_of(writer);
        // A webhook may name an object.
        let name = object::text(&new, "name").to_owned();
        let target = Target { name: &name, ..target };
        wipe_system_metadata(&mut new);
        fill_system_metadata(&mut new, env);
        let draft = NewObject { object: new, managed, has_version, warnings };
        if !name.is_empty() || object::text(&draft.object, "generateName").is_empty() {
            let written = self.create_named(target, draft, writer)?;
            return Ok((name, written));
        }
        let mut name = String::new();
        for _ in 0..NAME_ATTEMPTS {
            name = meta::generate_name(object::text(&draft.object, "generateName"), || env.random());
            let mut named = draft.clone();
            object::metadata_mut(&mut named.object).insert("name".into(), name.as_str().into());
            match self.create_named(Target { name: &name, ..target }, named, writer) {
                Err(error) if error.is_already_exists() => {}
                other => return other.map(|written| (name, written)),
            }
        }
        let mut status = Status::already_exists(&resource.group, &resource.plural, &name);
        status.message.push_str(", the server was not able to generate a unique name for the object");
        status.details.get_or_insert_default().retry_after_seconds = 1;
        Err(status.into())
    }

    /// Stores a new object under the name that it carries. Validation refuses an object without a name.
    fn create_named(&self, target: Target<'_>, new: NewObject, writer: Writer<'_>) -> Result<Written, RequestError> {
        let NewObject { object: mut new, managed, has_version, mut warnings } = new;
        let Target { resource, namespace, name, .. } = target;
        let _lock = resource.strategy.hooks.lock_write(self);
        self.prepare_create(resource, &mut new, &mut warnings)?;
        let mut errors = validate_create(resource, &new);
        resource.strategy.hooks.check_rules(resource, &new, None, &mut errors, &mut warnings);
        if !errors.is_empty() {
            return Err(target.invalid(&errors).into());
        }
        warnings.extend(resource.strategy.hooks.create_warnings(resource, &new));
        let mut reservation = None;
        if let Some(request) = writer.request {
            if request.method != http::Method::POST {
                self.check_also_creates(request)?;
            }
            let write = AdmissionWrite {
                operation: Operation::Create,
                target,
                old: None,
                request,
                dry_run: writer.options.dry_run,
            };
            reservation = self.validate(&write, &new, &mut warnings)?;
        }
        let facts = object::facts(resource, &new);
        let mut converted = self.shown_of(resource, &new);
        if let (Some(shown), Some(managed)) = (&mut converted, &managed) {
            let managed = serde_json::from_slice(managed).unwrap_or_default();
            object::metadata_mut(shown).insert("managedFields".into(), managed);
        }
        let stored = self.object_for_storage(resource, new, writer.request)?;
        let draft = Draft::with_managed_fields(&stored, managed.as_deref(), facts, self.store.revision() + 1);
        let key = target.key();
        if writer.options.dry_run {
            if let Some(present) = self.store.get(&resource.storage, &key) {
                return Err(already_exists(&target, &present).into());
            }
            return Ok(Written { record: Arc::new(draft.preview(0)), converted, created: true, warnings });
        }
        // It is the storage of kube-apiserver that refuses a version: invalid objects and dry runs do not get that far.
        if has_version {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Status::failure(500, Default::default(), message).into());
        }
        if draft.len() > MAX_OBJECT_BYTES {
            return Err(object_too_large().into());
        }
        self.settings.memory.admit_write(None, memory_of(resource, &stored, draft.len()), false)?;
        let now = self.env.monotonic();
        // Deletion of a namespace or a definition starts before this commit or after it, never during it.
        let creating = self.creates.read().unwrap_or_else(PoisonError::into_inner);
        self.check_accepts_objects(resource, namespace, name)?;
        let committed = self.store.commit(&resource.storage, &key, Expect::Absent, Write::Put(draft), now);
        drop(creating);
        if let Some(reservation) = reservation.filter(|_| committed.is_ok()) {
            reservation.keep();
        }
        match committed {
            Ok((_, Some(record))) => Ok(Written { record, converted, created: true, warnings }),
            Ok((_, None)) => Err(Status::internal("a create left no object").into()),
            Err(_) => Err(match self.store.get(&resource.storage, &key) {
                Some(present) => already_exists(&target, &present),
                None => Status::already_exists(&resource.group, &resource.plural, name),
            }
            .into()),
        }
    }

    /// Refuses a create whose namespace or definition does not accept it.
    fn check_accepts_objects(
        &self,
        resource: &Arc<Resource>,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<(), Status> {
        resource.strategy.hooks.check_create(self, resource, name)?;
        match namespace {
            Some(namespace) => self.check_namespace_accepts_objects(resource, namespace, name),
            None => Ok(()),
        }
    }

    fn prepare_create(
        &self,
        resource: &Arc<Resource>,
        new: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let strategy = &resource.strategy;
        if strategy.has_status
            && !strategy.hooks.keeps_status_on_create()
            && let Some(fields) = new.as_object_mut()
        {
            fields.remove("status");
        }
        strategy.hooks.prepare_create(self, resource, new)?;
        if strategy.tracks_generation && strategy.hooks.has_first_generation(resource) {
            object::metadata_mut(new).insert("generation".into(), 1.into());
        }
        if let Some(metadata) = new.get_mut("metadata") {
            warnings.extend(meta::dedup_owner_references(metadata));
        }
        Ok(())
    }
}

/// Returns the response to a create that stores nothing.
fn answered(object: Value, view: &View) -> Result<Response<Body>, RequestError> {
    let body = view::encode(view::render(object), view.representation)?;
    Ok(response::with_code(StatusCode::CREATED, view.representation, body))
}

/// Removes the metadata that only the server sets.
fn wipe_system_metadata(new: &mut Value) {
    let metadata = object::metadata_mut(new);
    for key in ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(key);
    }
}

fn fill_system_metadata(new: &mut Value, env: RequestEnv<'_>) {
    let metadata = object::metadata_mut(new);
    metadata.insert("uid".into(), uuid(|| env.random()).into());
    metadata.insert("creationTimestamp".into(), rfc3339(env.wall()).into());
}

fn validate_create(resource: &Resource, new: &Value) -> Vec<FieldError> {
    let strategy = &resource.strategy;
    let mut errors = meta::validate_object_meta(object::metadata(new), strategy.names, resource.namespaced);
    strategy.hooks.validate_create(resource, new, &mut errors);
    errors
}

fn already_exists(target: &Target<'_>, present: &Record) -> Status {
    let mut status = Status::already_exists(&target.resource.group, &target.resource.plural, target.name);
    if present.facts.deleting {
        status.message.insert_str(0, "object is being deleted: ");
    }
    status
}

/// Returns the memory that an object of this many bytes takes: a definition also takes that of its compiled schemas.
pub(super) fn memory_of(resource: &Resource, object: &Value, bytes: usize) -> usize {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("apiextensions.k8s.io", "customresourcedefinitions") => bytes + crd::compile::memory_of(object),
        _ => bytes,
    }
}
