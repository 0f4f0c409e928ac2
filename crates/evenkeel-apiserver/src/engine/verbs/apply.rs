//! Server-side apply: PATCH with an apply configuration (SSA-1).
//!
//! [`field_ownership`](crate::field_ownership) merges the configuration and decides conflicts. This file decodes it,
//! restricts it to what the endpoint writes, and writes the result like every other update.

use std::sync::Arc;

use evenkeel_core::Status;
use serde_json::{Map, Value, json};

use super::patch::accept_result;
use crate::engine::object::set_path;
use crate::engine::options::{FieldValidation, WriteOptions};
use crate::engine::request::ResourceRequest;
use crate::engine::request_error::RequestError;
use crate::engine::subresources::scale::{SCALE, ScaleFields};
use crate::engine::target::{OwnershipSource, Target, WriteScope, Writer, Written, check_name, has_version};
use crate::engine::{ApiEngine, object};
use crate::env::rfc3339;
use crate::field_ownership::FieldVersions;
use crate::http_types::{ApiRequest, HandlerOutcome};
use crate::negotiate::Endpoint;
use crate::registry::{Registry, Resource, StatusMetadata};
use crate::schema::Schema;
use crate::schema::json::{self, Parsed};
use crate::{field_ownership, go_json, patch};

/// How often an object may be created and deleted by others before the apply fails.
const APPLY_ATTEMPTS: usize = 8;

/// The metadata that identifies an object and its version.
const IDENTITY: [&str; 4] = ["name", "namespace", "uid", "resourceVersion"];

/// The configuration that a manager applies, and the warnings about its encoding.
struct Intent {
    object: Value,
    warnings: Vec<String>,
}

impl ApiEngine {
    /// Serves an apply: changes the object, or creates it.
    pub(super) fn apply(
        self: &Arc<Self>,
        request: &ResourceRequest<'_>,
        scope: WriteScope<'_>,
    ) -> Result<HandlerOutcome, RequestError> {
        let options = WriteOptions::of_patch(request.query, true)?;
        let view = self.view(request, Endpoint::Object)?;
        let resource = request.resource();
        let api_version = resource.api_version();
        let Intent { object: mut intent, warnings } =
            read(&request.http.body, &api_version, &resource.kind, options.field_validation)?;
        check_schema(&intent, resource.schema())?;
        let target = request.target(scope);
        restrict(&mut intent, target);
        let mut written = self.apply_intent(request, target, &intent, &options)?;
        written.warnings.splice(0..0, warnings);
        let work = self.after_write(resource, request.namespace(), request.name(), &written, &options);
        Ok(work.then(self.write_response(&view, &written, options.dry_run)?))
    }

    /// Applies a Scale, which writes one field of its object.
    pub(crate) fn apply_scale(
        &self,
        request: &ResourceRequest<'_>,
        target: Target<'_>,
        fields: &ScaleFields,
    ) -> Result<(Written, Vec<String>), RequestError> {
        let options = WriteOptions::of_patch(request.query, true)?;
        let Intent { object: mut scale, warnings } =
            read(&request.http.body, "autoscaling/v1", "Scale", options.field_validation)?;
        check_schema(&scale, Schema::builtin(SCALE))?;
        if object::text(&scale, "name").is_empty() {
            object::metadata_mut(&mut scale).insert("name".into(), request.name().into());
        }
        check_name(&scale, request.name())?;
        let resource = request.resource();
        let mut intent = json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": {}});
        for key in IDENTITY {
            if let Some(value) = object::metadata(&scale).get(key) {
                object::metadata_mut(&mut intent).insert(key.into(), value.clone());
            }
        }
        fields.write(resource, &scale, &mut intent)?;
        let written = self.apply_intent(request, target, &intent, &options)?;
        Ok((written, warnings))
    }

    fn apply_intent(
        &self,
        request: &ResourceRequest<'_>,
        target: Target<'_>,
        intent: &Value,
        options: &WriteOptions,
    ) -> Result<Written, RequestError> {
        let manager = request.manager(options);
        let writer =
            Writer { ownership: OwnershipSource::ManagedFields, ..Writer::new(request.http, options, &manager) };
        let make = |live: Option<&Value>| {
            let resource = target.resource;
            let write = field_ownership::Write {
                manager: &manager,
                api_version: &resource.api_version(),
                subresource: target.scope.subresource(),
                now: &rfc3339(self.env.wall()),
                reset: target.reset_fields(),
            };
            let versions = self.has_converter(resource).then(|| ConvertedVersions::new(self, request.http, resource));
            let schema = resource.schema();
            let made =
                field_ownership::apply_in_versions(live, intent, schema, &write, options.force, versions.as_ref())?;
            // Fields that the schema does not know are already refused.
            let accepted = accept_result(request, live, made, &[], FieldValidation::Ignore);
            let (object, _) = accepted.map_err(|refusal| refusal.into_status(patch::unreadable_result))?;
            Ok::<_, RequestError>(object)
        };
        let mut attempts = 1..APPLY_ATTEMPTS;
        loop {
            match self.update_object_by(target, writer, |live| make(Some(live))) {
                Err(status) if status.is_not_found() && target.scope == WriteScope::Main => {}
                other => return other,
            }
            check_creatable(target, intent)?;
            let mut object = make(None)?;
            target.resource.strategy.hooks.set_requester(&mut object, &request.http.user);
            match self.create_object(target.resource, target.namespace, object, writer) {
                // A concurrent create committed first, so there is an object to apply to.
                Err(status) if status.is_already_exists() && attempts.next().is_some() => {}
                other => return other.map(|(_, written)| written),
            }
        }
    }
}

/// The versions of a custom resource that has a converter.
struct ConvertedVersions<'e> {
    engine: &'e ApiEngine,
    request: &'e ApiRequest,
    group: &'e str,
    plural: &'e str,
    registry: Registry,
}

impl<'e> ConvertedVersions<'e> {
    fn new(engine: &'e ApiEngine, request: &'e ApiRequest, resource: &'e Resource) -> Self {
        let registry = engine.registry();
        ConvertedVersions { engine, request, group: &resource.group, plural: &resource.plural, registry }
    }

    fn version(&self, api_version: &str) -> Option<&Arc<Resource>> {
        let (group, version) = api_version.split_once('/')?;
        self.registry.lookup(group, version, self.plural).filter(|_| group == self.group)
    }
}

impl FieldVersions<Schema> for ConvertedVersions<'_> {
    type Error = RequestError;

    fn types(&self, api_version: &str) -> Option<&Schema> {
        self.version(api_version)?.schema()
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, RequestError> {
        let from = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        match (self.version(from), self.version(api_version)) {
            (Some(from), Some(to)) => self.engine.object_between(from, to, object.clone(), self.request),
            _ => Err(Status::internal(format!("{from} cannot be converted to {api_version}")).into()),
        }
    }
}

/// Refuses to create an object for a configuration that names a uid or a resource version.
fn check_creatable(target: Target<'_>, intent: &Value) -> Result<(), Status> {
    let uid = object::text(intent, "uid");
    if !uid.is_empty() {
        return Err(target.conflict(format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        )));
    }
    if has_version(intent) {
        return Err(target.not_found());
    }
    Ok(())
}

/// Decodes a configuration of this kind from JSON or YAML.
fn read(body: &[u8], api_version: &str, kind: &str, validation: FieldValidation) -> Result<Intent, Status> {
    let undecodable = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
    let Parsed { value, duplicates } = match json::parse(body) {
        Ok(parsed) => parsed,
        Err(_) => {
            let text = std::str::from_utf8(body).map_err(|error| undecodable(error.to_string()))?;
            let value = serde_saphyr::from_str(text).map_err(|error| {
                // The first line names the fault and its position; the others repeat the body.
                undecodable(error.to_string().lines().next().unwrap_or_default().to_owned())
            })?;
            Parsed { value, duplicates: Vec::new() }
        }
    };
    let object = match value {
        Value::Object(_) => value,
        Value::Null => Value::Object(Map::new()),
        other => {
            return Err(undecodable(format!(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type \
                 map[string]interface {{}}",
                go_json::kind_of(&other)
            )));
        }
    };
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    if text("kind") != kind || text("apiVersion") != api_version {
        return Err(Status::bad_request(format!("invalid object type: {}", type_of(&object))));
    }
    if object::metadata(&object).get("managedFields").is_some_and(Value::is_array) {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    let complaints = json::complaints(&[], &duplicates);
    let warnings = match validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Strict if !complaints.is_empty() => {
            let message = format!("error strict decoding YAML: {}", complaints.join(", "));
            return Err(Status::bad_request(message));
        }
        FieldValidation::Strict | FieldValidation::Warn => complaints,
    };
    Ok(Intent { object, warnings })
}

/// Returns group, version and kind as error messages spell them.
fn type_of(object: &Value) -> String {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = match text("apiVersion").split_once('/') {
        Some((_, version)) if version.contains('/') => return "/, Kind=".to_owned(),
        Some(both) => both,
        None => ("", text("apiVersion")),
    };
    format!("{group}/{version}, Kind={}", text("kind"))
}

/// Refuses fields that the schema does not know, whatever the `fieldValidation`: such a field cannot be owned.
/// kube-apiserver returns 500 here.
fn check_schema(intent: &Value, schema: Option<&Schema>) -> Result<(), Status> {
    let Some(schema) = schema else { return Ok(()) };
    field_ownership::check_intent(intent, schema).map_err(|why| {
        let (namespace, name) = (object::text(intent, "namespace"), object::text(intent, "name"));
        let message = format!("failed to create typed patch object ({namespace}/{name}; {}): {why}", type_of(intent));
        Status::failure(500, Default::default(), message)
    })
}

/// Removes from a configuration what the endpoint does not write (SSA-4), so that the manager does not own it.
fn restrict(intent: &mut Value, target: Target<'_>) {
    let path: &[&str] = match target.scope {
        WriteScope::Main if target.resource.strategy.has_status => {
            if let Some(fields) = intent.as_object_mut() {
                fields.remove("status");
            }
            return;
        }
        WriteScope::Main | WriteScope::Whole { .. } => return,
        WriteScope::Status => &["status"],
        WriteScope::Field { path, .. } => path,
    };
    let mut kept = json!({"metadata": {}});
    for key in ["apiVersion", "kind"] {
        object::copy_field(&mut kept, intent, key);
    }
    let written: &[&str] = match (target.scope, target.resource.strategy.status_metadata) {
        (WriteScope::Status, StatusMetadata::Written) => &["labels", "annotations", "finalizers", "ownerReferences"],
        (WriteScope::Status, StatusMetadata::WrittenButLabels) => &["annotations", "finalizers", "ownerReferences"],
        (WriteScope::Status, StatusMetadata::WrittenButOwners) => &["labels", "annotations", "finalizers"],
        _ => &[],
    };
    for key in IDENTITY.iter().chain(written) {
        if let Some(value) = object::metadata(intent).get(*key) {
            object::metadata_mut(&mut kept).insert((*key).into(), value.clone());
        }
    }
    if let Some(value) = path.iter().try_fold(&*intent, |value, key| value.get(key)) {
        set_path(&mut kept, path, Some(value.clone()));
    }
    *intent = kept;
}
