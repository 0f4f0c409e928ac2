//! Whether a kind is installed, by the CustomResourceDefinitions of a server. Sans-IO.

use std::fmt;
use std::sync::Arc;

use evenkeel_core::status::qualified;
use evenkeel_core::{Obj, ResourceInfo};
use serde::Deserialize;

/// A kind that a source watches once it is served.
#[derive(Clone, Debug)]
pub(super) struct WantedKind {
    /// The kind as the program knows it. Group and kind identify it; the server decides about the rest.
    pub(super) info: Arc<ResourceInfo>,
    /// Whether objects of another version cannot be decoded.
    pub(super) is_version_fixed: bool,
}

impl WantedKind {
    /// Returns the name of the definition, as far as the program knows it.
    pub(super) fn definition(&self) -> String {
        qualified(self.info.group(), self.info.plural())
    }

    /// Returns the version that is watched, if the definition serves one that can be: the program's own, or the stored one.
    fn version<'a>(&self, versions: &'a [DefinitionVersion]) -> Option<&'a str> {
        let served = || versions.iter().filter(|version| version.served);
        let own = served().find(|version| version.name == self.info.version());
        let other = || served().find(|version| version.storage).or_else(|| served().next());
        let chosen = if self.is_version_fixed { own } else { own.or_else(other) };
        chosen.map(|version| version.name.as_str())
    }
}

/// A definition that serves a wanted kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UsableDefinition {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) plural: String,
    pub(super) version: String,
}

/// What the definitions of a server say about a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Usable(UsableDefinition),
    Missing(MissingKind),
}

/// Why a kind is not installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MissingKind {
    pub(super) definition: String,
    pub(super) state: DefinitionState,
}

/// The state of a definition whose kind cannot be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DefinitionState {
    Absent,
    NotEstablished,
    Deleting,
    VersionNotServed(String),
    /// Discovery does not list the kind, or failed.
    NotDiscovered(Option<String>),
}

impl fmt::Display for MissingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "waiting for CustomResourceDefinition {}", self.definition)?;
        match &self.state {
            DefinitionState::Absent => Ok(()),
            DefinitionState::NotEstablished => f.write_str(": it is not established"),
            DefinitionState::Deleting => f.write_str(": it is being deleted"),
            DefinitionState::VersionNotServed(version) => write!(f, ": it does not serve version {version}"),
            DefinitionState::NotDiscovered(None) => f.write_str(": discovery does not list the kind yet"),
            DefinitionState::NotDiscovered(Some(error)) => write!(f, ": discovery failed: {error}"),
        }
    }
}

/// The fields of a definition that decide.
#[derive(Debug, Deserialize)]
struct DefinitionFields {
    spec: DefinitionSpec,
    #[serde(default)]
    status: DefinitionStatus,
}

#[derive(Debug, Deserialize)]
struct DefinitionSpec {
    group: String,
    names: DefinitionNames,
    #[serde(default)]
    versions: Vec<DefinitionVersion>,
}

#[derive(Debug, Deserialize)]
struct DefinitionNames {
    plural: String,
    kind: String,
}

#[derive(Debug, Deserialize)]
struct DefinitionVersion {
    name: String,
    #[serde(default)]
    served: bool,
    #[serde(default)]
    storage: bool,
}

#[derive(Debug, Default, Deserialize)]
struct DefinitionStatus {
    #[serde(default)]
    conditions: Vec<DefinitionCondition>,
}

#[derive(Debug, Deserialize)]
struct DefinitionCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl DefinitionFields {
    fn is_about(&self, kind: &ResourceInfo) -> bool {
        self.spec.group == kind.group() && self.spec.names.kind == kind.kind()
    }

    fn is_established(&self) -> bool {
        self.status.conditions.iter().any(|condition| condition.kind == "Established" && condition.status == "True")
    }
}

/// Finds the definition of a kind.
pub(super) fn find_definition<'a, K: 'a>(
    definitions: impl IntoIterator<Item = &'a Obj<K>>,
    wanted: &WantedKind,
) -> Finding {
    let missing = |definition: &str, state| Finding::Missing(MissingKind { definition: definition.to_owned(), state });
    let mut found = missing(&wanted.definition(), DefinitionState::Absent);
    for object in definitions {
        let name = object.key().name();
        // A definition is named after its plural and its group.
        if name.split_once('.').is_none_or(|(_, group)| group != wanted.info.group()) {
            continue;
        }
        let Ok(fields) = object.decode_as::<DefinitionFields>() else { continue };
        if !fields.is_about(&wanted.info) {
            continue;
        }
        found = match wanted.version(&fields.spec.versions) {
            _ if object.deletion_timestamp().is_some() => missing(name, DefinitionState::Deleting),
            _ if !fields.is_established() => missing(name, DefinitionState::NotEstablished),
            None => missing(name, DefinitionState::VersionNotServed(wanted.info.version().to_owned())),
            Some(version) => {
                return Finding::Usable(UsableDefinition {
                    name: name.to_owned(),
                    uid: object.uid().to_owned(),
                    plural: fields.spec.names.plural.clone(),
                    version: version.to_owned(),
                });
            }
        };
    }
    found
}

/// Returns whether a definition is there and serves the version. A definition that is being deleted counts until it is removed: its
/// objects are deleted first, and the watch reports them.
pub(super) fn still_serves<K>(definition: Option<&Obj<K>>, usable: &UsableDefinition) -> bool {
    definition.filter(|object| object.uid() == usable.uid).is_some_and(|object| {
        // One that cannot be decoded says nothing about its versions.
        object.decode_as::<DefinitionFields>().map_or(true, |fields| {
            let is_same = |version: &DefinitionVersion| version.served && version.name == usable.version;
            fields.spec.versions.iter().any(is_same)
        })
    })
}

#[cfg(test)]
mod tests;
