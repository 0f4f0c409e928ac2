//! INV-13: lists and watches show the history of the server, without gaps.
//!
//! - *Ordered*, *unique*: the versions of a watch rise.
//! - *Reliable*: no change between two frames of a watch is missing, and the type of each event is that of the change: an object that
//!   leaves the selection is deleted, in its last state there.
//! - *Atomic*: a revision is one change; a bookmark stands for whole revisions.
//! - *Resumable*: a watch from the last version of a list or of another watch continues it.
//! - *Bookmarkable*: all up to a bookmark was sent; the one that ends the initial objects comes once, and after them.
//!
//! What the server's history is, is known from all clients together ([`KnownChanges`]). A change that no client has seen is not missed.

use std::collections::BTreeMap;

use super::history::{Freshness, Known, ObjectState, Records, Selection, StreamFrame, StreamRecord, StreamStart};
use super::known::{Effect, KnownChange, KnownChanges};

/// Checks all lists and watches.
///
/// # Errors
/// The first one that is wrong, in words.
pub fn check_watches(records: &Records) -> Result<(), String> {
    let known = KnownChanges::of(records)?;
    for list in &records.lists {
        let snapshot = Snapshot { version: list.version, selection: &list.selection, objects: &list.objects };
        let shown = snapshot.check(&known, |key| list.covers(key)).and_then(|()| snapshot.is_fresh(list.freshness));
        shown.map_err(|message| format!("a list of {} by {}: {message}", list.selection, list.client))?;
    }
    let mut ends: Vec<View> = Vec::new();
    for stream in &records.streams {
        let start = match &stream.start {
            StreamStart::After(_, Some(Known::List(list))) => {
                records.lists.get(*list).map(|list| View::of(&list.objects))
            }
            StreamStart::After(_, Some(Known::Stream(stream))) => ends.get(*stream).cloned(),
            StreamStart::After(_, None) | StreamStart::Initial(_) => None,
        };
        let end = Replay::run(stream, start.unwrap_or_default(), &known);
        ends.push(end.map_err(|message| format!("the watch of {} by {}: {message}", stream.selection, stream.client))?);
    }
    Ok(())
}

/// The selected objects at one version.
struct Snapshot<'a> {
    version: u64,
    selection: &'a Selection,
    objects: &'a BTreeMap<String, ObjectState>,
}

impl Snapshot<'_> {
    /// Checks the objects against the known changes up to the version.
    fn check(&self, known: &KnownChanges, covers: impl Fn(&str) -> bool) -> Result<(), String> {
        let Snapshot { version, selection, objects } = self;
        for (key, state) in *objects {
            if state.version > *version {
                return Err(format!("it is of version {version} and has {key} at {state}"));
            }
            if !selection.selects(key, &state.content) {
                return Err(format!("it has {key} at {state}, which is not selected"));
            }
            if let Some((later, effect)) = known.last_of(key, *version).filter(|(later, _)| *later > state.version) {
                return Err(format!("at version {version} it has {key} at {state}, but {later} is {effect}"));
            }
        }
        for (last, change) in known.between(0, *version) {
            let KnownChange { key, effect: Effect::Put(state) } = change else { continue };
            let is_last = known.last_of(key, *version).is_some_and(|(version, _)| version == last);
            let is_missing = covers(key) && selection.selects(key, &state.content) && !objects.contains_key(key);
            if is_last && is_missing && known.is_complete(last, *version) {
                return Err(format!("at version {version} it misses {key}, which has {state}"));
            }
        }
        Ok(())
    }

    fn is_fresh(&self, freshness: Freshness) -> Result<(), String> {
        match freshness {
            Freshness::NotOlderThan(requested) if requested > self.version => {
                Err(format!("it is of version {}, and {requested} was requested", self.version))
            }
            _ => Ok(()),
        }
    }
}

/// The objects that a client knows from a watch.
#[derive(Clone, Debug, Default)]
struct View {
    objects: BTreeMap<String, ObjectState>,
    /// Keys that are not among the objects and are known to have none in the selection.
    absent: Vec<String>,
    /// All selected objects are known.
    is_whole: bool,
}

impl View {
    fn of(objects: &BTreeMap<String, ObjectState>) -> Self {
        View { objects: objects.clone(), absent: Vec::new(), is_whole: true }
    }

    fn has(&self, key: &str) -> Option<&ObjectState> {
        self.objects.get(key)
    }

    fn lacks(&self, key: &str) -> bool {
        !self.objects.contains_key(key) && (self.is_whole || self.absent.iter().any(|absent| absent == key))
    }

    fn put(&mut self, key: &str, state: &ObjectState) {
        self.objects.insert(key.to_owned(), state.clone());
        self.absent.retain(|absent| absent != key);
    }

    fn remove(&mut self, key: &str) {
        self.objects.remove(key);
        if !self.lacks(key) {
            self.absent.push(key.to_owned());
        }
    }
}

/// Follows the frames of one watch.
struct Replay<'a> {
    stream: &'a StreamRecord,
    known: &'a KnownChanges,
    view: View,
    /// All up to this version was sent.
    reached: u64,
}

impl<'a> Replay<'a> {
    /// Checks a watch whose client knows `view` when it starts. Returns what it knows at the end.
    fn run(stream: &'a StreamRecord, view: View, known: &'a KnownChanges) -> Result<View, String> {
        // Without the end of the initial objects, all frames may be some of them.
        let Some(initial) = stream.initial_frames() else { return Ok(View::default()) };
        let (initial, changes) = stream.frames.split_at(initial);
        let mut replay = match &stream.start {
            StreamStart::After(version, _) => Replay { stream, known, view, reached: *version },
            StreamStart::Initial(freshness) => Replay::initial(stream, initial, *freshness, known)?,
        };
        for frame in changes {
            replay.follow(frame)?;
        }
        Ok(replay.view)
    }

    fn initial(
        stream: &'a StreamRecord,
        frames: &[StreamFrame],
        freshness: Freshness,
        known: &'a KnownChanges,
    ) -> Result<Self, String> {
        let mut objects = BTreeMap::new();
        let mut reached = 0;
        for frame in frames {
            match frame {
                StreamFrame::Added(key, state) => {
                    if objects.last_key_value().is_some_and(|(last, _)| last >= key) {
                        return Err(format!("its initial objects are not in the order of their keys at {key}"));
                    }
                    objects.insert(key.clone(), state.clone());
                }
                StreamFrame::Bookmark { version, ends_initial: true } => reached = *version,
                StreamFrame::Modified(key, _) | StreamFrame::Deleted(key, _) => {
                    return Err(format!("{key} changes among its initial objects"));
                }
                StreamFrame::Bookmark { .. } => return Err("a bookmark is among its initial objects".to_owned()),
            }
        }
        let snapshot = Snapshot { version: reached, selection: &stream.selection, objects: &objects };
        let shown = snapshot.check(known, |key| stream.selection.covers(key));
        shown
            .and_then(|()| snapshot.is_fresh(freshness))
            .map_err(|message| format!("its initial objects: {message}"))?;
        Ok(Replay { stream, known, view: View::of(&objects), reached })
    }

    fn follow(&mut self, frame: &StreamFrame) -> Result<(), String> {
        let version = frame.version();
        let is_bookmark = matches!(frame, StreamFrame::Bookmark { .. });
        if version < self.reached || (version == self.reached && !is_bookmark) {
            return Err(format!("version {version} follows {}", self.reached));
        }
        let until = if is_bookmark { version } else { version - 1 };
        if let Some((missed, change)) = self.known.between(self.reached, until).find(|(_, change)| self.is_due(change))
        {
            let KnownChange { key, effect } = change;
            return Err(format!("from {} it goes on to {version} without {missed}: {effect} of {key}", self.reached));
        }
        match frame {
            StreamFrame::Added(key, state) => {
                if let Some(before) = self.view.has(key) {
                    return Err(format!("{key} is added at {state} and was there at {before}"));
                }
                self.enter(key, state)?;
            }
            StreamFrame::Modified(key, state) => {
                if self.view.lacks(key) {
                    return Err(format!("{key} is modified at {state} and was not there"));
                }
                self.enter(key, state)?;
            }
            StreamFrame::Deleted(key, last) => self.leave(key, last)?,
            StreamFrame::Bookmark { ends_initial: true, .. } => {
                return Err("the initial objects end again".to_owned());
            }
            StreamFrame::Bookmark { .. } => {}
        }
        self.reached = version;
        Ok(())
    }

    fn enter(&mut self, key: &str, state: &ObjectState) -> Result<(), String> {
        if !self.stream.selection.selects(key, &state.content) {
            return Err(format!("it sends {key} at {state}, which is not selected"));
        }
        self.view.put(key, state);
        Ok(())
    }

    /// Checks the event of an object that is no longer selected: it has the last state that was.
    fn leave(&mut self, key: &str, last: &ObjectState) -> Result<(), String> {
        if self.view.lacks(key) {
            return Err(format!("{key} is deleted at {} and was not there", last.version));
        }
        let is_last = |before: &ObjectState| before.content == last.content && before.uid == last.uid;
        match self.view.has(key) {
            Some(before) if !is_last(before) => {
                return Err(format!("{key} is deleted with {last}, and its last state was {before}"));
            }
            None if !self.stream.selection.selects(key, &last.content) => {
                return Err(format!("{key} is deleted with {last}, which was not selected"));
            }
            _ => {}
        }
        self.view.remove(key);
        Ok(())
    }

    /// Returns whether a change must be an event of this watch.
    fn is_due(&self, change: &KnownChange) -> bool {
        let KnownChange { key, effect } = change;
        let selection = &self.stream.selection;
        if !selection.covers(key) {
            return false;
        }
        match effect {
            Effect::Put(state) if selection.selects(key, &state.content) => true,
            Effect::Put(_) => self.view.has(key).is_some(),
            Effect::Deleted | Effect::LeftSelection => {
                *selection != Selection::Labelled || self.view.has(key).is_some()
            }
        }
    }
}
