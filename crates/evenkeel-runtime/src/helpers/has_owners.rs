//! [`HasOwners`]: reads and writes owner references of typed objects, JSON and [`Obj`].

use evenkeel_client::Unstructured;
use evenkeel_core::Obj;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_core::Resource;
use serde_json::{Map, Value};

use super::OwnerError;

/// An object with owner references: a value of any Rust type of a kind, JSON, or [`Obj`]. `M` distinguishes these implementations and
/// is always inferred.
pub trait HasOwners<M> {
    /// Returns the namespace of the object.
    fn namespace(&self) -> Option<&str>;

    /// Returns the owner references.
    ///
    /// # Errors
    /// Returns an error if it is JSON that is not a Kubernetes object.
    fn owner_references(&self) -> Result<Vec<OwnerReference>, OwnerError>;
}

/// [`HasOwners`] of objects that can be modified: values of Rust types, and JSON.
pub trait HasOwnersMut<M>: HasOwners<M> {
    /// Replaces the owner references.
    ///
    /// # Errors
    /// Returns an error if it is JSON that is not a Kubernetes object.
    fn set_owner_references(&mut self, references: Vec<OwnerReference>) -> Result<(), OwnerError>;
}

/// Marker of values of Rust types.
#[derive(Debug)]
pub enum Typed {}
/// Marker of JSON.
#[derive(Debug)]
pub enum Json {}
/// Marker of objects of the server.
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
        let object = self.as_object_mut().ok_or_else(|| malformed("it is not a JSON object"))?;
        let metadata = object.entry("metadata").or_insert_with(|| Map::new().into());
        let metadata = metadata.as_object_mut().ok_or_else(|| malformed("metadata is not a JSON object"))?;
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
