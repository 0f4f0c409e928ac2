//! Sharded lists and watches: the places of objects, and what a request selects.
//!
//! Places are computed when the objects are generated, so that a selection costs two comparisons of numbers for each object.

use evenkeel_core::shard::{ShardField, ShardSelector, ShardSelectorError, place};
use serde::Deserialize;

use super::http::Request;
use crate::Failure;

/// The places of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    uid: u64,
    namespace: u64,
}

impl Places {
    /// Returns the places of the object of these members.
    pub(super) fn of(members: &str) -> Result<Self, Failure> {
        #[derive(Deserialize)]
        struct Object<'a> {
            #[serde(borrow)]
            metadata: Metadata<'a>,
        }
        #[derive(Deserialize)]
        struct Metadata<'a> {
            #[serde(default)]
            uid: &'a str,
            #[serde(default)]
            namespace: &'a str,
        }
        let text = format!("{{{members}}}");
        let Object { metadata } = serde_json::from_str(&text)?;
        Ok(Places { uid: place(metadata.uid), namespace: place(metadata.namespace) })
    }

    fn by(self, field: ShardField) -> u64 {
        match field {
            ShardField::Uid => self.uid,
            ShardField::Namespace => self.namespace,
        }
    }
}

/// What a request selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selection(Option<ShardSelector>);

impl Selection {
    /// Returns the selection of a request; everything if it has no selector.
    pub(super) fn of(request: &Request) -> Result<Self, ShardSelectorError> {
        let text = request.get("shardSelector").filter(|text| !text.is_empty());
        text.map(str::parse).transpose().map(Selection)
    }

    pub(super) fn selector(&self) -> Option<&ShardSelector> {
        self.0.as_ref()
    }

    pub(super) fn contains(&self, places: &Places) -> bool {
        self.0.as_ref().is_none_or(|selector| selector.ranges().contains(places.by(selector.field())))
    }
}

#[cfg(test)]
mod tests;
