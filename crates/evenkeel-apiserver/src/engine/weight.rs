//! Which requests are expensive. The listener runs those aside, so that they delay no other request.
//!
//! A request is judged before anything of it is done: by the size of its body, of the object that it changes, or of the
//! collection that it reads. The schema of a custom resource can make small objects expensive, so the time that its
//! writes take decides as well.
//!
//! Only expensive requests may wait for a lock that is held for long: those of Services, definitions and terminating
//! namespaces.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use super::ApiEngine;
use super::request::ResourceRequest;
use super::request_error::RequestError;
use crate::http_types::{HandlerCall, HandlerOutcome};
use crate::route::Verb;

/// A body or a stored object of this size costs about a millisecond.
const LARGE_OBJECT: usize = 32 * 1024;
/// The number of objects of a resource that a list reads in about a millisecond.
const LARGE_COLLECTION: usize = 2000;
/// The bytes of a collection that are written in about a millisecond, indented or as a table.
const LARGE_COLLECTION_BYTES: usize = 256 * 1024;
/// The number of objects that a request deletes directly.
const LARGE_DELETION: usize = 16;
/// The time of a write from which on the writes of its custom resource count as expensive.
const SLOW: Duration = Duration::from_millis(3);
/// The time below which they count as cheap again.
const FAST: Duration = Duration::from_millis(1);
/// The most custom resources that are remembered as slow.
const MAX_SLOW: usize = 1024;

/// The custom resources whose last write was slow.
#[derive(Debug, Default)]
pub(super) struct SlowResources(RwLock<HashSet<Arc<str>>>);

impl SlowResources {
    fn contains(&self, storage: &Arc<str>) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(storage)
    }

    /// Records how long a write took.
    fn record(&self, storage: &Arc<str>, took: Duration) {
        let is_slow = self.contains(storage);
        if took >= SLOW && !is_slow {
            let mut slow = self.0.write().unwrap_or_else(PoisonError::into_inner);
            if slow.len() >= MAX_SLOW {
                slow.clear();
            }
            slow.insert(Arc::clone(storage));
        } else if took < FAST && is_slow {
            self.0.write().unwrap_or_else(PoisonError::into_inner).remove(storage);
        }
    }
}

impl ApiEngine {
    /// Serves a request to a resource, or returns [`HandlerOutcome::TakesLong`] if it is expensive and must not be.
    pub(super) fn dispatch_weighed(
        self: &Arc<Self>,
        request: &ResourceRequest<'_>,
        call: HandlerCall,
    ) -> Result<HandlerOutcome, RequestError> {
        if !call.may_take_long && self.is_expensive(request) {
            return Ok(HandlerOutcome::TakesLong);
        }
        let resource = request.resource();
        if resource.custom.is_none() || request.route.verb.only_reads() {
            return self.dispatch_resource(request);
        }
        let start = self.env.monotonic();
        let outcome = self.dispatch_resource(request);
        self.slow.record(&resource.storage, self.env.monotonic().saturating_sub(start));
        outcome
    }

    fn is_expensive(&self, request: &ResourceRequest<'_>) -> bool {
        let resource = request.resource();
        let (verb, hooks) = (request.route.verb, resource.strategy.hooks);
        if request.http.body.len() > LARGE_OBJECT {
            return true;
        }
        if !verb.only_reads() && (hooks.serialises_writes() || self.slow.contains(&resource.storage)) {
            return true;
        }
        match verb {
            Verb::Create => false,
            Verb::Get => self.is_large(request),
            Verb::Update | Verb::Patch | Verb::Delete => {
                // The removal of the last object of a namespace or a definition removes that as well.
                hooks.contains_objects()
                    || resource.custom.as_ref().is_some_and(|custom| custom.terminating)
                    || request.namespace().is_some_and(|namespace| self.is_namespace_terminating(namespace))
                    || self.is_large(request)
            }
            Verb::List => self.is_large_collection(request),
            Verb::Watch => {
                let version = request.query.get("resourceVersion").unwrap_or_default();
                let has_state = matches!(version, "" | "0") || request.query.get("sendInitialEvents").is_some();
                has_state && self.is_large_collection(request)
            }
            Verb::DeleteCollection => hooks.contains_objects() || self.store.size(&resource.storage).0 > LARGE_DELETION,
        }
    }

    /// Returns whether the resource of a request has many or large objects.
    fn is_large_collection(&self, request: &ResourceRequest<'_>) -> bool {
        let (objects, bytes) = self.store.size(&request.resource().storage);
        objects > LARGE_COLLECTION || bytes > LARGE_COLLECTION_BYTES
    }

    /// Returns whether the object of a request is large.
    fn is_large(&self, request: &ResourceRequest<'_>) -> bool {
        let key = request.target(super::target::WriteScope::Main).key();
        let stored = self.store.get(&request.resource().storage, &key);
        stored.is_some_and(|record| record.json().len() > LARGE_OBJECT)
    }
}

#[cfg(test)]
mod tests;
