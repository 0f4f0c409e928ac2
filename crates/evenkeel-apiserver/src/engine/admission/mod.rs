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
pub(crate) mod rules;
pub(crate) mod webhooks;

use serde_json::Value;

use self::default_tolerations::DefaultTolerationSeconds;
use self::webhooks::{MutatingAdmissionWebhook, ValidatingAdmissionWebhook, WebhookPass};
use super::ApiEngine;
use super::request_error::RequestError;
use super::target::{Target, WriteScope};
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

    /// Returns whether the plugin has anything to do on this server now.
    fn is_active(&self, _engine: &ApiEngine) -> bool {
        true
    }

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

    /// Changes the new object like [`AdmissionPlugin::mutate`], for plugins that treat the second pass differently, or see
    /// writes without a new object.
    fn mutate_in_pass(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        object: Option<&mut Value>,
        warnings: &mut Vec<String>,
        _pass: &mut MutationPass,
    ) -> Result<(), RequestError> {
        match object {
            Some(object) => self.mutate(engine, write, object, warnings),
            None => Ok(()),
        }
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
const PLUGINS: &[&dyn AdmissionPlugin] =
    &[&DefaultTolerationSeconds, &MutatingAdmissionWebhook, &ValidatingAdmissionWebhook];

/// A pass of a write over the plugins that change it. There is a second one if a plugin that runs late has changed the object
/// (AWH-008).
#[derive(Debug, Default)]
pub(super) struct MutationPass {
    pub(super) is_second: bool,
    /// The object has changed so that plugins should see it again.
    pub(super) wants_second: bool,
    webhooks: WebhookPass,
}

impl ApiEngine {
    /// Returns the plugins that handle a write.
    fn plugins<'a>(
        &'a self,
        write: &'a AdmissionWrite<'_>,
    ) -> impl Iterator<Item = &'static dyn AdmissionPlugin> + use<'a> {
        PLUGINS.iter().copied().filter(|plugin| plugin.handles(write) && plugin.is_active(self))
    }

    /// Lets the plugins change the new object of a create or an update.
    pub(super) fn mutate(
        &self,
        write: &AdmissionWrite<'_>,
        object: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        self.mutate_in_passes(write, Some(object), warnings)
    }

    fn mutate_in_passes(
        &self,
        write: &AdmissionWrite<'_>,
        mut object: Option<&mut Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        let mut pass = MutationPass::default();
        loop {
            self.plugins(write).try_for_each(|plugin| {
                plugin.mutate_in_pass(self, write, object.as_deref_mut(), warnings, &mut pass)
            })?;
            if pass.is_second || !pass.wants_second {
                return Ok(());
            }
            pass.is_second = true;
        }
    }

    /// Lets the plugins change and refuse what a request sends to a subresource that stores no object of its own, such as a
    /// Binding, or the options of a connection. Returns the warnings for the response.
    pub(super) fn admit_subresource(
        &self,
        operation: Operation,
        target: Target<'_>,
        subresource: &str,
        object: &mut Value,
        request: &ApiRequest,
        dry_run: bool,
    ) -> Result<Vec<String>, RequestError> {
        let mut warnings = Vec::new();
        let target = Target { scope: WriteScope::Whole { subresource }, ..target };
        let write = AdmissionWrite { operation, target, old: None, request, dry_run };
        self.mutate_in_passes(&write, Some(object), &mut warnings)?;
        self.validate(&write, object, &mut warnings)?;
        Ok(warnings)
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
            let old = self.object_in_version(target.resource, record.value(), Some(request))?;
            let write = AdmissionWrite { old: Some(&old), ..write };
            self.mutate_in_passes(&write, None, &mut warnings)?;
            self.plugins(&write).try_for_each(|plugin| plugin.validate(self, &write, None, &mut warnings))?;
        }
        Ok(warnings)
    }
}
