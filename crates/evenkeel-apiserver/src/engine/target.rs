//! The object that a write addresses, the part of it that the endpoint writes, and the checks that all writes share.

use std::sync::Arc;

use evenkeel_core::{Status, StatusDetails};
use serde_json::{Value, json};

use super::options::WriteOptions;
use super::{ApiEngine, convert, object};
use crate::field::{self, FieldError};
use crate::http_types::ApiRequest;
use crate::registry::Resource;
use crate::request_state::RequestEnv;
use crate::store::Record;

/// The object that a write addresses, as its URL names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) scope: WriteScope<'a>,
}

/// The part of an object that an endpoint writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteScope<'a> {
    /// Everything but the status.
    Main,
    /// The status and nothing else.
    Status,
    /// A field of the specification or status that has a subresource of its own.
    Field { subresource: &'a str, path: &'a [&'a str] },
    /// All fields: the server itself writes on behalf of a subresource.
    Whole { subresource: &'a str },
}

impl<'a> WriteScope<'a> {
    pub(crate) fn subresource(self) -> Option<&'a str> {
        match self {
            WriteScope::Main => None,
            WriteScope::Status => Some("status"),
            WriteScope::Field { subresource, .. } | WriteScope::Whole { subresource } => Some(subresource),
        }
    }
}

/// The request of a write, its field manager and its options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) options: &'a WriteOptions,
    pub(crate) manager: &'a str,
    pub(crate) ownership: OwnershipSource,
    /// The request that writes. Without one the server itself writes, past admission.
    pub(crate) request: Option<&'a ApiRequest>,
}

/// Where the field ownership of a written object comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnershipSource {
    /// The writer owns the fields that it changes (SSA-5).
    Changes,
    /// The `managedFields` of the object are final: an apply has computed them.
    ManagedFields,
}

impl<'a> Writer<'a> {
    /// Returns the writer of a create, update or patch.
    pub(crate) fn new(request: &'a ApiRequest, options: &'a WriteOptions, manager: &'a str) -> Self {
        Writer { options, manager, ownership: OwnershipSource::Changes, request: Some(request) }
    }

    /// Returns the same writer for writes that the request gives rise to and that do not pass admission.
    pub(crate) fn past_admission(self) -> Self {
        Writer { request: None, ..self }
    }

    /// Returns the writer of a change that the server itself makes.
    pub(crate) fn server(options: &'a WriteOptions) -> Self {
        Writer { options, manager: "evenkeel", ownership: OwnershipSource::Changes, request: None }
    }
}

/// The result of a write.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) record: Arc<Record>,
    /// The object in the version of the request, where a converter made the stored one from it.
    pub(crate) converted: Option<Value>,
    pub(crate) created: bool,
    pub(crate) warnings: Vec<String>,
}

impl Written {
    /// Returns the object as the response shows it.
    pub(crate) fn shown(&self, resource: &Resource) -> Arc<Record> {
        match &self.converted {
            Some(object) => convert::shown(resource, object, self.record.revision),
            None => Arc::clone(&self.record),
        }
    }
}

/// Returns the key of an object: `namespace/name`, or `name`.
pub(crate) fn key(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

impl ApiEngine {
    /// Returns the environment of a write.
    pub(crate) fn env_of<'a>(&'a self, writer: Writer<'a>) -> RequestEnv<'a> {
        RequestEnv::new(&*self.env, writer.request.map(|request| &request.state))
    }
}

impl Target<'_> {
    pub(crate) fn key(&self) -> String {
        key(self.namespace, self.name)
    }

    pub(crate) fn not_found(&self) -> Status {
        Status::not_found(&self.resource.group, &self.resource.plural, self.name)
    }

    pub(crate) fn conflict(&self, why: impl std::fmt::Display) -> Status {
        Status::conflict(&self.resource.group, &self.resource.plural, self.name, why)
    }

    pub(crate) fn modified(&self) -> Status {
        self.conflict("the object has been modified; please apply your changes to the latest version and try again")
    }

    /// The fields that the endpoint does not write (SSA-4).
    pub(crate) fn reset_fields(&self) -> &'static [&'static str] {
        match self.scope {
            WriteScope::Main if self.resource.strategy.has_status => &["status"],
            WriteScope::Status if self.resource.custom.is_some() => &["metadata", "spec"],
            _ => &[],
        }
    }

    pub(crate) fn invalid(&self, errors: &[FieldError]) -> Status {
        field::invalid(&self.resource.group, &self.resource.kind, self.name, errors)
    }
}

/// ERR-15.
pub(crate) fn server_timeout(operation: &str, target: Target<'_>) -> Status {
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

/// UPD-2: the name in the body must be the name in the URL.
pub(crate) fn check_name(object: &Value, name: &str) -> Result<(), Status> {
    match object::text(object, "name") {
        "" => Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        given if given == name => Ok(()),
        given => Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        ))),
    }
}

/// OBJ-3: the namespace in the body must be the namespace in the URL, which fills it in if absent.
pub(crate) fn check_namespace(new: &mut Value, namespace: Option<&str>) -> Result<(), Status> {
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

/// UPD-5: a uid in the body is a precondition.
pub(crate) fn check_uid(target: Target<'_>, old: &Value, uid: &str) -> Result<(), Status> {
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

/// UPD-3 and UPD-4: a resource version in the body must be the stored one.
pub(crate) fn check_version(target: Target<'_>, record: &Record, new: &Value) -> Result<(), Status> {
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

/// Returns whether the client named a resource version; zero counts as none.
pub(crate) fn has_version(object: &Value) -> bool {
    !matches!(object::text(object, "resourceVersion"), "" | "0")
}

#[cfg(test)]
mod tests;
