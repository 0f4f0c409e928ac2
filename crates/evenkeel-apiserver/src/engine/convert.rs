//! Converts objects between the versions of their resource.
//!
//! The few built-in kinds that are served in more than one form have conversions of their own. Versions of a custom resource
//! differ in `apiVersion` alone, unless a converter of the definition or of the program converts them (`webhook`).

pub(crate) mod webhook;

use std::sync::Arc;

use serde_json::Value;

use self::webhook::{Batch, ConversionRequest};
use super::request_error::RequestError;
use super::{ApiEngine, object};
use crate::http_types::ApiRequest;
use crate::kinds;
use crate::registry::{Resource, group_version};
use crate::request_state::RequestState;
use crate::store::{Draft, Record};

/// Converts a stored object to the version of this resource, without a converter.
pub(crate) fn to_version(mut object: Value, resource: &Resource) -> Value {
    set_version(&mut object, resource, &resource.api_version());
    object
}

fn to_storage(mut object: Value, resource: &Resource) -> Value {
    let (group, version) = resource.storage_version();
    if (group, version) != (resource.group.as_str(), resource.version.as_str()) || resource.custom.is_some() {
        set_version(&mut object, resource, &group_version(group, version));
    }
    object
}

fn set_version(object: &mut Value, resource: &Resource, version: &str) {
    if resource.custom.is_none() {
        kinds::convert(&resource.kind, object, version);
    } else if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".into(), version.into());
    }
}

impl ApiEngine {
    /// Converts a stored object to the version of this resource. The server itself, which has no request, calls no converter.
    pub(crate) fn object_in_version(
        &self,
        resource: &Resource,
        object: Value,
        request: Option<&ApiRequest>,
    ) -> Result<Value, RequestError> {
        self.convert_object(resource, object, &resource.api_version(), resource, request)
    }

    /// Converts an object of this resource to the version in which it is stored.
    pub(crate) fn object_for_storage(
        &self,
        resource: &Resource,
        object: Value,
        request: Option<&ApiRequest>,
    ) -> Result<Value, RequestError> {
        if request.is_none() || !self.has_converter(resource) {
            return Ok(to_storage(object, resource));
        }
        let (group, version) = resource.storage_version();
        let storage = self.registry().lookup(group, version, &resource.plural).cloned();
        let target = storage.as_deref().unwrap_or(resource);
        self.convert_object(resource, object, &group_version(group, version), target, request)
    }

    /// Converts an object from one version of a resource to another.
    pub(crate) fn object_between(
        &self,
        from: &Resource,
        to: &Resource,
        object: Value,
        request: &ApiRequest,
    ) -> Result<Value, RequestError> {
        match self.has_converter(to) {
            true => self.convert_object(from, object, &to.api_version(), to, Some(request)),
            false => Ok(to_version(to_storage(object, from), to)),
        }
    }

    /// Converts one object; `target` is the resource of the version, if it is served.
    fn convert_object(
        &self,
        resource: &Resource,
        object: Value,
        version: &str,
        target: &Resource,
        request: Option<&ApiRequest>,
    ) -> Result<Value, RequestError> {
        let is_there = object.get("apiVersion").and_then(Value::as_str) == Some(version);
        let (Some(request), Some(converter), false) = (request, self.converter_of(resource), is_there) else {
            let mut object = object;
            set_version(&mut object, resource, version);
            return Ok(object);
        };
        let conversion = ConversionRequest { converter, resource, target, version, batch: Batch::Single };
        let converted = self.convert_by_call(&conversion, vec![object], &request.state)?;
        converted.into_iter().next().ok_or_else(|| conversion.failed("no objects returned").into())
    }

    /// Returns stored records in the version of this resource. Without a converter they are returned as they are: the view
    /// renames their version.
    pub(crate) fn records_in_version(
        &self,
        resource: &Resource,
        mut records: Vec<Arc<Record>>,
        batch: Batch,
        state: &RequestState,
    ) -> Result<Vec<Arc<Record>>, RequestError> {
        let Some(converter) = self.converter_of(resource) else { return Ok(records) };
        let version = resource.api_version();
        let prefix = format!(
            "{{\"kind\":{},\"apiVersion\":{},",
            Value::from(resource.kind.as_str()),
            Value::from(version.as_str())
        );
        let others = records.iter().enumerate().filter(|(_, record)| !record.json().starts_with(prefix.as_bytes()));
        let (indexes, objects): (Vec<usize>, Vec<Value>) =
            others.map(|(index, record)| (index, record.value())).unzip();
        if objects.is_empty() {
            return Ok(records);
        }
        let conversion = ConversionRequest { converter, resource, target: resource, version: &version, batch };
        let converted = self.convert_by_call(&conversion, objects, state)?;
        for (index, object) in indexes.into_iter().zip(converted) {
            if let Some(record) = records.get_mut(index) {
                *record = shown(resource, &object, record.revision);
            }
        }
        Ok(records)
    }

    /// Returns one stored record in the version of this resource.
    pub(crate) fn record_in_version(
        &self,
        resource: &Resource,
        record: Arc<Record>,
        state: &RequestState,
    ) -> Result<Arc<Record>, RequestError> {
        let records = self.records_in_version(resource, vec![Arc::clone(&record)], Batch::Single, state)?;
        Ok(records.into_iter().next().unwrap_or(record))
    }

    /// Returns an object of a write as its response shows it, if that differs from what is stored.
    pub(crate) fn shown_of(&self, resource: &Resource, object: &Value) -> Option<Value> {
        let (group, version) = resource.storage_version();
        let is_stored_version = (group, version) == (resource.group.as_str(), resource.version.as_str());
        (!is_stored_version && self.has_converter(resource)).then(|| object.clone())
    }
}

/// Returns an object in the version of a response as a record of this revision.
pub(crate) fn shown(resource: &Resource, object: &Value, revision: u64) -> Arc<Record> {
    Arc::new(Draft::new(object, object::facts(resource, object), revision).preview(revision))
}
