//! INV-12: requests have the effect of some sequence in which each happens between its start and its response.
//!
//! The model of an object is its last write and the version of that. For each key a search looks for an order of the requests in which
//! the model gives every response, as Porcupine does: it tries the requests that may be next, and remembers the states it has been in.
//! A request without a response may be done at any time after it was sent, or never.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use super::history::{
    Content, Freshness, ListRecord, ObjectState, Operation, Records, Reply, Request, Selection, StreamStart,
};
use super::known::KnownChanges;

/// The search of one key ends after so many states. Histories of a scenario need a few hundred.
const STATES: usize = 200_000;

/// Checks all requests for single objects, and that versions rise with time.
///
/// # Errors
/// What no order of the requests explains, in words.
pub fn check_linearizable(records: &Records) -> Result<(), String> {
    search_each_key(records, &[])?;
    check_version_order(records)?;
    check_tolerant_reads(records)
}

/// Checks that lists of the latest state are reads of all their objects among the requests for these.
///
/// # Errors
/// What no order of the requests and lists explains, in words.
pub fn check_lists_linearizable(records: &Records) -> Result<(), String> {
    search_each_key(records, &records.lists)
}

fn search_each_key(records: &Records, lists: &[ListRecord]) -> Result<(), String> {
    let mut entries: BTreeMap<&str, Vec<Entry<'_>>> = BTreeMap::new();
    for operation in &records.operations {
        entries.entry(&operation.key).or_default().extend(Entry::of(operation));
    }
    for (key, entries) in &mut entries {
        let lists = lists.iter().filter(|list| list.freshness == Freshness::Latest && list.covers(key));
        entries.extend(lists.map(|list| Entry::of_list(list, key)));
        entries.sort_by_key(|entry| entry.sent);
        Search::new(entries).run().map_err(|message| format!("{key}: {message}"))?;
    }
    Ok(())
}

/// What a request does to the model.
enum Step<'a> {
    /// A write and its response; none if it is unknown whether it was done. A read has no such response.
    Write(&'a Request, Option<&'a Reply>),
    /// The object was read.
    SeesObject(&'a ObjectState),
    /// There was no object.
    SeesNone,
    /// There was no object with the label.
    SeesNoneLabelled,
}

struct Entry<'a> {
    client: &'a str,
    sent: u64,
    /// `None` if the request may be done at any time, or never.
    received: Option<u64>,
    step: Step<'a>,
}

impl<'a> Entry<'a> {
    /// Returns `None` if the request tells nothing.
    fn of(operation: &'a Operation) -> Option<Self> {
        let Operation { client, request, sent, .. } = operation;
        let entry = |received, step| Some(Entry { client, sent: *sent, received, step });
        match (request, &operation.received) {
            (Request::Get(Freshness::Any | Freshness::NotOlderThan(_)), _) | (_, Some((_, Reply::NotDone))) => None,
            (Request::Get(_), None | Some((_, Reply::Unknown))) => None,
            (Request::Get(_), Some((received, Reply::Object(state)))) => {
                entry(Some(*received), Step::SeesObject(state))
            }
            (Request::Get(_), Some((received, Reply::NotFound))) => entry(Some(*received), Step::SeesNone),
            (write, None | Some((_, Reply::Unknown))) => entry(None, Step::Write(write, None)),
            (request, Some((received, reply))) => entry(Some(*received), Step::Write(request, Some(reply))),
        }
    }

    /// Returns what a list shows of one key. All its pages are of the state that the first one requested.
    fn of_list(list: &'a ListRecord, key: &str) -> Self {
        let step = match (list.objects.get(key), &list.selection) {
            (Some(state), _) => Step::SeesObject(state),
            (None, Selection::Labelled) => Step::SeesNoneLabelled,
            (None, _) => Step::SeesNone,
        };
        Entry { client: &list.client, sent: list.sent, received: Some(list.received), step }
    }
}

impl fmt::Display for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.client)?;
        match &self.step {
            Step::Write(request, reply) => write!(f, "sends {request:?} and gets {reply:?}"),
            Step::SeesObject(state) => write!(f, "reads {state}"),
            Step::SeesNone => f.write_str("reads that there is none"),
            Step::SeesNoneLabelled => f.write_str("reads that there is none with the label"),
        }
    }
}

/// The state of an object: the write that it is from, and the version of that if it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Model {
    /// The number of the entry of the last write; `None` if there is no object.
    writer: Option<usize>,
    version: Option<u64>,
    /// Later versions are higher than this.
    floor: u64,
}

impl Model {
    fn at(writer: usize, state: &ObjectState) -> Self {
        Model { writer: Some(writer), version: Some(state.version), floor: state.version }
    }

    /// Returns the model with this version, if it may have it.
    fn with_version(&self, version: u64) -> Option<Self> {
        match self.version {
            Some(known) => (known == version).then(|| self.clone()),
            None if version > self.floor => Some(Model { version: Some(version), floor: version, ..self.clone() }),
            None => None,
        }
    }

    /// Returns the model if a precondition on its version holds.
    fn expecting(&self, expected: Option<u64>) -> Option<Self> {
        self.writer?;
        expected.map_or_else(|| Some(self.clone()), |expected| self.with_version(expected))
    }
}

struct Search<'a> {
    entries: &'a [Entry<'a>],
}

/// A point in the search: which entries are done, and the state after them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Point {
    done: Vec<bool>,
    model: Model,
}

impl<'a> Search<'a> {
    fn new(entries: &'a [Entry<'a>]) -> Self {
        Search { entries }
    }

    fn run(&self) -> Result<(), String> {
        let first = Point { done: vec![false; self.entries.len()], model: Model::default() };
        let mut seen: HashSet<Point> = HashSet::new();
        let mut stack = vec![first.clone()];
        let mut furthest = first;
        while let Some(mut point) = stack.pop() {
            self.absorb(&mut point);
            let Some(bound) = self.earliest_response(&point) else { return Ok(()) };
            if !seen.insert(point.clone()) {
                continue;
            }
            if seen.len() > STATES {
                return Err("the search for an order of its requests takes too long".to_owned());
            }
            if self.explained(&point) > self.explained(&furthest) {
                furthest = point.clone();
            }
            // The last one is tried first: requests with a response before those that may never be done.
            let candidates = self.candidates(&point, bound).filter_map(|index| {
                let model = self.apply(index, &point.model)?;
                let mut done = point.done.clone();
                *done.get_mut(index)? = true;
                Some((self.entries.get(index)?.received, Point { done, model }))
            });
            let mut candidates: Vec<(Option<u64>, Point)> = candidates.collect();
            candidates.sort_by_key(|(received, _)| std::cmp::Reverse(received.unwrap_or(u64::MAX)));
            stack.extend(candidates.into_iter().map(|(_, point)| point));
        }
        Err(self.explanation(&furthest))
    }

    /// Does all requests that may be next and change nothing. If an order exists, one exists with them here.
    fn absorb(&self, point: &mut Point) {
        while let Some(bound) = self.earliest_response(point) {
            let next = self.candidates(point, bound).find_map(|index| {
                let model = self.apply(index, &point.model)?;
                (model.writer == point.model.writer).then_some((index, model))
            });
            let Some((index, model)) = next else { return };
            point.done.iter_mut().skip(index).take(1).for_each(|done| *done = true);
            point.model = model;
        }
    }

    /// Returns when the first response arrived among the requests that are not done; `None` if all are that have one.
    fn earliest_response(&self, point: &Point) -> Option<u64> {
        let left = self.entries.iter().zip(&point.done).filter(|(_, done)| !**done);
        left.filter_map(|(entry, _)| entry.received).min()
    }

    /// Returns the requests that may be next: those that were sent before that response.
    fn candidates<'b>(&'b self, point: &'b Point, bound: u64) -> impl Iterator<Item = usize> + 'b {
        let entries = self.entries.iter().zip(&point.done).enumerate();
        entries.filter(move |(_, (entry, done))| !**done && entry.sent < bound).map(|(index, _)| index)
    }

    fn explained(&self, point: &Point) -> usize {
        self.entries.iter().zip(&point.done).filter(|(entry, done)| **done && entry.received.is_some()).count()
    }

    /// Returns the model after a request, if the response to the request is possible.
    fn apply(&self, index: usize, model: &Model) -> Option<Model> {
        let unchanged = |is_possible: bool| is_possible.then(|| model.clone());
        match &self.entries.get(index)?.step {
            Step::SeesObject(state) => {
                let is_same = self.content(model.writer?)? == &state.content;
                model.with_version(state.version).filter(|_| is_same)
            }
            Step::SeesNone => unchanged(model.writer.is_none()),
            Step::SeesNoneLabelled => match model.writer {
                Some(writer) => unchanged(!self.content(writer)?.is_selected),
                None => unchanged(true),
            },
            Step::Write(request, reply) => self.write(index, model, request, *reply),
        }
    }

    fn write(&self, index: usize, model: &Model, request: &Request, reply: Option<&Reply>) -> Option<Model> {
        let unchanged = |is_possible: bool| is_possible.then(|| model.clone());
        let unknown = |before: &Model| Model { writer: Some(index), version: None, floor: before.floor };
        let expected = match request {
            Request::Create(_) => None,
            Request::Update { expected, .. } | Request::Delete { expected } => *expected,
            Request::Get(_) => return None,
        };
        match (request, reply) {
            (Request::Create(_), None) => model.writer.is_none().then(|| unknown(model)),
            (Request::Create(content), Some(Reply::Object(state))) => {
                let is_new = model.writer.is_none() && state.version > model.floor && state.content == *content;
                is_new.then(|| Model::at(index, state))
            }
            (Request::Create(_), Some(Reply::AlreadyExists)) => unchanged(model.writer.is_some()),
            (Request::Update { .. }, None) => model.expecting(expected).map(|before| unknown(&before)),
            (Request::Update { content, .. }, Some(Reply::Object(state))) => {
                let before = model.expecting(expected)?;
                (state.version > before.floor && state.content == *content).then(|| Model::at(index, state))
            }
            (Request::Delete { .. }, None | Some(Reply::Deleted)) => {
                model.expecting(expected).map(|before| Model { writer: None, version: None, floor: before.floor })
            }
            (Request::Update { .. } | Request::Delete { .. }, Some(Reply::NotFound)) => {
                unchanged(model.writer.is_none())
            }
            (Request::Update { .. } | Request::Delete { .. }, Some(Reply::Conflict)) => {
                // A version that is not known may be another one.
                let differs = expected.is_some_and(|expected| model.version != Some(expected));
                unchanged(model.writer.is_some() && differs)
            }
            _ => None,
        }
    }

    fn content(&self, writer: usize) -> Option<&Content> {
        match &self.entries.get(writer)?.step {
            Step::Write(Request::Create(content) | Request::Update { content, .. }, _) => Some(content),
            _ => None,
        }
    }

    fn explanation(&self, furthest: &Point) -> String {
        let bound = self.earliest_response(furthest).unwrap_or_default();
        let next = self.entries.iter().find(|entry| entry.received == Some(bound));
        let next = next.map(ToString::to_string).unwrap_or_default();
        let state = match furthest.model.writer.and_then(|writer| self.content(writer)) {
            Some(content) => format!("it has {:?} at version {:?}", content.value, furthest.model.version),
            None => "it does not exist".to_owned(),
        };
        let (explained, all) = (self.explained(furthest), self.entries.len());
        format!("after {explained} of {all} requests, when {state}, nothing explains that {next}")
    }
}

/// Checks that versions rise with time: what is sent after a write was confirmed has or sees a later version.
fn check_version_order(records: &Records) -> Result<(), String> {
    let confirmed = records.operations.iter().filter_map(|operation| match (&operation.request, &operation.received) {
        (Request::Get(_), _) => None,
        (_, Some((received, Reply::Object(state)))) => Some((operation, *received, state.version)),
        _ => None,
    });
    let confirmed: Vec<(&Operation, u64, u64)> = confirmed.collect();
    let latest = |sent: u64| {
        let before = confirmed.iter().filter(|(_, received, _)| *received < sent);
        before.map(|(_, _, version)| *version).max().unwrap_or_default()
    };
    for (operation, _, version) in &confirmed {
        let before = latest(operation.sent);
        if *version <= before {
            let Operation { client, key, .. } = operation;
            return Err(format!("{client} writes version {version} of {key} after version {before} was confirmed"));
        }
    }
    for list in records.lists.iter().filter(|list| list.freshness == Freshness::Latest) {
        let before = latest(list.sent);
        if list.version < before {
            let ListRecord { client, version, .. } = list;
            return Err(format!("{client} lists at version {version} after version {before} was confirmed"));
        }
    }
    for stream in &records.streams {
        let (StreamStart::Initial(Freshness::Latest), Some(count)) = (&stream.start, stream.initial_frames()) else {
            continue;
        };
        let reached = count.checked_sub(1).and_then(|end| stream.frames.get(end)).map_or(0, |end| end.version());
        let before = latest(stream.sent);
        if reached < before {
            let client = &stream.client;
            return Err(format!(
                "the watch of {client} starts at version {reached} after version {before} was confirmed"
            ));
        }
    }
    Ok(())
}

/// Checks reads that may be of an older state, but not older than a version.
fn check_tolerant_reads(records: &Records) -> Result<(), String> {
    // Contradictions are found by the check of watches.
    let Ok(known) = KnownChanges::of(records) else { return Ok(()) };
    for Operation { client, key, request, received, .. } in &records.operations {
        let Request::Get(Freshness::NotOlderThan(requested)) = request else { continue };
        let Some((_, Reply::Object(state))) = received else { continue };
        let missed = known.last_of(key, *requested).filter(|(version, _)| *version > state.version);
        if let Some((version, effect)) = missed {
            return Err(format!(
                "{client} reads {key} not older than {requested} and gets {state}; {version} is {effect}"
            ));
        }
    }
    Ok(())
}
