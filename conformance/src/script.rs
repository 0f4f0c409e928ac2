//! The steps of a scenario: one per line, words separated by spaces.

use crate::command::HandlerOptions;

/// A step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Creates, updates or deletes an object.
    Create(Target),
    /// Creates so many objects, numbered.
    CreateMany(Target, usize),
    Update(Target),
    Delete(Target),
    /// Injects a fault, or clears all faults.
    Fault(String),
    Unfault,
    /// Discards the server's history; or, in addition, closes all watches.
    Compact,
    ResetHistory,
    /// Closes all connections; the client reconnects its watch.
    Cut,
    /// Closes all connections and refuses new ones, until `recover`.
    Outage,
    Recover,
    /// Takes a snapshot of the server's state, or restores it.
    Snapshot,
    Restore,
    /// Starts or stops the informer.
    Start,
    Stop,
    /// Waits until the informer, or a handler, is in sync.
    Synced(String),
    /// Adds or removes a handler; blocks or releases it.
    Handler(HandlerOptions, HandlerComparison),
    Remove(String),
    Hold(String),
    Release(String),
    /// Adds an index by the value of a label.
    Index {
        name: String,
        label: String,
    },
    /// Waits until a handler has received so many notifications.
    Wait {
        handler: String,
        times: usize,
        what: NotificationKind,
        name: String,
    },
    /// Waits until the cache equals the server's state.
    Cache,
    /// Waits until handlers have received all changes so far.
    Barrier,
    /// Waits until the server has an open watch.
    Watching,
    /// Waits until the client has made so many requests.
    Requests {
        times: usize,
        verb: String,
    },
    /// Pauses, to show that no notification arrives.
    Pause(u64),
    /// A step for one of the clients only.
    Only {
        client: String,
        step: Box<Step>,
    },
    /// Queries the cache and compares the result.
    Query(Query),
}

/// The object of a write.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Target {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) node: String,
    pub(crate) finalizer: Option<String>,
    /// Labels to set, or, with the value `-`, to remove.
    pub(crate) labels: Vec<(String, String)>,
}

/// How the suite treats a handler.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HandlerComparison {
    /// Which of its resyncs are compared; their number depends on time.
    pub(crate) resyncs: Resyncs,
    /// Barriers do not wait for it.
    pub(crate) no_barrier: bool,
}

/// Which resyncs of a handler are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Resyncs {
    /// Every one: only relists cause them.
    #[default]
    Each,
    /// Whether there is one, not how many.
    Any,
    /// None.
    Ignored,
}

/// The notification to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotificationKind {
    Add,
    Update,
    Resync,
    Delete,
    Error,
}

/// A query of the cache.
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

/// Parses a script.
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
                "add" => NotificationKind::Add,
                "update" => NotificationKind::Update,
                "resync" => NotificationKind::Resync,
                "delete" => NotificationKind::Delete,
                "error" => NotificationKind::Error,
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

fn handler<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<(HandlerOptions, HandlerComparison)> {
    let mut options = HandlerOptions { handler: words.next()?.into(), ..HandlerOptions::default() };
    let mut notes = HandlerComparison::default();
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

/// Returns the store key of an object that a script names.
pub(crate) fn full_key(name: &str) -> String {
    if name.contains('/') { name.into() } else { format!("default/{name}") }
}

#[cfg(test)]
mod tests;
