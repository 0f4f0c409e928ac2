//! The definition controller: conditions of CustomResourceDefinitions, the resources they serve, and their removal.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use evenkeel_core::Status;
use serde_json::Value;

use crate::crd::{self, conditions};
use crate::engine::options::{DeleteOptions, WriteOptions};
use crate::engine::target::{Target, WriteScope, Writer};
use crate::engine::verbs::delete::DeleteOutcome;
use crate::engine::{ApiEngine, object};
use crate::env::rfc3339;
use crate::registry::{CustomFacts, Resource};
use crate::store::{At, Span};

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";
const TABLE: &str = "customresourcedefinitions.apiextensions.k8s.io";

impl ApiEngine {
    /// Brings the served resources in line with a stored definition after it was written or deleted. When this returns,
    /// the registry serves what the store contains.
    pub(crate) fn sync_definition(&self, name: &str) {
        let _syncing = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(target) = self.definition_resource() else { return };
        let group = name.split_once('.').map_or("", |(_, group)| group);
        match self.store.get(&target.storage, name) {
            None => self.withdraw(name),
            Some(record) if record.facts.deleting => {
                self.serve(name, &record.value());
                self.empty_definition(&target, name, &record.value());
            }
            Some(record) => self.establish(&target, name, record.value()),
        }
        self.establish_waiting(&target, name, group);
        self.sync_api_services(group);
    }

    /// Serves the definitions of a store that was read from disk, in the order of their creation.
    pub(crate) fn sync_all_definitions(&self) {
        let page = self.store.list(TABLE, Span::default(), At::Latest, |_, _| true);
        let records = page.map(|page| page.records).unwrap_or_default();
        let created = |definition: &Value| object::text(definition, "creationTimestamp").to_owned();
        let mut definitions: Vec<Value> = records.iter().map(|record| record.value()).collect();
        definitions.sort_by_cached_key(created);
        for definition in &definitions {
            self.sync_definition(object::text(definition, "name"));
        }
    }

    /// Returns whether a definition is marked for deletion.
    pub(crate) fn is_definition_terminating(&self, name: &str) -> bool {
        self.store.get(TABLE, name).is_some_and(|record| record.facts.deleting)
    }

    /// Refuses a create while the definition is terminating or after it was removed (CRD-15). The store decides: the
    /// resource of the request may be older.
    pub(crate) fn check_definition_accepts_objects(
        &self,
        resource: &Resource,
        custom: &CustomFacts,
        name: &str,
    ) -> Result<(), Status> {
        match self.store.get(TABLE, &custom.definition) {
            None => Err(Status::not_found(&resource.group, &resource.plural, name)),
            Some(definition) if definition.facts.deleting => {
                let why = "create not allowed while custom resource definition is terminating";
                Err(Status::forbidden(&resource.group, &resource.plural, name, why))
            }
            Some(_) => Ok(()),
        }
    }

    /// Returns whether a resource is still served as it was when the request was routed. A watch that opens after such a
    /// change must close itself (WAT-25).
    pub(crate) fn is_still_served(&self, resource: &Resource) -> bool {
        let registry = self.registry();
        let now = registry.lookup(&resource.group, &resource.version, &resource.plural);
        resource.custom.is_none() || now.is_some_and(|now| is_served_alike(resource, now))
    }

    /// Removes terminating definitions that have no object left (CRD-15).
    pub(super) fn sweep_definitions(&self) {
        let registry = self.registry();
        let customs = registry.resources().filter_map(|resource| resource.custom.as_ref());
        let names: BTreeSet<&str> =
            customs.filter(|custom| custom.terminating).map(|custom| custom.definition.as_str()).collect();
        names.into_iter().for_each(|name| self.sync_definition(name));
    }

    /// Accepts the names of a definition, serves its resources and writes its status. The resources are served before
    /// the status is written, so a client that reads Established can use them.
    fn establish(&self, target: &Arc<Resource>, name: &str, mut definition: Value) {
        let others = self.other_definitions(target, name);
        if !conditions::establish(&mut definition, &others, &rfc3339(self.env.wall())) {
            return self.serve(name, &definition);
        }
        self.serve(name, &definition);
        self.write_definition(target, name, |old| {
            let mut new = old.clone();
            object::copy_field(&mut new, &definition, "status");
            new
        });
    }

    /// Establishes other definitions of the group that wait for names which this one has released.
    fn establish_waiting(&self, target: &Arc<Resource>, name: &str, group: &str) {
        for other in self.other_definitions(target, name) {
            let waits = !conditions::are_names_accepted(&other) && !object::is_deleting(&other);
            if waits && other.pointer("/spec/group").and_then(Value::as_str) == Some(group) {
                let name = object::text(&other, "name").to_owned();
                self.establish(target, &name, other);
            }
        }
    }

    /// Serves the resources of an established definition. A change closes the watches that started under the old one.
    fn serve(&self, name: &str, definition: &Value) {
        let mut resources = Vec::new();
        if conditions::is_established(definition) {
            match crd::compile::resources(definition) {
                Ok(compiled) => resources = compiled,
                Err(why) => tracing::warn!(name, %why, "cannot serve custom resource definition"),
            }
        }
        let registry = self.registry();
        let before = registry.resources().find(|resource| is_of(resource, name));
        let changed = before.filter(|before| !resources.first().is_some_and(|after| is_served_alike(before, after)));
        self.change_registry(|registry| registry.with_definition(name, resources));
        // Closed last: a client that reconnects at once must find the new definition.
        if let Some(before) = changed {
            self.store.close_watches_of(&before.storage);
        }
    }

    fn withdraw(&self, name: &str) {
        let before = self.registry();
        self.change_registry(|registry| registry.without_definition(name));
        if let Some(served) = before.resources().find(|resource| is_of(resource, name)) {
            self.store.close_watches_of(&served.storage);
        }
    }

    /// Deletes the objects of a terminating definition. Removes the definition once none is left (CRD-15).
    fn empty_definition(&self, target: &Arc<Resource>, name: &str, definition: &Value) {
        if !object::finalizers(definition).any(|finalizer| finalizer == crd::CLEANUP_FINALIZER) {
            return;
        }
        let now = rfc3339(self.env.wall());
        self.write_definition(target, name, |old| {
            let mut new = old.clone();
            conditions::instances_terminating(&mut new, &now);
            new
        });
        // The objects are deleted even if no version is served.
        let held = match crd::compile::storage_resource(definition) {
            Some(Ok(resource)) => self.delete_all(&Arc::new(resource)),
            _ => 0,
        };
        if held > 0 {
            return;
        }
        self.write_definition(target, name, |old| {
            let mut new = old.clone();
            conditions::instances_deleted(&mut new, &now);
            new
        });
        if self.store.get(&target.storage, name).is_none() {
            self.withdraw(name);
        }
    }

    /// Deletes every object of a custom resource. Returns how many of them finalizers hold.
    fn delete_all(&self, resource: &Arc<Resource>) -> usize {
        let Ok(page) = self.store.list(&resource.storage, Span::default(), At::Latest, |_, _| true) else { return 0 };
        let options = DeleteOptions::default();
        let mut held = 0;
        for record in page.records {
            // A finalizer holds a marked object.
            if record.facts.deleting {
                held += 1;
                continue;
            }
            let value = record.value();
            let namespace = Some(object::text(&value, "namespace")).filter(|namespace| !namespace.is_empty());
            let target = Target { resource, namespace, name: object::text(&value, "name"), scope: WriteScope::Main };
            let deleted = self.delete_object(target, &options, None);
            if deleted.is_ok_and(|deleted| matches!(deleted.outcome, DeleteOutcome::Pending(_))) {
                held += 1;
            }
        }
        held
    }

    fn definition_resource(&self) -> Option<Arc<Resource>> {
        self.registry().lookup(GROUP, "v1", PLURAL).cloned()
    }

    fn other_definitions(&self, target: &Arc<Resource>, name: &str) -> Vec<Value> {
        // Names must be unique within a group, and a definition is named `plural.group`.
        let group = name.split_once('.').map_or("", |(_, group)| group);
        let same_group = |key: &str| key.split_once('.').is_some_and(|(_, other)| other == group);
        let page =
            self.store.list(&target.storage, Span::default(), At::Latest, |key, _| key != name && same_group(key));
        page.map(|page| page.records.iter().map(|record| record.value()).collect()).unwrap_or_default()
    }

    fn write_definition(&self, resource: &Arc<Resource>, name: &str, change: impl Fn(&Value) -> Value) {
        let scope = WriteScope::Whole { subresource: "status" };
        let target = Target { resource, namespace: None, name, scope };
        let options = WriteOptions::default();
        let writer = Writer::server(&options);
        if let Err(status) = self.update_object(target, writer, |old| Ok(change(old)))
            && !status.is_not_found()
        {
            tracing::warn!(name, %status, "cannot write the status of custom resource definition");
        }
    }
}

/// Returns whether a resource comes from the definition of this name.
fn is_of(resource: &Resource, definition: &str) -> bool {
    resource.custom.as_ref().is_some_and(|custom| custom.definition == definition)
}

/// Returns whether two states of a definition are the same to clients: neither the specification nor the names differ
/// (WAT-25).
fn is_served_alike(before: &Resource, after: &Resource) -> bool {
    let stamp = |resource: &Resource| resource.custom.as_ref().map(|custom| custom.schema_stamp);
    let same_names = before.kind == after.kind
        && before.list_kind == after.list_kind
        && before.singular == after.singular
        && before.short_names == after.short_names
        && before.categories == after.categories;
    same_names && stamp(before) == stamp(after)
}
