//! `evenkeel controller sample`: runs the sample controller in a cluster, with leader election among replicas.

use std::io::{self, IsTerminal, Write};
use std::pin::pin;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use evenkeel::health::{Check, Diagnostics, Health, HealthServer, Prometheus, Source};
use evenkeel::inspect::Inspector;
use evenkeel::manager::{StopSignal, shutdown_signal};
use evenkeel::prelude::*;
use evenkeel_sample_controller::{Foo, MANIFESTS, SampleController};
use tokio::time::timeout;
use tracing::Level;

use crate::connect::{Cluster, Connection};
use crate::{Failure, Outcome};

/// Name of the controller, in events and as its Lease.
const NAME: &str = "sample-controller";
/// Time limit of the first request.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    which: Which,
}

#[derive(Debug, clap::Subcommand)]
enum Which {
    /// The sample controller of the Kubernetes project: each Foo owns a Deployment
    Sample(Box<Sample>),
}

/// Setup steps, for `--help`.
const FIRST_STEPS: &str = "\
The cluster needs the Foo definition, and the controller needs its permissions:
  evenkeel controller sample --print-manifests | kubectl apply -f -
This also runs two replicas of an image that you build (see the Dockerfile). To run it locally instead, the definition
of Foos is enough:
  evenkeel controller sample --print-crd | kubectl apply -f -
  evenkeel controller sample --lease-namespace default";

#[derive(Debug, clap::Args)]
#[command(after_help = FIRST_STEPS)]
struct Sample {
    /// Only Foos in this namespace [default: all namespaces]
    #[arg(short, long, value_name = "NS", value_parser = NonEmptyStringValueParser::new())]
    namespace: Option<String>,
    /// Namespace of the leader election Lease [default: the namespace of the context or pod]
    #[arg(long, value_name = "NS", value_parser = NonEmptyStringValueParser::new())]
    lease_namespace: Option<String>,
    /// Identity of this replica [default: POD_NAME, else host name and a random suffix]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    identity: Option<String>,
    /// Run without leader election
    #[arg(long, conflicts_with_all = ["lease_namespace", "identity"])]
    no_election: bool,
    /// Number of Foos reconciled concurrently
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1000))]
    workers: u16,
    /// Address of /healthz, /readyz, /metrics and /debug; 0 disables them. For cluster probes: :8081
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081")]
    health: String,
    /// Address of a live web page [default: off]
    #[arg(long, value_name = "ADDRESS", value_parser = NonEmptyStringValueParser::new())]
    page: Option<String>,
    /// Log level: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value_t = Level::INFO)]
    log: Level,
    /// Print the Foo definition as YAML and exit
    #[arg(long)]
    print_crd: bool,
    /// Print all manifests as YAML and exit
    #[arg(long, conflicts_with = "print_crd")]
    print_manifests: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let Which::Sample(sample) = arguments.which;
    if sample.print_crd || sample.print_manifests {
        let text = if sample.print_crd { evenkeel_sample_controller::CRD } else { MANIFESTS };
        io::stdout().lock().write_all(text.as_bytes())?;
        return Ok(());
    }
    // Installed before the first log line and the first metric.
    tracing_subscriber::fmt()
        .with_max_level(sample.log)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr)
        .init();
    let metrics = Prometheus::install()?;
    sample.run(metrics).await
}

impl Sample {
    async fn run(self, metrics: Prometheus) -> Outcome {
        let mut shutdown = pin!(shutdown_signal()?);
        let cluster = self.connection.cluster(None)?;
        tokio::select! {
            known = timeout(PATIENCE, check_foos(&cluster, self.namespace.as_deref())) => {
                known.unwrap_or_else(|_| Err(cluster.silent(PATIENCE).into()))?;
            }
            () = &mut shutdown => return Ok(()),
        }
        let client = cluster.client().clone();

        let mut informers = InformerFactory::builder(&client);
        if let Some(namespace) = self.namespace {
            informers = informers.namespace(namespace);
        }
        let mut manager = Manager::with_informers(&client, informers);
        let recorder = EventRecorder::new(&client, NAME);
        let controller = SampleController::new(&client, manager.informers(), recorder.clone())?;

        let health = Health::new();
        // A standby replica is ready too: its caches are synced and it can take over at once.
        health.ready().add(Check::synced(controller.foos()))?;
        health.ready().add(Check::synced(controller.deployments()))?;
        let diagnostics = Diagnostics::new();
        diagnostics.add(Source::informer(controller.foos()));
        diagnostics.add(Source::informer(controller.deployments()));
        diagnostics.add(Source::queue("foos", controller.queue()));
        let server = HealthServer::builder(&health).address(self.health).metrics(metrics).diagnostics(&diagnostics);
        let server = server.start().await?;
        if let Some(address) = server.address() {
            tracing::info!(%address, "serving /healthz, /readyz, /metrics and /debug");
        }

        // Dropping it stops the page.
        let _page = match self.page {
            Some(address) => {
                let inspector = Inspector::new();
                inspector.informer(controller.foos());
                inspector.informer(controller.deployments());
                inspector.queue("foos", controller.queue());
                let page = inspector.serve(address).await?;
                tracing::info!(url = page.url(), "serving the live page");
                Some(page)
            }
            None => None,
        };

        if !self.no_election {
            let mut elector = LeaderElector::new(&client, NAME);
            if let Some(namespace) = self.lease_namespace {
                elector = elector.namespace(namespace);
            }
            let pod_name = std::env::var("POD_NAME").ok().filter(|name| !name.is_empty());
            if let Some(identity) = self.identity.or(pod_name) {
                elector = elector.identity(identity);
            }
            elector.validate()?;
            manager = manager.election(elector);
        }
        let workers = usize::from(self.workers);
        let outcome = manager
            .server("health", |stop: StopSignal| async move {
                stop.requested().await;
                server.shutdown().await;
                Ok::<_, Failure>(())
            })
            .elected(NAME, move |stop: StopSignal| async move { controller.run(workers, stop.requested()).await })
            .run(shutdown)
            .await;
        // Flushes the last events.
        if let Err(unfinished) = recorder.shutdown().within(Duration::from_secs(2)).await {
            tracing::warn!(%unfinished, "some events were not written");
        }
        outcome.map_err(Into::into)
    }
}

/// Checks that the server responds and serves Foos. An informer would retry forever.
async fn check_foos(cluster: &Cluster, namespace: Option<&str>) -> Outcome {
    let (foos, one) = (cluster.client().api::<Foo>(), ListParams::default().limit(1));
    let answer = match namespace {
        Some(namespace) => foos.namespace(namespace).list(&one).await,
        None => foos.list(&one).await,
    };
    match answer {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Err("the cluster has no Foo definition; install it: \
             evenkeel controller sample --print-crd | kubectl apply -f -"
            .into()),
        Err(error) => Err(cluster.explain(&error, "list foos").into()),
    }
}
