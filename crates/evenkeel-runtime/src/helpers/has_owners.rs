//! [`HasOwners`]: objects in whatever form, seen as things that are owned.

use evenkeel_client::Unstructured;
use evenkeel_core::Obj;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_core::Resource;
use serde_json::{Map, Value};

use super::OwnerError;

/// What says who owns it: values of every Rust type of a kind, JSON, and [`Obj`]. `M` tells these apart and is never
/// written.
pub trait HasOwners<M> {
    /// The namespace it says it is in.
    fn namespace(&self) -> Option<&str>;

    /// The references to its owners.
    ///
    /// # Errors
    /// If it is JSON that is no object of Kubernetes.
    fn owner_references(&self) -> Result<Vec<OwnerReference>, OwnerError>;
}

/// [`HasOwners`] of what can be changed: values of Rust types, and JSON.
pub trait HasOwnersMut<M>: HasOwners<M> {
    /// Replaces the references.
    ///
    /// # Errors
    /// If it is JSON that is no object of Kubernetes.
    fn set_owner_references(&mut self, references: Vec<OwnerReference>) -> Result<(), OwnerError>;
}

/// Marks values of Rust types.
#[derive(Debug)]
pub enum Typed {}
/// Marks JSON.
#[derive(Debug)]
pub enum Json {}
/// Marks objects as they came from the server.
#[derive(Debug)]
pub enum Received {}

impl<K: Resource> HasOwners<Typed> for K {
    fn namespace(&self) -> Option<&str> {
        self.meta().namespace.as_deref().filter(|namespace| !namespace.is_empty())
    }

    fn owner_references(&self) -> Result<Vec<OwnerReference>, OwnerError> {
        Ok(self.meta().owner_references.clone().unwrap_or_default())
    }
}

impl<K: Resource> HasOwnersMut<Typed> for K {
    fn set_owner_references(&mut self, references: Vec<OwnerReference>) -> Result<(), OwnerError> {
        self.meta_mut().owner_references = Some(references).filter(|references| !references.is_empty());
        Ok(())
    }
}

impl HasOwners<Json> for Value {
    fn namespace(&self) -> Option<&str> {
        self.get("metadata")?.get("namespace")?.as_str().filter(|namespace| !namespace.is_empty())
    }

    fn owner_references(&self) -> Result<Vec<OwnerReference>, OwnerError> {
        match self.get("metadata").and_then(|metadata| metadata.get("ownerReferences")) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(references) => serde::Deserialize::deserialize(references)
                .map_err(|error: serde_json::Error| malformed(format!("metadata.ownerReferences: {error}"))),
        }
    }
}

impl HasOwnersMut<Json> for Value {
    fn set_owner_references(&mut self, references: Vec<OwnerReference>) -> Result<(), OwnerError> {
        let object = self.as_object_mut().ok_or_else(|| malformed("it is no JSON object"))?;
        let metadata = object.entry("metadata").or_insert_with(|| Map::new().into());
        let metadata = metadata.as_object_mut().ok_or_else(|| malformed("metadata is no JSON object"))?;
        if references.is_empty() {
            metadata.remove("ownerReferences");
            return Ok(());
        }
        let references = serde_json::to_value(references).map_err(|error| malformed(error.to_string()))?;
        metadata.insert("ownerReferences".to_owned(), references);
        Ok(())
    }
}

impl HasOwners<Json> for Unstructured {
    fn namespace(&self) -> Option<&str> {
        HasOwners::namespace(&self.0)
    }

    fn owner_references(&self) -> Result<Vec<OwnerReference>, OwnerError> {
        self.0.owner_references()
    }
}

impl HasOwnersMut<Json> for Unstructured {
    fn set_owner_references(&mut self, references: Vec<OwnerReference>) -> Result<(), OwnerError> {
        self.0.set_owner_references(references)
    }
}

impl<K> HasOwners<Received> for Obj<K> {
    fn namespace(&self) -> Option<&str> {
        self.key().namespace()
    }

    fn owner_references(&self) -> Result<Vec<OwnerReference>, OwnerError> {
        let owned = self.header().owner_references().map(|owner| OwnerReference {
            api_version: owner.api_version.to_owned(),
            kind: owner.kind.to_owned(),
            name: owner.name.to_owned(),
            uid: owner.uid.to_owned(),
            controller: owner.controller.then_some(true),
            block_owner_deletion: owner.block_owner_deletion.then_some(true),
        });
        Ok(owned.collect())
    }
}

fn malformed(problem: impl Into<String>) -> OwnerError {
    OwnerError::Malformed { problem: problem.into() }
}
