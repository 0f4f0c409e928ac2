//! The writes of a [`Table`] that several reflectors fill, one for each [`Scope`].

use std::sync::Arc;

use evenkeel_core::ResourceVersion;

use super::index::NAMESPACE_INDEX;
use super::scopes::ScopeVersions;
use super::state::StoreState;
use super::table::{Table, TablePart};
use crate::event::Notifications;
use crate::namespaces::{NamespaceNames, Scope};
use crate::{Deleted, Event, Object};

impl Table {
    /// Has exactly these scopes from now on. Removes the objects of all others, and returns the notifications about them.
    pub(crate) fn set_scopes(&self, scopes: &[Scope]) -> Notifications {
        let mut writer = self.lock();
        let known = self.read().totals.scopes.clone().unwrap_or_default();
        let mut versions = ScopeVersions::clone(&known);
        let dropped = versions.set(scopes);
        let left = objects_out_of_scope(&self.snapshot(), &dropped, scopes);
        let large = left.len() > super::table::LARGE;
        let mut notifications = Notifications { events: Vec::with_capacity(left.len()), ..Notifications::default() };
        self.publish(&mut writer, large, |edit| {
            edit.state.totals.commits += 1;
            notifications.commit = edit.state.totals.commits;
            for object in &left {
                if let Some(object) = edit.remove(object.key().as_bytes()) {
                    notifications.events.push(Event::Delete(Deleted::OutOfScope { object }));
                }
            }
            edit.state.totals.version = versions.lowest();
            edit.state.totals.scopes = Some(Arc::new(versions));
        });
        drop(writer);
        if let Some(set) = self.namespaces() {
            self.waiters.abandon(|namespace| set.covers(namespace));
        }
        self.waiters.reached(|| self.versions(), &[]);
        notifications
    }

    /// Replaces the objects of one scope in one step, and returns the notifications about the difference.
    pub(crate) fn replace_scope(
        &self,
        scope: &Scope,
        objects: Vec<Object>,
        version: ResourceVersion,
        initial: bool,
    ) -> Notifications {
        self.replace_in(TablePart::Scope(scope), objects, version, initial)
    }

    /// Advances the version of one scope: nothing changed there up to it.
    pub(crate) fn bookmark_scope(&self, scope: &Scope, version: &ResourceVersion) {
        let opaque = self.change_scopes(|scopes| scopes.bookmark(scope, version));
        self.waiters.reached(|| self.versions(), &opaque);
    }

    /// Sets whether the version of the whole store waits for a scope: not while it cannot be read.
    pub(crate) fn set_scope_awaited(&self, namespace: &str, is_awaited: bool) {
        self.change_scopes(|scopes| scopes.set_awaited(namespace, is_awaited));
        self.waiters.reached(|| self.versions(), &[]);
    }

    /// Returns the version of the scope of a namespace; empty before its first list.
    pub(crate) fn scope_version(&self, namespace: &str) -> ResourceVersion {
        let scopes = self.read().totals.scopes.clone();
        let version = scopes.as_ref().and_then(|scopes| scopes.version_of(namespace));
        version.cloned().unwrap_or_else(|| ResourceVersion::new(""))
    }

    fn change_scopes<T: Default>(&self, change: impl FnOnce(&mut ScopeVersions) -> T) -> T {
        let mut writer = self.lock();
        self.publish(&mut writer, false, |edit| edit.state.totals.change_scopes(change))
    }
}

impl StoreState {
    /// Returns the objects of a scope with their slots.
    pub(super) fn in_scope<'a>(&'a self, scope: &'a Scope) -> Box<dyn Iterator<Item = (u32, &'a Object)> + Send + 'a> {
        if scope.is_rest() {
            let is_inside = |object: &Object| scope.contains(object.key().namespace().unwrap_or_default());
            return Box::new(self.occupied().filter(move |(_, object)| is_inside(object)));
        }
        // Every informer has this index.
        let slots = self.slots_by_index(NAMESPACE_INDEX, scope.namespace()).unwrap_or_default();
        Box::new(slots.iter().filter_map(|slot| Some((*slot, self.object(*slot)?))))
    }
}

/// Returns the objects that no scope contains any more, when these scopes are dropped.
fn objects_out_of_scope(state: &StoreState, dropped: &[Arc<str>], scopes: &[Scope]) -> Vec<Object> {
    if scopes.iter().any(Scope::is_rest) {
        // Their objects are part of the rest.
        return Vec::new();
    }
    let mut left = Vec::new();
    if dropped.iter().any(|name| name.is_empty()) {
        let is_outside = |object: &Object| {
            let namespace = object.key().namespace().unwrap_or_default();
            !scopes.iter().any(|scope| scope.contains(namespace))
        };
        left.extend(state.iter().filter(|object| is_outside(object)).cloned());
    } else {
        for scope in dropped.iter().collect::<NamespaceNames>().scopes() {
            left.extend(state.in_scope(&scope).map(|(_, object)| object.clone()));
        }
    }
    left
}
