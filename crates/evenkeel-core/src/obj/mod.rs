//! [`Obj`]: an object with a decoded header and a payload that is decoded on demand.

mod attachment;
#[cfg(feature = "internals")]
mod internals;
mod payload;
mod payload_view;
mod protobuf;

use std::any::type_name;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use ref_cast::RefCastCustom;
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::attachment::Attachments;
pub(crate) use self::payload::{Payload, PayloadFormat};
use self::payload_view::PayloadView;
use crate::codec::{ApiKind, Codec, ParsedObject};
use crate::decoded_cache::DECODED_CACHE;
use crate::error::{DecodeError, EncodeError};
use crate::header::Header;
use crate::json::{JsonPath, JsonPaths, JsonValue, PruneMode};
use crate::resource::ResourceInfo;

/// An object of kind `K`.
///
/// - Cloning costs a reference count. An object is immutable.
/// - Its [`Header`] is always decoded, and `Obj` dereferences to it: `obj.key()`, `obj.label("app")`, …
/// - The payload stays encoded until [`typed`](Self::typed), [`path`](Self::path) or [`annotation`](Self::annotation) reads it.
/// - An object that does not fit `K` is an object like any other; only `typed` returns an error.
///
/// # What it keeps in memory
///
/// The payload of an object from a decoder is a slice of the chunk in which it arrived, unless it spans two chunks. This costs
/// nothing while the other objects of the chunk are kept as well. But one object keeps its whole chunk in memory, and the transport
/// decides the size of chunks: 16 KiB with HTTP/2, up to several hundred with HTTP/1.1. A component that keeps some objects and
/// drops the rest, such as a filter before a store, keeps them [`detached`](Self::detached). Informers delta-encode the objects
/// of their stores instead.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_core::{Obj, ResourceInfo};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let pods = Arc::new(ResourceInfo::of::<Pod>());
/// let json = r#"{"metadata": {"namespace": "ns", "name": "web-0"}, "spec": {"nodeName": "n1", "containers": []}}"#;
/// let pod = Obj::<Pod>::from_json(&pods, json)?;
/// assert_eq!(pod.key().as_str(), "ns/web-0");
/// assert_eq!(pod.path("spec.nodeName")?.unwrap().text(), "n1");
/// assert_eq!(pod.typed()?.spec.as_ref().unwrap().node_name.as_deref(), Some("n1"));
/// # Ok::<(), evenkeel_core::DecodeError>(())
/// ```
#[derive(RefCastCustom)]
#[repr(transparent)]
pub struct Obj<K> {
    inner: Arc<ObjInner>,
    #[trivial]
    kind: PhantomData<fn() -> K>,
}

/// The kind of an object without a Rust type: `Obj<Untyped>` has a header and a payload. [`Obj::cast`] sets the type to decode
/// into. Code for objects of all kinds uses this type to be compiled once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untyped {}

// The order of the fields is that in memory: a lookup touches the reference count and the key.
#[repr(C)]
struct ObjInner {
    attachments: Attachments,
    header: Header,
    payload: Payload,
    info: Arc<ResourceInfo>,
}

impl<K> Obj<K> {
    /// Reads an object from JSON. Returns an error for a list and anything else without a name.
    pub fn from_json(info: &Arc<ResourceInfo>, json: impl Into<Bytes>) -> Result<Self, DecodeError> {
        let parsed = Codec::Json.decode(json.into());
        parsed.map(|parsed| Self::new(info, parsed)).map_err(|error| error.of_kind(info.kind()))
    }

    pub(crate) fn new(info: &Arc<ResourceInfo>, parsed: ParsedObject) -> Self {
        let ParsedObject { header, payload } = parsed;
        Self::of(header, payload, Arc::clone(info))
    }

    fn of(header: Header, payload: Payload, info: Arc<ResourceInfo>) -> Self {
        let inner = ObjInner { attachments: Attachments::default(), header, payload, info };
        Obj { inner: Arc::new(inner), kind: PhantomData }
    }

    /// Returns the same object as kind `L`. [`typed`](Self::typed) checks whether it fits.
    pub fn cast<L>(self) -> Obj<L> {
        Obj { inner: self.inner, kind: PhantomData }
    }

    /// Returns the resource that the object was decoded with.
    pub fn resource(&self) -> &Arc<ResourceInfo> {
        &self.inner.info
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.inner.header
    }

    /// Returns the kind that the object states, or else that of its [`resource`](Self::resource).
    pub fn kind(&self) -> &str {
        self.inner.kind()
    }

    /// Returns the API version that the object states, or else that of its [`resource`](Self::resource).
    pub fn api_version(&self) -> &str {
        self.inner.api_version()
    }

    /// Returns the payload as the server sent it, in the format of [`media_type`](Self::media_type). Items of typed lists do not
    /// state their kind. Protobuf is the message without its envelope, and never states its kind.
    ///
    /// The bytes may be a slice of the chunk in which they arrived and keep it in memory, as the object does. See
    /// [`detached`](Self::detached).
    pub fn raw(&self) -> Result<Bytes, DecodeError> {
        self.inner.payload.to_bytes(&self.inner.header)
    }

    /// Returns the format of [`raw`](Self::raw): `application/json` or `application/vnd.kubernetes.protobuf`.
    pub fn media_type(&self) -> &'static str {
        match self.inner.payload.format() {
            PayloadFormat::Json => Codec::Json.media_type(),
            PayloadFormat::Protobuf(_) => Codec::Protobuf.media_type(),
        }
    }

    /// Returns the object as JSON with `kind` and `apiVersion`, added if the server left them out. Protobuf is converted.
    pub fn json(&self) -> Result<Cow<'_, [u8]>, DecodeError> {
        self.inner.view()?.json()
    }

    /// Returns the value of an annotation, read from the payload.
    pub fn annotation(&self, key: &str) -> Result<Option<Cow<'_, str>>, DecodeError> {
        self.inner.view()?.annotation(key)
    }

    /// Returns the value at a path, read from the payload. Returns `None` if there is no such value or it is null.
    ///
    /// A path consists of members (`spec.nodeName`, with or without a leading `.`), indexes (`spec.containers[0].image`) and keys
    /// in brackets, bare (`metadata.labels[app.kubernetes.io/name]`) or quoted (`metadata.annotations['a/b']`).
    ///
    /// # Errors
    ///
    /// A malformed path is [`DecodeError::Path`], which names the position and what the grammar requires there.
    pub fn path(&self, path: &str) -> Result<Option<JsonValue<'_>>, DecodeError> {
        let path = JsonPath::parse(path)?;
        self.inner.view()?.path(path)
    }

    /// Copies the object into memory of its own, so that it keeps nothing else in memory.
    ///
    /// Each call copies header and payload. It serves callers that keep an object for long while the objects around it are
    /// dropped. The copy does not share the value that [`typed`](Self::typed) decoded for the original.
    pub fn detached(&self) -> Self {
        let inner = &*self.inner;
        Self::of(inner.header.clone(), inner.payload.detached(), Arc::clone(&inner.info))
    }

    /// Returns the object without the values that the paths match.
    ///
    /// The values are removed from the encoded payload, without building a tree, and the rest is copied once into memory of its
    /// own. A protobuf payload becomes JSON only if a path matches a value inside a field of embedded JSON. If nothing matches, the
    /// result is the object itself, with whatever it [keeps in memory](Self#what-it-keeps-in-memory).
    ///
    /// The header of the result has no removed values. An object without a name or metadata is an error.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use evenkeel_core::json::JsonPaths;
    /// use evenkeel_core::{Obj, ResourceInfo};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let heavy = JsonPaths::new(["metadata.managedFields", "status"])?;
    /// let json = r#"{"metadata":{"name":"a","managedFields":[{"manager":"x"}]},"status":{"phase":"Running"}}"#;
    /// let pod = Obj::<Pod>::from_json(&Arc::new(ResourceInfo::of::<Pod>()), json)?.without(&heavy)?;
    /// assert_eq!(&pod.raw()?[..], br#"{"metadata":{"name":"a"}}"#);
    /// # Ok::<(), evenkeel_core::DecodeError>(())
    /// ```
    pub fn without(&self, paths: &JsonPaths) -> Result<Self, DecodeError> {
        self.prune(paths, PruneMode::Remove)
    }

    /// Returns the object with nothing but the values that the paths match: the opposite of [`without`](Self::without). The name
    /// and namespace are kept only if a path matches them.
    pub fn only(&self, paths: &JsonPaths) -> Result<Self, DecodeError> {
        self.prune(paths, PruneMode::Keep)
    }

    fn prune(&self, paths: &JsonPaths, mode: PruneMode) -> Result<Self, DecodeError> {
        let parsed = self.inner.view()?.prune(paths, mode).map_err(|error| error.of_kind(self.kind()))?;
        Ok(parsed.map_or_else(|| self.clone(), |parsed| Self::new(&self.inner.info, parsed)))
    }

    /// Replaces the payload by another encoding of the same bytes; attachments stay. If there is no other reference to the object,
    /// nothing else is copied.
    pub(crate) fn repack(mut self, pack: impl FnOnce(&mut Header, &Payload) -> Payload) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.payload = pack(&mut inner.header, &inner.payload);
            return self;
        }
        let inner = &*self.inner;
        let mut header = inner.header.clone();
        let payload = pack(&mut header, &inner.payload);
        let (attachments, info) = (inner.attachments.clone(), Arc::clone(&inner.info));
        Obj { inner: Arc::new(ObjInner { attachments, header, payload, info }), kind: PhantomData }
    }
}

impl<K: Serialize> Obj<K> {
    /// Returns the object of a value, which must have a name. It encodes the value as JSON and reads the header back.
    pub fn from_value(info: &Arc<ResourceInfo>, value: &K) -> Result<Self, ValueError> {
        let json = Codec::Json.encode(&value, ApiKind::from(&**info))?;
        Ok(Self::from_json(info, json)?)
    }
}

/// A Rust value cannot be converted into an [`Obj`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// The value cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The encoded value is no object: it has no name.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl<K: DeserializeOwned + Send + Sync + 'static> Obj<K> {
    /// Returns the object as a Rust value, decoded on first use.
    ///
    /// Decoded values are cached within a budget in bytes that all objects of the process share:
    /// [`decoded_cache`](crate::decoded_cache). Readers of an object share one value until it is evicted or the object is dropped.
    /// Keep the `Arc` only while you use it, and call `typed` again the next time.
    pub fn typed(&self) -> Result<Arc<K>, DecodeError> {
        let inner = &*self.inner;
        if let Some(value) = DECODED_CACHE.get(inner.address()) {
            return Ok(value);
        }
        let view = inner.view()?;
        let bytes = view.decoded_bytes();
        let value: Arc<K> = Arc::new(view.decode()?);
        DECODED_CACHE.put(inner.address(), &value, bytes);
        Ok(value)
    }
}

impl ObjInner {
    /// Returns what identifies the object while it exists.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn kind(&self) -> &str {
        self.header.kind().unwrap_or(self.info.kind())
    }

    fn api_version(&self) -> &str {
        self.header.api_version().unwrap_or(self.info.api_version())
    }

    fn view(&self) -> Result<PayloadView<'_>, DecodeError> {
        Ok(PayloadView {
            header: &self.header,
            info: &self.info,
            format: self.payload.format(),
            bytes: self.payload.unpacked(&self.header)?,
        })
    }
}

impl Drop for ObjInner {
    fn drop(&mut self) {
        DECODED_CACHE.remove(self.address());
    }
}

impl<K> Clone for Obj<K> {
    fn clone(&self) -> Self {
        Obj { inner: Arc::clone(&self.inner), kind: PhantomData }
    }
}

impl<K> Deref for Obj<K> {
    type Target = Header;

    fn deref(&self) -> &Header {
        &self.inner.header
    }
}

impl<K> fmt::Debug for Obj<K> {
    /// Never prints the payload: it may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = type_name::<K>().rsplit("::").next().unwrap_or_default();
        write!(f, "Obj<{short}>({} {} @{})", self.kind(), self.key(), self.resource_version())
    }
}

#[cfg(test)]
mod tests;
