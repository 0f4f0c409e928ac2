//! The writes of a [`Table`] that several reflectors fill, each with the objects of some places.

use std::sync::Arc;

use evenkeel_core::ResourceVersion;
use evenkeel_core::shard::{ShardRanges, place};

use super::state::StoreState;
use super::table::{LARGE, Table, TablePart};
use crate::event::Notifications;
use crate::shard_scope::Places;
use crate::{Deleted, Event, Object};

/// The versions that the places of namespaces have reached, each in the objects of one reflector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlaceVersions(pub(crate) Vec<(ShardRanges, ResourceVersion)>);

impl PlaceVersions {
    /// Returns the version of the place of a namespace; all versions without a namespace, or for one that no reflector is for.
    pub(super) fn of(&self, namespace: Option<&str>) -> impl Iterator<Item = &ResourceVersion> {
        let place = namespace.map(place);
        let is_own = move |ranges: &ShardRanges| place.is_some_and(|place| ranges.contains(place));
        let has_own = self.0.iter().any(|(ranges, _)| is_own(ranges));
        self.0.iter().filter(move |(ranges, _)| !has_own || is_own(ranges)).map(|(_, version)| version)
    }
}

impl Table {
    /// Replaces the objects of some places in one step, and returns the notifications about the difference. The version stays.
    pub(crate) fn replace_places(&self, places: &Places, objects: Vec<Object>, initial: bool) -> Notifications {
        self.replace_in(TablePart::Places(places), objects, ResourceVersion::new(""), initial)
    }

    /// Removes the objects of all other places, and returns the notifications about them.
    pub(crate) fn remove_outside(&self, places: &Places) -> Notifications {
        // Only this informer's process loop writes, and it calls this.
        let left: Vec<Object> = self.snapshot().iter().filter(|object| !places.contain(object)).cloned().collect();
        let mut notifications = Notifications { events: Vec::with_capacity(left.len()), ..Notifications::default() };
        if left.is_empty() {
            return notifications;
        }
        let mut writer = self.lock();
        self.publish(&mut writer, left.len() > LARGE, |edit| {
            edit.state.totals.commits += 1;
            notifications.commit = edit.state.totals.commits;
            for object in &left {
                if let Some(object) = edit.remove(object.key().as_bytes()) {
                    notifications.events.push(Event::Delete(Deleted::Moved { object }));
                }
            }
        });
        notifications
    }

    /// Sets the version of the store, that of the slowest of its reflectors, and those of the places of namespaces if there are
    /// several.
    pub(crate) fn set_versions(&self, version: ResourceVersion, places: Option<PlaceVersions>) {
        let mut writer = self.lock();
        self.publish(&mut writer, false, |edit| {
            edit.state.totals.version = version;
            edit.state.totals.places = places.map(Arc::new);
        });
        drop(writer);
        self.waiters.reached(|| self.versions(), &[]);
    }
}

impl StoreState {
    /// Returns the objects of some places with their slots.
    pub(super) fn in_places<'a>(&'a self, places: &'a Places) -> impl Iterator<Item = (u32, &'a Object)> + Send + 'a {
        self.occupied().filter(|(_, object)| places.contain(object))
    }
}

#[cfg(test)]
mod tests;
