//! [`Answer`]: what the server said, read to its end.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_core::codec::{Codec, ListDecoder};
use evenkeel_core::{DecodeError, Obj, ResourceInfo, Status};
use http::header::CONTENT_TYPE;
use http::{StatusCode, response};
use serde::de::DeserializeOwned;

use super::failure::{failure_in, is_failure};
use super::media::{MediaError, to_json};
use super::refusals::Distrust;
use super::stream::List;
use super::text::escaped;
use super::warnings::{self, Warning};
use crate::error::{CallName, Error};

/// What the server said, read to its end. It is always a success: everything else is an [`Error`].
///
/// `Debug` shows the size of the body, never its bytes.
pub struct Answer {
    call: CallName,
    head: response::Parts,
    body: Bytes,
    codec: Result<Codec, MediaError>,
    /// Whether it is about a part of an object, such as its scale, which may be of any kind.
    is_part: bool,
    distrust: Option<Distrust>,
}

impl Answer {
    pub(super) fn new(
        call: CallName,
        head: response::Parts,
        body: Bytes,
        codec: Result<Codec, MediaError>,
        is_part: bool,
        distrust: Option<Distrust>,
    ) -> Self {
        Answer { call, head, body, codec, is_part, distrust }
    }

    /// The HTTP status: 200, 201 or another 2xx.
    pub fn status(&self) -> StatusCode {
        self.head.status
    }

    /// Whether the call created the object.
    pub fn was_created(&self) -> bool {
        self.head.status == StatusCode::CREATED
    }

    /// The headers.
    pub fn headers(&self) -> &http::HeaderMap {
        &self.head.headers
    }

    /// What the server says that the bytes are, if it says so in ASCII.
    pub fn content_type(&self) -> Option<&str> {
        self.head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok())
    }

    /// What the server warns of. The [handler](super::WarningHandler) has heard it already.
    pub fn warnings(&self) -> Vec<Warning> {
        warnings::parse(&self.head.headers)
    }

    /// The bytes, in the form that [`content_type`](Self::content_type) says.
    pub fn bytes(&self) -> &Bytes {
        &self.body
    }

    /// The answer as an object.
    ///
    /// It must be of the kind that was asked for. One that does not say its kind is taken for one; the metadata of an
    /// object, which the server sends if it is asked for that, may stand for it; and a subresource may be of any kind. A
    /// `Status` in its place is an error: the one that it states, if it states a failure.
    pub fn object<K>(self, info: &Arc<ResourceInfo>) -> Result<Obj<K>, Error> {
        let codec = self.codec(info.kind())?;
        match Obj::decode(codec, info, self.body.clone()) {
            Ok(object) if self.is_part || is_of_kind(&object, info) => Ok(object),
            decoded => Err(self.mismatch(codec, info, decoded.map(|object| name_of(&object)))),
        }
    }

    /// The answer as a list.
    pub fn list<K>(self, info: &Arc<ResourceInfo>) -> Result<List<K>, Error> {
        let unreadable = |source| {
            Distrust::look_at_stream(self.distrust.as_ref(), &source);
            Error::Stream { call: self.call.clone(), source }
        };
        let codec = self.codec(info.kind())?;
        let mut decoder = ListDecoder::new(codec, Arc::clone(info));
        decoder.push(self.body.clone());
        let mut items = Vec::new();
        while let Some(item) = decoder.next_item().map_err(unreadable)? {
            items.push(item);
        }
        let meta = decoder.finish().map_err(|source| {
            Distrust::look_at_end(self.distrust.as_ref(), &source);
            Error::Stream { call: self.call.clone(), source }
        })?;
        Ok(List { items, meta })
    }

    /// The `Status` that a call answers with that has no object to show, such as some deletions; `None` if the answer is
    /// anything else. A `Status` that states a failure is that error.
    pub fn outcome(&self) -> Result<Option<Status>, Error> {
        let status = self.codec("Status")?.decode_status(&self.body);
        match status {
            Some(status) if is_failure(&status) => {
                Err(Error::Api { call: self.call.clone(), status: Box::new(status) })
            }
            other => Ok(other),
        }
    }

    /// The answer as a value of any type that can be read from JSON, whatever the form that it came in. Something that came
    /// as protobuf, and has no known form there, cannot be read.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let what = std::any::type_name::<T>();
        let json = to_json(self.codec(what)?, &self.body).map_err(|problem| {
            self.distrust.iter().for_each(Distrust::note);
            self.unreadable(format!("it is no {what}: {problem}"))
        })?;
        serde_json::from_slice(&json).map_err(|error| {
            self.unreadable(format!("it is no {what} (line {}, column {})", error.line(), error.column()))
        })
    }

    /// The codec for the body, which is expected to be there.
    fn codec(&self, expected: &str) -> Result<Codec, Error> {
        if self.body.is_empty() {
            return Err(self.unreadable(format!("0-length body instead of {expected}")));
        }
        self.codec.clone().map_err(|error| self.unreadable(error.to_string()))
    }

    /// The codec for the body, if there is a body and a codec for it.
    pub(crate) fn known_codec(&self) -> Option<Codec> {
        self.codec.as_ref().ok().copied().filter(|_| !self.body.is_empty())
    }

    #[cold]
    fn mismatch(self, codec: Codec, info: &ResourceInfo, decoded: Result<String, DecodeError>) -> Error {
        if let Some(status) = failure_in(codec, &self.body) {
            return Error::Api { call: self.call, status: Box::new(status) };
        }
        if let Err(error) = &decoded {
            Distrust::look_at(self.distrust.as_ref(), error);
        }
        let source = decoded.map_or_else(
            |error| error,
            |found| DecodeError::OtherKind {
                expected: full_name(info.api_version(), info.kind()).into(),
                found: found.into(),
            },
        );
        Error::Decode { call: self.call, source }
    }

    #[cold]
    pub(crate) fn unreadable(&self, problem: String) -> Error {
        Error::Unreadable { call: self.call.clone(), problem }
    }
}

/// Whether an object is what was asked for, or at least its metadata.
fn is_of_kind<K>(object: &Obj<K>, info: &ResourceInfo) -> bool {
    let is_it = object.kind() == info.kind() && object.api_version() == info.api_version();
    is_it || (object.kind() == "PartialObjectMetadata" && object.api_version().starts_with("meta.k8s.io/"))
}

fn name_of<K>(object: &Obj<K>) -> String {
    escaped(full_name(object.api_version(), object.kind()).as_bytes(), 256)
}

/// `apps/v1 Deployment`.
fn full_name(api_version: &str, kind: &str) -> String {
    format!("{api_version} {kind}")
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Answer({}: {}, {} bytes)", self.call, self.head.status, self.body.len())
    }
}
