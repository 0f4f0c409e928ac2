//! Admission: what changes or refuses a write between its decoding and its commit (ADM-001).
//!
//! A write passes the chain twice. First every plugin may change the object ([`ApiEngine::mutate`]); then the object is
//! completed and validated; then every plugin may refuse the result ([`ApiEngine::validate`]). What the server itself writes
//! (conditions of definitions, the binding of a pod) does not pass it.
//!
//! A plugin reads the store and the object. If it needs a response from outside, it returns
//! [`RequestError::NeedsCalls`]; the request then runs again from its start, so nothing may be written before the last
//! plugin has validated.

mod default_tolerations;
#[allow(dead_code, reason = "webhooks and policies are still to come")]
pub(crate) mod rules;

use serde_json::Value;

use self::default_tolerations::DefaultTolerationSeconds;
use super::request_error::RequestError;
use super::target::Target;
use super::{ApiEngine, convert};
use crate::http_types::ApiRequest;
use crate::store::Record;

/// The operation of a write, as rules of admission name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    /// A connection to a pod, a node or a service.
    Connect,
}

impl Operation {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}

/// A write under admission. The new object is passed beside it.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "the present plugins read the target only")]
pub(crate) struct AdmissionWrite<'a> {
    pub(crate) operation: Operation,
    /// The name is empty while a create has only a `generateName`.
    pub(crate) target: Target<'a>,
    /// The stored object, in the version of the target; `None` for a create.
    pub(crate) old: Option<&'a Value>,
    /// The request that writes.
    pub(crate) request: &'a ApiRequest,
    pub(crate) dry_run: bool,
}

/// A part of the chain.
#[allow(dead_code, reason = "plugins cannot be switched yet")]
pub(super) trait AdmissionPlugin: Sync {
    /// Returns the name of the plugin, which is upstream's.
    fn name(&self) -> &'static str;

    /// Returns whether the plugin handles a write. What it does not handle costs nothing more.
    fn handles(&self, write: &AdmissionWrite<'_>) -> bool;

    /// Changes the new object, or refuses it. Adds warnings for the response.
    fn mutate(
        &self,
        _engine: &ApiEngine,
        _write: &AdmissionWrite<'_>,
        _object: &mut Value,
        _warnings: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        Ok(())
    }

    /// Refuses the write. The object is `None` for a delete, which passes this half of the chain only. Adds warnings for the
    /// response.
    fn validate(
        &self,
        _engine: &ApiEngine,
        _write: &AdmissionWrite<'_>,
        _object: Option<&Value>,
        _warnings: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        Ok(())
    }
}

/// The plugins in the order in which they run (ADM-001).
const PLUGINS: &[&dyn AdmissionPlugin] = &[&DefaultTolerationSeconds];

impl ApiEngine {
    /// Returns the plugins that handle a write.
    fn plugins<'a>(
        &self,
        write: &'a AdmissionWrite<'_>,
    ) -> impl Iterator<Item = &'static dyn AdmissionPlugin> + use<'a> {
        PLUGINS.iter().copied().filter(|plugin| plugin.handles(write))
    }

    /// Lets the plugins change the new object of a create or an update.
    pub(super) fn mutate(
        &self,
        write: &AdmissionWrite<'_>,
        object: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        self.plugins(write).try_for_each(|plugin| plugin.mutate(self, write, object, warnings))
    }

    /// Lets the plugins refuse a create or an update; `object` is the object as it would be stored.
    pub(super) fn validate(
        &self,
        write: &AdmissionWrite<'_>,
        object: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        self.plugins(write).try_for_each(|plugin| plugin.validate(self, write, Some(object), warnings))
    }

    /// Lets the plugins refuse the deletion of a stored object. Returns the warnings for the response.
    pub(super) fn validate_delete(
        &self,
        target: Target<'_>,
        record: &Record,
        request: &ApiRequest,
        dry_run: bool,
    ) -> Result<Vec<String>, RequestError> {
        let mut warnings = Vec::new();
        let write = AdmissionWrite { operation: Operation::Delete, target, old: None, request, dry_run };
        if self.plugins(&write).next().is_some() {
            let old = convert::to_version(record.value(), target.resource);
            let write = AdmissionWrite { old: Some(&old), ..write };
            self.plugins(&write).try_for_each(|plugin| plugin.validate(self, &write, None, &mut warnings))?;
        }
        Ok(warnings)
    }
}
