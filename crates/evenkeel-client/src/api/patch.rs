//! [`Patch`]: a patch of an object, in one of the four types that servers accept.

use std::fmt;

use bytes::Bytes;
use serde::Serialize;

use crate::rest::RequestError;

/// A patch of an object.
///
/// ```
/// use evenkeel_client::Patch;
/// use serde_json::json;
///
/// let label = Patch::merge(&json!({"metadata": {"labels": {"tier": "web"}}}));
/// let scale = Patch::json(&json!([{"op": "replace", "path": "/spec/replicas", "value": 3}]));
/// ```
///
/// [`merge_from`](Self::merge_from), [`strategic_from`](Self::strategic_from) and [`json_from`](Self::json_from) compute one
/// from two states of an object.
///
/// `Debug` shows the size of the patch, never its content: it may contain a Secret.
#[derive(Clone)]
pub struct Patch {
    pub(super) media_type: &'static str,
    pub(super) body: Result<Bytes, RequestError>,
}

impl Patch {
    /// A JSON patch: a list of operations (RFC 6902).
    pub fn json<T: Serialize + ?Sized>(operations: &T) -> Self {
        Self::new("application/json-patch+json", operations)
    }

    /// A merge patch: members replace those of the object, null removes them (RFC 7386).
    pub fn merge<T: Serialize + ?Sized>(members: &T) -> Self {
        Self::new("application/merge-patch+json", members)
    }

    /// A strategic merge patch: like [`merge`](Self::merge), but lists with keys are merged item by item. Built-in
    /// kinds only.
    pub fn strategic<T: Serialize + ?Sized>(members: &T) -> Self {
        Self::new("application/strategic-merge-patch+json", members)
    }

    /// A server-side apply patch: the fields that the field manager owns, with their values. It needs a field manager;
    /// [`Api::apply`](super::Api::apply) takes one.
    pub fn apply<T: Serialize + ?Sized>(fields: &T) -> Self {
        Self::new("application/apply-patch+yaml", fields)
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> Option<Bytes> {
        self.body.as_ref().ok().cloned()
    }

    /// A patch that cannot be sent.
    pub(super) fn invalid(error: RequestError) -> Self {
        Patch { media_type: "application/merge-patch+json", body: Err(error) }
    }

    fn new<T: Serialize + ?Sized>(media_type: &'static str, value: &T) -> Self {
        let body = serde_json::to_vec(value)
            .map(Bytes::from)
            .map_err(|error| RequestError::Body { what: "the patch".into(), problem: error.to_string() });
        Patch { media_type, body }
    }
}

impl fmt::Debug for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.body {
            Ok(body) => write!(f, "Patch({}, {} bytes)", self.media_type, body.len()),
            Err(fault) => f.debug_tuple("Patch").field(&self.media_type).field(fault).finish(),
        }
    }
}
