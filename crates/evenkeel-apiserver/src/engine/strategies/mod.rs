//! What kinds add to the verbs: [`KindHooks`], and the kinds that implement them.
//!
//! The registry finds the hooks of a kind by its store (`registry/strategy.rs`). Built-in kinds without an entry there
//! use [`BuiltinKind`]; custom resources use [`CustomResourceHooks`].

mod access_reviews;
mod certificates;
mod custom;
mod daemon_sets;
mod definitions;
mod jobs;
mod namespaces;
mod nodes;
mod persistent_volumes;
mod pods;
mod policies;
mod rbac;
mod reviews;
mod service_accounts;
mod services;
mod unenforced;
mod webhook_configurations;

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::{MutexGuard, RwLockReadGuard};

use evenkeel_core::Status;
use jiff::Timestamp;
use serde_json::Value;

pub(crate) use access_reviews::{AccessReviewHooks, RulesReviewHooks};
pub(crate) use certificates::CertificateSigningRequestHooks;
pub(crate) use custom::CustomResourceHooks;
pub(crate) use daemon_sets::DaemonSetHooks;
pub(crate) use definitions::DefinitionHooks;
pub(crate) use jobs::JobHooks;
pub(crate) use namespaces::NamespaceHooks;
pub(crate) use nodes::NodeHooks;
pub(crate) use persistent_volumes::PersistentVolumeHooks;
pub(crate) use pods::{BindingHooks, PodHooks};
pub(crate) use policies::{
    MUTATING_BINDING_HOOKS, MUTATING_POLICY_HOOKS, VALIDATING_BINDING_HOOKS, VALIDATING_POLICY_HOOKS,
};
pub(crate) use rbac::{ClusterRoleHooks, RoleBindingHooks, RoleHooks};
pub(crate) use reviews::{SelfSubjectReviewHooks, TokenReviewHooks, user_info};
pub(crate) use service_accounts::ServiceAccountHooks;
pub(crate) use services::ServiceHooks;
pub(crate) use unenforced::UnenforcedHooks;
pub(crate) use webhook_configurations::{WebhookConfigurationHooks, environment_of_webhooks};

use super::admission::AdmissionWrite;
use super::options::DeleteOptions;
use super::request::ResourceRequest;
use super::request_error::RequestError;
use super::target::{WriteScope, Writer};
use super::verbs::delete::{DeletePlan, plan_delete};
use super::{ApiEngine, not_implemented};
use crate::field::{FieldError, FieldFault};
use crate::http_types::User;
use crate::kinds;
use crate::registry::Resource;
use crate::store::Record;

/// The functions of a kind's strategy. The defaults are those of a built-in kind.
pub(crate) trait KindHooks: Debug + Sync {
    /// Returns whether writes of the kind wait for one another, in [`KindHooks::lock_request`] or
    /// [`KindHooks::lock_write`].
    fn serialises_writes(&self) -> bool {
        false
    }

    /// Takes a lock that a write request of the kind holds until its response is made.
    fn lock_request<'e>(&self, _: &'e ApiEngine) -> Option<RwLockReadGuard<'e, ()>> {
        None
    }

    /// Takes a lock that a write of the kind holds from preparation to commit.
    fn lock_write<'e>(&self, _: &'e ApiEngine) -> Option<MutexGuard<'e, ()>> {
        None
    }

    /// Returns whether creates are answered without storing an object. What is sent passes admission first.
    fn answers_creates(&self) -> bool {
        false
    }

    /// Answers a create without storing an object. Called if [`KindHooks::answers_creates`].
    fn answer_create(
        &self,
        _engine: &ApiEngine,
        request: &ResourceRequest<'_>,
        _object: &Value,
        _writer: Writer<'_>,
    ) -> Result<CreateAnswer, RequestError> {
        Err(not_implemented(&request.resource().plural).into())
    }

    /// Writes the user of the request into a new object.
    fn set_requester(&self, _new: &mut Value, _user: &User) {}

    /// Refuses a create. Runs before anything is prepared, and again at the commit, while no namespace or definition starts
    /// its deletion.
    fn check_create(&self, _engine: &ApiEngine, _resource: &Resource, _name: &str) -> Result<(), Status> {
        Ok(())
    }

    /// Refuses a write that the permissions of its user do not cover, beyond those of the request. Runs when the first half of
    /// admission has made the new object.
    fn authorize_write(
        &self,
        _engine: &ApiEngine,
        _write: &AdmissionWrite<'_>,
        _new: &Value,
    ) -> Result<(), RequestError> {
        Ok(())
    }

    /// Returns whether a new object keeps the status that the client sends.
    fn keeps_status_on_create(&self) -> bool {
        false
    }

    /// Completes a new object before it is validated. Name and uid are set.
    fn prepare_create(&self, engine: &ApiEngine, resource: &Resource, new: &mut Value) -> Result<(), Status> {
        let _ = engine;
        prepare_builtin_create(resource, new);
        Ok(())
    }

    /// Returns whether a new object has generation 1, if the kind tracks its generation.
    fn has_first_generation(&self, resource: &Resource) -> bool {
        kinds::has_first_generation(&resource.group, &resource.kind)
    }

    /// Validates a new object beyond its metadata.
    fn validate_create(&self, resource: &Resource, new: &Value, errors: &mut Vec<FieldError>) {
        if let Some(schema) = resource.schema() {
            add_new(errors, kinds::validate_create(&resource.group, &resource.kind, new));
            add_new(errors, schema.validate_builtin(new));
        }
    }

    /// Completes the new version of an object before it is validated. Runs for the main endpoint only.
    fn prepare_update(
        &self,
        engine: &ApiEngine,
        resource: &Resource,
        new: &mut Value,
        old: &Value,
    ) -> Result<Vec<FieldError>, Status> {
        let _ = engine;
        kinds::prepare_update(&resource.group, &resource.kind, new, old);
        Ok(Vec::new())
    }

    /// Completes the new version of an object that is written through `status`.
    fn prepare_status_update(&self, _engine: &ApiEngine, _new: &mut Value, _old: &Value) {}

    /// Returns whether an update increments `metadata.generation` (SUB-9, SUB-10).
    fn generation_changes(&self, resource: &Resource, new: &Value, old: &Value) -> bool {
        kinds::generation_changes(&resource.group, &resource.kind, new, old)
    }

    /// Validates an update beyond its metadata.
    fn validate_update(
        &self,
        resource: &Resource,
        scope: WriteScope<'_>,
        new: &Value,
        old: &Value,
        errors: &mut Vec<FieldError>,
    ) {
        if scope == WriteScope::Main {
            add_new(errors, kinds::validate_update(&resource.group, &resource.kind, new, old));
        }
    }

    /// Checks the rules of the schema, after all other validation. `old` is `None` for a new object; `errors` has what
    /// validation found.
    fn check_rules(
        &self,
        _resource: &Resource,
        _new: &Value,
        _old: Option<&Value>,
        _errors: &mut Vec<FieldError>,
        _warnings: &mut Vec<String>,
    ) {
    }

    /// Returns the warnings about a new object.
    fn create_warnings(&self, resource: &Resource, new: &Value) -> Vec<String> {
        kinds::warnings::on_create(&resource.group, &resource.kind, new)
    }

    /// Returns the warnings about an update through the main endpoint.
    fn update_warnings(&self, resource: &Resource, new: &Value, old: &Value) -> Vec<String> {
        kinds::warnings::on_update(&resource.group, &resource.kind, new, old)
    }

    /// Returns the warnings that the response to a write carries.
    fn warnings(&self, _engine: &ApiEngine, _resource: &Resource, _record: &Record) -> Vec<String> {
        Vec::new()
    }

    /// Runs after a write that has committed and does not delete the object.
    fn after_write(&self, _engine: &ApiEngine, _name: &str) {}

    /// Refuses the deletion of an object.
    fn check_delete(&self, _name: &str) -> Result<(), Status> {
        Ok(())
    }

    /// Returns whether objects of other kinds live in an object of this kind. No object is created while such an
    /// object is marked for deletion.
    fn contains_objects(&self) -> bool {
        false
    }

    /// Decides what a delete does to an object.
    fn plan_delete(&self, resource: &Resource, old: &Value, options: &DeleteOptions, now: Timestamp) -> DeletePlan {
        plan_delete(resource, old, options, now)
    }

    /// Returns whether finalizers outside of the metadata hold an object.
    fn has_own_finalizers(&self, _object: &Value) -> bool {
        false
    }

    /// Runs after an object of the kind is marked for deletion or removed.
    fn after_delete(&self, _engine: &ApiEngine, _resource: &Resource, _namespace: Option<&str>, _name: &str) {}

    /// Returns the namespace that is swept after a deletion if it is terminating: that of the object, or the object itself.
    fn namespace_of<'a>(&self, namespace: Option<&'a str>, _name: &'a str) -> Option<&'a str> {
        namespace
    }

    /// Returns the warning that the response to a delete carries.
    fn delete_warning(&self, _options: &DeleteOptions) -> Option<&'static str> {
        None
    }

    /// Returns whether a collection is deleted without yielding to other requests.
    fn deletes_collection_at_once(&self) -> bool {
        false
    }
}

/// The answer to a create that stores no object.
#[derive(Debug)]
pub(crate) enum CreateAnswer {
    /// The sent object with this status.
    Status(Value),
    /// This object.
    Object(Value),
    /// A Status of success.
    Success,
}

/// A built-in kind that the generic strategy serves.
#[derive(Debug)]
pub(crate) struct BuiltinKind;

impl KindHooks for BuiltinKind {}

fn prepare_builtin_create(resource: &Resource, new: &mut Value) {
    let uid = super::object::text(new, "uid").to_owned();
    kinds::prepare_create(&resource.group, &resource.version, &resource.kind, new, &uid);
}

/// Adds errors that are not known yet. Two validators may find the same fault; the first wording is kept.
fn add_new(errors: &mut Vec<FieldError>, found: Vec<FieldError>) {
    let known: HashSet<(FieldFault, String)> = errors.iter().map(|error| (error.fault, error.field.clone())).collect();
    errors.extend(found.into_iter().filter(|error| !known.contains(&(error.fault, error.field.clone()))));
}
