//! The metrics of one server, in Prometheus' text format (MTX-001 to MTX-003).
//!
//! Every server has its own: several servers of a process share nothing, so the process-wide recorder of the crate
//! `metrics` does not fit, and a registry with labels as strings would allocate for every request. A request costs a
//! lookup by borrowed labels under a shared lock and a few atomic additions.
//!
//! The number of series is bounded. A resource that the server does not serve has no labels of its own, and neither has
//! any resource once [`MAX_SERIES`] exist.

mod histogram;
mod process;
mod series;
mod text;

use std::hash::RandomState;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use hashbrown::HashMap;

pub(crate) use self::series::Series;
use self::series::{SeriesKey, SeriesLabels};
pub(crate) use self::text::StoreFacts;
use crate::listener::http::Counters;
use crate::listener::request_info::RequestInfo;

/// The largest number of label sets. A server with every built-in resource in use has a few hundred.
const MAX_SERIES: usize = 2048;

/// The paths outside of resources that have a label of their own.
const PATHS: [&str; 10] =
    ["/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version", "/"];

/// A resource that the server serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServedResource {
    /// Whether its definition marks the version as deprecated.
    pub(crate) deprecated: bool,
}

/// The number of stored objects of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceObjects {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) objects: usize,
}

/// The metrics of one server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    series: RwLock<HashMap<SeriesLabels, Arc<Series>, RandomState>>,
    reads_in_flight: AtomicI64,
    writes_in_flight: AtomicI64,
    pub(crate) audit_events: AtomicU64,
    pub(crate) audit_errors: AtomicU64,
    /// The counters of the listener; a server without a socket has none.
    pub(crate) connections: OnceLock<Arc<Counters>>,
}

impl Metrics {
    /// Returns the series of a request. `served` is called for label sets that are new.
    pub(crate) fn series(
        &self,
        info: &RequestInfo<'_>,
        served: impl FnOnce(&RequestInfo<'_>) -> Option<ServedResource>,
    ) -> Arc<Series> {
        let mut key = SeriesKey {
            verb: info.metric_verb,
            dry_run: if info.dry_run { "All" } else { "" },
            group: info.group,
            version: info.version,
            resource: info.resource,
            subresource: if info.is_resource { info.subresource } else { known_path(info.path) },
            scope: info.scope(),
        };
        if let Some(series) = self.find(&key) {
            return series;
        }
        let mut deprecated = false;
        if info.is_resource {
            match served(info) {
                Some(resource) => deprecated = resource.deprecated,
                None => key = key.folded(),
            }
        }
        let mut series = self.series.write().unwrap_or_else(PoisonError::into_inner);
        // The folded label sets are few and always fit.
        if series.len() >= MAX_SERIES && !series.contains_key(&key) {
            key = key.folded();
        }
        let series = series.entry(key.to_labels()).or_insert_with(|| Arc::new(Series::new(deprecated)));
        Arc::clone(series)
    }

    fn find(&self, key: &SeriesKey<'_>) -> Option<Arc<Series>> {
        self.series.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Counts a request as in flight until the guard is dropped. Long-running requests count in their series instead.
    pub(crate) fn enter(self: &Arc<Self>, info: &RequestInfo<'_>, series: &Arc<Series>) -> InFlightGuard {
        let kind = match () {
            () if info.is_long_running() => InFlightKind::LongRunning(Arc::clone(series)),
            () if info.only_reads() => InFlightKind::Read(Arc::clone(self)),
            () => InFlightKind::Write(Arc::clone(self)),
        };
        kind.gauge().fetch_add(1, Ordering::Relaxed);
        InFlightGuard(kind)
    }
}

/// Counts a request as in flight until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlightGuard(InFlightKind);

#[derive(Debug)]
enum InFlightKind {
    Read(Arc<Metrics>),
    Write(Arc<Metrics>),
    LongRunning(Arc<Series>),
}

impl InFlightKind {
    fn gauge(&self) -> &AtomicI64 {
        match self {
            InFlightKind::Read(metrics) => &metrics.reads_in_flight,
            InFlightKind::Write(metrics) => &metrics.writes_in_flight,
            InFlightKind::LongRunning(series) => &series.long_running,
        }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.gauge().fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the label of a path outside of resources: the path if it is one of few, else nothing.
fn known_path(path: &str) -> &'static str {
    let matches = |known: &&&str| {
        path.strip_prefix(**known).is_some_and(|rest| rest.is_empty() || (known.len() > 1 && rest.starts_with('/')))
    };
    PATHS.iter().rev().find(matches).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
