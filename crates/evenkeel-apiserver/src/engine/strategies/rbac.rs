//! Roles and bindings: no user grants more than it has, and aggregated roles follow the others.

use serde_json::Value;

use super::KindHooks;
use crate::engine::ApiEngine;
use crate::engine::admission::AdmissionWrite;
use crate::engine::request_error::RequestError;
use crate::registry::Resource;
use crate::store::Record;

/// Role.
#[derive(Debug)]
pub(crate) struct RoleHooks;

/// ClusterRole.
#[derive(Debug)]
pub(crate) struct ClusterRoleHooks;

/// RoleBinding and ClusterRoleBinding.
#[derive(Debug)]
pub(crate) struct RoleBindingHooks;

impl KindHooks for RoleHooks {
    fn authorize_write(&self, engine: &ApiEngine, write: &AdmissionWrite<'_>, new: &Value) -> Result<(), RequestError> {
        engine.check_role_grants(write, new)
    }

    fn warnings(&self, engine: &ApiEngine, resource: &Resource, _: &Record) -> Vec<String> {
        rbac_is_off(engine, resource)
    }
}

impl KindHooks for ClusterRoleHooks {
    fn authorize_write(&self, engine: &ApiEngine, write: &AdmissionWrite<'_>, new: &Value) -> Result<(), RequestError> {
        engine.check_role_grants(write, new)
    }

    fn warnings(&self, engine: &ApiEngine, resource: &Resource, _: &Record) -> Vec<String> {
        rbac_is_off(engine, resource)
    }

    fn after_write(&self, engine: &ApiEngine, _name: &str) {
        engine.cluster_roles_changed();
    }

    fn after_delete(&self, engine: &ApiEngine, _: &Resource, _namespace: Option<&str>, _name: &str) {
        engine.cluster_roles_changed();
    }
}

impl KindHooks for RoleBindingHooks {
    fn authorize_write(&self, engine: &ApiEngine, write: &AdmissionWrite<'_>, new: &Value) -> Result<(), RequestError> {
        engine.check_binding_grants(write, new)
    }

    fn warnings(&self, engine: &ApiEngine, resource: &Resource, _: &Record) -> Vec<String> {
        rbac_is_off(engine, resource)
    }
}

/// Returns the warning of a server that stores roles and bindings and does not evaluate them.
fn rbac_is_off(engine: &ApiEngine, resource: &Resource) -> Vec<String> {
    match engine.evaluates_rbac() {
        true => Vec::new(),
        false => vec![format!(
            "evenkeel: RBAC is off, so this {} limits no user; Builder::rbac(true) and --rbac switch it on",
            resource.kind
        )],
    }
}
