//! The steps of a scenario, as they are written: one per line, words with spaces between them.

use crate::command::HandlerOptions;

/// Something that happens.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// An object is created, changed, or deleted.
    Create(Target),
    /// So many objects are created; a number is put after the name of each.
    CreateMany(Target, usize),
    Update(Target),
    Delete(Target),
    /// The server misbehaves from now on, or no longer.
    Fault(String),
    Unfault,
    /// The server forgets all history; or, besides, ends all watches.
    Compact,
    ResetHistory,
    /// The server breaks all connections, and the client, which watches, comes back.
    Cut,
    /// The server breaks all connections and accepts none, until `recover`.
    Outage,
    Recover,
    /// The server's state is remembered, or goes back to what is remembered.
    Snapshot,
    Restore,
    /// The informer is started or stopped.
    Start,
    Stop,
    /// Waits until the informer, or a handler, is in sync.
    Synced(String),
    /// A handler is added or removed; stands still or goes on.
    Handler(HandlerOptions, HandlerNotes),
    Remove(String),
    Hold(String),
    Release(String),
    /// An index by the value of a label is added.
    Index {
        name: String,
        label: String,
    },
    /// Waits until a handler has been told something so many times.
    Wait {
        handler: String,
        times: usize,
        what: What,
        name: String,
    },
    /// Waits until the cache holds what the server holds.
    Cache,
    /// Waits until handlers have been told everything that has happened.
    Barrier,
    /// Waits until the server has an open watch.
    Watching,
    /// Waits until the client has made so many requests.
    Requests {
        times: usize,
        verb: String,
    },
    /// Some time passes, in which nothing should happen. For what cannot be waited for.
    Pause(u64),
    /// A step for one of the clients only.
    Only {
        client: String,
        step: Box<Step>,
    },
    /// The cache is asked something, and the answer compared.
    Query(Query),
}

/// An object of a write.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Target {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) node: String,
    pub(crate) finalizer: Option<String>,
    /// Labels to set, or, with the value `-`, to remove.
    pub(crate) labels: Vec<(String, String)>,
}

/// What the suite should know about a handler.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HandlerNotes {
    /// What is compared of its resyncs, which come when they come.
    pub(crate) resyncs: Resyncs,
    /// Barriers do not wait for it.
    pub(crate) no_barrier: bool,
}

/// What is compared of a handler's resyncs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Resyncs {
    /// Every one: there should be none but those that something other than time brings about.
    #[default]
    Each,
    /// That there is one, not how many.
    Any,
    /// Nothing.
    Ignored,
}

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Add,
    Update,
    Resync,
    Delete,
    Error,
}

/// A question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Query {
    List,
    Get(String),
    ByIndex(String, String),
    IndexKeys(String, String),
    IndexValues(String),
    Synced(String),
    Stopped,
    StoreVersion,
}

/// Reads a script.
pub(crate) fn parse(text: &str) -> Result<Vec<Step>, String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines
        .filter(|line| !line.is_empty())
        .map(|line| step(line).ok_or_else(|| format!("not a step: {line:?}")))
        .collect()
}

fn step(line: &str) -> Option<Step> {
    if let Some(rest) = line.strip_prefix("only ") {
        let (client, line) = rest.split_once(':')?;
        return Some(Step::Only { client: client.into(), step: Box::new(step(line)?) });
    }
    let mut words = line.split_whitespace();
    let verb = words.next()?;
    let mut word = || words.next().map(str::to_owned);
    let step = match verb {
        "create" => Step::Create(target(words.by_ref())?),
        "create-many" => {
            let times = word()?.parse().ok()?;
            Step::CreateMany(target(words.by_ref())?, times)
        }
        "update" => Step::Update(target(words.by_ref())?),
        "delete" => Step::Delete(target(words.by_ref())?),
        "fault" => Step::Fault(word()?),
        "unfault" => Step::Unfault,
        "compact" => Step::Compact,
        "reset-history" => Step::ResetHistory,
        "cut" => Step::Cut,
        "outage" => Step::Outage,
        "recover" => Step::Recover,
        "snapshot" => Step::Snapshot,
        "restore" => Step::Restore,
        "start" => Step::Start,
        "stop" => Step::Stop,
        "synced" => Step::Synced(word().unwrap_or_default()),
        "handler" => {
            let (options, notes) = handler(words.by_ref())?;
            Step::Handler(options, notes)
        }
        "remove" => Step::Remove(word()?),
        "hold" => Step::Hold(word()?),
        "release" => Step::Release(word()?),
        "index" => Step::Index { name: word()?, label: word()? },
        "wait" => {
            let (handler, times) = (word()?, word()?.parse().ok()?);
            let what = match word()?.as_str() {
                "add" => What::Add,
                "update" => What::Update,
                "resync" => What::Resync,
                "delete" => What::Delete,
                "error" => What::Error,
                _ => return None,
            };
            Step::Wait { handler, times, what, name: word().unwrap_or_default() }
        }
        "cache" => Step::Cache,
        "pause-ms" => Step::Pause(word()?.parse().ok()?),
        "barrier" => Step::Barrier,
        "watching" => Step::Watching,
        "requests" => Step::Requests { times: word()?.parse().ok()?, verb: word()? },
        "query" => Step::Query(match word()?.as_str() {
            "list" => Query::List,
            "get" => Query::Get(word()?),
            "by-index" => Query::ByIndex(word()?, word()?),
            "index-keys" => Query::IndexKeys(word()?, word()?),
            "index-values" => Query::IndexValues(word()?),
            "synced" => Query::Synced(word().unwrap_or_default()),
            "stopped" => Query::Stopped,
            "store-version" => Query::StoreVersion,
            _ => return None,
        }),
        _ => return None,
    };
    words.next().is_none().then_some(step)
}

fn target<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Target> {
    let name = words.next()?;
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    let mut target = Target { namespace: namespace.into(), name: name.into(), ..Target::default() };
    for word in words {
        let (key, value) = word.split_once('=')?;
        match key {
            "node" => target.node = value.into(),
            "finalizer" => target.finalizer = Some(value.into()),
            _ => target.labels.push((key.into(), value.into())),
        }
    }
    Some(target)
}

fn handler<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<(HandlerOptions, HandlerNotes)> {
    let mut options = HandlerOptions { handler: words.next()?.into(), ..HandlerOptions::default() };
    let mut notes = HandlerNotes::default();
    for word in words {
        match word.split_once('=') {
            Some(("resync-ms", value)) => options.resync_ms = Some(value.parse().ok()?),
            Some(("filter", value)) => options.filter = value.into(),
            Some(("panic", value)) => options.panic_on = full_key(value),
            None if word == "ignore-resyncs" => notes.resyncs = Resyncs::Ignored,
            None if word == "any-resyncs" => notes.resyncs = Resyncs::Any,
            None if word == "no-barrier" => notes.no_barrier = true,
            _ => return None,
        }
    }
    Some((options, notes))
}

/// The store's key of an object that a script names.
pub(crate) fn full_key(name: &str) -> String {
    if name.contains('/') { name.into() } else { format!("default/{name}") }
}

#[cfg(test)]
mod tests;
