//! What a restart adds to the roles and bindings of the policy (RBA-010).

use serde::Deserialize;
use serde_json::Value;

use super::policy::{self, AUTO_UPDATE};
use super::rule::{PolicyRule, merge_verbs, missing_grants};
use crate::engine::options::{DeleteOptions, WriteOptions};
use crate::engine::target::{Target, WriteScope, Writer};
use crate::engine::{ApiEngine, object};
use crate::kinds::same_value;

impl ApiEngine {
    /// Adds rules and subjects of the policy that stored roles and bindings lack, and keeps what they have beyond. Objects whose
    /// annotation says so are left as they are. Missing objects are not added here.
    pub(in crate::engine) fn reconcile_policy(&self) {
        let registry = self.registry();
        let options = WriteOptions::default();
        let writer = Writer { manager: "kube-apiserver", ..Writer::server(&options) };
        for wanted in policy::objects() {
            let (group, version) = (super::GROUP, "v1");
            let kind = wanted["kind"].as_str().unwrap_or_default();
            let Some(resource) = registry.lookup_kind(group, version, kind) else { continue };
            let (name, namespace) = (object::text(&wanted, "name"), object::text(&wanted, "namespace"));
            let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
            let target = Target { resource, namespace, name, scope: WriteScope::Main };
            let Some(stored) = self.store.get(&resource.storage, &target.key()) else { continue };
            let stored = stored.value();
            if !is_updated(&stored) {
                continue;
            }
            let done = if wanted.get("roleRef").is_some_and(|role| !same_value(role, &stored["roleRef"])) {
                // A binding of another role cannot be changed into this one.
                let deleted = self.delete_object(target, &DeleteOptions::default(), None).map(|_| ());
                deleted.and_then(|()| self.create_object(resource, namespace, wanted.clone(), writer).map(|_| ()))
            } else {
                let reconciled = reconciled(&stored, &wanted);
                if same_value(&reconciled, &stored) {
                    continue;
                }
                let rules = &reconciled;
                self.update_object(target, writer, |_| Ok(rules.clone())).map(|_| ())
            };
            if let Err(error) = done {
                tracing::warn!(kind, name, %error, "bootstrap object of RBAC not reconciled");
            }
        }
        self.cluster_roles_changed();
    }
}

fn is_updated(stored: &Value) -> bool {
    object::metadata(stored)
        .get("annotations")
        .and_then(|all| all.get(AUTO_UPDATE))
        .is_none_or(|value| value != "false")
}

/// Returns the stored object with what the wanted one has beyond it.
fn reconciled(stored: &Value, wanted: &Value) -> Value {
    let mut new = stored.clone();
    for list in ["labels", "annotations"] {
        let Some(Value::Object(entries)) = object::metadata(wanted).get(list) else { continue };
        for (key, value) in entries {
            let present = object::metadata(&new).get(list).is_some_and(|present| present.get(key).is_some());
            if !present {
                new["metadata"][list][key] = value.clone();
            }
        }
    }
    if wanted.get("aggregationRule").is_some() {
        add_absent(&mut new, wanted, &["aggregationRule", "clusterRoleSelectors"]);
    } else if wanted.get("rules").is_some() {
        let read = |object: &Value| Vec::<PolicyRule>::deserialize(&object["rules"]).unwrap_or_default();
        let (held, granted) = (read(stored), read(wanted));
        let held: Vec<&PolicyRule> = held.iter().collect();
        let missing = merge_verbs(missing_grants(&held, &granted));
        if !missing.is_empty() {
            let rules = new["rules"].as_array().cloned().unwrap_or_default();
            new["rules"] = rules.into_iter().chain(missing.iter().map(PolicyRule::to_value)).collect();
        }
    }
    add_absent(&mut new, wanted, &["subjects"]);
    new
}

/// Appends the items of a list that the stored object does not have.
fn add_absent(new: &mut Value, wanted: &Value, path: &[&str]) {
    let at = |object: &Value| -> Vec<Value> {
        let found = path.iter().try_fold(object, |value, key| value.get(key));
        found.and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let mut items = at(new);
    let absent: Vec<Value> =
        at(wanted).into_iter().filter(|item| !items.iter().any(|known| same_value(known, item))).collect();
    if !absent.is_empty() {
        items.extend(absent);
        object::set_path(new, path, Some(items.into()));
    }
}
