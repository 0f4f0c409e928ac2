//! [`Prometheus`]: renders metrics of the `metrics` facade in the Prometheus text format.

use evenkeel_cache::metrics as cache;
use evenkeel_client::rest::metrics as client;
use evenkeel_queue::metrics as queue;
use metrics::Recorder;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use super::MetricsSource;
use crate::election::metrics as election;
use crate::events::metrics as events;

/// controller-runtime's buckets for `controller_runtime_reconcile_time_seconds`.
pub const RECONCILE_TIME_BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
];

/// controller-runtime's buckets for `controller_runtime_webhook_latency_seconds`.
const WEBHOOK_LATENCY_BUCKETS: [f64; 12] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0];
/// Prometheus' default buckets, for histograms without their own.
const DEFAULT_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Buckets for numbers of objects.
const COUNT_BUCKETS: [f64; 8] = [0.0, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6];
/// Buckets for watches, which servers close after five to ten minutes.
const WATCH_BUCKETS: [f64; 8] = [1.0, 10.0, 60.0, 300.0, 450.0, 600.0, 1800.0, 3600.0];

/// The buckets of client-go and controller-runtime, per histogram.
const BUCKETS: [(&str, &[f64]); 15] = [
    (queue::QUEUE_DURATION, &queue::DURATION_BUCKETS),
    (queue::WORK_DURATION, &queue::DURATION_BUCKETS),
    (cache::PROCESSING_LATENCY, &cache::LATENCY_BUCKETS),
    (cache::LIST_DURATION, &client::LATENCY_BUCKETS),
    (cache::ITEMS_PER_LIST, &COUNT_BUCKETS),
    (cache::WATCH_DURATION, &WATCH_BUCKETS),
    (cache::ITEMS_PER_WATCH, &COUNT_BUCKETS),
    (client::DURATION, &client::LATENCY_BUCKETS),
    (client::RATE_LIMITER, &client::LATENCY_BUCKETS),
    (client::DNS, &client::DNS_BUCKETS),
    (client::EXEC_ROTATION_AGE, &client::ROTATION_AGE_BUCKETS),
    (client::REQUEST_SIZE, &client::SIZE_BUCKETS),
    (client::RESPONSE_SIZE, &client::SIZE_BUCKETS),
    ("controller_runtime_reconcile_time_seconds", &RECONCILE_TIME_BUCKETS),
    ("controller_runtime_webhook_latency_seconds", &WEBHOOK_LATENCY_BUCKETS),
];

/// The metrics of the `metrics` facade, for [`ServerBuilder::metrics`](super::ServerBuilder::metrics). Cheap to clone.
///
/// Names are those of client-go and controller-runtime.
///
/// Histogram samples are aggregated every five seconds by the server that this is passed to. Without a server, and
/// without calls of [`render`](MetricsSource::render), they would accumulate: call [`upkeep`](MetricsSource::upkeep)
/// then.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_runtime::health::{Health, HealthServer, Prometheus};
///
/// // Before clients, informers and queues are created.
/// let metrics = Prometheus::install()?;
/// let server = HealthServer::builder(&Health::new()).metrics(metrics).address("0.0.0.0:8080").start().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Prometheus(PrometheusHandle);

/// Why the metrics recorder could not be installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrometheusError {
    /// The process already has a recorder.
    #[error("the process already has a metrics recorder")]
    Installed,
    /// The recorder could not be built.
    #[error("cannot build the metrics recorder: {problem}")]
    Build {
        /// What is wrong.
        problem: String,
    },
}

impl Prometheus {
    /// Installs the recorder of the process. Call it before clients, informers and queues are created: earlier samples
    /// are lost.
    ///
    /// # Errors
    /// If the process already has a recorder.
    pub fn install() -> Result<Self, PrometheusError> {
        let (recorder, handle) = Self::recorder()?;
        metrics::set_global_recorder(recorder).map_err(|_| PrometheusError::Installed)?;
        // Each component registers its descriptions once, possibly before a recorder was installed.
        client::describe();
        cache::describe();
        queue::describe();
        events::describe();
        election::describe();
        Ok(handle)
    }

    /// Returns a recorder without installing it, for programs that combine several, and its metrics.
    ///
    /// # Errors
    /// If it cannot be built.
    pub fn recorder() -> Result<(impl Recorder + Send + Sync + 'static, Self), PrometheusError> {
        let build = |error: BuildError| PrometheusError::Build { problem: error.to_string() };
        let mut builder = PrometheusBuilder::new().set_buckets(&DEFAULT_BUCKETS).map_err(build)?;
        for (name, buckets) in BUCKETS {
            builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets).map_err(build)?;
        }
        let recorder = builder.build_recorder();
        let handle = Prometheus(recorder.handle());
        Ok((recorder, handle))
    }
}

impl MetricsSource for Prometheus {
    fn render(&self) -> String {
        self.0.render()
    }

    fn upkeep(&self) {
        self.0.run_upkeep();
    }
}

impl std::fmt::Debug for Prometheus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prometheus").finish_non_exhaustive()
    }
}
