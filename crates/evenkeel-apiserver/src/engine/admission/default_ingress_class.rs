//! DefaultIngressClass: an Ingress that names no class gets the default one (ADM-026).

use serde_json::Value;

use super::default_storage_class::{annotation, newest};
use super::{AdmissionPlugin, AdmissionWrite};
use crate::engine::ApiEngine;
use crate::engine::object::{self, set_path};
use crate::engine::request_error::RequestError;

const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";
/// The annotation that named the class of an Ingress before it had a field.
const CLASS: &str = "kubernetes.io/ingress.class";

pub(super) struct DefaultIngressClass;

impl AdmissionPlugin for DefaultIngressClass {
    fn name(&self) -> &'static str {
        "DefaultIngressClass"
    }

    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        write.creates("ingresses.networking.k8s.io")
    }

    fn mutate(
        &self,
        engine: &ApiEngine,
        _: &AdmissionWrite<'_>,
        ingress: &mut Value,
        _: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        let is_named = ingress.pointer("/spec/ingressClassName").is_some_and(Value::is_string);
        if is_named || annotation(ingress, CLASS).is_some() {
            return Ok(());
        }
        if let Some(name) = engine.admission.default_ingress_classes.with(&engine.store, newest) {
            set_path(ingress, &["spec", "ingressClassName"], Some(name.into()));
        }
        Ok(())
    }
}

/// Returns the time of creation of a default class.
pub(super) fn read_default(class: &Value) -> Option<String> {
    let is_default = annotation(class, IS_DEFAULT) == Some("true");
    is_default.then(|| object::text(class, "creationTimestamp").to_owned())
}
