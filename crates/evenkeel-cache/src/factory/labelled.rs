//! The set of namespaces that a label selector determines: an informer of Namespaces changes it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::informer::{Subscription, sleep_until_some};
use crate::namespaces::{MAX_NAMES, NamespaceNames};
use crate::{Event, NamespaceSet};

/// How long a namespace stays in the set after its label was removed.
const DEBOUNCE: Duration = Duration::from_secs(1);

/// The namespaces that have the labels, and those that had them a moment ago. Sans-IO: the time is an argument.
#[derive(Debug, Default)]
struct LabelledNames {
    present: BTreeSet<String>,
    /// When each leaves.
    leaving: BTreeMap<String, Instant>,
    /// Whether the names differ from those that were taken last.
    is_changed: bool,
}

impl LabelledNames {
    /// Records that a namespace has the labels, or does not any more.
    fn observe(&mut self, name: &str, has_labels: bool, now: Instant) {
        match has_labels {
            true => {
                self.leaving.remove(name);
                self.is_changed |= self.present.insert(name.to_owned());
            }
            false if self.present.contains(name) => {
                self.leaving.entry(name.to_owned()).or_insert(now + DEBOUNCE);
            }
            false => {}
        }
    }

    /// Returns when the next namespace leaves.
    fn next_leave(&self) -> Option<Instant> {
        self.leaving.values().min().copied()
    }

    /// Returns the names, if they have changed.
    fn take(&mut self, now: Instant) -> Option<NamespaceNames> {
        let is_due = |(_, at): &(&String, &Instant)| **at <= now;
        let left: Vec<String> = self.leaving.iter().filter(is_due).map(|(name, _)| name.clone()).collect();
        for name in &left {
            self.leaving.remove(name);
            self.is_changed |= self.present.remove(name);
        }
        if self.present.len() > MAX_NAMES && self.is_changed {
            let (labelled, limit) = (self.present.len(), MAX_NAMES);
            tracing::error!(labelled, limit, "too many namespaces have the labels; the last ones by name are left out");
        }
        std::mem::take(&mut self.is_changed).then(|| self.present.iter().take(MAX_NAMES).collect())
    }
}

/// Changes the set with the notifications about Namespaces, until their informer stops.
pub(super) async fn follow<K>(mut namespaces: Subscription<K>, set: NamespaceSet) {
    let registration = namespaces.registration();
    let mut names = LabelledNames { is_changed: true, ..LabelledNames::default() };
    let mut has_synced = false;
    loop {
        let next_leave = names.next_leave();
        tokio::select! {
            biased;
            event = namespaces.next() => match event {
                Some(event) => names.observe(event.key().name(), !matches!(event, Event::Delete(_)), Instant::now()),
                None => return,
            },
            synced = registration.synced(), if !has_synced => match synced {
                Ok(()) => has_synced = true,
                Err(_) => return,
            },
            () = sleep_until_some(next_leave) => {}
        }
        // A part of the namespaces is not a set.
        if has_synced && let Some(names) = names.take(Instant::now()) {
            set.replace(names);
        }
    }
}

#[cfg(test)]
mod tests;
