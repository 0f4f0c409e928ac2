//! [`KnownChanges`]: the history of the server, as far as its clients have seen it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;

use super::history::{ObjectState, Records, Reply, Request, Selection, StreamFrame, StreamRecord, StreamStart};

/// What one revision did to its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It has this state since.
    Put(ObjectState),
    /// It is deleted.
    Deleted,
    /// It is deleted or has lost the label.
    LeftSelection,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::Put(state) => state.fmt(f),
            Effect::Deleted => f.write_str("its deletion"),
            Effect::LeftSelection => f.write_str("its deletion or the loss of its label"),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct KnownChange {
    pub(super) key: String,
    pub(super) effect: Effect,
}

/// The changes that some client has seen, by revision. A revision is one change of one object.
#[derive(Debug, Default)]
pub(super) struct KnownChanges {
    changes: BTreeMap<u64, KnownChange>,
    /// Intervals without unknown changes: from watches of all objects. After the first version, up to the second.
    complete: Vec<(u64, u64)>,
}

impl KnownChanges {
    /// Collects what the clients have seen.
    ///
    /// # Errors
    /// Two clients have seen different changes of one revision, or an object that was never written.
    pub(super) fn of(records: &Records) -> Result<Self, String> {
        let mut known = KnownChanges::default();
        for operation in &records.operations {
            if let Some((_, Reply::Object(state))) = &operation.received {
                known.add(&operation.key, state.version, Effect::Put(state.clone()))?;
            }
        }
        for list in &records.lists {
            for (key, state) in &list.objects {
                known.add(key, state.version, Effect::Put(state.clone()))?;
            }
        }
        for stream in &records.streams {
            known.add_stream(stream)?;
        }
        known.check_contents(records)?;
        Ok(known)
    }

    fn add_stream(&mut self, stream: &StreamRecord) -> Result<(), String> {
        for frame in &stream.frames {
            match frame {
                StreamFrame::Added(key, state) | StreamFrame::Modified(key, state) => {
                    self.add(key, state.version, Effect::Put(state.clone()))?;
                }
                StreamFrame::Deleted(key, state) => {
                    let is_labelled = stream.selection == Selection::Labelled;
                    let effect = if is_labelled { Effect::LeftSelection } else { Effect::Deleted };
                    self.add(key, state.version, effect)?;
                }
                StreamFrame::Bookmark { .. } => {}
            }
        }
        let initial = stream.initial_frames();
        let start = match (&stream.start, initial.and_then(|count| stream.frames.get(count.checked_sub(1)?))) {
            (StreamStart::After(version, _), _) => Some(*version),
            (StreamStart::Initial(_), end) => end.map(StreamFrame::version),
        };
        if let (Selection::All, Some(start), Some(end)) = (&stream.selection, start, stream.frames.last()) {
            self.complete.push((start, end.version()));
        }
        Ok(())
    }

    fn add(&mut self, key: &str, version: u64, effect: Effect) -> Result<(), String> {
        let Some(known) = self.changes.get_mut(&version) else {
            self.changes.insert(version, KnownChange { key: key.to_owned(), effect });
            return Ok(());
        };
        let agrees = known.key == key
            && match (&known.effect, &effect) {
                (Effect::Put(state), Effect::LeftSelection) | (Effect::LeftSelection, Effect::Put(state)) => {
                    !state.content.is_selected
                }
                (Effect::Deleted, Effect::LeftSelection) | (Effect::LeftSelection, Effect::Deleted) => true,
                (one, other) => one == other,
            };
        if !agrees {
            let KnownChange { key: other_key, effect: other } = known;
            return Err(format!("revision {version} is both {other} of {other_key} and {effect} of {key}"));
        }
        if known.effect == Effect::LeftSelection {
            known.effect = effect;
        }
        Ok(())
    }

    /// Checks that every state was written by a client.
    fn check_contents(&self, records: &Records) -> Result<(), String> {
        let written: BTreeSet<(&str, &str, bool)> = records
            .operations
            .iter()
            .filter_map(|operation| match &operation.request {
                Request::Create(content) | Request::Update { content, .. } => {
                    Some((operation.key.as_str(), content.value.as_str(), content.is_selected))
                }
                Request::Delete { .. } | Request::Get(_) => None,
            })
            .collect();
        for change in self.changes.values() {
            if let Effect::Put(state) = &change.effect {
                let content = &state.content;
                if !written.contains(&(change.key.as_str(), content.value.as_str(), content.is_selected)) {
                    return Err(format!("{} has {state}, which nothing has written", change.key));
                }
            }
        }
        Ok(())
    }

    /// Returns the changes after a version, up to another, in their order.
    pub(super) fn between(&self, after: u64, up_to: u64) -> impl Iterator<Item = (u64, &KnownChange)> {
        let range = (Bound::Excluded(after), Bound::Included(up_to.max(after)));
        // A range that excludes and includes the same bound is empty, and allowed.
        self.changes.range(range).map(|(version, change)| (*version, change))
    }

    /// Returns the last change of a key up to a version.
    pub(super) fn last_of(&self, key: &str, up_to: u64) -> Option<(u64, &Effect)> {
        let mut changes = self.changes.range(..=up_to).rev();
        changes.find(|(_, change)| change.key == key).map(|(version, change)| (*version, &change.effect))
    }

    /// Returns whether no change after a version and up to another is unknown.
    pub(super) fn is_complete(&self, after: u64, up_to: u64) -> bool {
        let mut reached = after;
        while reached < up_to {
            let further = self.complete.iter().filter(|(start, _)| *start <= reached).map(|(_, end)| *end).max();
            match further {
                Some(end) if end > reached => reached = end,
                _ => return false,
            }
        }
        true
    }
}
