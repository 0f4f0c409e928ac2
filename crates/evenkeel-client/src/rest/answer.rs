//! [`Answer`]: what the server said, read to its end.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_core::{ListDecoder, Obj, Reason, ResourceInfo, Status};
use http::{StatusCode, response};
use serde::de::DeserializeOwned;

use super::stream::List;
use crate::error::{CallName, Error};

/// What the server said, read to its end. It is always a success: everything else is an [`Error`].
///
/// `Debug` shows the size of the body, never its bytes.
pub struct Answer {
    call: CallName,
    head: response::Parts,
    body: Bytes,
}

impl Answer {
    pub(crate) fn read(call: CallName, head: response::Parts, body: Bytes) -> Result<Self, Error> {
        if !head.status.is_success() {
            return Err(Self::failure(call, &head, &body));
        }
        Ok(Answer { call, head, body })
    }

    pub(crate) fn failure(call: CallName, head: &response::Parts, body: &[u8]) -> Error {
        let status = serde_json::from_slice::<Status>(body).unwrap_or_else(|_| {
            Status::failure(head.status.as_u16(), Reason::default(), format!("the server answered {}", head.status))
        });
        Error::Api { call, status: Box::new(status) }
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

    /// The bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.body
    }

    /// The answer as an object.
    pub fn object<K>(self, info: &Arc<ResourceInfo>) -> Result<Obj<K>, Error> {
        Obj::from_json(info, self.body).map_err(|source| Error::Decode { call: self.call, source })
    }

    /// The answer as a list.
    pub fn list<K>(self, info: &Arc<ResourceInfo>) -> Result<List<K>, Error> {
        let unreadable = |source| Error::Stream { call: self.call.clone(), source };
        let mut decoder = ListDecoder::new(Arc::clone(info));
        decoder.push(self.body);
        let mut items = Vec::new();
        while let Some(item) = decoder.next_item().map_err(unreadable)? {
            items.push(item);
        }
        Ok(List { items, meta: decoder.finish().map_err(unreadable)? })
    }

    /// The answer as a value of any type that can be read from JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| Error::Unreadable {
            call: self.call.clone(),
            problem: format!(
                "it is no {} (line {}, column {})",
                std::any::type_name::<T>(),
                error.line(),
                error.column()
            ),
        })
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Answer({}: {}, {} bytes)", self.call, self.head.status, self.body.len())
    }
}
