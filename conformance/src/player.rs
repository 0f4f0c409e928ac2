//! Runs a scenario with a client and records a transcript.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use crate::Failure;
use crate::command::{Answer, Call, Command, Notification, Options, Seen};
use crate::journal::Journal;
use crate::scenario::Scenario;
use crate::script::{HandlerNotes, Query, Resyncs, Step, Target, What, full_key};
use crate::stage::{MARKER, Stage};
use crate::transcript::Transcript;

/// Time limit of every wait.
const PATIENCE: Duration = Duration::from_secs(120);
/// Polling interval for state without a notification.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Larger caches are only counted.
const MANY: usize = 50;
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
    fn ask(&mut self, command: Command) -> impl Future<Output = Result<Result<Answer, String>, Failure>> + Send;

    /// Returns the notifications of its handlers.
    fn journal(&self) -> &Journal;
}

/// Runs a scenario.
pub(crate) async fn play<C: Client>(scenario: &Scenario, client: C) -> Result<Transcript, Failure> {
    let stage = Stage::set(scenario).await?;
    let options = Options { server: stage.url().to_owned(), ..scenario.informer.clone() };
    let informer = client.informer(&scenario.name);
    let mut play = Play {
        scenario,
        client: C::NAME,
        stage,
        options,
        informer,
        handlers: BTreeMap::new(),
        running: false,
        queries: 0,
        transcript: Transcript::default(),
    };
    play.ask(Command::New { options: play.options.clone() }).await?;
    for step in &scenario.steps {
        let done = tokio::time::timeout(PATIENCE, play.step(step)).await;
        if let Err(error) = done.unwrap_or_else(|_| Err("timed out".into())) {
            let said = play.journal_so_far();
            return Err(format!("{step:?}: {error}\n{said}").into());
        }
    }
    if play.running && !scenario.marker.none {
        let done = tokio::time::timeout(PATIENCE, play.barrier()).await;
        if let Err(error) = done.unwrap_or_else(|_| Err("timed out".into())) {
            let said = play.journal_so_far();
            return Err(format!("the barrier at the end: {error}\n{said}").into());
        }
    }
    play.finish().await
}

struct Play<'a, I> {
    scenario: &'a Scenario,
    client: &'static str,
    stage: Stage,
    options: Options,
    informer: I,
    /// All handlers so far, and whether they are registered now.
    handlers: BTreeMap<String, Registered>,
    running: bool,
    queries: usize,
    transcript: Transcript,
}

struct Registered {
    notes: HandlerNotes,
    listens: bool,
}

impl<I: Informer> Play<'_, I> {
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
                    self.stage.create(&Target { name, ..target.clone() }).await?;
                }
            }
            Step::Create(target) => self.stage.create(target).await?,
            Step::Update(target) => self.stage.update(target).await?,
            Step::Delete(target) => self.stage.delete(target).await?,
            Step::Fault(spec) => {
                self.stage.faults().add(evenkeel_apiserver::Faults::parse(spec)?);
            }
            Step::Unfault => self.stage.faults().clear(),
            Step::Compact => self.stage.faults().compact_now(),
            Step::ResetHistory => self.stage.faults().reset_history(),
            Step::Cut => {
                let accepted = self.stage.accepted();
                self.stage.faults().cut_connections();
                // The client has reconnected: no event can arrive over a connection that is about to close.
                while self.stage.accepted() == accepted || self.stage.watchers() == 0 {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
            }
            Step::Outage => {
                self.stage.faults().refuse_connections(true);
                // A client must not get a connection that will not be served.
                while self.stage.accepts().await {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                self.stage.faults().cut_connections();
                self.until_watchers(|watchers| watchers == 0).await;
            }
            Step::Recover => self.stage.faults().refuse_connections(false),
            Step::Snapshot => self.stage.snapshot(),
            Step::Restore => self.stage.restore()?,
            Step::Start => {
                self.ask(Command::Start).await?;
                self.running = true;
            }
            Step::Stop => {
                self.ask(Command::Stop).await?;
                self.running = false;
            }
            Step::Synced(handler) => self.synced(handler).await?,
            Step::Handler(options, notes) => {
                // Recorded before the command: the handler may be called before its response arrives.
                let registered = Registered { notes: notes.clone(), listens: true };
                self.handlers.insert(options.handler.clone(), registered);
                if let Err(error) = self.informer.ask(Command::Handler(options.clone())).await? {
                    self.handlers.remove(&options.handler);
                    self.answer(&format!("handler {}", options.handler), Err(error));
                }
            }
            Step::Remove(handler) => {
                self.ask(Command::Remove { handler: handler.clone() }).await?;
                self.listens(handler, false);
            }
            Step::Hold(handler) => {
                self.ask(Command::Hold { handler: handler.clone() }).await?;
                self.listens(handler, false);
            }
            Step::Release(handler) => {
                self.ask(Command::Release { handler: handler.clone() }).await?;
                self.listens(handler, true);
            }
            Step::Index { name, label } => {
                let command = Command::Index { index: name.clone(), label: label.clone() };
                if let Err(error) = self.informer.ask(command).await? {
                    self.answer(&format!("index {name}"), Err(error));
                }
            }
            Step::Wait { handler, times, what, name } => {
                let key = if name.is_empty() { String::new() } else { full_key(name) };
                let counts = |told: &Notification| {
                    told.handler == *handler && (key.is_empty() || told.call.key() == key) && what.is(&told.call)
                };
                self.informer.journal().until(|told| told.iter().filter(|told| counts(told)).count() >= *times).await;
            }
            Step::Cache => loop {
                let cache = self.cache().await?;
                if self.stage.is_all_of(&self.options, &cache)? {
                    break;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            },
            Step::Barrier => self.barrier().await?,
            Step::Watching => self.until_watchers(|watchers| watchers > 0).await,
            Step::Requests { times, verb } => {
                while self.stage.requests().iter().filter(|request| request.verb == verb).count() < *times {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
            }
            Step::Query(query) => self.query(query).await?,
        }
        Ok(())
    }

    /// Executes a command that must succeed.
    async fn ask(&mut self, command: Command) -> Result<Answer, Failure> {
        Ok(self.informer.ask(command).await??)
    }

    async fn cache(&mut self) -> Result<Vec<Seen>, Failure> {
        match self.ask(Command::List).await? {
            Answer::Objects(objects) => Ok(objects),
            other => Err(format!("not a list of objects: {other:?}").into()),
        }
    }

    async fn synced(&mut self, handler: &str) -> Result<(), Failure> {
        while self.ask(Command::Synced { handler: handler.to_owned() }).await? != Answer::Yes(true) {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    async fn until_watchers(&self, enough: impl Fn(usize) -> bool) {
        while !enough(self.stage.watchers()) {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    fn listens(&mut self, handler: &str, listens: bool) {
        if let Some(registered) = self.handlers.get_mut(handler) {
            registered.listens = listens;
        }
    }

    /// Writes the marker and waits until every registered handler has received it.
    async fn barrier(&mut self) -> Result<(), Failure> {
        let value = self.stage.mark().await?;
        let listening: Vec<String> = self
            .handlers
            .iter()
            .filter(|(_, registered)| registered.listens && !registered.notes.no_barrier)
            .map(|(name, _)| name.clone())
            .collect();
        let shows = |told: &Notification, handler: &String| {
            let (Call::Add { new, .. } | Call::Update { new, .. }) = &told.call else { return false };
            told.handler == *handler && is_marker(&new.key) && new.value == value
        };
        let journal = self.informer.journal();
        journal.until(|told| listening.iter().all(|handler| told.iter().any(|told| shows(told, handler)))).await;
        if listening.is_empty() {
            // Without handlers, wait for the cache.
            while !self.cache().await?.iter().any(|seen| is_marker(&seen.key) && seen.value == value) {
                tokio::time::sleep(LOOK_AGAIN).await;
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
        let answer = self.informer.ask(command).await?;
        let section = format!("query {} {name}", self.queries);
        let answer = match (query, answer) {
            (Query::StoreVersion, Ok(Answer::Text(version))) => Ok(Answer::Text(self.stage.version(&version))),
            (_, answer) => answer,
        };
        self.answer(&section, answer);
        Ok(())
    }

    /// Records a response. The texts of refusals differ; only their occurrence counts.
    fn answer(&mut self, section: &str, answer: Result<Answer, String>) {
        let lines: Vec<String> = match answer {
            Err(_) => vec!["refused".into()],
            Ok(Answer::Nothing(())) => vec!["nothing".into()],
            Ok(Answer::Yes(yes)) => vec![if yes { "yes" } else { "no" }.into()],
            Ok(Answer::Text(text)) => vec![text],
            Ok(Answer::Texts(texts)) => texts.iter().filter(|text| !is_marker(text)).map(|text| short(text)).collect(),
            Ok(Answer::Objects(objects)) => self.describe(&objects),
        };
        if lines.is_empty() {
            self.transcript.say(section, "none");
        }
        for line in lines {
            self.transcript.say(section, line);
        }
    }

    fn describe(&self, objects: &[Seen]) -> Vec<String> {
        let objects = objects.iter().filter(|seen| !is_marker(&seen.key));
        let mut lines: Vec<String> =
            objects.map(|seen| format!("{} {}", short(&seen.key), self.stage.name_of(seen))).collect();
        lines.sort();
        if lines.len() > MANY {
            lines = vec![format!("{} objects", lines.len())];
        }
        lines
    }

    /// Records what is compared at the end, and drops the informer.
    async fn finish(mut self) -> Result<Transcript, Failure> {
        let cache = self.cache().await?;
        self.answer("cache", Ok(Answer::Objects(cache)));
        for Notification { handler, call } in self.informer.journal().entries() {
            if is_marker(call.key()) {
                continue;
            }
            if let Call::Error { reason } = &call {
                if self.scenario.compare.errors {
                    self.transcript.say(ERRORS, reason.clone());
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
                self.transcript.say(section, line);
            }
        }
        if self.scenario.compare.requests {
            for request in self.stage.requests() {
                self.transcript.say("requests", request.text);
            }
        }
        // With connections refused, clients would end only after their backoff.
        self.stage.faults().clear();
        let closed = tokio::time::timeout(PATIENCE, self.ask(Command::Close)).await;
        closed.map_err(|_| "the informer does not stop")??;
        Ok(self.transcript)
    }

    fn describe_call(&self, call: &Call) -> String {
        match call {
            Call::Add { initial: true, new } => format!("add {} initial", self.stage.name_of(new)),
            Call::Add { initial: false, new } => format!("add {}", self.stage.name_of(new)),
            Call::Update { old, new } => {
                format!("update {} to {}", self.stage.name_of(old), self.stage.name_of(new))
            }
            Call::Delete { unknown, old, .. } => {
                let state = old.as_ref().map_or("with unknown state".into(), |old| self.stage.name_of(old));
                format!("{} {state}", if *unknown { "missed" } else { "delete" })
            }
            Call::Error { reason } => reason.clone(),
        }
    }

    fn journal_so_far(&self) -> String {
        let entries = self.informer.journal().entries();
        let mut text: Vec<String> = entries
            .iter()
            .map(|told| format!("{} {}: {}", told.handler, short(told.call.key()), self.describe_call(&told.call)))
            .collect();
        text.extend(self.stage.requests().into_iter().map(|request| request.text));
        text.join("\n")
    }
}

impl What {
    fn is(self, call: &Call) -> bool {
        match self {
            What::Add => matches!(call, Call::Add { .. }),
            What::Update => matches!(call, Call::Update { .. }) && !call.is_resync(),
            What::Resync => call.is_resync(),
            What::Delete => matches!(call, Call::Delete { .. }),
            What::Error => matches!(call, Call::Error { .. }),
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
