//! DefaultStorageClass: a claim that names no class gets the default one (ADM-010).

use std::collections::BTreeMap;

use serde_json::Value;

use super::{AdmissionPlugin, AdmissionWrite};
use crate::engine::ApiEngine;
use crate::engine::object::{self, set_path};
use crate::engine::request_error::RequestError;

/// The annotation, and the older one that upstream accepts as well.
const IS_DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// The annotation that named the class of a claim before it had a field.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) struct DefaultStorageClass;

impl AdmissionPlugin for DefaultStorageClass {
    fn name(&self) -> &'static str {
        "DefaultStorageClass"
    }

    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        write.creates("persistentvolumeclaims")
    }

    fn mutate(
        &self,
        engine: &ApiEngine,
        _: &AdmissionWrite<'_>,
        claim: &mut Value,
        _: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        // An empty name asks for a volume without a class.
        let is_named = claim.pointer("/spec/storageClassName").is_some_and(Value::is_string);
        if is_named || annotation(claim, CLASS).is_some() {
            return Ok(());
        }
        if let Some(name) = engine.admission.default_storage_classes.with(&engine.store, newest) {
            set_path(claim, &["spec", "storageClassName"], Some(name.into()));
        }
        Ok(())
    }
}

/// Returns the time of creation of a default class.
pub(super) fn read_default(class: &Value) -> Option<String> {
    let is_default = IS_DEFAULT.iter().any(|key| annotation(class, key) == Some("true"));
    is_default.then(|| object::text(class, "creationTimestamp").to_owned())
}

pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object::metadata(object).get("annotations")?.get(key)?.as_str()
}

/// Returns the newest of the default classes, and of equally new ones the first by name.
pub(super) fn newest(classes: &BTreeMap<Box<str>, String>) -> Option<String> {
    let newest = classes.iter().reduce(|best, next| if next.1 > best.1 { next } else { best });
    newest.map(|(name, _)| name.to_string())
}
