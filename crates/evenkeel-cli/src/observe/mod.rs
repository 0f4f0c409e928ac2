//! `evenkeel observe`: prints the notifications of an informer.

mod diff;
mod footer;
mod line;
mod progress;
mod tally;

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use evenkeel_cache::informer::{Recovery, ReflectorFailure, ReflectorPhase};
use evenkeel_cache::source::{ApiSource, BoxError};
use evenkeel_cache::{Event, HandlerOptions, InformerOptions, RunningInformers, SharedInformer, Subscription};
use evenkeel_client::api::scope::Any;
use evenkeel_client::{Api, Unstructured, Wire};
use evenkeel_core::{Status, duration};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::diff::Change;
use self::footer::Watch;
use self::line::{Lines, OutputFormat};
use self::progress::Progress;
use self::tally::Tally;
use crate::Outcome;
use crate::connect::{Cluster, Connection};
use crate::output::{self, Output};
use crate::resolve::resolve;
use crate::selection::ObjectSelection;
use crate::signals::Signals;
use crate::terminal::{self, Block};

/// Number of errors that are queued for printing. Errors are spaced by backoff.
const TROUBLES: usize = 16;
/// Refresh interval of the footer.
const FRAME: Duration = Duration::from_millis(200);

const MORE: &str = "\
On a terminal the lines scroll above a footer with the state of the watch and counts; Ctrl-C prints a summary table.
Otherwise only lines are printed, without colours. NO_COLOR and TERM=dumb are respected. With -o json the standard output
is JSON only, and the table is printed to the standard error if that is a terminal.

--diff prints the changed fields of each update, one path per line, + for added and - for removed. It ignores
metadata.resourceVersion, metadata.managedFields and metadata.generation, which change with every write. Of the data of
Secrets only sizes are printed. --diff requests JSON, so that no field is missing, unless --wire is given.

Examples:
  evenkeel observe pods                                  those of the context's namespace
  evenkeel observe deployments.apps -A --diff            what changes in the deployments of all namespaces
  evenkeel observe events -n web -o json | jq .key       for programs
  evenkeel observe pods -A --field-selector spec.nodeName=node-1 --resync 30s";

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct Arguments {
    /// Resource as in kubectl: pods, po, deployments.apps, deployments.v1.apps, foos.example.com/v1
    #[arg(value_name = "RESOURCE", value_parser = NonEmptyStringValueParser::new())]
    resource: String,
    #[command(flatten)]
    selection: ObjectSelection,
    /// Resync period, such as 30s [default: off]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    resync: Option<Duration>,
    /// Print the changed fields of updates
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
    let format = match arguments.output {
        Some(Format::Json) => OutputFormat::Json,
        None if terminal::is_live(&stdout) => OutputFormat::Terminal { is_coloured: terminal::has_colours(&stdout) },
        None => OutputFormat::Plain,
    };
    let block = match format {
        OutputFormat::Terminal { is_coloured } => Some(Block::new(is_coloured)),
        _ => None,
    };
    let (output, mut writing) = output::open(block);
    let mut session = Session::new(format);
    let outcome = tokio::select! {
        outcome = session.observe(arguments, &output) => outcome,
        error = writing.failed() => return Err(error.into()),
        () = signals.next() => Ok(()),
    };
    let table = if outcome.is_ok() { session.table() } else { Vec::new() };
    let render = |is_coloured| table.iter().map(|line| line.render(is_coloured, usize::MAX)).collect::<Vec<_>>();
    match format {
        OutputFormat::Terminal { is_coloured } => output.end(render(is_coloured), writing).await?,
        OutputFormat::Plain if stdout.is_terminal() => output.end(render(false), writing).await?,
        OutputFormat::Plain => output.end(Vec::new(), writing).await?,
        OutputFormat::Json => {
            output.end(Vec::new(), writing).await?;
            let stderr = io::stderr();
            if stderr.is_terminal() {
                render(terminal::has_colours(&stderr)).iter().for_each(|line| eprintln!("{line}"));
            }
        }
    }
    outcome
}

/// What is observed, and the counts so far. It outlives the watch, so that the summary can be printed.
#[derive(Debug)]
struct Session {
    format: OutputFormat,
    lines: Lines,
    began: Instant,
    tally: Tally,
    /// Description of the resource; empty before it is resolved.
    what: String,
    /// Number of failures printed.
    failures: u64,
}

/// Notifications and errors of the informer.
struct Notifications {
    informer: SharedInformer<Unstructured>,
    _running: RunningInformers,
    events: Subscription<Unstructured>,
    troubles: mpsc::Receiver<ErrorText>,
    /// Objects received from the server. Counted only if the progress is displayed.
    received: Arc<AtomicUsize>,
    /// Values of Secrets are redacted.
    is_secret: bool,
    is_diff: bool,
}

impl Session {
    fn new(format: OutputFormat) -> Self {
        let (lines, tally) = (Lines::new(format), Tally::default());
        Session { format, lines, began: Instant::now(), tally, what: String::new(), failures: 0 }
    }

    fn is_live(&self) -> bool {
        matches!(self.format, OutputFormat::Terminal { .. })
    }

    /// Resolves the resource and prints its notifications until a fatal error.
    async fn observe(&mut self, mut arguments: Arguments, output: &Output) -> Outcome {
        if arguments.diff {
            // Protobuf drops fields that this version does not know, so their changes would be missing.
            arguments.connection.prefer(Wire::Json);
        }
        let cluster = arguments.connection.cluster(arguments.selection.namespace)?;
        let client = cluster.client();
        let info = resolve(&cluster, &arguments.resource).await?;
        // Without differences only metadata is printed, so protobuf is sufficient.
        let mut api = Api::<Unstructured, Any>::of(client, &info);
        let what = match (info.namespaced(), arguments.selection.all_namespaces) {
            (true, false) => {
                let namespace = &client.config().namespace;
                api = api.namespace(namespace);
                format!("{} in {namespace}", info.plural())
            }
            (true, true) => format!("{} in all namespaces", info.plural()),
            (false, _) => info.plural().to_owned(),
        };
        let source = ApiSource::new(api)
            .labels(arguments.selection.selector.unwrap_or_default())
            .fields(arguments.selection.field_selector.unwrap_or_default());

        let (failures, troubles) = mpsc::channel(TROUBLES);
        let mut options = InformerOptions::<Unstructured>::new()
            .resync(arguments.resync.unwrap_or_default())
            // If the queue is full, the errors that are printed are enough.
            .on_error(move |trouble| ErrorText::of(trouble).into_iter().for_each(|text| drop(failures.try_send(text))));
        let received = Arc::new(AtomicUsize::new(0));
        let progress = Progress::new(info.plural(), !self.is_live());
        if self.is_live() || progress.is_shown() {
            let received = Arc::clone(&received);
            options = options.transform(move |object| {
                received.fetch_add(1, Ordering::Relaxed);
                Ok::<_, BoxError>(object)
            });
        }
        let informer = SharedInformer::new(source, &info, options);
        let events = informer.subscribe(HandlerOptions::new().name("observe"))?;
        let running = informer.start();
        self.what = what;
        let is_secret = info.group().is_empty() && info.kind() == "Secret";
        let feed = Notifications {
            informer,
            _running: running,
            events,
            troubles,
            received,
            is_secret,
            is_diff: arguments.diff,
        };
        self.follow(feed, progress, &cluster, output).await
    }

    /// Prints notifications and errors as they arrive.
    async fn follow(
        &mut self,
        feed: Notifications,
        mut progress: Progress,
        cluster: &Cluster,
        output: &Output,
    ) -> Outcome {
        let Notifications { informer, _running, mut events, mut troubles, received, is_secret, is_diff } = feed;
        let registration = events.registration();
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut drawn = (Vec::new(), 0);
        let mut is_synced = false;
        loop {
            tokio::select! {
                biased;
                Some(text) = troubles.recv() => {
                    if let Some(status) = text.refusal.as_deref().filter(|_| !informer.has_synced()) {
                        return Err(cluster.refusal(status, &format!("list {}", self.what)).into());
                    }
                    progress.clear();
                    self.trouble(&text, output).await;
                }
                _ = frames.tick(), if self.is_live() => {
                    let watch = Watch::new(informer.status(), received.load(Ordering::Relaxed));
                    // Redrawing unchanged lines would disturb copying from the terminal.
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

    /// Prints a notification and, for an update, its differences.
    async fn event_with_diff(&mut self, event: &Event<Unstructured>, is_secret: bool, output: &Output) {
        let Event::Update { old, new } = event else { return self.event(event, None, output).await };
        match (old.typed(), new.typed()) {
            (Ok(old), Ok(new)) => {
                let changes = diff::diff(&old.0, &new.0, is_secret);
                self.event(event, Some(&changes), output).await;
            }
            // An object that cannot be decoded affects only its own diff.
            (Err(error), _) | (_, Err(error)) => {
                output.aside(terminal::sanitize(&format!("evenkeel: no difference: {error}"))).await;
                self.event(event, None, output).await;
            }
        }
    }

    async fn synced(&self, output: &Output) {
        output.line(self.lines.synced(self.tally.objects(), time_of_day())).await;
    }

    /// Prints an error that is retried.
    async fn trouble(&mut self, text: &ErrorText, output: &Output) {
        self.failures += 1;
        match self.is_live() && io::stderr().is_terminal() {
            true => output.line(self.lines.trouble(&text.brief, time_of_day())).await,
            false => output.aside(terminal::sanitize(&format!("evenkeel: {}", text.text))).await,
        }
    }

    fn footer(&mut self, watch: &Watch, now: Instant) -> Vec<terminal::Line> {
        footer::live(&self.what, watch, &mut self.tally, now, now - self.began)
    }

    /// Returns the final summary, if any.
    fn table(&self) -> Vec<terminal::Line> {
        match self.what.as_str() {
            "" => Vec::new(),
            what => footer::last(what, &self.tally, self.failures, self.began.elapsed()),
        }
    }
}

/// Returns the time since 1970.
#[expect(clippy::disallowed_methods, reason = "users want to know when an event happened")]
fn time_of_day() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The text of an error.
struct ErrorText {
    text: String,
    /// Without the name of the resource.
    brief: String,
    /// The server's status, if a retry cannot succeed.
    refusal: Option<Box<Status>>,
}

impl ErrorText {
    /// Returns none if the reflector falls back to another request at once.
    fn of(trouble: &ReflectorFailure) -> Option<Self> {
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
        Some(ErrorText { text: trouble.to_string(), brief, refusal: refusal.cloned().map(Box::new) })
    }
}
