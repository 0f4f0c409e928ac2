//! `evenkeel observe`: an informer on the terminal.

mod diff;
mod footer;
mod line;
mod progress;
mod resolve;
mod tally;

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use evenkeel_cache::reflector::{Recovery, ReflectorFailure as Trouble, ReflectorPhase};
use evenkeel_cache::source::{ApiSource, BoxError};
use evenkeel_cache::{Event, HandlerOptions, SharedInformer, Subscription};
use evenkeel_client::api::scope::Any;
use evenkeel_client::{Api, Unstructured, Wire};
use evenkeel_core::{FieldSelector, LabelSelector, Status, duration};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::diff::Change;
use self::footer::Watch;
use self::line::{Lines, Look};
use self::progress::Progress;
use self::tally::Tally;
use crate::Outcome;
use crate::connect::{Cluster, Connection};
use crate::output::{self, Output};
use crate::signals::Signals;
use crate::terminal::{self, Block};

/// How many failures wait to be told. They come with growing pauses in between.
const TROUBLES: usize = 16;
/// How often the footer is looked at.
const FRAME: Duration = Duration::from_millis(200);

const MORE: &str = "\
On a terminal the lines scroll above a footer with the state of the watch and counts; Ctrl-C ends with a table of them.
Elsewhere there are only the lines, without colours. NO_COLOR and TERM=dumb are respected. With -o json the standard output
has nothing but JSON, and the table goes to the standard error if that is a terminal.

--diff tells of each update what has become another, one path in a line, + what came and - what went. It leaves out
metadata.resourceVersion, metadata.managedFields and metadata.generation, which change with every write. Of the data of
Secrets only sizes are told. Objects are sent as JSON then, so that no field is missed, unless --wire says otherwise.

Examples:
  evenkeel observe pods                                  those of the context's namespace
  evenkeel observe deployments.apps -A --diff            what changes in the deployments of all namespaces
  evenkeel observe events -n web -o json | jq .key       for programs
  evenkeel observe pods -A --field-selector spec.nodeName=node-1 --resync 30s";

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct Arguments {
    /// What to observe, as kubectl spells it: pods, po, deployments.apps, deployments.v1.apps, foos.example.com/v1
    #[arg(value_name = "RESOURCE", value_parser = NonEmptyStringValueParser::new())]
    resource: String,
    /// Only objects in this namespace, instead of the context's
    #[arg(short, long, value_name = "NS", value_parser = NonEmptyStringValueParser::new())]
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
    /// Tell also what has changed, when something has
    #[arg(long)]
    diff: bool,
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
    let stdout = io::stdout();
    let look = match arguments.output {
        Some(Format::Json) => Look::Json,
        None if terminal::is_live(&stdout) => Look::Terminal { is_coloured: terminal::has_colours(&stdout) },
        None => Look::Plain,
    };
    let block = match look {
        Look::Terminal { is_coloured } => Some(Block::new(is_coloured)),
        _ => None,
    };
    let (output, mut writing) = output::open(block);
    let mut session = Session::new(look);
    let outcome = tokio::select! {
        outcome = session.observe(arguments, &output) => outcome,
        error = writing.failed() => return Err(error.into()),
        () = signals.next() => Ok(()),
    };
    let table = if outcome.is_ok() { session.table() } else { Vec::new() };
    let render = |is_coloured| table.iter().map(|line| line.render(is_coloured, usize::MAX)).collect::<Vec<_>>();
    match look {
        Look::Terminal { is_coloured } => output.end(render(is_coloured), writing).await?,
        Look::Plain if stdout.is_terminal() => output.end(render(false), writing).await?,
        Look::Plain => output.end(Vec::new(), writing).await?,
        Look::Json => {
            output.end(Vec::new(), writing).await?;
            let stderr = io::stderr();
            if stderr.is_terminal() {
                render(terminal::has_colours(&stderr)).iter().for_each(|line| eprintln!("{line}"));
            }
        }
    }
    outcome
}

/// What is observed, and what was told of it. It outlives the observing, so that the end can be told too.
#[derive(Debug)]
struct Session {
    look: Look,
    lines: Lines,
    began: Instant,
    tally: Tally,
    /// What is observed, in words. Nothing before that is known.
    what: String,
    /// How many failures were told.
    failures: u64,
}

/// Where notifications and failures come from.
struct Feed {
    informer: SharedInformer<Unstructured>,
    events: Subscription<Unstructured>,
    troubles: mpsc::Receiver<Told>,
    /// How many objects have come from the server. Counted only where somebody is shown it.
    received: Arc<AtomicUsize>,
    /// Of Secrets less is told.
    is_secret: bool,
    is_diff: bool,
}

impl Session {
    fn new(look: Look) -> Self {
        let (lines, tally) = (Lines::new(look), Tally::default());
        Session { look, lines, began: Instant::now(), tally, what: String::new(), failures: 0 }
    }

    fn is_live(&self) -> bool {
        matches!(self.look, Look::Terminal { .. })
    }

    /// Finds what is meant, and tells of it until something makes no sense.
    async fn observe(&mut self, mut arguments: Arguments, output: &Output) -> Outcome {
        if arguments.diff {
            // A field that this version does not know would not be there in protobuf, and its changes would not be told.
            arguments.connection.prefer(Wire::Json);
        }
        let cluster = arguments.connection.cluster(arguments.namespace)?;
        let client = cluster.client();
        let info = resolve::resolve(&cluster, &arguments.resource).await?;
        // Without differences nothing is told but what all kinds have, and protobuf will do.
        let mut api = Api::<Unstructured, Any>::of(client, &info);
        let what = match (info.namespaced(), arguments.all_namespaces) {
            (true, false) => {
                let namespace = &client.config().namespace;
                api = api.namespace(namespace);
                format!("{} in {namespace}", info.plural())
            }
            (true, true) => format!("{} in all namespaces", info.plural()),
            (false, _) => info.plural().to_owned(),
        };
        let source = ApiSource::new(api)
            .labels(arguments.selector.unwrap_or_default())
            .fields(arguments.field_selector.unwrap_or_default());

        let (failures, troubles) = mpsc::channel(TROUBLES);
        let mut builder = SharedInformer::<Unstructured>::builder(source, &info)
            .resync(arguments.resync.unwrap_or_default())
            // If nobody reads them, those that are told say enough.
            .on_error(move |trouble| Told::of(trouble).into_iter().for_each(|told| drop(failures.try_send(told))));
        let received = Arc::new(AtomicUsize::new(0));
        let progress = Progress::new(info.plural(), !self.is_live());
        if self.is_live() || progress.is_shown() {
            let received = Arc::clone(&received);
            builder = builder.transform(move |object| {
                received.fetch_add(1, Ordering::Relaxed);
                Ok::<_, BoxError>(object)
            });
        }
        let informer = builder.build();
        let events = informer.subscribe(HandlerOptions::new().name("observe"))?;
        informer.start();
        self.what = what;
        let is_secret = info.group().is_empty() && info.kind() == "Secret";
        let feed = Feed { informer, events, troubles, received, is_secret, is_diff: arguments.diff };
        self.follow(feed, progress, &cluster, output).await
    }

    /// Tells of everything that comes.
    async fn follow(&mut self, feed: Feed, mut progress: Progress, cluster: &Cluster, output: &Output) -> Outcome {
        let Feed { informer, mut events, mut troubles, received, is_secret, is_diff } = feed;
        let registration = events.registration();
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut drawn = (Vec::new(), 0);
        let mut is_synced = false;
        loop {
            tokio::select! {
                biased;
                Some(told) = troubles.recv() => {
                    if let Some(status) = told.refusal.as_deref().filter(|_| !informer.has_synced()) {
                        return Err(cluster.refusal(status, &format!("list {}", self.what)).into());
                    }
                    progress.clear();
                    self.trouble(&told, output).await;
                }
                _ = frames.tick(), if self.is_live() => {
                    let watch = Watch::new(informer.status(), received.load(Ordering::Relaxed));
                    // Drawing what is there already would only disturb who wants to copy it.
                    let drawing = (self.footer(&watch, Instant::now()), terminal::width());
                    if drawing != drawn && output.footer(drawing.0.clone()) {
                        drawn = drawing;
                    }
                }
                event = events.next() => {
                    let Some(event) = event else { return Err("the informer has ended".into()) };
                    progress.clear();
                    if registration.has_synced() && !std::mem::replace(&mut is_synced, true) {
                        self.synced(output).await;
                    }
                    self.tally.count(&event, self.began.elapsed());
                    match is_diff {
                        true => self.event_with_diff(&event, is_secret, output).await,
                        false => self.event(&event, None, output).await,
                    }
                }
                _ = registration.synced(), if !is_synced => {
                    is_synced = true;
                    progress.clear();
                    self.synced(output).await;
                }
                () = progress.next(), if self.tally.objects() == 0 && !is_synced => {
                    progress.draw(received.load(Ordering::Relaxed));
                }
            }
        }
    }

    async fn event(&mut self, event: &Event<Unstructured>, diff: Option<&[Change<'_>]>, output: &Output) {
        for line in self.lines.event(event, diff, time_of_day()) {
            output.line(line).await;
        }
    }

    /// Tells of a notification and, if it is an update, of what it has changed.
    async fn event_with_diff(&mut self, event: &Event<Unstructured>, is_secret: bool, output: &Output) {
        let Event::Update { old, new } = event else { return self.event(event, None, output).await };
        match (old.typed(), new.typed()) {
            (Ok(old), Ok(new)) => {
                let changes = diff::diff(&old.0, &new.0, is_secret);
                self.event(event, Some(&changes), output).await;
            }
            // One object that cannot be read is one object.
            (Err(error), _) | (_, Err(error)) => {
                output.aside(terminal::harmless(&format!("evenkeel: no difference: {error}"))).await;
                self.event(event, None, output).await;
            }
        }
    }

    async fn synced(&self, output: &Output) {
        output.line(self.lines.synced(self.tally.objects(), time_of_day())).await;
    }

    /// Tells of a failure, which is not the end.
    async fn trouble(&mut self, told: &Told, output: &Output) {
        self.failures += 1;
        match self.is_live() && io::stderr().is_terminal() {
            true => output.line(self.lines.trouble(&told.brief, time_of_day())).await,
            false => output.aside(terminal::harmless(&format!("evenkeel: {}", told.text))).await,
        }
    }

    fn footer(&mut self, watch: &Watch, now: Instant) -> Vec<terminal::Line> {
        footer::live(&self.what, watch, &mut self.tally, now, now - self.began)
    }

    /// What is left to say, if there is something.
    fn table(&self) -> Vec<terminal::Line> {
        match self.what.as_str() {
            "" => Vec::new(),
            what => footer::last(what, &self.tally, self.failures, self.began.elapsed()),
        }
    }
}

/// What has passed of the day, and of all days before it.
#[expect(clippy::disallowed_methods, reason = "people want to know when something happened")]
fn time_of_day() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// What is told of a failure.
struct Told {
    text: String,
    /// The same for those who know what is observed.
    brief: String,
    /// What the server says, if trying again helps nobody: it has understood, and says no.
    refusal: Option<Box<Status>>,
}

impl Told {
    /// Nothing, if the next attempt is another way to get the same, and follows at once.
    fn of(trouble: &Trouble) -> Option<Self> {
        let is_first = trouble.phase == ReflectorPhase::Listing;
        if is_first && trouble.next == (Recovery::Relist { after: Duration::ZERO }) {
            return None;
        }
        let status = trouble.error.source_error().and_then(|error| error.status());
        let refusal = status.filter(|status| {
            status.is_forbidden()
                || status.is_unauthorized()
                || status.is_not_found()
                || status.is_method_not_supported()
                || status.is_bad_request()
        });
        let brief = format!("{}; {}", trouble.error, trouble.next);
        Some(Told { text: trouble.to_string(), brief, refusal: refusal.cloned().map(Box::new) })
    }
}
