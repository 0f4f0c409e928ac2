//! Server-side apply: from the bytes of an intent to a write (SSA-1).
//!
//! Who may change and who owns what is worked out in [`field_ownership`](crate::field_ownership); here the intent is read and held to
//! what the endpoint writes, and the result takes the way of every other write.

use std::sync::Arc;

use evenkeel_core::Status;
use serde_json::{Map, Value, json};

use super::dispatch::{Request, accepted, check_name};
use super::options::{FieldValidation, WriteOptions};
use super::reviews::with_requester;
use super::scale::{Paths, SCALE};
use super::write::{Ownership, Scope, Target, Writer, Written, has_version, set_path};
use super::{ApiEngine, object};
use crate::env::rfc3339;
use crate::http_types::HandlerOutcome;
use crate::negotiate::Endpoint;
use crate::schema::Schema;
use crate::schema::json::{self, Parsed};
use crate::{field_ownership, go_json};

/// How often an object may come and go while it is applied to before the client is told.
const ATTEMPTS: usize = 8;

/// The metadata that says which object is meant, and which version of it.
const IDENTITY: [&str; 4] = ["name", "namespace", "uid", "resourceVersion"];

/// What a manager wants of an object, and what there is to say about how it was written.
struct Intent {
    object: Value,
    warnings: Vec<String>,
}

impl ApiEngine {
    /// Applies to an object, or creates it.
    pub(super) fn apply(self: &Arc<Self>, request: &Request<'_>, scope: Scope<'_>) -> Result<HandlerOutcome, Status> {
        let options = WriteOptions::of_patch(request.query, true)?;
        let view = self.view(request, Endpoint::Object)?;
        let resource = request.resource();
        let api_version = resource.api_version();
        let Intent { object: mut intent, warnings } =
            read(&request.request.body, &api_version, &resource.kind, options.field_validation)?;
        check_schema(&intent, resource.schema())?;
        let target = request.target(scope);
        restrict(&mut intent, target);
        let mut written = self.apply_intent(request, target, &intent, &options)?;
        written.warnings.splice(0..0, warnings);
        self.after_update(request, &written, &options);
        self.written(&view, &written, options.dry_run)
    }

    /// Applies a Scale: an intent for the one field that it shows.
    pub(super) fn apply_scale(
        &self,
        request: &Request<'_>,
        target: Target<'_>,
        paths: &Paths,
    ) -> Result<(Written, Vec<String>), Status> {
        let options = WriteOptions::of_patch(request.query, true)?;
        let Intent { object: scale, warnings } =
            read(&request.request.body, "autoscaling/v1", "Scale", options.field_validation)?;
        check_schema(&scale, Schema::builtin(SCALE))?;
        check_name(&scale, request.name())?;
        let resource = request.resource();
        let mut intent = json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": {}});
        for key in IDENTITY {
            if let Some(value) = object::metadata(&scale).get(key) {
                object::metadata_mut(&mut intent).insert(key.into(), value.clone());
            }
        }
        paths.write(resource, &scale, &mut intent)?;
        let written = self.apply_intent(request, target, &intent, &options)?;
        Ok((written, warnings))
    }

    fn apply_intent(
        &self,
        request: &Request<'_>,
        target: Target<'_>,
        intent: &Value,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let manager = request.manager(options);
        let writer = Writer { ownership: Ownership::AsGiven, ..Writer::new(options, &manager) };
        let make = |live: Option<&Value>| {
            let resource = target.resource;
            let write = field_ownership::Write {
                manager: &manager,
                api_version: &resource.api_version(),
                subresource: target.scope.subresource(),
                now: &rfc3339(self.env.wall()),
                reset: target.reset_fields(),
            };
            let made = field_ownership::apply(live, intent, resource.schema(), &write, options.force)?;
            // Whatever the schema does not know has been refused already.
            accepted(request, live, made, &[], FieldValidation::Ignore).map(|(object, _)| object)
        };
        let mut attempts = 1..ATTEMPTS;
        loop {
            match self.update(target, writer, |live| make(Some(live))) {
                Err(status) if status.is_not_found() && target.scope == Scope::Main => {}
                other => return other,
            }
            check_creatable(target, intent)?;
            let object = with_requester(target.resource, make(None)?, &request.request.user);
            match self.create(target.resource, target.namespace, object, writer) {
                // Someone else was faster, so there is something to apply to after all.
                Err(status) if status.is_already_exists() && attempts.next().is_some() => {}
                other => return other,
            }
        }
    }
}

/// An intent that says which object it means is not for a new one.
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

/// Reads an intent, which must be of this kind. JSON is YAML, too.
fn read(body: &[u8], api_version: &str, kind: &str, validation: FieldValidation) -> Result<Intent, Status> {
    let undecodable = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
    let Parsed { value, duplicates } = match json::parse(body) {
        Ok(parsed) => parsed,
        Err(_) => {
            let text = std::str::from_utf8(body).map_err(|error| undecodable(error.to_string()))?;
            let value = serde_saphyr::from_str(text).map_err(|error| {
                // The first line says what is wrong and where; the others repeat the client's text.
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

/// Group, version and kind as messages write them.
fn type_of(object: &Value) -> String {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = match text("apiVersion").split_once('/') {
        Some((_, version)) if version.contains('/') => return "/, Kind=".to_owned(),
        Some(both) => both,
        None => ("", text("apiVersion")),
    };
    format!("{group}/{version}, Kind={}", text("kind"))
}

/// Everything that an intent names must be in the schema, whatever `fieldValidation` says: a field that is not cannot
/// be owned. The real server answers with a 500, and so do we.
fn check_schema(intent: &Value, schema: Option<&Schema>) -> Result<(), Status> {
    let Some(schema) = schema else { return Ok(()) };
    field_ownership::check_intent(intent, schema).map_err(|why| {
        let (namespace, name) = (object::text(intent, "namespace"), object::text(intent, "name"));
        let message = format!("failed to create typed patch object ({namespace}/{name}; {}): {why}", type_of(intent));
        Status::failure(500, Default::default(), message)
    })
}

/// Leaves of an intent what the endpoint writes (SSA-4); nobody owns what was not for it to say.
fn restrict(intent: &mut Value, target: Target<'_>) {
    let path: &[&str] = match target.scope {
        Scope::Main if target.resource.strategy.has_status => {
            if let Some(fields) = intent.as_object_mut() {
                fields.remove("status");
            }
            return;
        }
        Scope::Main | Scope::Whole { .. } => return,
        Scope::Status => &["status"],
        Scope::Field { path, .. } => path,
    };
    let mut left = json!({"metadata": {}});
    for key in ["apiVersion", "kind"] {
        object::copy_field(&mut left, intent, key);
    }
    for key in IDENTITY {
        if let Some(value) = object::metadata(intent).get(key) {
            object::metadata_mut(&mut left).insert(key.into(), value.clone());
        }
    }
    if let Some(value) = path.iter().try_fold(&*intent, |value, key| value.get(key)) {
        set_path(&mut left, path, Some(value.clone()));
    }
    *intent = left;
}
