//! The table of open connections: decides which connection is closed when there are too many.
//!
//! Sans-IO: the caller closes what the table names, and passes the time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::activity::Activity;

/// An authenticated connection is evicted only if it has been idle for this long.
const EVICTABLE_AFTER: Duration = Duration::from_secs(5);

/// The limits of a [`ConnectionTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionLimits {
    /// All connections.
    pub(crate) total: usize,
    /// Connections without an authenticated request.
    pub(crate) unauthenticated: usize,
}

impl ConnectionLimits {
    /// A quarter of the connections may be without credentials.
    pub(crate) fn of(total: u64) -> Self {
        let total = usize::try_from(total).unwrap_or(usize::MAX);
        ConnectionLimits { total, unauthenticated: total.div_ceil(4) }
    }
}

/// Identifies a connection. Later connections have higher numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConnectionId(u64);

/// What becomes of a new connection.
#[derive(Debug)]
pub(crate) enum ConnectionAdmission<H> {
    Admitted(ConnectionId),
    /// Admitted in place of another connection, which must be closed.
    Replacing(ConnectionId, H),
    /// Every connection is in use.
    Refused,
}

/// The open connections with their handles.
#[derive(Debug)]
pub(crate) struct ConnectionTable<H> {
    limits: ConnectionLimits,
    next: u64,
    open: BTreeMap<ConnectionId, (Arc<Activity>, Option<H>)>,
}

impl<H> ConnectionTable<H> {
    pub(crate) fn new(limits: ConnectionLimits) -> Self {
        ConnectionTable { limits, next: 0, open: BTreeMap::new() }
    }

    /// Adds a connection. Its handle follows with [`ConnectionTable::set_handle`].
    ///
    /// Above a limit the oldest connection that never authenticated makes room. If all have authenticated, the one that has
    /// been idle for longest does.
    pub(crate) fn admit(&mut self, activity: Arc<Activity>, now: Duration) -> ConnectionAdmission<H> {
        let is_full = self.open.len() >= self.limits.total;
        let victim = if is_full {
            match self.victim(now) {
                Some(victim) => Some(victim),
                None => return ConnectionAdmission::Refused,
            }
        } else if self.open.len() >= self.limits.unauthenticated {
            let strangers = self.open.values().filter(|(activity, _)| !activity.is_authenticated()).count();
            (strangers >= self.limits.unauthenticated).then(|| self.oldest_unauthenticated()).flatten()
        } else {
            None
        };
        let id = ConnectionId(self.next);
        self.next += 1;
        self.open.insert(id, (activity, None));
        match victim.and_then(|victim| self.remove(victim)) {
            Some(handle) => ConnectionAdmission::Replacing(id, handle),
            None => ConnectionAdmission::Admitted(id),
        }
    }

    /// Removes the connection that is missed least, because descriptors ran out.
    pub(crate) fn evict(&mut self, now: Duration) -> Option<H> {
        let victim = self.victim(now)?;
        self.remove(victim)
    }

    pub(crate) fn set_handle(&mut self, id: ConnectionId, handle: H) {
        if let Some((_, slot)) = self.open.get_mut(&id) {
            *slot = Some(handle);
        }
    }

    /// Removes a connection. Returns its handle.
    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<H> {
        self.open.remove(&id).and_then(|(_, handle)| handle)
    }

    fn victim(&self, now: Duration) -> Option<ConnectionId> {
        self.oldest_unauthenticated().or_else(|| {
            let idle = self.open.iter().filter_map(|(id, (activity, _))| Some((activity.idle_since()?, *id)));
            let (since, id) = idle.min()?;
            (now.saturating_sub(since) >= EVICTABLE_AFTER).then_some(id)
        })
    }

    fn oldest_unauthenticated(&self) -> Option<ConnectionId> {
        self.open.iter().find(|(_, (activity, _))| !activity.is_authenticated()).map(|(id, _)| *id)
    }
}

#[cfg(test)]
mod tests;
