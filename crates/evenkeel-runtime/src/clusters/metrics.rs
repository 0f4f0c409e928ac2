//! Metrics of clusters, with the label `cluster`.
//!
//! | name | labels | meaning |
//! |---|---|---|
//! | [`ENGAGED`] | `cluster` | 1 for every engaged cluster |
//! | [`SYNCED`] | `cluster` | 1 if the caches of all controllers have synced |
//! | [`PARKED`] | `cluster` | 1 if the keys are parked, because requests get no connection |
//! | [`PARKED_KEYS`] | `cluster` | parked keys |
//! | [`REQUESTS`] | `cluster`, `result` | requests, retries included: `response`, `no_connection`, `other` |
//! | [`START_FAILURES`] | `cluster`, `controller` | failed attempts to start a controller in the cluster |
//! | [`CACHE_OBJECTS`] | `cluster`, `controller`, `informer` | objects in a cache |
//! | [`QUEUE_DEPTH`] | `cluster`, `controller` | keys that need processing |
//! | [`QUEUE_IN_FLIGHT`] | `cluster`, `controller` | keys in flight |
//! | [`QUEUE_DELAYED`] | `cluster`, `controller` | delayed keys |
//! | [`QUEUE_FAILING`] | `cluster`, `controller` | keys with failures |
//! | [`QUEUE_ADDS`] | `cluster`, `controller` | adds that made a key need processing, since the caches were last started |
//! | [`QUEUE_RETRIES`] | `cluster`, `controller` | delayed adds, since the caches were last started |
//!
//! They are computed from the state of the set when they are rendered, so the series of a cluster go with it. The metrics of a controller and
//! of its work queue under client-go's and controller-runtime's names have no label `cluster`: they are the sums over all clusters.

use std::fmt::{self, Write};
use std::sync::{Arc, Weak};

use super::set::ClusterSet;
use super::status::{ClusterStatus, EngagementStatus};
use crate::health::MetricsSource;

/// Shows the engaged clusters.
pub const ENGAGED: &str = "cluster_engaged";
/// Shows whether the caches of a cluster have synced.
pub const SYNCED: &str = "cluster_synced";
/// Shows whether the keys of a cluster are parked.
pub const PARKED: &str = "cluster_parked";
/// Shows the number of parked keys.
pub const PARKED_KEYS: &str = "cluster_parked_keys";
/// Counts requests to a cluster.
pub const REQUESTS: &str = "cluster_requests_total";
/// Counts failed attempts to start a controller in a cluster.
pub const START_FAILURES: &str = "cluster_start_failures_total";
/// Shows the number of objects in a cache.
pub const CACHE_OBJECTS: &str = "cluster_cache_objects";
/// Shows the number of keys that need processing.
pub const QUEUE_DEPTH: &str = "cluster_queue_depth";
/// Shows the number of keys in flight.
pub const QUEUE_IN_FLIGHT: &str = "cluster_queue_in_flight";
/// Shows the number of delayed keys.
pub const QUEUE_DELAYED: &str = "cluster_queue_delayed";
/// Shows the number of keys with failures.
pub const QUEUE_FAILING: &str = "cluster_queue_failing";
/// Counts adds that made a key need processing.
pub const QUEUE_ADDS: &str = "cluster_queue_adds_total";
/// Counts delayed adds.
pub const QUEUE_RETRIES: &str = "cluster_queue_retries_total";

/// The metrics of a set of clusters, beside those of another source: see [`Clusters::metrics`](super::Clusters::metrics). It does not
/// keep the set alive.
pub struct ClusterMetrics {
    clusters: Weak<ClusterSet>,
    others: Box<dyn MetricsSource>,
}

impl ClusterMetrics {
    pub(super) fn new(clusters: &Arc<ClusterSet>, others: impl MetricsSource) -> Self {
        ClusterMetrics { clusters: Arc::downgrade(clusters), others: Box::new(others) }
    }
}

impl MetricsSource for ClusterMetrics {
    fn render(&self) -> String {
        let mut text = self.others.render();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let statuses = self.clusters.upgrade().map(|clusters| clusters.statuses()).unwrap_or_default();
        text + &render(&statuses)
    }

    fn upkeep(&self) {
        self.others.upkeep();
    }
}

/// A metric: its name, its type, its description, and its samples.
struct Family<'a> {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: Vec<Sample<'a>>,
}

/// The labels of a sample, and its value.
type Sample<'a> = (Vec<(&'static str, &'a str)>, u64);

/// Returns a value of one controller, if it has one.
type OfController = fn(&EngagementStatus) -> Option<u64>;

/// The metrics of each controller in each cluster.
const OF_CONTROLLERS: [(&str, &str, &str, OfController); 7] = [
    (START_FAILURES, "counter", "Failed attempts to start a controller in a cluster.", |status| Some(status.failures)),
    (QUEUE_DEPTH, "gauge", "Keys of a cluster that need processing.", |status| Some(status.queue?.depth as u64)),
    (QUEUE_IN_FLIGHT, "gauge", "Keys of a cluster in flight.", |status| Some(status.queue?.in_flight as u64)),
    (QUEUE_DELAYED, "gauge", "Delayed keys of a cluster.", |status| Some(status.queue?.delayed as u64)),
    (QUEUE_FAILING, "gauge", "Keys of a cluster with failures.", |status| Some(status.queue?.failing as u64)),
    (QUEUE_ADDS, "counter", "Adds that made a key need processing.", |status| Some(status.queue?.adds)),
    (QUEUE_RETRIES, "counter", "Delayed adds.", |status| Some(status.queue?.retries)),
];

/// Renders the metrics in the Prometheus text format.
fn render(statuses: &[ClusterStatus]) -> String {
    let engaged: Vec<_> = statuses.iter().filter(|status| status.engaged_at.is_some()).collect();
    let of_cluster = |value: fn(&ClusterStatus) -> u64| -> Vec<Sample<'_>> {
        engaged.iter().map(|status| (vec![("cluster", &*status.name)], value(status))).collect()
    };
    let gauge = |name, help, samples| Family { name, kind: "gauge", help, samples };
    let mut families = vec![
        gauge(ENGAGED, "Engaged clusters.", of_cluster(|_| 1)),
        gauge(SYNCED, "Whether the caches of a cluster have synced.", of_cluster(|status| status.is_synced.into())),
        gauge(PARKED, "Whether the keys of a cluster are parked.", of_cluster(|status| status.is_parked.into())),
        gauge(PARKED_KEYS, "Parked keys of a cluster.", of_cluster(|status| status.parked_keys as u64)),
    ];
    let requests = engaged.iter().flat_map(|status| {
        let counts = status.requests;
        let results = [
            ("response", counts.responses),
            ("no_connection", counts.without_connection),
            ("other", counts.other_failures),
        ];
        results.map(|(result, count)| (vec![("cluster", &*status.name), ("result", result)], count))
    });
    let help = "Requests to a cluster, retries included.";
    families.push(Family { name: REQUESTS, kind: "counter", help, samples: requests.collect() });
    for (name, kind, help, value) in OF_CONTROLLERS {
        let samples = engaged.iter().flat_map(|status| {
            status.controllers.iter().filter_map(|(controller, engagement)| {
                Some((vec![("cluster", &*status.name), ("controller", &**controller)], value(engagement)?))
            })
        });
        families.push(Family { name, kind, help, samples: samples.collect() });
    }
    let objects = engaged.iter().flat_map(|status| {
        status.controllers.iter().flat_map(|(controller, engagement)| {
            engagement.caches.iter().map(|(informer, cache)| {
                let labels = vec![("cluster", &*status.name), ("controller", &**controller), ("informer", &**informer)];
                (labels, cache.objects as u64)
            })
        })
    });
    families.push(gauge(CACHE_OBJECTS, "Objects in a cache of a cluster.", objects.collect()));
    let mut text = String::new();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{family}");
    }
    text
}

impl fmt::Display for Family<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Family { name, kind, help, samples } = self;
        writeln!(f, "# HELP {name} {help}\n# TYPE {name} {kind}")?;
        for (labels, value) in samples {
            let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            writeln!(f, "{name}{{{}}} {value}", labels.join(","))?;
        }
        Ok(())
    }
}

/// Returns the value of a label as the text format has it. The name of a cluster is any text.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl fmt::Debug for ClusterMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterMetrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
