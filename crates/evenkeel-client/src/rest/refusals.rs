//! [`Refusals`]: which servers behind a host do not speak protobuf.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use evenkeel_core::{DecodeError, StreamError};

/// How many groups are remembered. Those beyond are found out again each time.
const MOST: usize = 1024;

/// The API groups that have to be spoken to in JSON.
///
/// A host may lead to several servers, each of which serves groups of its own. What one of them does not understand says
/// nothing of the others, so each is remembered by itself, for as long as the client lives.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// Nearly always there are none, and then nobody takes the lock.
    any: AtomicBool,
    groups: RwLock<BTreeSet<Box<str>>>,
}

impl Refusals {
    /// Whether this group has to be spoken to in JSON.
    pub(crate) fn include(&self, group: &str) -> bool {
        self.any.load(Ordering::Acquire) && self.groups.read().unwrap_or_else(PoisonError::into_inner).contains(group)
    }

    /// Remembers that this group has to be spoken to in JSON, and why.
    pub(crate) fn note(&self, group: &str, why: &'static str) {
        let mut groups = self.groups.write().unwrap_or_else(PoisonError::into_inner);
        if groups.len() < MOST && groups.insert(group.into()) {
            self.any.store(true, Ordering::Release);
            let group = if group.is_empty() { "core" } else { group };
            tracing::info!(group, why, "the server is spoken to in JSON from now on");
        }
    }
}

/// What remembers that an answer in protobuf could not be read, so that the next one is asked for in JSON: else whoever
/// asks again and again, as informers do, would never get any further.
#[derive(Clone)]
pub(crate) struct Distrust {
    refusals: Arc<Refusals>,
    group: Box<str>,
}

impl Distrust {
    /// Of answers of this group.
    pub(crate) fn new(refusals: &Arc<Refusals>, group: &str) -> Self {
        Distrust { refusals: Arc::clone(refusals), group: group.into() }
    }

    /// Looks at what is wrong with an object, if anybody cares.
    pub(crate) fn look_at(this: Option<&Self>, error: &DecodeError) {
        if let Some(this) = this
            && error.is_about_protobuf()
        {
            this.note();
        }
    }

    /// Looks at what is wrong with a stream, if anybody cares. One that broke off says nothing of who sent it.
    pub(crate) fn look_at_stream(this: Option<&Self>, error: &StreamError) {
        let is_about_protobuf = match error {
            // What has no meaning often seems to be very large.
            StreamError::Json(_)
            | StreamError::Protobuf { .. }
            | StreamError::UnknownKind { .. }
            | StreamError::NotAList { .. }
            | StreamError::TooLarge { .. } => true,
            StreamError::Object { source, .. } => source.is_about_protobuf(),
            _ => false,
        };
        if let (Some(this), true) = (this, is_about_protobuf) {
            this.note();
        }
    }

    /// Looks at what is wrong with the end of a body that was sent to its end: here nothing can have been lost on the way.
    pub(crate) fn look_at_end(this: Option<&Self>, error: &StreamError) {
        match (this, error) {
            (Some(this), StreamError::Truncated { .. }) => this.note(),
            _ => Self::look_at_stream(this, error),
        }
    }

    /// The answer was in protobuf, and could not be read.
    pub(crate) fn note(&self) {
        self.refusals.note(&self.group, "what it sent as protobuf cannot be read");
    }
}

impl fmt::Debug for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Distrust").field(&self.group).finish()
    }
}

#[cfg(test)]
mod tests;
