//! Admission: what changes or refuses a write between its decoding and its commit (ADM-001).
//!
//! A write passes the chain twice. First every plugin may change the object ([`ApiEngine::mutate`]); then the object is
//! completed and validated; then every plugin may refuse the result ([`ApiEngine::validate`]). What the server itself writes
//! (conditions of definitions, the status of quotas) does not pass it.
//!
//! A plugin reads the store and the object. If it needs a response from outside, it returns
//! [`RequestError::NeedsCalls`]; the request then runs again from its start, so nothing may be written before the last
//! plugin has validated. The quota is charged after that ([`AdmissionPlugin::reserve`]), right before the commit.

mod certificate_signers;
mod certificate_subject;
mod claim_resize;
mod default_ingress_class;
mod default_storage_class;
mod default_tolerations;
mod followed_table;
mod limit_ranger;
mod owner_references;
mod pod_resources;
mod pod_security;
pub(crate) mod policies;
mod priority;
mod reinvocation;
pub(super) mod resource_quota;
mod reviewed;
pub(crate) mod rules;
mod runtime_class;
mod service_account;
mod storage_protection;
mod switches;
mod taint_nodes;
mod topology_labels;
pub(crate) mod webhooks;

use evenkeel_core::Status;
use serde_json::Value;

use self::certificate_signers::{CertificateApproval, CertificateSigning, ClusterTrustBundleAttest};
use self::certificate_subject::CertificateSubjectRestriction;
use self::claim_resize::PersistentVolumeClaimResize;
use self::default_ingress_class::DefaultIngressClass;
use self::default_storage_class::DefaultStorageClass;
use self::default_tolerations::DefaultTolerationSeconds;
use self::followed_table::FollowedTable;
use self::limit_ranger::{Limit, LimitRange, LimitRanger};
use self::owner_references::OwnerReferencesPermissionEnforcement;
use self::pod_security::PodSecurity;
use self::policies::{MutatingAdmissionPolicy, ValidatingAdmissionPolicy};
use self::priority::{Priority, PriorityClass};
use self::reinvocation::Reinvocation;
use self::resource_quota::{QuotaReservation, ResourceQuota};
use self::runtime_class::RuntimeClass;
use self::service_account::ServiceAccount;
use self::storage_protection::StorageObjectInUseProtection;
pub use self::switches::AdmissionPluginError;
pub(crate) use self::switches::AdmissionSwitches;
use self::taint_nodes::TaintNodesByCondition;
use self::topology_labels::PodTopologyLabels;
use self::webhooks::{MutatingAdmissionWebhook, ValidatingAdmissionWebhook};
use super::request_error::RequestError;
use super::target::{Target, WriteScope};
use super::{ApiEngine, object};
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

impl AdmissionWrite<'_> {
    /// Returns whether the write is of objects in this store.
    fn is_of(&self, store: &str) -> bool {
        *self.target.resource.storage == *store
    }

    /// Returns whether the write is a create or an update.
    fn has_object(&self) -> bool {
        matches!(self.operation, Operation::Create | Operation::Update)
    }

    /// Returns whether the write creates an object in this store.
    fn creates(&self, store: &str) -> bool {
        self.operation == Operation::Create && self.target.scope == WriteScope::Main && self.is_of(store)
    }

    /// Returns the namespace of the object; empty without one.
    fn namespace(&self) -> &str {
        self.target.namespace.unwrap_or_default()
    }

    fn subresource(&self) -> &str {
        self.target.scope.subresource().unwrap_or_default()
    }

    /// Returns the refusal of the write (ADM-003). An object without a name is shown with its `generateName`.
    fn forbidden(&self, object: &Value, why: impl std::fmt::Display) -> RequestError {
        self.forbidden_status(Some(object), why).into()
    }

    fn forbidden_status(&self, object: Option<&Value>, why: impl std::fmt::Display) -> Status {
        let own = |key: &'static str| object.map(|object| object::text(object, key)).unwrap_or_default();
        let candidates = [self.target.name, own("name"), own("generateName")];
        let name = candidates.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
        let resource = self.target.resource;
        Status::forbidden(&resource.group, &resource.plural, name, why)
    }
}

/// A part of the chain.
pub(super) trait AdmissionPlugin: Sync {
    /// Returns the name of the plugin, which is upstream's.
    fn name(&self) -> &'static str;

    /// Returns whether the plugin runs unless it is switched off.
    fn is_on_by_default(&self) -> bool {
        true
    }

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

    /// Charges what the object will use, after all plugins have validated it. The reservation is held until the commit.
    fn reserve<'e>(
        &self,
        _engine: &'e ApiEngine,
        _write: &AdmissionWrite<'_>,
        _object: &Value,
    ) -> Result<Option<QuotaReservation<'e>>, RequestError> {
        Ok(None)
    }
}

/// The plugins in the order in which they run (ADM-001). NamespaceLifecycle, the first one upstream, is part of the verbs:
/// its check runs again at the commit.
const PLUGINS: &[&dyn AdmissionPlugin] = &[
    &LimitRanger,
    &ServiceAccount,
    &TaintNodesByCondition,
    &PodSecurity,
    &Priority,
    &DefaultTolerationSeconds,
    &DefaultStorageClass,
    &StorageObjectInUseProtection,
    &OwnerReferencesPermissionEnforcement,
    &PersistentVolumeClaimResize,
    &RuntimeClass,
    &CertificateApproval,
    &CertificateSigning,
    &ClusterTrustBundleAttest,
    &CertificateSubjectRestriction,
    &DefaultIngressClass,
    &PodTopologyLabels,
    &MutatingAdmissionPolicy,
    &MutatingAdmissionWebhook,
    &ValidatingAdmissionPolicy,
    &ValidatingAdmissionWebhook,
    &ResourceQuota,
];

/// A pass of a write over the plugins that change it. There is a second one if a plugin that runs late has changed the object
/// (AWH-008).
#[derive(Debug, Default)]
pub(super) struct MutationPass {
    pub(super) is_second: bool,
    /// The object has changed so that plugins should see it again.
    pub(super) wants_second: bool,
    policies: Reinvocation,
    webhooks: Reinvocation,
}

/// The objects that plugins look up on many writes, as of the last write that needed them.
#[derive(Debug)]
pub(super) struct AdmissionIndexes {
    limit_ranges: FollowedTable<LimitRange>,
    priority_classes: FollowedTable<PriorityClass>,
    /// The times of creation of default classes.
    default_storage_classes: FollowedTable<String>,
    default_ingress_classes: FollowedTable<String>,
}

impl Default for AdmissionIndexes {
    fn default() -> Self {
        AdmissionIndexes {
            limit_ranges: FollowedTable::new("limitranges", Limit::read_all),
            priority_classes: FollowedTable::new("priorityclasses.scheduling.k8s.io", PriorityClass::read),
            default_storage_classes: FollowedTable::new(
                "storageclasses.storage.k8s.io",
                default_storage_class::read_default,
            ),
            default_ingress_classes: FollowedTable::new(
                "ingressclasses.networking.k8s.io",
                default_ingress_class::read_default,
            ),
        }
    }
}

impl ApiEngine {
    /// Returns the plugins that handle a write.
    fn plugins<'a>(
        &'a self,
        write: &'a AdmissionWrite<'_>,
    ) -> impl Iterator<Item = &'static dyn AdmissionPlugin> + use<'a> {
        self.settings.admission.active().filter(|plugin| plugin.handles(write) && plugin.is_active(self))
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
        let target = Target { scope: WriteScope::Whole { subresource }, ..target };
        self.admit_unstored(operation, target, object, request, dry_run)
    }

    /// Lets the plugins change and refuse an object that is answered and not stored, such as a review. Returns the warnings
    /// for the response.
    pub(super) fn admit_unstored(
        &self,
        operation: Operation,
        target: Target<'_>,
        object: &mut Value,
        request: &ApiRequest,
        dry_run: bool,
    ) -> Result<Vec<String>, RequestError> {
        let mut warnings = Vec::new();
        let write = AdmissionWrite { operation, target, old: None, request, dry_run };
        self.mutate_in_passes(&write, Some(object), &mut warnings)?;
        // No quota counts what is not stored.
        self.validate(&write, object, &mut warnings).map(drop)?;
        Ok(warnings)
    }

    /// Lets the plugins refuse a create or an update; `object` is the object as it would be stored. Returns what is charged
    /// for it, to be held until its commit.
    pub(super) fn validate(
        &self,
        write: &AdmissionWrite<'_>,
        object: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<Option<QuotaReservation<'_>>, RequestError> {
        let plugins: Vec<_> = self.plugins(write).collect();
        plugins.iter().try_for_each(|plugin| plugin.validate(self, write, Some(object), warnings))?;
        for plugin in plugins {
            if let Some(reservation) = plugin.reserve(self, write, object)? {
                return Ok(Some(reservation));
            }
        }
        Ok(None)
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

/// Returns the value at a path of keys. A tenth of what a JSON pointer costs, which is parsed and unescaped.
fn value_at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// Returns the text at a path of keys; empty if absent.
fn text_at<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    value_at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the list at a path of keys; empty if absent.
fn list_at<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    value_at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
