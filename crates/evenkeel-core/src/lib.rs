//! The types that all crates of evenkeel share: objects, keys, selectors, API errors and codecs.
//!
//! ```
//! use std::sync::Arc;
//! use evenkeel_core::{Obj, ResourceInfo};
//! use k8s_openapi::api::core::v1::Pod;
//!
//! let pods = Arc::new(ResourceInfo::of::<Pod>());
//! let json = r#"{"metadata": {"namespace": "default", "name": "web-0"}, "spec": {"nodeName": "node-1", "containers": []}}"#;
//! let pod = Obj::<Pod>::from_json(&pods, json)?;
//! assert_eq!(pod.key().as_str(), "default/web-0"); // the header is decoded
//! assert_eq!(pod.path("spec.nodeName")?.unwrap().text(), "node-1"); // read from the encoded payload
//! assert!(pod.typed()?.spec.as_ref().unwrap().containers.is_empty()); // decoded on first use, then cached
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | type | purpose |
//! |---|---|
//! | [`Obj`], [`Header`] | an object with a decoded header and a payload that is decoded on demand |
//! | [`ObjectKey`], [`ResourceInfo`], [`ResourceVersion`] | identity of objects, resources and versions |
//! | [`LabelSelector`], [`FieldSelector`] | selectors, with the grammar and the error texts of the API server |
//! | [`shard`] | the places of objects, ranges of places, and selectors of sharded lists |
//! | [`WatchEvent`] | one event of a watch |
//! | [`Status`], [`Reason`] | the API's error, with the predicates of client-go's `apierrors` |
//! | [`ExitStatus`] | how a process in a container ended |
//! | [`json`] | paths and values read from encoded JSON |
//! | [`jsonpath`] | kubectl's JSONPath templates |
//! | [`quantity`] | resource quantities that compute |
//! | `schema` | structural schemas of custom resources from types (feature `schema`) |
//! | [`decoded_cache`] | the budget of the values that [`Obj::typed`] decodes, and its metrics |
//!
//! # Guarantees
//!
//! - No I/O, clocks, tasks or randomness: every result is a function of the input.
//! - No input causes a panic, unbounded recursion, or memory use beyond the documented limits.
//! - Errors name the byte offset, the path in the object, and the object.
//! - `Debug` prints no payload, and decode errors contain no contents of strings.
//! - Types of [`kube_core`] and [`k8s_openapi`] work unchanged. The encoding of payloads in memory is private and may change.
//!
//! # Not guaranteed, not included
//!
//! - There is no JSON tree. Decode [`Obj`] into `DynamicObject` or a type of your own.
//! - Objects are not validated against schemas, nor names against the rules of the server.
//! - Requests are part of `evenkeel-client`, responses of `evenkeel-apiserver`.
//! - The feature `internals` exposes codecs, protobuf and packing to the other crates of evenkeel. Semantic versioning does not
//!   cover it.
#![deny(missing_docs)]
#![forbid(unsafe_code)]
// The decoders, protobuf and packing have no callers in this crate alone.
#![cfg_attr(not(feature = "internals"), allow(dead_code, unused_imports, unreachable_pub))]

#[cfg(feature = "internals")]
pub mod codec;
#[cfg(not(feature = "internals"))]
mod codec;
pub mod decoded_cache;
#[cfg(feature = "internals")]
pub mod difference;
#[cfg(not(feature = "internals"))]
mod difference;
#[cfg(feature = "internals")]
pub mod duration;
#[cfg(not(feature = "internals"))]
mod duration;
mod error;
mod exit;
#[cfg(feature = "internals")]
pub mod formats;
#[cfg(not(feature = "internals"))]
mod formats;
mod header;
pub mod json;
pub mod jsonpath;
mod key;
#[cfg(feature = "internals")]
pub mod merge_rules;
#[cfg(not(feature = "internals"))]
mod merge_rules;
mod obj;
#[cfg(feature = "internals")]
pub mod pack;
#[cfg(not(feature = "internals"))]
mod pack;
#[cfg(feature = "internals")]
pub mod protobuf;
#[cfg(not(feature = "internals"))]
mod protobuf;
pub mod quantity;
mod resource;
#[cfg(feature = "schema")]
pub mod schema;
mod selector;
pub mod shard;
pub mod status;
mod stream;
mod terminal;
mod version;

pub use error::{DecodeError, EncodeError, ProtobufError, StreamError, TypeMismatch, WireError};
pub use exit::{ExitStatus, ExitStatusError};
pub use header::{Header, OwnerRef};
pub use key::{KeyError, ObjectKey};
pub use obj::{Obj, Untyped, ValueError};
pub use resource::{ResourceInfo, StaticScope};
pub use selector::{
    FieldOperator, FieldSelector, FieldTerm, LabelOperator, LabelSelector, Requirement, RequirementError, SelectorError,
};
pub use status::{Reason, Status, StatusCause, StatusDetails, StatusMeta};
pub use stream::{ListMeta, WatchEvent};
pub use terminal::TerminalSize;
pub use version::ResourceVersion;
