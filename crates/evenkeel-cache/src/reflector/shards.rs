//! [`Shards`]: the places that an informer is for, and what is known of the server's part in selecting them.
//!
//! The reflector drops every object out of range itself. The selector in its requests saves the server's encoding, the network and the
//! decoding; nothing depends on whether the server honours it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_core::shard::ShardSelector;
use evenkeel_core::status::qualified;
use evenkeel_core::{Header, ResourceInfo, Status};
use tokio::time::Instant;

use crate::metrics::ShardMetrics;
use crate::source::SourceError;

/// How long requests have no selector after a server has refused it.
const WITHDRAWN: Duration = Duration::from_secs(600);

/// Whether the server filters, as far as its responses tell. Servers of one cluster may differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ShardSupport {
    /// Lists of some kinds and all watches do not tell.
    #[default]
    Unknown,
    /// A list has told the selector of its request.
    Confirmed,
    /// An object arrived that the request does not select.
    Absent,
}

/// The places that the objects of an informer have. Its reflectors share it.
#[derive(Debug)]
pub(crate) struct Shards {
    selector: ShardSelector,
    /// What requests send; `None` if all places are selected.
    requested: Option<ShardSelector>,
    /// The name of the resource in logs.
    resource: String,
    metrics: ShardMetrics,
    state: Mutex<SupportState>,
}

#[derive(Debug, Default)]
struct SupportState {
    support: ShardSupport,
    /// Requests have no selector until then.
    withdrawn_until: Option<Instant>,
}

/// The shard selector of one request: a list with all its pages, or a watch.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestShards {
    /// `None` if the request has none.
    pub(super) sent: Option<ShardSelector>,
    /// The number of objects that were dropped.
    pub(super) dropped: usize,
    /// Whether an object arrived that the request does not select.
    is_unfiltered: bool,
}

impl Shards {
    pub(crate) fn new(selector: ShardSelector, resource: &ResourceInfo) -> Self {
        let resource = qualified(resource.group(), resource.plural());
        let metrics = ShardMetrics::new(&resource);
        Shards { requested: selector.requested(), selector, resource, metrics, state: Mutex::default() }
    }

    /// Returns the selector of a new request.
    pub(super) fn request(&self, now: Instant) -> RequestShards {
        self.metrics.register();
        RequestShards { sent: self.requested(now), ..RequestShards::default() }
    }

    /// Returns the selector that requests have now.
    pub(crate) fn requested(&self, now: Instant) -> Option<ShardSelector> {
        let is_withdrawn = self.lock().withdrawn_until.is_some_and(|until| now < until);
        self.requested.clone().filter(|_| !is_withdrawn)
    }

    /// Returns whether an object is in range.
    pub(crate) fn admits(&self, object: &Header) -> bool {
        self.selector.matches(object)
    }

    /// Records an object that is not in range.
    pub(super) fn dropped(&self, object: &Header, request: &mut RequestShards) {
        request.dropped += 1;
        self.metrics.dropped();
        // The request may select more places than the informer is for.
        if !request.is_unfiltered && request.sent.as_ref().is_some_and(|sent| !sent.matches(object)) {
            request.is_unfiltered = true;
            self.set(ShardSupport::Absent);
        }
    }

    /// Records the end of a list or page, and the selector that it tells.
    pub(super) fn told(&self, selector: Option<&str>, request: &RequestShards) {
        let told = selector.and_then(|text| text.parse::<ShardSelector>().ok());
        if told.is_some() && told == request.sent && !request.is_unfiltered {
            self.set(ShardSupport::Confirmed);
        }
    }

    /// Records that the objects of a list or WatchList are complete.
    pub(super) fn completed(&self, request: &RequestShards) {
        let is_filtered = request.sent.is_some() && !request.is_unfiltered;
        if is_filtered && self.lock().support == ShardSupport::Absent {
            self.set(ShardSupport::Unknown);
        }
    }

    /// Returns whether a failure is about the selector of the request. Later requests have none for a while.
    pub(crate) fn refused(&self, error: &SourceError, sent: Option<&ShardSelector>, now: Instant) -> bool {
        if sent.is_none() || !error.status().is_some_and(is_about_shards) {
            return false;
        }
        self.lock().withdrawn_until = now.checked_add(WITHDRAWN);
        tracing::warn!(resource = &*self.resource, %error, retry_in = ?WITHDRAWN, "shard selector refused; continuing without it");
        self.change(ShardSupport::Unknown);
        true
    }

    /// Returns whether the support is another one than before.
    fn change(&self, support: ShardSupport) -> bool {
        let is_new = std::mem::replace(&mut self.lock().support, support) != support;
        if is_new {
            self.metrics.support(support);
        }
        is_new
    }

    fn set(&self, support: ShardSupport) {
        if !self.change(support) {
            return;
        }
        let resource = &*self.resource;
        match support {
            ShardSupport::Unknown => tracing::info!(resource, "not known whether the server filters by shard selector"),
            ShardSupport::Confirmed => tracing::info!(resource, "the server filters by shard selector"),
            ShardSupport::Absent => {
                tracing::info!(resource, "the server does not filter by shard selector; dropping objects out of range");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, SupportState> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a Status is the refusal of a shard selector. A malformed one is an internal error of kube-apiserver.
fn is_about_shards(status: &Status) -> bool {
    matches!(status.code, 400 | 422 | 500) && status.message.to_ascii_lowercase().contains("shard")
}

#[cfg(test)]
mod tests;
