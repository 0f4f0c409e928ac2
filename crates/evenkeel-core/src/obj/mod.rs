//! [`Obj`]: the currency of evenkeel, an object whose header is read and whose payload is decoded on demand.

mod opened;
mod protobuf;

use std::any::type_name;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use ref_cast::{RefCastCustom, ref_cast_custom};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec::{ApiKind, Codec, EncodeError, Form, Json, Parsed, Payload, Protobuf};
use crate::decode::DecodeError;
use crate::header::Header;
use crate::json::{Cut, JsonPaths, JsonValue};
use crate::resource::ResourceInfo;
use opened::Opened;

/// An object of kind `K`.
///
/// - Cloning costs a reference count; an object never changes.
/// - Its [`Header`] is always there, and `Obj` dereferences to it: `obj.key()`, `obj.label("app")`, …
/// - The payload stays as the server sent it until [`typed`](Self::typed) is called, or a value in it is asked for by
///   [`path`](Self::path) or [`annotation`](Self::annotation).
/// - An object that does not fit `K` is an object like any other; only `typed` says that it does not fit.
///
/// # What it keeps in memory
///
/// The payload of an object that came out of a decoder is a slice of the chunk it arrived in, unless it was cut between
/// two chunks. That is free while the chunk's other objects are kept as well. But one object of a chunk keeps all of it,
/// and how large chunks are is for the transport to say: 16 KiB with HTTP/2, up to several hundred with HTTP/1.1. Whoever
/// keeps some objects and drops the rest, such as a filter before a store, or a store that outlives the list it was
/// filled from, keeps them [`detached`](Self::detached), or [packs](crate::pack) them, as informers do.
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
    inner: Arc<Inner>,
    #[trivial]
    kind: PhantomData<fn() -> K>,
}

/// The kind of an object whose Rust type is not said: `Obj<Untyped>` has its header and its payload, and cannot be decoded
/// before [`Obj::cast`] says into what. What works on objects of all kinds alike is written for these, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untyped {}

// The order of the fields is that of the memory: looking up an object touches its reference count and its key.
#[repr(C)]
struct Inner {
    header: Header,
    payload: Payload,
    info: Arc<ResourceInfo>,
    /// Under which the memo knows the decoded value.
    id: u64,
}

impl<K> Obj<K> {
    /// The object in this JSON. A list or anything else that has no name is refused.
    pub fn from_json(info: &Arc<ResourceInfo>, json: impl Into<Bytes>) -> Result<Self, DecodeError> {
        Self::decode(&Json, info, json.into())
    }

    /// The object in these bytes. A list or anything else that has no name is refused.
    pub fn decode(codec: &dyn Codec, info: &Arc<ResourceInfo>, bytes: Bytes) -> Result<Self, DecodeError> {
        codec.decode(bytes).map(|parsed| Self::new(info, parsed)).map_err(|error| error.of_kind(info.kind()))
    }

    /// The object that a codec has taken apart.
    pub fn new(info: &Arc<ResourceInfo>, parsed: Parsed) -> Self {
        let Parsed { header, payload } = parsed;
        Self::of(Inner { header, payload, info: Arc::clone(info), id: info.memo.number() })
    }

    /// Reading a shared object as one of this kind costs nothing.
    #[ref_cast_custom]
    fn seen(inner: &Arc<Inner>) -> &Self;

    fn of(inner: Inner) -> Self {
        Obj { inner: Arc::new(inner), kind: PhantomData }
    }

    /// The same object, to be decoded as `L` from now on. Whether it fits is seen when it is decoded.
    pub fn cast<L>(self) -> Obj<L> {
        Obj { inner: self.inner, kind: PhantomData }
    }

    /// The same object, seen as one that is decoded as `L`. Whether it fits is seen when it is decoded.
    pub fn as_kind<L>(&self) -> &Obj<L> {
        Obj::seen(&self.inner)
    }

    /// Whether this is the other object in the same state: the same uid and the same resource version, both of which the
    /// server has given. The two then have the same contents.
    pub fn is_same_state_as<L>(&self, other: &Obj<L>) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
            || (!self.resource_version().is_empty()
                && !self.uid().is_empty()
                && self.resource_version() == other.resource_version()
                && self.uid() == other.uid()
                && self.key() == other.key())
    }

    /// The description of the object's kind that it was decoded with.
    pub fn resource(&self) -> &Arc<ResourceInfo> {
        &self.inner.info
    }

    /// What is known of the object without decoding it.
    pub fn header(&self) -> &Header {
        &self.inner.header
    }

    /// The object's kind: what it says itself, or what was asked for.
    pub fn kind(&self) -> &str {
        self.inner.kind()
    }

    /// The object's API version: what it says itself, or what was asked for.
    pub fn api_version(&self) -> &str {
        self.inner.api_version()
    }

    /// The payload as the server sent it, in the form that it came in, which [`media_type`](Self::media_type) tells. Items
    /// of typed lists do not state their kind. Protobuf is the message alone, without the envelope, and never states its kind.
    ///
    /// The bytes may be a slice of the chunk they came in: keeping them, or the object, keeps the chunk. See
    /// [`detached`](Self::detached).
    pub fn raw(&self) -> Result<Bytes, DecodeError> {
        self.inner.payload.bytes(&self.inner.header)
    }

    /// The form of what [`raw`](Self::raw) answers with: [`Json::MEDIA_TYPE`] or [`Protobuf::MEDIA_TYPE`].
    pub fn media_type(&self) -> &'static str {
        match self.inner.payload.form() {
            Form::Json => Json::MEDIA_TYPE,
            Form::Protobuf(_) => Protobuf::MEDIA_TYPE,
        }
    }

    /// How many bytes of memory the payload rests in.
    pub fn payload_bytes(&self) -> usize {
        self.inner.payload.resting_bytes()
    }

    /// The object as JSON with `kind` and `apiVersion`, filled in if the server left them out. If it came as protobuf, it is
    /// written anew.
    pub fn json(&self) -> Result<Cow<'_, [u8]>, DecodeError> {
        self.inner.open()?.json()
    }

    /// The value of an annotation, looked up in the payload.
    pub fn annotation(&self, key: &str) -> Result<Option<Cow<'_, str>>, DecodeError> {
        self.inner.open()?.annotation(key)
    }

    /// The value at a path such as `spec.nodeName` or `spec.containers[0].image`, looked up in the payload; `None` if there
    /// is none or it is null.
    pub fn path(&self, path: &str) -> Result<Option<JsonValue<'_>>, DecodeError> {
        self.inner.open()?.path(path)
    }

    /// The same object in a payload of its own, so that it keeps nothing else in memory.
    ///
    /// Costs a copy of header and payload, every time: this is for those who keep an object for long while others that
    /// came with it are dropped. What [`typed`](Self::typed) has decoded for the original is not shared.
    pub fn detached(&self) -> Self {
        let inner = &*self.inner;
        Self::of(Inner {
            header: inner.header.clone(),
            payload: inner.payload.detached(),
            info: Arc::clone(&inner.info),
            id: inner.info.memo.number(),
        })
    }

    /// The object without what these paths lead to, cut out of the payload as it is: no tree is built of it, and what stays
    /// is copied once, into a payload of its own. Only where a path leads into what is JSON inside of protobuf does the
    /// payload become JSON as a whole. If there is nothing to cut, this is the object itself, with whatever it
    /// [keeps in memory](Self#what-it-keeps-in-memory).
    ///
    /// The header says what is left. An object that is left without a name, or without metadata, is an error.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use evenkeel_core::json::JsonPaths;
    /// use evenkeel_core::{Obj, ResourceInfo};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let heavy = JsonPaths::new(["metadata.managedFields", "status"]).unwrap();
    /// let json = r#"{"metadata":{"name":"a","managedFields":[{"manager":"x"}]},"status":{"phase":"Running"}}"#;
    /// let pod = Obj::<Pod>::from_json(&Arc::new(ResourceInfo::of::<Pod>()), json)?.without(&heavy)?;
    /// assert_eq!(&pod.raw()?[..], br#"{"metadata":{"name":"a"}}"#);
    /// # Ok::<(), evenkeel_core::DecodeError>(())
    /// ```
    pub fn without(&self, paths: &JsonPaths) -> Result<Self, DecodeError> {
        self.cut(paths, Cut::These)
    }

    /// The object with nothing but what these paths lead to. Like [`without`](Self::without), which is the other way round;
    /// what the object is called stays only if a path leads there.
    pub fn only(&self, paths: &JsonPaths) -> Result<Self, DecodeError> {
        self.cut(paths, Cut::Others)
    }

    fn cut(&self, paths: &JsonPaths, cut: Cut) -> Result<Self, DecodeError> {
        let parsed = self.inner.open()?.cut(paths, cut).map_err(|error| error.of_kind(self.kind()))?;
        Ok(parsed.map_or_else(|| self.clone(), |parsed| Self::new(&self.inner.info, parsed)))
    }
}

impl<K> Obj<K> {
    /// The same object in a payload of its own, like [`detached`](Self::detached), for those who have no use for the
    /// original: if nobody else holds it, only the payload is copied.
    pub fn into_detached(mut self) -> Self {
        let Some(inner) = Arc::get_mut(&mut self.inner) else { return self.detached() };
        inner.payload = inner.payload.detached();
        self
    }
}

impl<K> Obj<K> {
    /// The same object with another payload that stands for the same bytes. If nobody else holds it, nothing but the payload
    /// is made anew.
    pub(crate) fn repack(mut self, pack: impl FnOnce(&mut Header, &Payload) -> Payload) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.payload = pack(&mut inner.header, &inner.payload);
            return self;
        }
        let inner = &*self.inner;
        let mut header = inner.header.clone();
        let payload = pack(&mut header, &inner.payload);
        Self::of(Inner { header, payload, info: Arc::clone(&inner.info), id: inner.info.memo.number() })
    }
}

impl<K: Serialize> Obj<K> {
    /// The object that this value stands for. It costs writing the value as JSON and reading its header back. A value
    /// that has no name is refused.
    pub fn from_value(info: &Arc<ResourceInfo>, value: &K) -> Result<Self, ValueError> {
        let json = Json.encode(&value, ApiKind::from(&**info))?;
        Ok(Self::from_json(info, json)?)
    }
}

/// A Rust value cannot be made an [`Obj`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// It cannot be written.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// What was written is no object: it has no name.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl<K: DeserializeOwned + Send + Sync + 'static> Obj<K> {
    /// The object as a Rust value, decoded on first use.
    ///
    /// What was decoded is remembered for a while, but a [`ResourceInfo`] never holds more than 256 decoded values, and
    /// none of an object that is gone: those that look at an object at about the same time share one value, while a
    /// cache of a hundred thousand objects that were all looked at once does not come to hold a hundred thousand values.
    /// Keep the `Arc` for as long as you look at it, and ask again the next time.
    pub fn typed(&self) -> Result<Arc<K>, DecodeError> {
        let inner = &*self.inner;
        if let Some(value) = inner.info.memo.get(inner.id) {
            return Ok(value);
        }
        let value: Arc<K> = Arc::new(inner.open()?.decode()?);
        inner.info.memo.put(inner.id, &value);
        Ok(value)
    }
}

impl Inner {
    fn kind(&self) -> &str {
        self.header.kind().unwrap_or(self.info.kind())
    }

    fn api_version(&self) -> &str {
        self.header.api_version().unwrap_or(self.info.api_version())
    }

    fn open(&self) -> Result<Opened<'_>, DecodeError> {
        Ok(Opened {
            header: &self.header,
            info: &self.info,
            form: self.payload.form(),
            bytes: self.payload.open(&self.header)?,
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.info.memo.forget(self.id);
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
    /// Never prints the payload: it may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = type_name::<K>().rsplit("::").next().unwrap_or_default();
        write!(f, "Obj<{short}>({} {} @{})", self.kind(), self.key(), self.resource_version())
    }
}

#[cfg(test)]
mod tests;
