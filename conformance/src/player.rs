//! Runs a scenario with a client and records a transcript.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use crate::Failure;
use crate::command::{Call, Command, Notification, ObjectState, Options, Response};
use crate::journal::Journal;
use crate::scenario::Scenario;
use crate::scenario_server::{MARKER, ScenarioServer};
use crate::script::{HandlerComparison, NotificationKind, Query, Resyncs, Step, Target, full_key};
use crate::transcript::Transcript;

/// Time limit of every wait.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Polling interval for state without a notification.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Larger caches are only counted.
const LISTED_AT_MOST: usize = 50;
/// Section of watch errors.
const ERRORS: &str = "errors";

/// A client library under test.
pub(crate) trait Client: Clone + Send + 'static {
    /// Its informer.
    type Informer: Informer;

    /// Its name in scenarios.
    const NAME: &str;

    /// Returns an informer for a scenario. The first command is [`Command::New`].
    fn informer(&self, scenario: &str) -> Self::Informer;
}

/// An informer that executes commands.
pub(crate) trait Informer: Send + Sync {
    /// Executes a command. The inner error is the informer's refusal, the outer one a failure of the suite.
    fn execute(&mut self, command: Command) -> impl Future<Output = Result<Result<Response, String>, Failure>> + Send;

    /// Returns the notifications of its handlers.
    fn journal(&self) -> &Journal;
}

/// Runs a scenario.
pub(crate) async fn run<C: Client>(scenario: &Scenario, client: C) -> Result<Transcript, Failure> {
    let server = ScenarioServer::start(scenario).await?;
    let options = Options { server: server.url().to_owned(), ..scenario.informer.clone() };
    let informer = client.informer(&scenario.name);
    let mut player = Player {
        scenario,
        client: C::NAME,
        server,
        options,
        informer,
        handlers: BTreeMap::new(),
        running: false,
        queries: 0,
        transcript: Transcript::default(),
    };
    player.execute(Command::New { options: player.options.clone() }).await?;
    for step in &scenario.steps {
        let done = tokio::time::timeout(TIMEOUT, player.step(step)).await;
        if let Err(error) = done.unwrap_or_else(|_| Err("timed out".into())) {
            let journal = player.journal_so_far();
            return Err(format!("{step:?}: {error}\n{journal}").into());
        }
    }
    if player.running && !scenario.marker.none {
        let done = tokio::time::timeout(TIMEOUT, player.barrier()).await;
        if let Err(error) = done.unwrap_or_else(|_| Err("timed out".into())) {
            let journal = player.journal_so_far();
            return Err(format!("the barrier at the end: {error}\n{journal}").into());
        }
    }
    player.finish().await
}

struct Player<'a, I> {
    scenario: &'a Scenario,
    client: &'static str,
    server: ScenarioServer,
    options: Options,
    informer: I,
    /// All handlers so far, and whether they are registered now.
    handlers: BTreeMap<String, Registered>,
    running: bool,
    queries: usize,
    transcript: Transcript,
}

struct Registered {
    notes: HandlerComparison,
    listens: bool,
}

impl<I: Informer> Player<'_, I> {
    async fn step(&mut self, step: &Step) -> Result<(), Failure> {
        let step = match step {
            Step::Only { client, step } if client == self.client => step,
            Step::Only { .. } => return Ok(()),
            step => step,
        };
        match step {
            Step::Only { .. } => return Err("nested conditions are not supported".into()),
            Step::Pause(milliseconds) => tokio::time::sleep(Duration::from_millis(*milliseconds)).await,
            Step::CreateMany(target, times) => {
                for number in 0..*times {
                    let name = format!("{}-{number}", target.name);
                    self.server.create(&Target { name, ..target.clone() }).await?;
                }
            }
            Step::Create(target) => self.server.create(target).await?,
            Step::Update(target) => self.server.update(target).await?,
            Step::Delete(target) => self.server.delete(target).await?,
            Step::Fault(spec) => {
                self.server.faults().add(evenkeel_apiserver::Faults::parse(spec)?);
            }
            Step::Unfault => self.server.faults().clear(),
            Step::Compact => self.server.faults().compact_now(),
            Step::ResetHistory => self.server.faults().reset_history(),
            Step::Cut => {
                let accepted = self.server.accepted();
                self.server.faults().cut_connections();
                // The client has reconnected: no event can arrive over a connection that is about to close.
                while self.server.accepted() == accepted || self.server.watchers() == 0 {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
            }
            Step::Outage => {
                self.server.faults().refuse_connections(true);
                // A client must not get a connection that will not be served.
                while self.server.accepts().await {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                self.server.faults().cut_connections();
                self.until_watchers(|watchers| watchers == 0).await;
            }
            Step::Recover => self.server.faults().refuse_connections(false),
            Step::Snapshot => self.server.snapshot(),
            Step::Restore => self.server.restore()?,
            Step::Start => {
                self.execute(Command::Start).await?;
                self.running = true;
            }
            Step::Stop => {
                self.execute(Command::Stop).await?;
                self.running = false;
            }
            Step::Synced(handler) => self.synced(handler).await?,
            Step::Handler(options, notes) => {
                // Recorded before the command: the handler may be called before its response arrives.
                let registered = Registered { notes: notes.clone(), listens: true };
                self.handlers.insert(options.handler.clone(), registered);
                if let Err(error) = self.informer.execute(Command::Handler(options.clone())).await? {
                    self.handlers.remove(&options.handler);
                    self.answer(&format!("handler {}", options.handler), Err(error));
                }
            }
            Step::Remove(handler) => {
                self.execute(Command::Remove { handler: handler.clone() }).await?;
                self.listens(handler, false);
            }
            Step::Hold(handler) => {
                self.execute(Command::Hold { handler: handler.clone() }).await?;
                self.listens(handler, false);
            }
            Step::Release(handler) => {
                self.execute(Command::Release { handler: handler.clone() }).await?;
                self.listens(handler, true);
            }
            Step::Index { name, label } => {
                let command = Command::Index { index: name.clone(), label: label.clone() };
                if let Err(error) = self.informer.execute(command).await? {
                    self.answer(&format!("index {name}"), Err(error));
                }
            }
            Step::Wait { handler, times, what, name } => {
                let key = if name.is_empty() { String::new() } else { full_key(name) };
                let counts = |notification: &Notification| {
                    notification.handler == *handler
                        && (key.is_empty() || notification.call.key() == key)
                        && what.is(&notification.call)
                };
                self.informer.journal().until(|all| all.iter().filter(|one| counts(one)).count() >= *times).await;
            }
            Step::Cache => loop {
                let cache = self.cache().await?;
                if self.server.is_all_of(&self.options, &cache)? {
                    break;
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            },
            Step::Barrier => self.barrier().await?,
            Step::Watching => self.until_watchers(|watchers| watchers > 0).await,
            Step::Requests { times, verb } => {
                while self.server.requests().iter().filter(|request| request.verb == verb).count() < *times {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
            }
            Step::Query(query) => self.query(query).await?,
        }
        Ok(())
    }

    /// Executes a command that must succeed.
    async fn execute(&mut self, command: Command) -> Result<Response, Failure> {
        Ok(self.informer.execute(command).await??)
    }

    async fn cache(&mut self) -> Result<Vec<ObjectState>, Failure> {
        match self.execute(Command::List).await? {
            Response::Objects(objects) => Ok(objects),
            other => Err(format!("not a list of objects: {other:?}").into()),
        }
    }

    async fn synced(&mut self, handler: &str) -> Result<(), Failure> {
        while self.execute(Command::Synced { handler: handler.to_owned() }).await? != Response::Yes(true) {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    async fn until_watchers(&self, enough: impl Fn(usize) -> bool) {
        while !enough(self.server.watchers()) {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn listens(&mut self, handler: &str, listens: bool) {
        if let Some(registered) = self.handlers.get_mut(handler) {
            registered.listens = listens;
        }
    }

    /// Writes the marker and waits until every registered handler has received it.
    async fn barrier(&mut self) -> Result<(), Failure> {
        let value = self.server.mark().await?;
        let listening: Vec<String> = self
            .handlers
            .iter()
            .filter(|(_, registered)| registered.listens && !registered.notes.no_barrier)
            .map(|(name, _)| name.clone())
            .collect();
        let shows = |notification: &Notification, handler: &String| {
            let (Call::Add { new, .. } | Call::Update { new, .. }) = &notification.call else { return false };
            notification.handler == *handler && is_marker(&new.key) && new.value == value
        };
        let journal = self.informer.journal();
        journal.until(|all| listening.iter().all(|handler| all.iter().any(|one| shows(one, handler)))).await;
        if listening.is_empty() {
            // Without handlers, wait for the cache.
            while !self.cache().await?.iter().any(|seen| is_marker(&seen.key) && seen.value == value) {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }

    async fn query(&mut self, query: &Query) -> Result<(), Failure> {
        self.queries += 1;
        let (name, command) = match query.clone() {
            Query::List => ("list".to_owned(), Command::List),
            Query::Get(name) => (format!("get {name}"), Command::Get { key: full_key(&name) }),
            Query::ByIndex(index, value) => (format!("by-index {index} {value}"), Command::ByIndex { index, value }),
            Query::IndexKeys(index, value) => {
                (format!("index-keys {index} {value}"), Command::IndexKeys { index, value })
            }
            Query::IndexValues(index) => (format!("index-values {index}"), Command::IndexValues { index }),
            Query::Synced(handler) => (format!("synced {handler}").trim_end().to_owned(), Command::Synced { handler }),
            Query::Stopped => ("stopped".to_owned(), Command::Stopped),
            Query::StoreVersion => ("store-version".to_owned(), Command::StoreVersion),
        };
        let answer = self.informer.execute(command).await?;
        let section = format!("query {} {name}", self.queries);
        let answer = match (query, answer) {
            (Query::StoreVersion, Ok(Response::Text(version))) => Ok(Response::Text(self.server.version(&version))),
            (_, answer) => answer,
        };
        self.answer(&section, answer);
        Ok(())
    }

    /// Records a response. The texts of refusals differ; only their occurrence counts.
    fn answer(&mut self, section: &str, answer: Result<Response, String>) {
        let lines: Vec<String> = match answer {
            Err(_) => vec!["refused".into()],
            Ok(Response::Nothing(())) => vec!["nothing".into()],
            Ok(Response::Yes(yes)) => vec![if yes { "yes" } else { "no" }.into()],
            Ok(Response::Text(text)) => vec![text],
            Ok(Response::Texts(texts)) => {
                texts.iter().filter(|text| !is_marker(text)).map(|text| short(text)).collect()
            }
            Ok(Response::Objects(objects)) => self.describe(&objects),
        };
        if lines.is_empty() {
            self.transcript.push(section, "none");
        }
        for line in lines {
            self.transcript.push(section, line);
        }
    }

    fn describe(&self, objects: &[ObjectState]) -> Vec<String> {
        let objects = objects.iter().filter(|seen| !is_marker(&seen.key));
        let mut lines: Vec<String> =
            objects.map(|seen| format!("{} {}", short(&seen.key), self.server.name_of(seen))).collect();
        lines.sort();
        if lines.len() > LISTED_AT_MOST {
            lines = vec![format!("{} objects", lines.len())];
        }
        lines
    }

    /// Records what is compared at the end, and drops the informer.
    async fn finish(mut self) -> Result<Transcript, Failure> {
        let cache = self.cache().await?;
        self.answer("cache", Ok(Response::Objects(cache)));
        for Notification { handler, call } in self.informer.journal().entries() {
            if is_marker(call.key()) {
                continue;
            }
            if let Call::Error { reason } = &call {
                if self.scenario.compare.errors {
                    self.transcript.push(ERRORS, reason.clone());
                }
                continue;
            }
            let resyncs = self.handlers.get(&handler).map_or(Resyncs::Each, |registered| registered.notes.resyncs);
            if call.is_resync() && resyncs == Resyncs::Ignored {
                continue;
            }
            let (section, line) = match self.scenario.compare.total_order {
                true => (handler, format!("{}: {}", short(call.key()), self.describe_call(&call))),
                false => (format!("{handler} {}", short(call.key())), self.describe_call(&call)),
            };
            let again = self.transcript.section(&section).last() == Some(&line);
            if !(again && call.is_resync() && resyncs == Resyncs::Any) {
                self.transcript.push(section, line);
            }
        }
        if self.scenario.compare.requests {
            for request in self.server.requests() {
                self.transcript.push("requests", request.text);
            }
        }
        // With connections refused, clients would end only after their backoff.
        self.server.faults().clear();
        let closed = tokio::time::timeout(TIMEOUT, self.execute(Command::Close)).await;
        closed.map_err(|_| "the informer does not stop")??;
        Ok(self.transcript)
    }

    fn describe_call(&self, call: &Call) -> String {
        match call {
            Call::Add { initial: true, new } => format!("add {} initial", self.server.name_of(new)),
            Call::Add { initial: false, new } => format!("add {}", self.server.name_of(new)),
            Call::Update { old, new } => {
                format!("update {} to {}", self.server.name_of(old), self.server.name_of(new))
            }
            Call::Delete { unknown, old, .. } => {
                let state = old.as_ref().map_or("with unknown state".into(), |old| self.server.name_of(old));
                format!("{} {state}", if *unknown { "missed" } else { "delete" })
            }
            Call::Error { reason } => reason.clone(),
        }
    }

    fn journal_so_far(&self) -> String {
        let entries = self.informer.journal().entries();
        let mut text: Vec<String> = entries
            .iter()
            .map(|notification| {
                format!(
                    "{} {}: {}",
                    notification.handler,
                    short(notification.call.key()),
                    self.describe_call(&notification.call)
                )
            })
            .collect();
        text.extend(self.server.requests().into_iter().map(|request| request.text));
        text.join("\n")
    }
}

impl NotificationKind {
    fn is(self, call: &Call) -> bool {
        match self {
            NotificationKind::Add => matches!(call, Call::Add { .. }),
            NotificationKind::Update => matches!(call, Call::Update { .. }) && !call.is_resync(),
            NotificationKind::Resync => call.is_resync(),
            NotificationKind::Delete => matches!(call, Call::Delete { .. }),
            NotificationKind::Error => matches!(call, Call::Error { .. }),
        }
    }
}

fn is_marker(key: &str) -> bool {
    key.rsplit('/').next() == Some(MARKER)
}

/// Returns a key as scripts write it.
fn short(key: &str) -> String {
    key.strip_prefix("default/").unwrap_or(key).to_owned()
}
