//! OwnerReferencesPermissionEnforcement: who may make the garbage collector delete an object, or keep it from deleting an
//! owner (GCX-020, GCX-021).

use serde_json::Value;

use super::{AdmissionPlugin, AdmissionWrite, Operation};
use crate::authorization::{AccessAttributes, AccessDecision, AccessTarget, ResourceAttributes};
use crate::engine::request_error::RequestError;
use crate::engine::{ApiEngine, object};

pub(super) struct OwnerReferencesPermissionEnforcement;

impl AdmissionPlugin for OwnerReferencesPermissionEnforcement {
    fn name(&self) -> &'static str {
        "OwnerReferencesPermissionEnforcement"
    }

    fn is_on_by_default(&self) -> bool {
        false
    }

    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        // Kubelets write the status of pods and may not delete them; such a write keeps the owners.
        write.has_object() && !(write.is_of("pods") && write.subresource() == "status")
    }

    fn validate(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        object: Option<&Value>,
        _: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        let Some(new) = object else { return Ok(()) };
        let (owners, old) = (owners(new), write.old.map(owners).unwrap_or_default());
        if owners == old {
            return Ok(());
        }
        // What may be created may be created to be collected.
        if write.operation != Operation::Create {
            let resource = write.target.resource;
            let access = ResourceAttributes {
                group: &resource.group,
                resource: &resource.plural,
                subresource: write.subresource(),
                namespace: write.namespace(),
                name: write.target.name,
            };
            if let Some(reason) = refusal(engine, write, "delete", access) {
                let why = format!("cannot set an ownerRef on a resource you can't delete: {reason}, <nil>");
                return Err(write.forbidden(new, why));
            }
        }
        check_blocking(engine, write, new, owners.iter().filter(|owner| blocks(owner) && !was_blocking(owner, old)))
    }
}

/// Requires `update` on the finalizers of each owner that a reference newly blocks.
fn check_blocking<'o>(
    engine: &ApiEngine,
    write: &AdmissionWrite<'_>,
    new: &Value,
    owners: impl Iterator<Item = &'o Value>,
) -> Result<(), RequestError> {
    let mut owners = owners.peekable();
    let anything =
        ResourceAttributes { group: "*", resource: "*", subresource: "finalizers", namespace: "", name: "*" };
    if owners.peek().is_none() || refusal(engine, write, "update", anything).is_none() {
        return Ok(());
    }
    let registry = engine.registry();
    for owner in owners {
        let text = |key: &str| owner.get(key).and_then(Value::as_str).unwrap_or_default();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let (group, short) = version.split_once('/').unwrap_or(("", version));
        let Some(resource) = registry.lookup_kind(group, short, kind) else {
            return Err(write.forbidden(
                new,
                format!(
                    "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {version} \
                     Kind {kind}: no matches for kind {kind:?} in version {version:?}"
                ),
            ));
        };
        let access = ResourceAttributes {
            group,
            resource: &resource.plural,
            subresource: "finalizers",
            namespace: if resource.namespaced { write.namespace() } else { "" },
            name: text("name"),
        };
        if let Some(reason) = refusal(engine, write, "update", access) {
            let why = format!(
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: \
                 {reason}, <nil>"
            );
            return Err(write.forbidden(new, why));
        }
    }
    Ok(())
}

/// Returns why the user of a write may not do something; `None` if it may.
fn refusal(
    engine: &ApiEngine,
    write: &AdmissionWrite<'_>,
    verb: &str,
    resource: ResourceAttributes<'_>,
) -> Option<String> {
    let target = AccessTarget::Resource(resource);
    match engine.authorize(&AccessAttributes { user: &write.request.user, verb, target }) {
        AccessDecision::Allowed { .. } => None,
        AccessDecision::Denied { reason } => Some(reason),
    }
}

fn owners(object: &Value) -> &[Value] {
    let references = object::metadata(object).get("ownerReferences").and_then(Value::as_array);
    references.map_or(&[], Vec::as_slice)
}

fn blocks(owner: &Value) -> bool {
    owner.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true)
}

fn was_blocking(owner: &Value, old: &[Value]) -> bool {
    // The last of several references to one owner counts.
    old.iter().rev().find(|known| known.get("uid") == owner.get("uid")).is_some_and(blocks)
}
