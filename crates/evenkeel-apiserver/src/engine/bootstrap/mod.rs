//! The objects that a server has from its start: those that kube-apiserver makes, and the ServiceAccounts that
//! kube-controller-manager adds.
//!
//! Objects that are the same on every server are rendered ahead of time ([`rendered`]); a server copies them and writes its
//! own uids, times and resource versions into the copies ([`Template`]). They are committed without admission and
//! validation, which a test does instead. Objects that are in the store already are left as they are, as kube-apiserver does, except for
//! those that say how this process is reached.

mod api_services;
mod kubernetes_service;
mod ownership;
mod rbac_policy;
#[cfg(test)]
mod render;
mod rendered;
mod system;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;

use self::ownership::BootstrapTypes;
use super::options::WriteOptions;
use super::target::{Target, WriteScope, Writer};
use super::{ApiEngine, ControllerTiming, object, target};
use crate::env::{rfc3339, uuid};
use crate::registry::{Registry, Resource};
use crate::store::{Expect, TEMPLATE_TIME, TEMPLATE_UID, Template, Write};
use crate::{field_ownership, kinds};

/// The field manager of the bootstrap objects.
const MANAGER: &str = "kube-apiserver";
/// A revision with as many digits as most have: a template leaves room for it.
const USUAL_REVISION: u64 = 100_000_000_000_000;

/// How this process is reached.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerFacts {
    /// The address of the listener, if there is one.
    pub(crate) address: Option<SocketAddr>,
    /// The certificate authority of client certificates in PEM, if the server uses TLS.
    pub(crate) client_ca: Option<String>,
}

/// Where the content of the store came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreOrigin {
    /// The store was empty.
    Fresh,
    /// A snapshot, whose servers have exactly its content.
    Snapshot,
    /// A data directory or a backup.
    Storage,
}

/// A bootstrap object, and its place in the store.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
struct BootstrapObject {
    storage: Arc<str>,
    key: String,
    template: Template,
}

impl BootstrapObject {
    /// Renders an object as a create stores it. Returns `None` for a kind that is not served.
    fn new(new: Value) -> Option<Self> {
        let registry = Registry::builtin();
        let (new, managed) = Self::created(&registry, new)?;
        Self::rendered(&registry, &new, managed.as_deref())
    }

    /// Completes an object as a create does. Returns its managedFields as JSON.
    fn created(registry: &Registry, mut new: Value) -> Option<(Value, Option<Vec<u8>>)> {
        let resource = resource_of(registry, &new)?;
        kinds::default_object(&resource.group, &resource.version, &resource.kind, &mut new);
        let status = new.as_object_mut().and_then(|fields| fields.remove("status"));
        let write = field_ownership::Write {
            manager: MANAGER,
            api_version: &resource.api_version(),
            subresource: None,
            now: TEMPLATE_TIME,
            reset: &[],
        };
        // What no client can write has no owner.
        let types = resource.has_verb("update").then(|| BootstrapTypes::of(&resource.kind));
        let managed = types.and_then(|types| field_ownership::first_managed_fields(&mut new, Some(types), &write));
        kinds::prepare_create(&resource.group, &resource.version, &resource.kind, &mut new, TEMPLATE_UID);
        if let Some(status) = status.filter(|status| status.as_object().is_some_and(|status| !status.is_empty())) {
            object::set_path(&mut new, &["status"], Some(status));
        }
        let metadata = object::metadata_mut(&mut new);
        metadata.insert("uid".into(), TEMPLATE_UID.into());
        metadata.insert("creationTimestamp".into(), TEMPLATE_TIME.into());
        if resource.strategy.tracks_generation && resource.strategy.hooks.has_first_generation(resource) {
            metadata.insert("generation".into(), 1.into());
        }
        Some((new, managed))
    }

    fn rendered(registry: &Registry, new: &Value, managed: Option<&[u8]>) -> Option<Self> {
        let resource = resource_of(registry, new)?;
        Some(BootstrapObject {
            key: target::key(namespace_of(new), object::text(new, "name")),
            template: Template::new(new, managed, object::facts(resource, new), USUAL_REVISION),
            storage: Arc::clone(&resource.storage),
        })
    }
}

/// Returns the resource of an object.
fn resource_of<'r>(registry: &'r Registry, object: &Value) -> Option<&'r Arc<Resource>> {
    let api_version = object.get("apiVersion")?.as_str()?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    registry.lookup_kind(group, version, object.get("kind")?.as_str()?)
}

fn namespace_of(object: &Value) -> Option<&str> {
    Some(object::text(object, "namespace")).filter(|namespace| !namespace.is_empty())
}

impl ApiEngine {
    /// Adds the initial namespaces (NS-1) to an empty store.
    pub(super) fn add_initial_namespaces(&self) {
        self.add_missing(rendered::namespaces());
        self.start_history();
    }

    /// Adds the bootstrap objects that the store does not have. A server that starts from a snapshot gets none: it has the
    /// content of the snapshot.
    pub(crate) fn bootstrap(&self, facts: &ServerFacts) {
        if !self.settings.bootstrap || self.origin == StoreOrigin::Snapshot {
            return;
        }
        if self.origin == StoreOrigin::Storage {
            self.add_missing(rendered::namespaces());
        }
        self.add_missing(rendered::shared());
        self.add_rbac_policy();
        let own = kubernetes_service::endpoints(facts).chain(system::config_maps(facts, self.env.wall()));
        self.add_missing(&own.filter_map(BootstrapObject::new).collect::<Vec<_>>());
        if self.is_kubernetes_address_free() {
            self.add_missing(&BootstrapObject::new(kubernetes_service::service(facts)));
        } else {
            tracing::warn!("the Service default/kubernetes is not created: another Service has its address");
        }
        if self.origin == StoreOrigin::Storage {
            self.update_endpoints(facts);
            self.update_client_authority(facts);
            self.reconcile_policy();
        }
        if self.settings.service_accounts != ControllerTiming::Off {
            self.add_missing(rendered::service_accounts());
        }
        match self.origin {
            StoreOrigin::Fresh => self.start_history(),
            _ if self.settings.service_accounts == ControllerTiming::Off => {}
            _ => self.add_default_service_accounts(),
        }
    }

    /// Starts the history of every resource here (WAT-21): no client has seen an earlier revision.
    fn start_history(&self) {
        self.store.compact(self.store.revision());
    }

    /// Overwrites fields of a stored object whose values are those of an earlier process.
    fn update_bootstrap_object(&self, wanted: &Value, fields: &[&str]) {
        let registry = self.registry();
        let Some(resource) = resource_of(&registry, wanted) else { return };
        let (namespace, name) = (namespace_of(wanted), object::text(wanted, "name"));
        let options = WriteOptions::default();
        let writer = Writer { manager: MANAGER, ..Writer::server(&options) };
        let target = Target { resource, namespace, name, scope: WriteScope::Main };
        let updated = self.update_object(target, writer, |old| {
            let mut new = old.clone();
            fields.iter().for_each(|field| object::copy_field(&mut new, wanted, field));
            Ok(new)
        });
        if let Err(error) = updated {
            tracing::warn!(kind = resource.kind, name, %error, "bootstrap object not updated");
        }
    }

    fn add_missing<'a>(&self, objects: impl IntoIterator<Item = &'a BootstrapObject>) {
        let (time, now) = (rfc3339(self.env.wall()), self.env.monotonic());
        for BootstrapObject { storage, key, template } in objects {
            if self.store.get(storage, key).is_none() {
                let draft = template.instance(&uuid(|| self.env.random()), &time);
                // Fails if the disk has: then every request is refused with the reason.
                let _ = self.store.commit(storage, key, Expect::Absent, Write::Put(draft), now);
            }
        }
    }
}
