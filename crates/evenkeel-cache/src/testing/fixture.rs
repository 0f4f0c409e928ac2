//! [`Fixture`]: values that a [`FakeSource`](super::FakeSource) stores.

use std::sync::Arc;

use evenkeel_core::codec::{ApiKind, Codec};
use evenkeel_core::{Obj, ResourceInfo, ValueError};
use serde::Serialize;
use serde_json::Value;

use crate::Object;

/// A value that a [`FakeSource`](super::FakeSource) stores: an [`Obj`], or anything that serializes to the JSON of an object,
/// such as the types of k8s-openapi, custom resources, and `serde_json::Value`.
///
/// `M` distinguishes the two; the compiler infers it.
pub trait Fixture<M> {
    #[doc(hidden)]
    fn json(&self) -> Result<Vec<u8>, ValueError>;
}

/// Marks values that serialize.
#[doc(hidden)]
#[derive(Debug)]
pub enum Serialized {}

/// Marks objects.
#[doc(hidden)]
#[derive(Debug)]
pub enum Made {}

impl<T: Serialize> Fixture<Serialized> for T {
    fn json(&self) -> Result<Vec<u8>, ValueError> {
        Ok(Codec::Json.encode(&self, ApiKind::default())?)
    }
}

impl<K> Fixture<Made> for Obj<K> {
    fn json(&self) -> Result<Vec<u8>, ValueError> {
        Ok(Obj::json(self)?.into_owned())
    }
}

impl<K> Fixture<Made> for &Obj<K> {
    fn json(&self) -> Result<Vec<u8>, ValueError> {
        Ok(Obj::json(self)?.into_owned())
    }
}

/// Returns the object of this JSON with this version.
pub(super) fn at_version(info: &Arc<ResourceInfo>, json: Vec<u8>, version: u64) -> Result<Object, ValueError> {
    let given = Obj::<Value>::from_json(info, json)?;
    let mut value = Value::clone(&*given.typed()?);
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".into(), version.to_string().into());
    }
    Ok(Obj::from_value(info, &value)?.cast())
}
