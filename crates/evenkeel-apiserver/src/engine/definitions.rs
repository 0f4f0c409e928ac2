//! CustomResourceDefinitions at work: their conditions, the resources they make, and their end.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use evenkeel_core::Status;
use serde_json::Value;

use super::delete::Deleted;
use super::options::{DeleteOptions, WriteOptions};
use super::write::{Scope, Target, Writer};
use super::{ApiEngine, object};
use crate::crd::{self, conditions};
use crate::env::rfc3339;
use crate::registry::{CustomFacts, Resource};
use crate::store::{At, Span};

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";
pub(super) const TABLE: &str = "customresourcedefinitions.apiextensions.k8s.io";

impl ApiEngine {
    /// Brings a definition into force, or out of it, after it was written or deleted. When this returns, the server
    /// serves what the store says.
    pub(super) fn definition_changed(&self, name: &str) {
        let _one_at_a_time = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
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
        self.judge_others(&target, name, group);
    }

    /// A definition that is going, or gone, takes no new objects (CRD-15). The store is asked, because the resource is
    /// from the beginning of the request.
    pub(super) fn check_definition_takes_objects(
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

    /// Whether a resource is served as it was when a request was routed to it. A watch that finds it is not has come too
    /// late for the change to end it (WAT-25).
    pub(super) fn is_still_served(&self, resource: &Resource) -> bool {
        let registry = self.registry();
        let now = registry.lookup(&resource.group, &resource.version, &resource.plural);
        resource.custom.is_none() || now.is_some_and(|now| is_served_alike(resource, now))
    }

    /// Lets terminating definitions go whose last object may be gone (CRD-15).
    pub(super) fn sweep_definitions(&self) {
        let registry = self.registry();
        let customs = registry.resources().filter_map(|resource| resource.custom.as_ref());
        let names: BTreeSet<&str> =
            customs.filter(|custom| custom.terminating).map(|custom| custom.definition.as_str()).collect();
        names.into_iter().for_each(|name| self.definition_changed(name));
    }

    /// Decides on a definition's names, serves what it defines, and says so in its status. Whoever sees it Established
    /// can use it: the resources are served before the status is written.
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

    /// Names that a definition has given up may be what others of its group are waiting for.
    fn judge_others(&self, target: &Arc<Resource>, name: &str, group: &str) {
        for other in self.other_definitions(target, name) {
            let waits = !conditions::has_its_names(&other) && !object::is_deleting(&other);
            if waits && other.pointer("/spec/group").and_then(Value::as_str) == Some(group) {
                let name = object::text(&other, "name").to_owned();
                self.establish(target, &name, other);
            }
        }
    }

    /// Serves what an established definition defines. A change ends the watches that began under the old one.
    fn serve(&self, name: &str, definition: &Value) {
        let mut resources = Vec::new();
        if conditions::is_established(definition) {
            match crd::compile::resources(definition) {
                Ok(compiled) => resources = compiled,
                Err(why) => tracing::warn!(name, %why, "a custom resource definition cannot be served"),
            }
        }
        let registry = self.registry();
        let before = registry.resources().find(|resource| is_of(resource, name));
        let changed = before.filter(|before| !resources.first().is_some_and(|after| is_served_alike(before, after)));
        self.change_registry(|registry| registry.with_definition(name, resources));
        // Only now: whoever comes back at once must find the new definition.
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

    /// Does for a terminating definition what can be done now: deletes its objects and, when none is left, lets the
    /// definition go (CRD-15).
    fn empty_definition(&self, target: &Arc<Resource>, name: &str, definition: &Value) {
        if !object::finalizers(definition).any(|finalizer| finalizer == crd::CLEANUP_FINALIZER) {
            return;
        }
        let now = rfc3339(self.env.wall());
        self.write_definition(target, name, |old| {
            let mut new = old.clone();
            conditions::instances_leaving(&mut new, &now);
            new
        });
        // Its objects go even if no version is served any more.
        let held = match crd::compile::storage_resource(definition) {
            Some(Ok(resource)) => self.delete_all(&Arc::new(resource)),
            _ => 0,
        };
        if held > 0 {
            return;
        }
        self.write_definition(target, name, |old| {
            let mut new = old.clone();
            conditions::instances_gone(&mut new, &now);
            new
        });
        if self.store.get(&target.storage, name).is_none() {
            self.withdraw(name);
        }
    }

    /// Deletes every object of a custom resource; answers how many are held by finalizers.
    fn delete_all(&self, resource: &Arc<Resource>) -> usize {
        let Ok(page) = self.store.list(&resource.storage, Span::default(), At::Latest, |_, _| true) else { return 0 };
        let options = DeleteOptions::default();
        let mut held = 0;
        for record in page.records {
            // Marked and still there: a finalizer holds it.
            if record.facts.deleting {
                held += 1;
                continue;
            }
            let value = record.value();
            let namespace = Some(object::text(&value, "namespace")).filter(|namespace| !namespace.is_empty());
            let target = Target { resource, namespace, name: object::text(&value, "name"), scope: Scope::Main };
            if let Ok(Deleted::Pending(_)) = self.delete(target, &options) {
                held += 1;
            }
        }
        held
    }

    fn definition_resource(&self) -> Option<Arc<Resource>> {
        self.registry().lookup(GROUP, "v1", PLURAL).cloned()
    }

    fn other_definitions(&self, target: &Arc<Resource>, name: &str) -> Vec<Value> {
        // Names are judged within a group, and a definition is named `plural.group`.
        let group = name.split_once('.').map_or("", |(_, group)| group);
        let same_group = |key: &str| key.split_once('.').is_some_and(|(_, other)| other == group);
        let page =
            self.store.list(&target.storage, Span::default(), At::Latest, |key, _| key != name && same_group(key));
        page.map(|page| page.records.iter().map(|record| record.value()).collect()).unwrap_or_default()
    }

    fn write_definition(&self, resource: &Arc<Resource>, name: &str, change: impl Fn(&Value) -> Value) {
        let scope = Scope::Whole { subresource: "status" };
        let target = Target { resource, namespace: None, name, scope };
        let options = WriteOptions::default();
        let writer = Writer::new(&options, "evenkeel");
        if let Err(status) = self.update(target, writer, |old| Ok(change(old)))
            && !status.is_not_found()
        {
            tracing::warn!(name, %status, "the status of a custom resource definition could not be written");
        }
    }
}

/// Whether a resource comes from the definition of this name.
fn is_of(resource: &Resource, definition: &str) -> bool {
    resource.custom.as_ref().is_some_and(|custom| custom.definition == definition)
}

/// Whether clients would notice no difference between two states of a definition: neither the specification nor the
/// names have changed (WAT-25).
fn is_served_alike(before: &Resource, after: &Resource) -> bool {
    let stamp = |resource: &Resource| resource.custom.as_ref().map(|custom| custom.schema_stamp);
    let same_names = before.kind == after.kind
        && before.list_kind == after.list_kind
        && before.singular == after.singular
        && before.short_names == after.short_names
        && before.categories == after.categories;
    same_names && stamp(before) == stamp(after)
}
