//! CustomResourceDefinitions: what the server makes of them, as functions over their JSON.
//!
//! A definition passes [`admit::create`] or [`admit::update`], then [`conditions::establish`] gives it its conditions, then
//! [`compile::resources`] turns it into the resources that the registry serves. Objects of those resources pass [`prepare`] on
//! their way in, and `Schema::validate` after the server has filled in its part. Nothing here keeps state.

pub(crate) mod admit;
pub(crate) mod compile;
pub(crate) mod conditions;
mod keywords;
mod names;
mod structure;

#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::schema::{DecodeFault, Schema};

/// The finalizer that holds a definition until its objects are gone (CRD-15).
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Brings a custom resource that came in over the wire into the form that is validated and stored (CRD-6): metadata is
/// decoded like that of any object, unknown fields are pruned, nulls dropped and defaults applied, in this order.
///
/// Returns the paths of the unknown fields that were dropped, sorted. Whatever stands for `apiVersion`, `kind` and
/// `metadata` stays (CRD-9). The same request, its result ignored, applies new defaults to objects read from storage.
pub(crate) fn prepare(schema: &Schema, value: &mut Value) -> Result<Vec<String>, DecodeFault> {
    let mut unknown = Vec::new();
    if let (Some(metadata), Some(object_meta)) = (value.get_mut("metadata"), schema.field("metadata"))
        && !metadata.is_null()
    {
        unknown = object_meta.decode_field("metadata", metadata)?;
    }
    unknown.extend(schema.prune(value));
    unknown.sort_unstable();
    schema.drop_nulls(value);
    schema.apply_defaults(value);
    Ok(unknown)
}

/// A field deep in a definition.
fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// A text deep in a definition; empty when it is not there.
fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// A flag deep in a definition; false when it is not there.
fn flag(value: &Value, path: &[&str]) -> bool {
    at(value, path).and_then(Value::as_bool).unwrap_or(false)
}

/// A list deep in a definition; empty when it is not there.
fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The strings of a list deep in a definition.
fn texts<'a>(value: &'a Value, path: &[&str]) -> impl Iterator<Item = &'a str> {
    list(value, path).iter().filter_map(Value::as_str)
}
