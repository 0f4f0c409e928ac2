//! The vocabulary that every other room of evenkeel speaks.
//!
//! ```
//! use std::sync::Arc;
//! use evenkeel_core::{Obj, ResourceInfo};
//! use k8s_openapi::api::core::v1::Pod;
//!
//! let pods = Arc::new(ResourceInfo::of::<Pod>());
//! let json = r#"{"metadata": {"namespace": "default", "name": "web-0"}, "spec": {"nodeName": "node-1", "containers": []}}"#;
//! let pod = Obj::<Pod>::from_json(&pods, json)?;
//! assert_eq!(pod.key().as_str(), "default/web-0"); // the header is read
//! assert_eq!(pod.path("spec.nodeName")?.unwrap().text(), "node-1"); // looked up in the bytes
//! assert!(pod.typed()?.spec.as_ref().unwrap().containers.is_empty()); // decoded, now that somebody asks
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it is for
//!
//! - Naming things: [`ObjectKey`] for objects, [`ResourceInfo`] for kinds, [`ResourceVersion`] for states of the store.
//! - Writing times the way the API does: [`duration`].
//! - Choosing things: [`LabelSelector`] and [`FieldSelector`].
//! - Holding things: [`Obj`], an object whose [`Header`] is read and whose payload is decoded on demand.
//! - Receiving things: [`ListDecoder`] and [`WatchDecoder`], which turn bytes, cut anywhere, into objects and events, in
//!   the form that a [`Codec`] knows: [`Json`] or [`Protobuf`].
//! - Keeping many of them: [`pack`].
//! - Reading and writing Kubernetes' protobuf with the types that there are for JSON: [`protobuf`].
//! - Refusing things: [`Status`], the API's own error, and [`DecodeError`], [`StreamError`], [`SelectorError`] for what
//!   cannot be read.
//!
//! # What it promises
//!
//! - No I/O, no clocks, no tasks, no randomness: everything here is a function of its input.
//! - No input makes it panic, recurse without bound or hold more than its documented limits.
//! - Errors say where: the byte, the path in the object, and the object.
//! - Nothing of an object's payload is printed by `Debug`, and no contents of strings appear in decode errors.
//! - Types of [`kube_core`] and [`k8s_openapi`] work as they are; how payloads rest in memory is nobody's business but
//!   this crate's and may change.
//!
//! # What it deliberately does not do
//!
//! - It builds no tree of JSON. Who wants one decodes [`Obj`] into `DynamicObject` or a type of their own.
//! - It does not check objects against schemas, nor names against the rules of the server that will see them.
//! - It does not talk: requests are for the client, answers for the API server.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod codec;
mod decoded_cache;
pub mod duration;
mod error;
mod header;
pub mod json;
mod key;
mod obj;
pub mod pack;
pub mod protobuf;
mod resource;
mod selector;
pub mod status;
mod version;

pub use codec::{ListMeta, WatchEvent};
pub use error::{DecodeError, EncodeError, ProtobufError, StreamError, TypeMismatch, WireError};
pub use header::{Header, OwnerRef};
pub use key::{KeyError, ObjectKey};
pub use obj::{Obj, Untyped, ValueError};
pub use resource::{ResourceInfo, StaticScope};
pub use selector::{
    FieldOperator, FieldSelector, FieldTerm, LabelOperator, LabelSelector, Requirement, RequirementError, SelectorError,
};
pub use status::{Reason, Status, StatusCause, StatusDetails, StatusMeta};
pub use version::ResourceVersion;
