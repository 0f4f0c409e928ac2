//! The objects and the request of a write as webhooks and policies see them, and how what they change enters the write.

use std::sync::Arc;

use evenkeel_core::Status;
use serde_json::{Map, Value, json};

use super::{AdmissionWrite, Operation};
use crate::engine::request_error::RequestError;
use crate::engine::strategies::user_info;
use crate::engine::subresources::scale::{SCALE, ScaleFields};
use crate::engine::verbs::update::restrict_to_scope;
use crate::engine::{ApiEngine, decode, object};
use crate::query::Query;
use crate::registry::{Resource, Subresource};
use crate::schema::Schema;

const SCALE_SUBRESOURCE: &str = "scale";

/// Returns the request of an AdmissionReview, without a uid. The objects are in the version of `resource`.
pub(super) fn review_request(
    write: &AdmissionWrite<'_>,
    resource: &Resource,
    new: Option<&Value>,
    old: Option<&Value>,
) -> Value {
    let target = write.target;
    let subresource = target.scope.subresource();
    let namespace = if write.is_namespace() { target.name } else { target.namespace.unwrap_or_default() };
    let mut request = json!({
        "kind": kind_of(resource, subresource),
        "resource": resource_of(resource),
        "requestKind": kind_of(target.resource, subresource),
        "requestResource": resource_of(target.resource),
        "operation": write.operation.as_str(),
        "userInfo": user_info(&write.request.user),
        "object": new,
        "oldObject": old,
        "dryRun": write.dry_run,
        "options": options(write),
    });
    for (key, value) in [
        ("subResource", subresource.unwrap_or_default()),
        ("requestSubResource", subresource.unwrap_or_default()),
        ("name", target.name),
        ("namespace", namespace),
    ] {
        if !value.is_empty() {
            request[key] = value.into();
        }
    }
    request
}

fn resource_of(resource: &Resource) -> Value {
    json!({"group": resource.group, "version": resource.version, "resource": resource.plural})
}

/// Returns the kind of the objects in a review: a subresource may have its own, such as Scale.
fn kind_of(resource: &Resource, subresource: Option<&str>) -> Value {
    match subresource.and_then(|name| resource.subresource(name)) {
        Some(own) if !own.response_kind.is_empty() && own.response_kind != resource.kind => {
            json!({"group": own.response_group, "version": own.response_version, "kind": own.response_kind})
        }
        _ => json!({"group": resource.group, "version": resource.version, "kind": resource.kind}),
    }
}

/// Returns the options of a write as an object of `meta.k8s.io/v1`; null for a connection, which has none.
fn options(write: &AdmissionWrite<'_>) -> Value {
    let query = Query::parse(write.request.uri.query());
    let mut options = Map::new();
    let kind = match write.operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete => "DeleteOptions",
        Operation::Connect => return Value::Null,
    };
    if write.operation == Operation::Delete {
        if let Ok(parsed) = decode::parse(write.request, kind)
            && let Value::Object(sent) = parsed.value
        {
            options = sent;
        }
        for key in ["propagationPolicy", "orphanDependents", "gracePeriodSeconds"] {
            if let Some(text) = query.non_empty(key) {
                options.insert(key.into(), serde_json::from_str(text).unwrap_or_else(|_| text.into()));
            }
        }
    } else {
        for key in ["fieldManager", "fieldValidation"] {
            if let Some(text) = query.non_empty(key) {
                options.insert(key.into(), text.into());
            }
        }
    }
    if write.dry_run {
        options.insert("dryRun".into(), json!(["All"]));
    }
    options.insert("kind".into(), kind.into());
    options.insert("apiVersion".into(), "meta.k8s.io/v1".into());
    Value::Object(options)
}

/// What the expressions of a policy or a webhook see of a write, in the version that its rules match.
pub(crate) struct ReviewedWrite {
    pub(super) resource: Arc<Resource>,
    /// Null for a delete.
    pub(super) object: Value,
    /// Null for a create.
    pub(super) old: Value,
    pub(super) request: Value,
}

impl ReviewedWrite {
    pub(super) fn new(
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        new: Option<&Value>,
        resource: &Arc<Resource>,
    ) -> Result<Self, RequestError> {
        let converted = |value: Option<&Value>| match value {
            Some(value) => engine.for_review(write, resource, value),
            None => Ok(Value::Null),
        };
        Ok(ReviewedWrite {
            object: converted(new)?,
            old: converted(write.old)?,
            request: review_request(write, resource, None, None),
            resource: Arc::clone(resource),
        })
    }
}

/// A write of `scale`, which is reviewed as a Scale.
struct ScaleForm {
    fields: ScaleFields,
    old: Value,
}

impl ScaleForm {
    fn of(write: &AdmissionWrite<'_>) -> Result<Option<Self>, Status> {
        let resource = write.target.resource;
        let (Some(SCALE_SUBRESOURCE), Some(old)) = (write.target.scope.subresource(), write.old) else {
            return Ok(None);
        };
        let Some(fields) = ScaleFields::of(resource) else { return Ok(None) };
        let old = fields.scale_of(resource, old)?;
        Ok(Some(ScaleForm { fields, old }))
    }
}

/// Passes a write and its object in the form in which they are reviewed, and takes over what becomes of the object.
pub(super) fn mutate_as_reviewed<'w>(
    write: &AdmissionWrite<'w>,
    object: Option<&mut Value>,
    mutate: impl FnOnce(&AdmissionWrite<'_>, Option<&mut Value>) -> Result<(), RequestError>,
) -> Result<(), RequestError> {
    let Some(object) = object else { return mutate(write, None) };
    let Some(scale) = ScaleForm::of(write)? else { return mutate(write, Some(object)) };
    let resource = write.target.resource;
    let mut new = scale.fields.scale_of(resource, object)?;
    let before = new.clone();
    mutate(&AdmissionWrite { old: Some(&scale.old), ..*write }, Some(&mut new))?;
    if new != before {
        scale.fields.write(resource, &new, object)?;
    }
    Ok(())
}

/// Passes a write and its object in the form in which they are reviewed.
pub(super) fn validate_as_reviewed(
    write: &AdmissionWrite<'_>,
    object: Option<&Value>,
    validate: impl FnOnce(&AdmissionWrite<'_>, Option<&Value>) -> Result<(), RequestError>,
) -> Result<(), RequestError> {
    match (ScaleForm::of(write)?, object) {
        (Some(scale), Some(object)) => {
            let new = scale.fields.scale_of(write.target.resource, object)?;
            validate(&AdmissionWrite { old: Some(&scale.old), ..*write }, Some(&new))
        }
        _ => validate(write, object),
    }
}

/// Returns whether the objects of a write are not of the kind of its resource, such as a Scale or a Binding. They have one
/// version.
fn is_own_kind(write: &AdmissionWrite<'_>) -> bool {
    own_kind(write).is_some()
}

/// Returns the subresource of a write whose objects have a kind of their own.
fn own_kind<'w>(write: &AdmissionWrite<'w>) -> Option<&'w Subresource> {
    let resource = write.target.resource;
    let own = write.target.scope.subresource().and_then(|name| resource.subresource(name));
    own.filter(|own| !own.response_kind.is_empty() && own.response_kind != resource.kind)
}

/// Returns the schema of the objects in a review; `None` if they have none.
pub(super) fn reviewed_schema<'r>(write: &AdmissionWrite<'_>, resource: &'r Resource) -> Option<&'r Schema> {
    match own_kind(write) {
        Some(own) => {
            // The first segment of a group's name is that of its package.
            let package = own.response_group.split('.').next().filter(|package| !package.is_empty());
            let (package, version) = (package.unwrap_or("core"), &own.response_version);
            Schema::builtin(&format!("io.k8s.api.{package}.{version}.{}", own.response_kind))
        }
        None => resource.schema(),
    }
}

/// Decodes and defaults the result of a patch like what a user sends (AWH-009). Returns the unknown fields, which it has
/// removed.
pub(super) fn normalise(
    write: &AdmissionWrite<'_>,
    resource: &Resource,
    object: &mut Value,
) -> Result<Vec<String>, String> {
    if write.target.scope.subresource() == Some(SCALE_SUBRESOURCE) {
        let Some(schema) = Schema::builtin(SCALE) else { return Ok(Vec::new()) };
        return schema.decode_builtin(object).map_err(|fault| fault.status("Scale", "v1").message);
    }
    if is_own_kind(write) {
        return Ok(Vec::new());
    }
    decode::keep_kind(resource, object)?;
    decode::normalise(resource, object).map_err(|status| status.message)
}

impl ApiEngine {
    /// Converts an object of a write to the version in which it is reviewed.
    pub(super) fn for_review(
        &self,
        write: &AdmissionWrite<'_>,
        resource: &Arc<Resource>,
        object: &Value,
    ) -> Result<Value, RequestError> {
        if is_own_kind(write) || Arc::ptr_eq(write.target.resource, resource) {
            return Ok(object.clone());
        }
        self.object_between(write.target.resource, resource, object.clone(), write.request)
    }

    /// Replaces the object of a write by what a review made of it, in the version of the review: restricted to what the
    /// endpoint writes.
    pub(super) fn accept_reviewed(
        &self,
        write: &AdmissionWrite<'_>,
        resource: &Arc<Resource>,
        object: &mut Value,
        mut new: Value,
    ) -> Result<(), RequestError> {
        if !is_own_kind(write) && !Arc::ptr_eq(write.target.resource, resource) {
            new = self.object_between(resource, write.target.resource, new, write.request)?;
        }
        if write.operation == Operation::Update && !is_own_kind(write) {
            restrict_to_scope(write.target, object, &mut new);
        }
        // Field ownership is the server's own account.
        let managed = object::metadata(object).get("managedFields").cloned();
        object::set_path(&mut new, &["metadata", "managedFields"], managed);
        *object = new;
        Ok(())
    }
}
