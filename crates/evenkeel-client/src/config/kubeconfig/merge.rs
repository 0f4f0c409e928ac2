//! Merges several kubeconfigs into one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Kubeconfig;
use super::fields::{Opaque, Rest};
use crate::config::EntryKind;

/// The file that each entry was read from.
#[derive(Debug, Default)]
pub(super) struct Origins {
    files: Vec<PathBuf>,
    entries: BTreeMap<(EntryKind, String), usize>,
    /// The file that sets the current context.
    pub(super) current_context: Option<usize>,
}

impl Origins {
    pub(super) fn of(&self, kind: EntryKind, name: &str) -> Option<&Path> {
        self.index_of(kind, name).and_then(|index| self.files.get(index)).map(PathBuf::as_path)
    }

    pub(super) fn index_of(&self, kind: EntryKind, name: &str) -> Option<usize> {
        self.entries.get(&(kind, name.to_owned())).copied()
    }
}

/// The first file that defines a name wins, with its whole entry; entries are never merged.
pub(super) fn merge(files: impl IntoIterator<Item = (PathBuf, Kubeconfig)>) -> (Kubeconfig, Origins) {
    let (mut merged, mut origins) = (Kubeconfig::default(), Origins::default());
    for (index, (path, file)) in files.into_iter().enumerate() {
        origins.files.push(path);
        take(&mut merged.clusters, file.clusters, EntryKind::Cluster, index, &mut origins);
        take(&mut merged.users, file.users, EntryKind::User, index, &mut origins);
        take(&mut merged.contexts, file.contexts, EntryKind::Context, index, &mut origins);
        take(&mut merged.extensions, file.extensions, EntryKind::Extension, index, &mut origins);
        if merged.current_context.is_none() && file.current_context.is_some() {
            merged.current_context = file.current_context;
            origins.current_context = Some(index);
        }
        take_rest(&mut merged.rest, file.rest);
    }
    (merged, origins)
}

fn take<T>(
    merged: &mut BTreeMap<String, T>,
    file: BTreeMap<String, T>,
    kind: EntryKind,
    index: usize,
    origins: &mut Origins,
) {
    for (name, value) in file {
        match merged.entry(name) {
            Slot::Vacant(slot) => {
                origins.entries.insert((kind, slot.key().clone()), index);
                slot.insert(value);
            }
            Slot::Occupied(slot) => {
                let file = |index: Option<usize>| index.and_then(|index| origins.files.get(index)).map(|f| f.display());
                tracing::debug!(
                    %kind,
                    name = %slot.key(),
                    kept = file(origins.index_of(kind, slot.key())).map(tracing::field::display),
                    ignored = file(Some(index)).map(tracing::field::display),
                    "two kubeconfig files define the same name; the first one wins"
                );
            }
        }
    }
}

/// Merges unknown fields: the first file wins, except that mappings (such as `preferences`) are joined by key.
fn take_rest(merged: &mut Rest, file: Rest) {
    for (key, Opaque(value)) in file {
        match (merged.get_mut(&key), value) {
            (Some(Opaque(Value::Object(kept))), Value::Object(more)) => {
                for (key, value) in more {
                    kept.entry(key).or_insert(value);
                }
            }
            (Some(_), _) => {}
            (None, value) => drop(merged.insert(key, Opaque(value))),
        }
    }
}
