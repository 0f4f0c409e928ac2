//! CustomResourceDefinitions, as functions over their JSON.
//!
//! A definition passes [`admit::create`] or [`admit::update`], then [`conditions::establish`] sets its conditions,
//! then [`compile::resources`] compiles it into the resources that the registry serves. Written objects of those
//! resources pass [`prepare`], and `Schema::validate` after the server has set its fields. This module is stateless.

pub(crate) mod admit;
pub(crate) mod compile;
pub(crate) mod conditions;
mod keywords;
mod names;
mod patterns;
pub(crate) mod rules;
mod structure;

#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::schema::{DecodeFault, DefaultsTooLarge, Schema};

/// The finalizer that keeps a definition until its objects are deleted (CRD-15).
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Converts the custom resource of a request to the form that is validated and stored (CRD-6): metadata is decoded
/// like that of any object, unknown fields are pruned, nulls dropped and defaults applied, in this order.
///
/// Returns the paths of the dropped unknown fields, sorted. `apiVersion`, `kind` and `metadata` stay (CRD-9).
pub(crate) fn prepare(schema: &Schema, value: &mut Value) -> Result<Vec<String>, PrepareFault> {
    let mut unknown = Vec::new();
    if let (Some(metadata), Some(object_meta)) = (value.get_mut("metadata"), schema.field("metadata"))
        && !metadata.is_null()
    {
        unknown = object_meta.decode_field("metadata", metadata)?;
    }
    unknown.extend(schema.prune(value));
    unknown.sort_unstable();
    schema.drop_nulls(value);
    schema.apply_defaults(value)?;
    Ok(unknown)
}

/// Why a custom resource cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PrepareFault {
    /// The metadata cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeFault),
    /// The object would be too large with its defaults.
    #[error("the defaults of the schema make the object too large")]
    TooLarge,
}

impl From<DefaultsTooLarge> for PrepareFault {
    fn from(_: DefaultsTooLarge) -> Self {
        PrepareFault::TooLarge
    }
}

/// Returns the value at a path of keys.
fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// Returns the string at a path of keys; empty if absent.
fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the boolean at a path of keys; false if absent.
fn flag(value: &Value, path: &[&str]) -> bool {
    at(value, path).and_then(Value::as_bool).unwrap_or(false)
}

/// Returns the list at a path of keys; empty if absent.
fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the strings of a list at a path of keys.
fn texts<'a>(value: &'a Value, path: &[&str]) -> impl Iterator<Item = &'a str> {
    list(value, path).iter().filter_map(Value::as_str)
}
