//! The attributes of evenkeel for kinds of one's own: [`macro@custom_resource`] and [`macro@api_type`].
//!
//! Programs use them through the crate `evenkeel`; the generated code refers to it.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod arguments;
mod attributes;
mod expand;
mod fields;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Makes a struct the `spec` of a kind of one's own, and generates the kind.
///
/// ```ignore
/// /// A cache with a number of replicas.
/// #[custom_resource(group = "example.com", version = "v1", namespaced, status = CacheStatus, shortname = "ca")]
/// pub struct CacheSpec {
///     #[x_kube(validation = Rule::new("self <= 10").message("at most ten replicas"))]
///     pub replicas: i32,
///     #[serde(default)]
///     pub paused: bool,
/// }
/// ```
///
/// generates `Cache`, with `metadata`, `spec` and `status`: a `Resource` for `Api`, informers and controllers, and
/// `Cache::crd()`, its CustomResourceDefinition with a structural schema.
///
/// The struct gets `Clone`, `Debug`, `Serialize`, `Deserialize` and `JsonSchema`; other derives are written below the attribute.
/// Its fields are renamed to camel case, unless it has a `#[serde(rename_all = "…")]`.
///
/// # Arguments
///
/// `group` and `version` are required. All arguments of kube's `#[kube(…)]` are accepted, except `crates` and `cel`:
///
/// | argument | meaning |
/// |---|---|
/// | `kind = "Cache"` | the kind; by default the name of the struct without `Spec` |
/// | `namespaced` | objects are in namespaces |
/// | `status = CacheStatus` | the type of `status`; enables the sub-resource |
/// | `scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas")` | enables the sub-resource `scale` |
/// | `shortname = "ca"`, `category = "all"` | further names; may be repeated |
/// | `plural`, `singular` | names that differ from the usual ones |
/// | `printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas")` | a column of `kubectl get` |
/// | `selectable = ".spec.color"` | a field that field selectors can name |
/// | `validation = Rule::new("…")` | a CEL rule for the whole object; may be repeated |
/// | `deprecated`, `deprecated = "use v2"` | the version is deprecated, with a warning |
/// | `served = false`, `storage = false` | for one of several versions |
/// | `label("key", "value")`, `annotation("key", "value")` | metadata of the definition |
/// | `derive = "PartialEq"` | a derive of the generated type |
/// | `doc = "…"` | its description; by default the documentation of the struct |
/// | `root = "CacheV1"` | its name, if it is not the kind |
/// | `no_spec` | the fields are beside `metadata` instead of below `spec` |
/// | `schema = "manual"` | `JsonSchema` of the kind is implemented by hand; `"disabled"`: there is none |
/// | `crate = "path"` | the path of the crate `evenkeel`, if it is not `::evenkeel` |
///
/// # Fields
///
/// Attributes of serde and schemars have their usual meaning. In addition:
///
/// | attribute | meaning |
/// |---|---|
/// | `#[x_kube(validation = "self != ''")]` | a CEL rule; a text, or a `Rule` with message, reason, path and `optional_old_self` |
/// | `#[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]` | how server-side apply merges the field |
/// | `#[x_kube(float)]` | permits a floating point number, which is an error otherwise |
#[proc_macro_attribute]
pub fn custom_resource(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::custom_resource(arguments.into(), item.into()).unwrap_or_else(|error| error.into_compile_error()).into()
}

/// Makes a struct or an enum a part of a kind: derives `Clone`, `Debug`, `Serialize`, `Deserialize` and `JsonSchema`, with the
/// same attributes on fields as [`macro@custom_resource`].
///
/// The fields of a struct are renamed to camel case, unless it has a `#[serde(rename_all = "…")]`. The variants of an enum keep
/// their names. `#[api_type(crate = "path")]` sets the path of the crate `evenkeel`.
#[proc_macro_attribute]
pub fn api_type(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::api_type(arguments.into(), item.into()).unwrap_or_else(|error| error.into_compile_error()).into()
}
