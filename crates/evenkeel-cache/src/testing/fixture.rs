//! [`Fixture`]: what can be put into a [`FakeSource`](super::FakeSource).

use std::sync::Arc;

use evenkeel_core::codec::{ApiKind, Codec};
use evenkeel_core::{Obj, ResourceInfo, ValueError};
use serde::Serialize;
use serde_json::Value;

use crate::Object;

/// What can be put into a [`FakeSource`](super::FakeSource): an [`Obj`], or whatever is written as the JSON of an object,
/// such as the types of k8s-openapi, custom resources, and `serde_json::Value`.
///
/// `M` says which of the two it is; it is always found out by the compiler.
pub trait Fixture<M> {
    #[doc(hidden)]
    fn json(&self) -> Result<Vec<u8>, ValueError>;
}

/// It is written as JSON.
#[doc(hidden)]
#[derive(Debug)]
pub enum Written {}

/// It is an object already.
#[doc(hidden)]
#[derive(Debug)]
pub enum Made {}

impl<T: Serialize> Fixture<Written> for T {
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

/// The object in this JSON, in this version.
pub(super) fn at_version(info: &Arc<ResourceInfo>, json: Vec<u8>, version: u64) -> Result<Object, ValueError> {
    let given = Obj::<Value>::from_json(info, json)?;
    let mut value = Value::clone(&*given.typed()?);
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".into(), version.to_string().into());
    }
    Ok(Obj::from_value(info, &value)?.cast())
}
