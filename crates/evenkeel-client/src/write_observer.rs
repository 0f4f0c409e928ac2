//! [`WriteObserver`]: notified of every write that a [`Client`](crate::Client) makes.

use std::sync::Arc;

use evenkeel_core::codec::ListDecoder;
use evenkeel_core::{Header, Obj, ObjectKey, ResourceInfo};
use http::Method;
use http::header::{CONTENT_TYPE, HeaderMap};

use crate::error::Error;
use crate::observer_chain::ObserverChain;
use crate::rest::{Path, Response};
use crate::transport::TransportFault;

/// Receives every write of a client. Registered with [`Client::with_write_observer`](crate::Client::with_write_observer).
///
/// # Guarantees
/// - Typed, dynamic and metadata APIs, subresources, scales, evictions, bindings, [`create_or_update`](crate::create_or_update),
///   [`create_or_patch`](crate::create_or_patch) and a [`Request`](crate::Request) built from
///   [`Path::resource`](crate::Path::resource) are all reported.
/// - The observer runs after the response was received and decoded, and before the caller receives it.
/// - A write that the server rejected is not reported. Neither is a dry run.
/// - A write whose response was lost is reported as [`WriteResult::Unknown`]: the connection failed after the request was sent,
///   time ran out, the server responded with 5xx, or the response could not be read.
///
/// # Not guaranteed
/// - A request to a [raw path](crate::Path::raw), one that is proxied to a pod or a service, and one whose response is
///   [streamed](crate::Request::stream) are not reported: their object is not known.
/// - A write whose future is dropped before the response arrives is not reported.
/// - A [raw request](crate::Request) that states a dry run in its body instead of its query is reported.
///
/// The observer runs inside of the request's future: it must not block.
pub trait WriteObserver: Send + Sync + 'static {
    /// Receives one write. A deleted collection is reported object by object.
    fn observe(&self, write: &ObservedWrite<'_>);
}

impl<F: Fn(&ObservedWrite<'_>) + Send + Sync + 'static> WriteObserver for F {
    fn observe(&self, write: &ObservedWrite<'_>) {
        self(write);
    }
}

/// One write, as a [`WriteObserver`] receives it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ObservedWrite<'a> {
    /// The verb.
    pub verb: WriteVerb,
    /// The resource that was written, also if the write was made through a subresource.
    pub resource: &'a ResourceInfo,
    /// The subresource, such as `status`.
    pub subresource: Option<&'a str>,
    /// The key of the object. `None` if it is not known: of a collection whose objects the server does not return, and of a
    /// create with a generated name whose response was lost.
    pub key: Option<&'a ObjectKey>,
    /// What the write resulted in.
    pub result: WriteResult<'a>,
}

/// What a write does, in RBAC's terms. A `POST` to a subresource, such as an eviction or a binding, is a create.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WriteVerb {
    /// `POST`.
    Create,
    /// `PUT`.
    Update,
    /// `PATCH`, except for server-side apply.
    Patch,
    /// Server-side apply. RBAC's verb for it is `patch`.
    Apply,
    /// `DELETE` of one object.
    Delete,
    /// `DELETE` of a collection. RBAC's verb for it is `deletecollection`.
    DeleteCollection,
}

/// What a write resulted in.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum WriteResult<'a> {
    /// The server stores the object with this header. It is being deleted if it carries a deletion timestamp. Its resource
    /// version is empty for resources that are not stored, such as access reviews.
    Stored(&'a Header),
    /// The object does not exist any more: it was deleted without a grace period and had no finalizers, or the write removed the
    /// last finalizer of an object that was being deleted.
    Removed {
        /// The uid of the removed object; empty if the server did not return it.
        uid: &'a str,
    },
    /// The server accepted the write and returned no object: an eviction, a binding, the deletion of a collection.
    Accepted,
    /// The response was lost: the server may or may not have acted on the write.
    Unknown,
}

impl ObservedWrite<'_> {
    /// Returns the resource version that the write made; empty unless the result is [`WriteResult::Stored`].
    pub fn resource_version(&self) -> &str {
        match self.result {
            WriteResult::Stored(header) => header.resource_version(),
            _ => "",
        }
    }

    /// Returns the uid of the object; empty if the server did not return it.
    pub fn uid(&self) -> &str {
        match self.result {
            WriteResult::Stored(header) => header.uid(),
            WriteResult::Removed { uid } => uid,
            WriteResult::Accepted | WriteResult::Unknown => "",
        }
    }

    /// Returns whether the object does not exist any more.
    pub fn is_removed(&self) -> bool {
        matches!(self.result, WriteResult::Removed { .. })
    }

    /// Returns whether the object still exists and is being deleted.
    pub fn is_terminating(&self) -> bool {
        matches!(self.result, WriteResult::Stored(header) if header.deletion_timestamp().is_some())
    }
}

/// The observers of a client.
pub(crate) type WriteObservers = ObserverChain<dyn WriteObserver>;

/// The write that a request makes, for its client's observers.
#[derive(Clone, Debug)]
pub(crate) struct PendingWrite {
    observers: WriteObservers,
    method: Method,
    resource: Arc<ResourceInfo>,
    subresource: Option<Box<str>>,
    /// Of the object that the request names.
    key: Option<ObjectKey>,
}

impl PendingWrite {
    /// The write that a request to this path makes, if it makes one and has observers.
    pub(crate) fn new(observers: &WriteObservers, method: &Method, path: &Path<'_>) -> Option<Self> {
        let is_write = matches!(*method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE);
        if observers.is_empty() || !is_write || path.is_proxied() {
            return None;
        }
        let info = path.info()?;
        let resource = ResourceInfo::new(info.group(), info.version(), info.kind(), info.plural(), info.namespaced());
        Some(PendingWrite {
            observers: observers.clone(),
            method: method.clone(),
            resource: Arc::new(resource),
            subresource: path.subresource_name().map(Into::into),
            key: path.key(),
        })
    }

    /// Reports the outcome of the request, which was sent with these headers.
    pub(crate) fn report(&self, headers: &HeaderMap, outcome: Result<&Response, &Error>) {
        let verb = self.verb(headers);
        match outcome {
            Ok(response) => self.report_response(verb, response),
            Err(error) if may_have_been_written(error) => self.notify(verb, self.key.as_ref(), WriteResult::Unknown),
            Err(_) => {}
        }
    }

    fn report_response(&self, verb: WriteVerb, response: &Response) {
        let Some(codec) = response.known_codec() else {
            return self.notify(verb, self.key.as_ref(), WriteResult::Unknown);
        };
        if let Some(status) = codec.decode_status(response.bytes()) {
            let uid = status.details.as_ref().map_or("", |details| &details.uid);
            let result = match verb {
                _ if status.status == "Failure" => return,
                WriteVerb::Delete if self.subresource.is_none() => WriteResult::Removed { uid },
                _ => WriteResult::Accepted,
            };
            return self.notify(verb, self.key.as_ref(), result);
        }
        if verb == WriteVerb::DeleteCollection {
            let mut decoder = ListDecoder::<()>::new(codec, Arc::clone(&self.resource));
            decoder.push(response.bytes().clone());
            loop {
                match decoder.next_item() {
                    Ok(Some(object)) => self.report_object(verb, object.key(), &object),
                    Ok(None) => return,
                    Err(_) => return self.notify(verb, None, WriteResult::Unknown),
                }
            }
        }
        match Obj::<()>::decode(codec, &self.resource, response.bytes().clone()) {
            // What a subresource returns need not name its object.
            Ok(object) => self.report_object(verb, self.key.as_ref().unwrap_or(object.key()), &object),
            Err(_) => self.notify(verb, self.key.as_ref(), WriteResult::Unknown),
        }
    }

    fn report_object(&self, verb: WriteVerb, key: &ObjectKey, object: &Obj<()>) {
        let is_delete = matches!(verb, WriteVerb::Delete | WriteVerb::DeleteCollection);
        // Some resources return the object also if it was removed.
        let removed = is_removed(object) || is_delete && object.deletion_timestamp().is_none();
        let result =
            if removed { WriteResult::Removed { uid: object.uid() } } else { WriteResult::Stored(object.header()) };
        self.notify(verb, Some(key), result);
    }

    fn notify(&self, verb: WriteVerb, key: Option<&ObjectKey>, result: WriteResult<'_>) {
        let subresource = self.subresource.as_deref();
        let write = ObservedWrite { verb, resource: &self.resource, subresource, key, result };
        self.observers.iter().for_each(|observer| observer.observe(&write));
    }

    fn verb(&self, headers: &HeaderMap) -> WriteVerb {
        let is_apply = || {
            let media_type = headers.get(CONTENT_TYPE).map(|value| value.as_bytes());
            media_type.is_some_and(|media_type| media_type.starts_with(b"application/apply-patch+"))
        };
        match self.method {
            Method::POST => WriteVerb::Create,
            Method::PUT => WriteVerb::Update,
            Method::DELETE if self.key.is_none() => WriteVerb::DeleteCollection,
            Method::DELETE => WriteVerb::Delete,
            _ if is_apply() => WriteVerb::Apply,
            _ => WriteVerb::Patch,
        }
    }
}

/// Returns whether an object that a write returned was removed by it. The server removes an object when its last finalizer is
/// removed during its deletion, and returns the version that it had before: nothing else tells of the removal.
fn is_removed(object: &Obj<()>) -> bool {
    let grace = || object.path("metadata.deletionGracePeriodSeconds").ok().flatten();
    let has_no_grace = || grace().is_some_and(|grace| grace.json() == "0");
    object.deletion_timestamp().is_some() && object.finalizers().len() == 0 && has_no_grace()
}

/// Returns whether a server may have acted on a write that ended with this error.
fn may_have_been_written(error: &Error) -> bool {
    match error {
        Error::Api { status, .. } => status.code >= 500,
        Error::Transport { source, .. } => !matches!(
            source.fault(),
            TransportFault::Resolve
                | TransportFault::Refused
                | TransportFault::Connect
                | TransportFault::ConnectTimeout
                | TransportFault::Proxy
                | TransportFault::Tls
                | TransportFault::Credentials
        ),
        Error::Timeout { .. } | Error::TooLarge { .. } | Error::Unreadable { .. } => true,
        _ => false,
    }
}
