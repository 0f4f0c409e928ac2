//! [`ClusterStatus`]: what is known of a cluster, and its report as JSON.

use std::collections::BTreeMap;

use evenkeel_queue::QueueStats;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::engagement_state::EngagementPhase;
use super::failure::ClusterFailure;
use super::reachability::RequestCounts;
use crate::health::{queue_report, seconds};

/// What is known of a cluster.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClusterStatus {
    /// The name.
    pub name: String,
    /// When the cluster was engaged; `None` if its kubeconfig was rejected and it never was.
    pub engaged_at: Option<Instant>,
    /// Whether the caches of all controllers have synced.
    pub is_synced: bool,
    /// Whether the keys of the cluster are parked, because requests get no connection.
    pub is_parked: bool,
    /// The number of parked keys.
    pub parked_keys: usize,
    /// The requests so far.
    pub requests: RequestCounts,
    /// What last failed: a request without a connection, or the start of a controller.
    pub last_failure: Option<ClusterFailure>,
    /// Why the latest kubeconfig of the cluster is not used. The cluster continues with the previous one.
    pub rejected: Option<ClusterFailure>,
    /// How far each controller is, by name.
    pub controllers: BTreeMap<String, EngagementStatus>,
}

/// How far a controller is with a cluster.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EngagementStatus {
    /// Whether it starts, reconciles, or waits for the next attempt.
    pub phase: EngagementPhase,
    /// The number of failed attempts.
    pub failures: u64,
    /// Why the last attempt failed.
    pub last_failure: Option<ClusterFailure>,
    /// The queue of the cluster's keys.
    pub queue: Option<QueueStats>,
    /// The caches, by the name of the informer.
    pub caches: BTreeMap<String, CacheStatus>,
}

/// The cache of one kind in one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStatus {
    /// The number of objects.
    pub objects: usize,
    /// Whether it has synced.
    pub is_synced: bool,
}

impl EngagementStatus {
    /// Returns whether the caches have synced.
    pub fn is_synced(&self) -> bool {
        self.phase == EngagementPhase::Synced
    }
}

impl ClusterStatus {
    /// Returns the status of a cluster whose kubeconfig was rejected and that was never engaged.
    pub(super) fn rejected(name: &str, failure: ClusterFailure) -> Self {
        ClusterStatus {
            name: name.to_owned(),
            engaged_at: None,
            is_synced: false,
            is_parked: false,
            parked_keys: 0,
            requests: RequestCounts::default(),
            last_failure: None,
            rejected: Some(failure),
            controllers: BTreeMap::new(),
        }
    }

    /// Returns the status as JSON.
    pub(super) fn report(&self, now: Instant) -> Value {
        let ago = |time: Instant| seconds(now.saturating_duration_since(time));
        let failure = |failure: &Option<ClusterFailure>| {
            let failure = failure.as_ref();
            failure.map(|failure| json!({"message": failure.message, "seconds_ago": ago(failure.at)}))
        };
        let controllers: Map<String, Value> = self
            .controllers
            .iter()
            .map(|(controller, status)| {
                let (phase, retry_in) = match status.phase {
                    EngagementPhase::Starting => ("starting", None),
                    EngagementPhase::Synced => ("synced", None),
                    EngagementPhase::Waiting { until } => {
                        ("waiting to try again", Some(seconds(until.saturating_duration_since(now))))
                    }
                };
                let cache = |(name, cache): (&String, &CacheStatus)| {
                    (name.clone(), json!({"objects": cache.objects, "synced": cache.is_synced}))
                };
                let report = json!({
                    "phase": phase,
                    "retry_in_seconds": retry_in,
                    "failures": status.failures,
                    "last_error": failure(&status.last_failure),
                    "queue": status.queue.map(|queue| queue_report(&queue, false)),
                    "caches": status.caches.iter().map(cache).collect::<Map<_, _>>(),
                });
                (controller.clone(), report)
            })
            .collect();
        json!({
            "engaged": self.engaged_at.is_some(),
            "engaged_seconds_ago": self.engaged_at.map(ago),
            "synced": self.is_synced,
            "parked": self.is_parked,
            "keys_parked": self.parked_keys,
            "requests": {
                "responses": self.requests.responses,
                "without_connection": self.requests.without_connection,
                "other_failures": self.requests.other_failures,
            },
            "last_error": failure(&self.last_failure),
            "rejected_kubeconfig": failure(&self.rejected),
            "controllers": controllers,
        })
    }
}
