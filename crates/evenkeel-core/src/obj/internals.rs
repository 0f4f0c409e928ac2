//! Methods of [`Obj`] for the other crates of evenkeel.

use std::sync::Arc;

use bytes::Bytes;
use ref_cast::ref_cast_custom;

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

    /// Moves the object into memory of its own, like [`detached`](Self::detached). If there is no other reference to the object,
    /// only the payload is copied.
    pub fn into_detached(mut self) -> Self {
        let Some(inner) = Arc::get_mut(&mut self.inner) else { return self.detached() };
        inner.payload = inner.payload.detached();
        self
    }
}
