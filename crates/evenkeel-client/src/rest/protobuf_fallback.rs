//! [`ProtobufFallback`]: the API groups and resources that the client requests in JSON although protobuf is preferred.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use evenkeel_core::{DecodeError, StreamError};
use tokio::time::Instant;

/// How many entries are kept. What is beyond is rediscovered with every request.
const MAX_ENTRIES: usize = 1024;
/// How long a group that rejected protobuf is requested in JSON.
const REJECTED: Duration = Duration::from_secs(3600);
/// How long a resource whose protobuf could not be decoded is requested in JSON.
const UNDECODABLE: Duration = Duration::from_secs(600);

/// What is requested in JSON, and until when.
///
/// Several servers may be behind one host, each serving its own groups: a server that rejects protobuf (406, 415) affects its
/// group only. A response that cannot be decoded affects its resource only, because one malformed or oversized object proves
/// nothing about other resources. Entries expire, so that protobuf is tried again.
#[derive(Debug, Default)]
pub(crate) struct ProtobufFallback {
    /// Whether there has been an entry: requests skip the lock otherwise.
    any: AtomicBool,
    entries: RwLock<HashMap<FallbackScope, Instant>>,
}

/// A whole group, or one resource of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FallbackScope {
    group: Box<str>,
    resource: Option<Box<str>>,
}

impl ProtobufFallback {
    /// Returns whether this resource is requested in JSON.
    pub(crate) fn applies_to(&self, group: &str, resource: &str) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let now = Instant::now();
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let is_listed = |resource: Option<&str>| {
            let scope = FallbackScope { group: group.into(), resource: resource.map(Into::into) };
            entries.get(&scope).is_some_and(|until| *until > now)
        };
        is_listed(None) || is_listed(Some(resource))
    }

    /// Requests the group in JSON: its server rejected protobuf.
    pub(crate) fn rejected(&self, group: &str) {
        if self.add(FallbackScope { group: group.into(), resource: None }, REJECTED) {
            let group = group_name(group);
            tracing::info!(group, retry_in = ?REJECTED, "protobuf rejected; falling back to JSON for this group");
        }
    }

    /// Requests the resource in JSON: its protobuf could not be decoded.
    fn undecodable(&self, group: &str, resource: &str) {
        if self.add(FallbackScope { group: group.into(), resource: Some(resource.into()) }, UNDECODABLE) {
            let (group, retry_in) = (group_name(group), UNDECODABLE);
            tracing::info!(
                group,
                resource,
                ?retry_in,
                "protobuf could not be decoded; falling back to JSON for this resource"
            );
        }
    }

    /// Adds an entry. Returns whether it is new.
    fn add(&self, scope: FallbackScope, lifetime: Duration) -> bool {
        let now = Instant::now();
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= MAX_ENTRIES {
            entries.retain(|_, until| *until > now);
        }
        if entries.len() >= MAX_ENTRIES && !entries.contains_key(&scope) {
            return false;
        }
        self.any.store(true, Ordering::Release);
        entries.insert(scope, now + lifetime).is_none_or(|until| until <= now)
    }
}

fn group_name(group: &str) -> &str {
    if group.is_empty() { "core" } else { group }
}

/// Adds a fallback when a protobuf response cannot be decoded. Without it a caller that retries, such as an informer, would
/// receive the same response over and over.
#[derive(Clone)]
pub(crate) struct ProtobufGuard {
    fallback: Arc<ProtobufFallback>,
    group: Box<str>,
    resource: Box<str>,
}

impl ProtobufGuard {
    pub(crate) fn new(fallback: &Arc<ProtobufFallback>, group: &str, resource: &str) -> Self {
        ProtobufGuard { fallback: Arc::clone(fallback), group: group.into(), resource: resource.into() }
    }

    /// Checks the error of an object.
    pub(crate) fn check(this: Option<&Self>, error: &DecodeError) {
        if let Some(this) = this
            && error.is_about_protobuf()
        {
            this.fall_back();
        }
    }

    /// Checks the error of a list or a watch. A truncated stream proves nothing about its encoding.
    pub(crate) fn check_stream(this: Option<&Self>, error: &StreamError) {
        let is_about_protobuf = match error {
            // A malformed length often looks like a very large object.
            StreamError::Json(_)
            | StreamError::Protobuf { .. }
            | StreamError::UnknownKind { .. }
            | StreamError::NotAList { .. }
            | StreamError::TooLarge { .. } => true,
            StreamError::Object { source, .. } => source.is_about_protobuf(),
            _ => false,
        };
        if let (Some(this), true) = (this, is_about_protobuf) {
            this.fall_back();
        }
    }

    /// Checks the error at the end of a body that was received completely: truncation is an encoding error here.
    pub(crate) fn check_end(this: Option<&Self>, error: &StreamError) {
        match (this, error) {
            (Some(this), StreamError::Truncated { .. }) => this.fall_back(),
            _ => Self::check_stream(this, error),
        }
    }

    pub(crate) fn fall_back(&self) {
        self.fallback.undecodable(&self.group, &self.resource);
    }
}

impl fmt::Debug for ProtobufGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProtobufGuard").field(&self.group).field(&self.resource).finish()
    }
}

#[cfg(test)]
mod tests;
