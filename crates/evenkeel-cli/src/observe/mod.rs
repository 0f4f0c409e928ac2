//! `evenkeel observe`: an informer on the terminal.

mod line;
mod progress;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use evenkeel_cache::reflector::{Failure as Trouble, Next, Phase};
use evenkeel_cache::source::{ApiSource, BoxError};
use evenkeel_cache::{Event, HandlerOptions, SharedInformer};
use evenkeel_client::api::scope::Any;
use evenkeel_client::discovery::{DiscoveryError, ResourceQuery, RestMapper};
use evenkeel_client::{Api, Client, Unstructured};
use evenkeel_core::{FieldSelector, LabelSelector, ResourceInfo, duration};
use tokio::sync::mpsc;

use self::line::Lines;
use self::progress::Progress;
use crate::Outcome;
use crate::connect::Connection;
use crate::output::{self, Output};
use crate::signals::Signals;

/// How many failures wait to be told. They come with growing pauses in between.
const TROUBLES: usize = 16;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to observe, as kubectl spells it: pods, po, deployments.apps, deployments.v1.apps, foos.example.com/v1
    #[arg(value_name = "RESOURCE")]
    resource: String,
    /// Only objects in this namespace, instead of the context's
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// Objects in all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Only objects whose labels match, such as app=web,tier!=cache
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = LabelSelector::parse)]
    selector: Option<LabelSelector>,
    /// Only objects whose fields match, such as spec.nodeName=node-1
    #[arg(long, value_name = "SELECTOR", value_parser = FieldSelector::parse)]
    field_selector: Option<FieldSelector>,
    /// How often to be told of all objects again, such as 30s [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    resync: Option<Duration>,
    /// Print one JSON object per line
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Json,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let mut signals = Signals::listen()?;
    let (output, mut writing) = output::open();
    let outcome = tokio::select! {
        outcome = observe(arguments, output) => outcome,
        error = writing.failed() => return Err(error.into()),
        () = signals.next() => Ok(()),
    };
    writing.finish().await?;
    outcome
}

/// Tells of everything, until something makes no sense.
async fn observe(arguments: Arguments, output: Output) -> Outcome {
    let client = arguments.connection.client(arguments.namespace)?;
    let info = resolve(&client, &arguments.resource).await?;
    // Nothing is told but what all kinds have, so that it does not matter if a form leaves out what nobody here knows.
    let mut api = Api::<Unstructured, Any>::of(&client, &info);
    if !arguments.all_namespaces {
        api = api.namespace(&client.config().namespace);
    }
    let source = ApiSource::new(api)
        .labels(arguments.selector.unwrap_or_default())
        .fields(arguments.field_selector.unwrap_or_default());

    let (failures, mut troubles) = mpsc::channel(TROUBLES);
    let mut builder = SharedInformer::<Unstructured>::builder(source, &info)
        .resync(arguments.resync.unwrap_or_default())
        // If nobody reads them, those that are told say enough.
        .on_error(move |trouble| Told::of(trouble).into_iter().for_each(|told| drop(failures.try_send(told))));
    let received = Arc::new(AtomicUsize::new(0));
    let mut progress = Progress::new(info.plural());
    if progress.is_shown() {
        let received = Arc::clone(&received);
        builder = builder.transform(move |object| {
            received.fetch_add(1, Ordering::Relaxed);
            Ok::<_, BoxError>(object)
        });
    }
    let informer = builder.build();
    let mut events = informer.subscribe(HandlerOptions::new().name("observe"))?;
    let registration = events.registration();
    informer.start();

    let mut lines = Lines::new(arguments.output.is_some());
    let (mut is_synced, mut objects) = (false, 0_usize);
    loop {
        tokio::select! {
            biased;
            Some(told) = troubles.recv() => {
                if told.is_refusal && !informer.has_synced() {
                    return Err(told.text.into());
                }
                progress.clear();
                eprintln!("evenkeel: {}", told.text);
            }
            event = events.next() => {
                let Some(event) = event else { return Err("the informer has ended".into()) };
                progress.clear();
                if registration.has_synced() && !std::mem::replace(&mut is_synced, true) {
                    output.line(lines.synced(objects)).await;
                }
                match &event {
                    Event::Add { .. } => objects += 1,
                    Event::Update { .. } => {}
                    Event::Delete(_) => objects = objects.saturating_sub(1),
                }
                output.line(lines.event(&event)).await;
            }
            _ = registration.synced(), if !is_synced => {
                is_synced = true;
                progress.clear();
                output.line(lines.synced(objects)).await;
            }
            () = progress.next(), if objects == 0 && !is_synced => progress.draw(received.load(Ordering::Relaxed)),
        }
    }
}

/// The resource that somebody means.
async fn resolve(client: &Client, resource: &str) -> Result<Arc<ResourceInfo>, DiscoveryError> {
    let mapper = RestMapper::with_warnings(client.discovery().cached(), |warning| eprintln!("evenkeel: {warning}"));
    match resource.split_once('/') {
        None => mapper.resolve(resource).await,
        Some((name, version)) => {
            let (name, group) = name.split_once('.').unwrap_or((name, ""));
            mapper.resource_for(ResourceQuery::new(name).group(group).version(version)).await
        }
    }
}

/// What is told of a failure.
struct Told {
    text: String,
    /// Nothing is known yet, and trying again helps nobody: the server has understood, and says no.
    is_refusal: bool,
}

impl Told {
    /// Nothing, if the next attempt is another way to get the same, and follows at once.
    fn of(trouble: &Trouble) -> Option<Self> {
        let is_first = trouble.phase == Phase::Listing;
        if is_first && trouble.next == (Next::Relist { after: Duration::ZERO }) {
            return None;
        }
        let status = trouble.error.source_error().and_then(|error| error.status());
        let is_refusal = status.is_some_and(|status| {
            status.is_forbidden()
                || status.is_unauthorized()
                || status.is_not_found()
                || status.is_method_not_supported()
                || status.is_bad_request()
        });
        let text = match is_refusal {
            true => format!("{}: {}", trouble.reflector, trouble.error),
            false => trouble.to_string(),
        };
        Some(Told { text, is_refusal })
    }
}
