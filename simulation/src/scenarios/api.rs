//! The API server as raw clients see it: requests, lists and watches while its history is discarded (INV-12, INV-13).

mod raw_client;

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use evenkeel_sim::{Fault, Process, Scenario, Workload};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use self::raw_client::RawClient;
use super::Outcome;
use crate::checks::{
    Content, Freshness, History, Known, ObjectState, Reply, Request, Selection, StreamStart, check_linearizable,
    check_lists_linearizable, check_watches,
};

/// The clients that write and read, and those that watch.
const WRITERS: [&str; 3] = ["a", "b", "c"];
const WATCHERS: [&str; 2] = ["v", "w"];
const STEPS: usize = 24;
const SESSIONS: usize = 6;
const KEYS: u32 = 4;
/// Clients start their steps at multiples of this time, so that some requests reach the server together.
const BEAT: Duration = Duration::from_millis(100);
/// No step starts later than this.
const BUSY: Duration = Duration::from_secs(30);
/// All responses have arrived by then.
const WITNESSED: Duration = Duration::from_secs(45);

/// One step of a client.
#[derive(Clone, Debug)]
enum Step {
    Send { key: String, action: Action, is_selected: bool },
    List { selection: Selection, read: Read, limit: usize },
    Watch { selection: Selection, start: Start, seconds: u32, resumes: u32 },
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Get(Read),
    Create,
    /// The version is the one that the client saw last, or none.
    Update {
        is_conditional: bool,
    },
    Delete {
        is_conditional: bool,
    },
}

#[derive(Clone, Copy, Debug)]
enum Read {
    Latest,
    Any,
    /// Not older than the newest version that any client saw.
    Newest,
}

#[derive(Clone, Copy, Debug)]
enum Start {
    /// From a list, in pages if there is a limit.
    List(Read, usize),
    Initial(Read),
    /// From some version that a client saw.
    Version(u32),
}

/// What the clients of a run do: for each the beats before a step, and the step. It outlives their crashes.
#[derive(Debug, Default)]
struct Script {
    steps: Mutex<BTreeMap<String, VecDeque<(u32, Step)>>>,
    started: watch::Sender<Option<Instant>>,
}

impl Script {
    async fn started(&self) -> Option<Instant> {
        self.started.subscribe().wait_for(Option::is_some).await.ok().and_then(|started| *started)
    }

    fn next(&self, client: &str) -> Option<(u32, Step)> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).get_mut(client)?.pop_front()
    }

    /// Draws what each client does, and starts them.
    fn write(&self, workload: &Workload) {
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        for client in WRITERS {
            let script = (0..STEPS).map(|_| (workload.choose(8), request(workload)));
            steps.insert(client.to_owned(), script.collect());
        }
        for client in WATCHERS {
            let script = (0..SESSIONS).map(|_| (workload.choose(20), session(workload)));
            steps.insert(client.to_owned(), script.collect());
        }
        self.started.send_replace(Some(Instant::now()));
    }
}

fn key(workload: &Workload) -> String {
    format!("map-{}", workload.choose(KEYS))
}

fn selection(workload: &Workload) -> Selection {
    match workload.choose(5) {
        0 | 1 => Selection::All,
        2 | 3 => Selection::Labelled,
        _ => Selection::Named(key(workload)),
    }
}

fn read(workload: &Workload) -> Read {
    match workload.choose(5) {
        0..=2 => Read::Latest,
        3 => Read::Any,
        _ => Read::Newest,
    }
}

fn request(workload: &Workload) -> Step {
    let is_conditional = workload.choose(2) == 1;
    let action = match workload.choose(10) {
        0 => Action::Get(read(workload)),
        1..=3 => Action::Create,
        4..=6 => Action::Update { is_conditional },
        7 => Action::Delete { is_conditional },
        _ => {
            let limit = [0, 0, 1, 2].get(workload.choose(4) as usize).copied().unwrap_or_default();
            return Step::List { selection: selection(workload), read: read(workload), limit };
        }
    };
    Step::Send { key: key(workload), action, is_selected: workload.choose(3) > 0 }
}

fn session(workload: &Workload) -> Step {
    let start = match workload.choose(5) {
        0 => Start::List(read(workload), 0),
        1 => Start::List(Read::Latest, 2),
        2 | 3 => Start::Initial(read(workload)),
        _ => Start::Version(workload.choose(100)),
    };
    let (seconds, resumes) = (3 + workload.choose(5), workload.choose(4));
    Step::Watch { selection: selection(workload), start, seconds, resumes }
}

/// A client that takes the steps of its script.
struct Actor {
    raw: RawClient,
    /// The versions that it saw last.
    seen: BTreeMap<String, u64>,
}

impl Actor {
    async fn act(&mut self, step: Step) {
        match step {
            Step::Send { key, action, is_selected } => self.send(&key, action, is_selected).await,
            Step::List { selection, read, limit } => {
                self.raw.list(selection, self.freshness(read), limit).await;
            }
            Step::Watch { selection, start, seconds, resumes } => {
                let Some(mut start) = self.start(&selection, start).await else { return };
                for _ in 0..=resumes {
                    let end = self.raw.watch(&selection, start, seconds).await;
                    let Some(version) = end.resume else { return };
                    start = StreamStart::After(version, Some(Known::Stream(end.number)));
                }
            }
        }
    }

    async fn send(&mut self, key: &str, action: Action, is_selected: bool) {
        let value = format!("{}-{}", self.raw.name, self.raw.history.now());
        let content = Content { value, is_selected };
        let expected = |is_conditional: bool| self.seen.get(key).copied().filter(|_| is_conditional);
        let request = match action {
            Action::Get(read) => Request::Get(self.freshness(read)),
            Action::Create => Request::Create(content),
            Action::Update { is_conditional } => Request::Update { content, expected: expected(is_conditional) },
            Action::Delete { is_conditional } => Request::Delete { expected: expected(is_conditional) },
        };
        if let Reply::Object(ObjectState { version, .. }) = self.raw.send(key, request).await {
            self.seen.insert(key.to_owned(), version);
        }
    }

    fn freshness(&self, read: Read) -> Freshness {
        match read {
            Read::Latest => Freshness::Latest,
            Read::Any => Freshness::Any,
            Read::Newest => self.versions().last().copied().map_or(Freshness::Any, Freshness::NotOlderThan),
        }
    }

    /// Returns the versions that responses had so far, in their order.
    fn versions(&self) -> Vec<u64> {
        let records = self.raw.history.records();
        let version = |reply: &Reply| match reply {
            Reply::Object(state) => Some(state.version),
            _ => None,
        };
        let replies = records.operations.iter().filter_map(|operation| operation.received.as_ref());
        let lists = records.lists.iter().map(|list| list.version);
        let mut versions: Vec<u64> = replies.filter_map(|(_, reply)| version(reply)).chain(lists).collect();
        versions.sort_unstable();
        versions
    }

    async fn start(&self, selection: &Selection, start: Start) -> Option<StreamStart> {
        match start {
            Start::Initial(read) => Some(StreamStart::Initial(self.freshness(read))),
            Start::List(read, limit) => {
                let list = self.raw.list(selection.clone(), self.freshness(read), limit).await?;
                list.is_whole.then_some(StreamStart::After(list.version, Some(Known::List(list.number))))
            }
            Start::Version(percent) => {
                let versions = self.versions();
                let version = *versions.get(versions.len() * percent as usize / 100)?;
                Some(StreamStart::After(version, None))
            }
        }
    }
}

/// A client process.
async fn client(process: Process) -> Outcome {
    let (script, history) = (process.shared::<Script>(), process.shared::<History>());
    let raw = RawClient { name: process.name().to_owned(), client: process.client().clone(), history };
    let mut actor = Actor { raw, seen: BTreeMap::new() };
    let acting = async {
        let Some(started) = script.started().await else { return pending().await };
        while let Some((beats, step)) = script.next(process.name()).filter(|_| started.elapsed() < BUSY) {
            let beat = u32::try_from(started.elapsed().as_millis() / BEAT.as_millis()).unwrap_or(u32::MAX);
            sleep_until(started + BEAT * (beat + 1 + beats)).await;
            actor.act(step).await;
        }
        pending().await
    };
    tokio::select! {
        biased;
        () = process.shutdown() => {}
        () = acting => {}
    }
    Ok(())
}

/// Writes the script, and sees everything: its requests have no faults.
async fn witness(workload: Workload) -> Outcome {
    let (script, history) = (workload.shared::<Script>(), workload.shared::<History>());
    let raw = RawClient { name: "witness".to_owned(), client: workload.client().clone(), history };
    script.write(&workload);
    let end = Instant::now() + WITNESSED;
    let mut start = None;
    while Instant::now() < end {
        let from = match start.take() {
            Some(start) => start,
            None => match raw.list(Selection::All, Freshness::Latest, 0).await {
                Some(list) => StreamStart::After(list.version, Some(Known::List(list.number))),
                None => return Err("a list without faults has failed".into()),
            },
        };
        let left = u32::try_from((end - Instant::now()).as_secs())?;
        let ended = raw.watch(&Selection::All, from, left.max(1)).await;
        start = ended.resume.map(|version| StreamStart::After(version, Some(Known::Stream(ended.number))));
    }
    for key in 0..KEYS {
        raw.send(&format!("map-{key}"), Request::Get(Freshness::Latest)).await;
    }
    let records = raw.history.records();
    let checked = check_linearizable(&records).map_err(|message| ("linearizable", message));
    let checked = checked.and_then(|()| check_watches(&records).map_err(|message| ("watch guarantees", message)));
    let checked =
        checked.and_then(|()| check_lists_linearizable(&records).map_err(|message| ("linearizable", message)));
    if let Err((invariant, message)) = checked {
        workload.fail(invariant, message);
    }
    Ok(())
}

/// Raw clients that write, list and watch a few ConfigMaps. What they see must have some sequence of the writes as its explanation.
pub fn api() -> Scenario {
    let scenario =
        WRITERS.into_iter().chain(WATCHERS).fold(Scenario::new("api"), |scenario, name| scenario.process(name, client));
    // A proxy may repeat an event and another client may change an object: neither is what the server guarantees, or what the clients
    // have recorded.
    let faults = Fault::ALL.into_iter().filter(|fault| !matches!(fault, Fault::WatchRepeats | Fault::Rival));
    scenario
        .workload(witness)
        .faults(faults)
        .rough_for(BUSY)
        .settle_within(Duration::from_secs(1))
        .stable_for(Duration::from_secs(1))
        .compare_final_state(false)
}
