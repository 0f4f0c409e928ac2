//! Methods of [`Obj`] for the other crates of evenkeel.

use std::sync::Arc;

use bytes::Bytes;
use ref_cast::ref_cast_custom;
use serde::de::DeserializeOwned;

use super::attachment::AttachedValue;
use super::{Obj, ObjInner};
use crate::codec::Codec;
use crate::error::DecodeError;
use crate::resource::ResourceInfo;

impl<K> Obj<K> {
    /// Borrows a shared object as one of this kind, at no cost.
    #[ref_cast_custom]
    fn borrowed(inner: &Arc<ObjInner>) -> &Self;

    /// Reads an object from bytes. Returns an error for a list and anything else without a name.
    pub fn decode(codec: Codec, info: &Arc<ResourceInfo>, bytes: Bytes) -> Result<Self, DecodeError> {
        codec.decode(bytes).map(|parsed| Self::new(info, parsed)).map_err(|error| error.of_kind(info.kind()))
    }

    /// Borrows the same object as kind `L`. [`typed`](Self::typed) checks whether it fits.
    pub fn as_kind<L>(&self) -> &Obj<L> {
        Obj::borrowed(&self.inner)
    }

    /// Returns whether both are the same object in the same state: equal uid and resource version, both assigned by the server.
    /// Their contents are then equal.
    pub fn is_same_state_as<L>(&self, other: &Obj<L>) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
            || (!self.resource_version().is_empty()
                && !self.uid().is_empty()
                && self.resource_version() == other.resource_version()
                && self.uid() == other.uid()
                && self.key() == other.key())
    }

    /// Returns the size of the payload in memory, without what it shares with other objects.
    pub fn payload_bytes(&self) -> usize {
        self.inner.payload.encoded_len()
    }

    /// Decodes the object as a value of any type, which need not have all fields of its kind. The value is not cached.
    pub fn decode_as<V: DeserializeOwned>(&self) -> Result<V, DecodeError> {
        self.inner.view()?.decode()
    }

    /// Returns the value that is attached to the object under this id.
    #[inline]
    pub fn attached(&self, id: u64) -> Option<&AttachedValue> {
        self.inner.attachments.get(id)
    }

    /// Attaches a value to the object, for as long as the object exists. If there is one with this id, it stays. Returns the one
    /// that is attached.
    pub fn get_or_attach(&self, id: u64, value: AttachedValue) -> &AttachedValue {
        self.inner.attachments.get_or_attach(id, value)
    }

    /// Moves the object into memory of its own, like [`detached`](Self::detached). If there is no other reference to the object,
    /// only the payload is copied.
    pub fn into_detached(mut self) -> Self {
        let Some(inner) = Arc::get_mut(&mut self.inner) else { return self.detached() };
        inner.payload = inner.payload.detached();
        self
    }
}
