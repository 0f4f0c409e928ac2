//! Ready-made transforms, which drop or change fields of objects before they are stored.
//!
//! A transform is any `Fn(Object) -> Result<Object, BoxError> + Send + Sync`. It runs once for every state of an object,
//! before store and handlers see it, and must leave the object's name, uid and resource version as they are. Those here
//! are values to be handed to an informer, or to be called by a transform of your own:
//!
//! ```
//! use evenkeel_cache::source::BoxError;
//! use evenkeel_cache::{Object, transform};
//!
//! let lighter = transform::drop_paths(["metadata.managedFields", "status"])?;
//! let plainer = transform::drop_annotations([transform::LAST_APPLIED])?;
//! let both = move |object: Object| -> Result<Object, BoxError> { plainer(lighter(object)?) };
//! # fn check(_: impl Fn(Object) -> Result<Object, BoxError> + Send + Sync + 'static) {}
//! # check(both);
//! # Ok::<(), evenkeel_core::json::PathError>(())
//! ```
//!
//! Dropping and keeping work on the payload as it came, JSON or protobuf: no object is decoded for it, what stays is copied
//! once, and an object that has nothing to drop is handed on as it is.

use std::sync::Arc;

use evenkeel_core::Obj;
use evenkeel_core::json::{JsonPaths, PathError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Object;
use crate::source::BoxError;

/// The annotation in which `kubectl apply` stores the applied manifest.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields that every object needs: kind and identity.
const IDENTITY: [&str; 6] =
    ["apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"];

/// Drops `metadata.managedFields`, which are often half of an object and rarely needed by a controller.
pub fn drop_managed_fields() -> impl Fn(Object) -> Result<Object, BoxError> + Clone + Send + Sync + 'static {
    without(JsonPaths::new(["metadata.managedFields"]).unwrap_or_default())
}

/// Drops these annotations, such as [`LAST_APPLIED`].
pub fn drop_annotations(
    names: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<impl Fn(Object) -> Result<Object, BoxError> + Clone + Send + Sync + 'static, PathError> {
    drop_paths(names.into_iter().map(|name| format!("metadata.annotations[{}]", name.as_ref())))
}

/// Drops whatever these [paths](JsonPaths) lead to, such as `spec.containers[*].env`.
///
/// A path to a required field, such as the name, makes every object an error.
pub fn drop_paths(
    paths: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<impl Fn(Object) -> Result<Object, BoxError> + Clone + Send + Sync + 'static, PathError> {
    JsonPaths::new(paths).map(without)
}

/// Keeps nothing but what these [paths](JsonPaths) lead to, and what every object needs: its kind and API version, name and
/// namespace, uid and resource version. Labels, finalizers and owners are kept only if a path names them.
pub fn keep_paths<P: Into<String>>(
    paths: impl IntoIterator<Item = P>,
) -> Result<impl Fn(Object) -> Result<Object, BoxError> + Clone + Send + Sync + 'static, PathError> {
    let all = paths.into_iter().map(Into::into).chain(IDENTITY.map(String::from));
    let paths = JsonPaths::new(all)?;
    Ok(move |object: Object| Ok(object.only(&paths)?))
}

fn without(paths: JsonPaths) -> impl Fn(Object) -> Result<Object, BoxError> + Clone + Send + Sync + 'static {
    move |object: Object| Ok(object.without(&paths)?)
}

/// Changes objects as Rust values.
///
/// Decodes and encodes every object, which costs many times as much as dropping a path. Fields that `K` does not have are lost. An
/// object that does not fit `K` is an error.
///
/// ```
/// use evenkeel_cache::transform;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let anonymous = transform::edit(|pod: &mut Pod| {
///     for container in pod.spec.iter_mut().flat_map(|spec| &mut spec.containers) {
///         container.env = None;
///     }
/// });
/// # drop(anonymous);
/// ```
pub fn edit<K>(
    change: impl Fn(&mut K) + Send + Sync + 'static,
) -> impl Fn(Object) -> Result<Object, BoxError> + Send + Sync + 'static
where
    K: Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    move |object: Object| {
        let value = object.as_kind::<K>().typed()?;
        let info = Arc::clone(object.resource());
        // Drops the object's decoded cache, so that this is mostly the only reference to the value.
        drop(object);
        let mut value = Arc::unwrap_or_clone(value);
        change(&mut value);
        Ok(Obj::from_value(&info, &value)?.cast())
    }
}

#[cfg(test)]
mod tests;
