//! The environment of the demo: the server, the controller and the [simulated cluster](super::simulated_cluster).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel::EventRecorder;
use evenkeel::apiserver::{ApiServer, StartError};
use evenkeel::cache::InformerFactory;
use evenkeel::cache::factory::KindOptions;
use evenkeel::cache::informer::{Backoff, ReflectorError, ReflectorFailure};
use evenkeel::client::config::kubeconfig::Overrides;
use evenkeel::client::{Client, ClientBuilder, Config};
use evenkeel::events::{EventType, SinkOptions};
use evenkeel::inspect::Inspector;
use evenkeel_sample_controller::{CRD, Foo, SampleController};
use k8s_openapi::api::apps::v1::Deployment;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tower_layer::Layer;
use tower_service::Service;

use super::numbers::{Informer, Numbers};
use super::report::{Importance, Report};
use super::simulated_cluster::Cluster;
use crate::Failure;

/// Number of workers of the controller.
pub(super) const WORKERS: usize = 4;
/// User agent of all clients of the demo, so that faults affect only them.
pub(super) const USER_AGENT: &str = "evenkeel-demo";
/// Time limit of the last events at shutdown.
const LAST_EVENTS: Duration = Duration::from_secs(1);
/// History of the server per Foo. Watches fall behind only in the outage.
const HISTORY_PER_OBJECT: usize = 16;
/// How often the informers compare their stores with the server.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Everything that runs. [`stop`](Self::stop) stops it gracefully; on drop, the controller still finishes what is
/// in flight.
pub(super) struct Environment {
    pub(super) server: ApiServer,
    /// The client of the demo's own writes.
    pub(super) client: Client,
    /// Source of the live page: the controller, without the simulated cluster.
    pub(super) inspector: Inspector,
    controller: SampleController,
    recorder: EventRecorder,
    cluster: Cluster,
    running: JoinHandle<Result<(), Failure>>,
    quit: oneshot::Sender<()>,
    counters: Arc<Counters>,
}

/// Counters.
#[derive(Debug, Default)]
struct Counters {
    breaks: AtomicU64,
    refusals: AtomicU64,
    expired: AtomicU64,
    events: AtomicU64,
    requests: [Arc<AtomicU64>; 3],
}

impl Environment {
    /// Starts everything. Messages are sent to `reports`, and dropped if it is full.
    pub(super) async fn start(
        listen: SocketAddr,
        objects: u32,
        step: Duration,
        reports: mpsc::Sender<Report>,
    ) -> Result<Self, Failure> {
        let history = (objects as usize).saturating_mul(HISTORY_PER_OBJECT).max(4096);
        let server = ApiServer::builder().listen(listen).history(history).start().await.map_err(explain)?;
        server.install_crds([CRD]).await?;
        let counters = Arc::new(Counters::default());
        let [of_controller, of_cluster, of_demo] = counters.requests.clone();

        let client = connect(&server, "controller", of_controller)?;
        let watching = WatchObserver { counters: Arc::clone(&counters), reports: reports.clone() };
        let (foos, deployments) = (watching.clone(), watching);
        let informers = InformerFactory::builder(&client)
            .check_consistency(CHECK_INTERVAL)
            .configure::<Foo>(|kind| foos.show(with_short_backoff(kind)))
            .configure::<Deployment>(|kind| deployments.show(with_short_backoff(kind)))
            .build();
        let recorder = EventRecorder::builder(&client, "sample-controller")
            .options(SinkOptions::new().queue((objects as usize).saturating_mul(8).max(1000)))
            .build();
        report_events(&recorder, Arc::clone(&counters), reports);
        let controller = SampleController::new(&client, &informers, recorder.clone())?;
        let inspector = Inspector::new();
        inspector.informer(controller.foos());
        inspector.informer(controller.deployments());
        inspector.queue("foos", controller.queue());
        let cluster = Cluster::start(&connect(&server, "cluster", of_cluster)?, step)?;

        let (quit, stop) = oneshot::channel::<()>();
        let running = controller.clone();
        let running = tokio::spawn(async move {
            // The environment was dropped; the error is expected.
            let stop = async move { drop(stop.await) };
            running.run(WORKERS, stop).await.map_err(Failure::from)
        });
        let client = connect(&server, "runner", of_demo)?;
        Ok(Environment { server, client, inspector, controller, recorder, cluster, running, quit, counters })
    }

    /// Returns a snapshot of all metrics.
    pub(super) fn numbers(&self) -> Numbers {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let stats = self.server.stats();
        Numbers {
            revision: stats.revision,
            watchers: stats.watchers,
            requests: self.counters.requests.each_ref().map(|counter| read(counter)),
            foos: Informer::of(&self.controller.foos().status()),
            deployments: Informer::of(&self.controller.deployments().status()),
            queue: self.controller.queue().stats(),
            breaks: read(&self.counters.breaks),
            refusals: read(&self.counters.refusals),
            expired: read(&self.counters.expired),
            events: read(&self.counters.events),
        }
    }

    /// Stops everything in order: writers before the server.
    pub(super) async fn stop(self) -> Result<(), Failure> {
        // It may have ended with an error, which is returned below.
        let _ = self.quit.send(());
        let outcome = self.running.await;
        self.cluster.stop().await;
        // Events that are not written by then are dropped.
        let _ = self.recorder.shutdown().within(LAST_EVENTS).await;
        self.server.shutdown().await;
        outcome?
    }
}

/// Phrases the error for the demo.
pub(super) fn explain(error: StartError) -> Failure {
    match error {
        StartError::OpenToTheNetwork { address } => format!(
            "refusing to listen on {address}: every client that can reach it would be administrator; \
             the demo listens on addresses of this machine only, such as 127.0.0.1:8080"
        )
        .into(),
        other => other.into(),
    }
}

/// Returns a client over the network whose requests are counted.
pub(super) fn connect(server: &ApiServer, name: &str, requests: Arc<AtomicU64>) -> Result<Client, Failure> {
    let mut config = Config::from_kubeconfig_str(&server.kubeconfig(), &Overrides::default())?;
    config.user_agent = Some(format!("{USER_AGENT}/{name}"));
    Ok(ClientBuilder::new(config)?.layer(Count(requests)).build()?)
}

/// Shortens the backoff of an informer, so that an outage ends soon.
pub(super) fn with_short_backoff<K: 'static>(options: KindOptions<K>) -> KindOptions<K> {
    options.backoff(Backoff {
        initial: Duration::from_millis(200),
        factor: 1.5,
        cap: Duration::from_millis(600),
        jitter: 0.5,
        ..Backoff::default()
    })
}

/// Observes the watches of the controller.
#[derive(Clone)]
struct WatchObserver {
    counters: Arc<Counters>,
    reports: mpsc::Sender<Report>,
}

impl WatchObserver {
    fn show<K: 'static>(self, options: KindOptions<K>) -> KindOptions<K> {
        options.on_error(move |trouble| self.take(trouble))
    }

    fn take(&self, trouble: &ReflectorFailure) {
        let kind = trouble.resource.kind();
        let (counter, text) = match &trouble.error {
            error if error.is_expired() => {
                (&self.counters.expired, format!("{kind}: watch expired (410); {}", trouble.next))
            }
            ReflectorError::Watch(_) => (&self.counters.refusals, format!("{kind}: watch refused; {}", trouble.next)),
            ReflectorError::Stream(_) => (&self.counters.breaks, format!("{kind}: watch closed; {}", trouble.next)),
            error => (&self.counters.breaks, format!("{kind}: {error}; {}", trouble.next)),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        // If the queue is full, the message is dropped.
        let _ = self.reports.try_send(Report::Message { importance: Importance::Bad, text });
    }
}

/// Counts and reports the events that the controller records.
fn report_events(recorder: &EventRecorder, counters: Arc<Counters>, reports: mpsc::Sender<Report>) {
    recorder.broadcaster().for_each(move |event| {
        counters.events.fetch_add(1, Ordering::Relaxed);
        let object = event.regarding.name.as_deref().unwrap_or_default();
        let text = format!("{object}: {}: {}", event.reason, event.note);
        let importance = match event.event_type {
            EventType::Normal => Importance::Faint,
            EventType::Warning => Importance::Bad,
        };
        let _ = reports.try_send(Report::Message { importance, text });
    });
}

/// Counts requests.
#[derive(Clone)]
struct Count(Arc<AtomicU64>);

/// A service whose requests are counted.
#[derive(Clone)]
struct Counted<S> {
    inner: S,
    requests: Arc<AtomicU64>,
}

impl<S> Layer<S> for Count {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, requests: Arc::clone(&self.0) }
    }
}

impl<S: Service<R>, R> Service<R> for Counted<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.inner.call(request)
    }
}
