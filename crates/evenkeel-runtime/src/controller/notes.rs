//! [`Notes`]: what a reconcile has written.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::{Header, Obj, ObjectKey, ResourceInfo, ResourceVersion};

use super::view::View;

/// What a reconcile has written, as far as it writes what the controller looks at.
#[derive(Clone)]
pub(super) struct Notes(Arc<Inner>);

struct Inner {
    views: Arc<[View]>,
    /// None when the reconcile has ended, and nobody will ask any more.
    wants: Mutex<Option<Vec<Want>>>,
}

/// What must have come true before a cache shows what was written. Views are known by their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Want {
    Version { view: usize, version: ResourceVersion },
    Gone { view: usize, key: ObjectKey, uid: String },
}

impl Notes {
    pub(super) fn new(views: &Arc<[View]>) -> Self {
        Notes(Arc::new(Inner { views: Arc::clone(views), wants: Mutex::new(Some(Vec::new())) }))
    }

    fn wants(&self) -> MutexGuard<'_, Option<Vec<Want>>> {
        self.0.wants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn views(&self, info: &ResourceInfo) -> impl Iterator<Item = (usize, &View)> {
        self.0.views.iter().enumerate().filter(|(_, view)| view.is_about(info))
    }

    /// An object was written, and this is what it has become.
    pub(super) fn wrote<T>(&self, object: &Obj<T>) {
        self.wrote_version(object.resource(), object.header());
        if is_gone(object) {
            self.deleted(object.resource(), object.key(), object.uid());
        }
    }

    fn wrote_version(&self, info: &ResourceInfo, object: &Header) {
        let version = object.version();
        if version.as_str().is_empty() {
            return;
        }
        for (view, _) in self.views(info).filter(|(_, view)| view.will_show(object)) {
            let mut wants = self.wants();
            let Some(wants) = &mut *wants else { return };
            let known = wants.iter_mut().find_map(|want| match want {
                Want::Version { view: known, version: newest } if *known == view => Some(newest),
                _ => None,
            });
            match known {
                Some(newest) if newest.compare(&version).is_none() => {
                    // Which of them is the later one nobody can say, so both are waited for.
                    wants.push(Want::Version { view, version: version.clone() });
                }
                Some(newest) => {
                    if version.is_newer_than(newest) {
                        *newest = version.clone();
                    }
                }
                None => wants.push(Want::Version { view, version: version.clone() }),
            }
        }
    }

    /// An object of this kind was deleted, and is gone. An empty uid stands for that of the object which is seen.
    ///
    /// An object that is not seen yet may be one that was written just now. What was written first is waited for first, and
    /// then it is seen, or gone.
    pub(super) fn deleted(&self, info: &ResourceInfo, key: &ObjectKey, uid: &str) {
        for (place, view) in self.views(info) {
            let uid = match view.uid(key) {
                Some(seen) if uid.is_empty() || seen == uid => seen,
                None if !uid.is_empty() => uid.to_owned(),
                _ => continue,
            };
            match &mut *self.wants() {
                Some(wants) => wants.push(Want::Gone { view: place, key: key.clone(), uid }),
                None => return,
            }
        }
    }

    /// What was noted. From now on nothing is, so that a context which outlives its reconcile does not gather what nobody asks
    /// for.
    pub(super) fn close(&self) -> Vec<Want> {
        self.wants().take().unwrap_or_default()
    }
}

/// Whether an object that was answered to a write is there no more. A server takes an object away when its last finalizer goes
/// while it is being deleted, and answers with the version that it had before: nothing but this tells that it has gone.
fn is_gone<T>(object: &Obj<T>) -> bool {
    let grace = || object.path("metadata.deletionGracePeriodSeconds").ok().flatten();
    let has_no_grace = || grace().is_some_and(|grace| grace.json() == "0");
    object.deletion_timestamp().is_some() && object.finalizers().len() == 0 && has_no_grace()
}

impl Want {
    /// Waits until it has come true. An informer that has stopped shows nothing more, so there is nothing to wait for.
    pub(super) async fn come_true(&self, views: &[View]) {
        match self {
            Want::Version { view, version } => {
                let _ = views[*view].at_least(version).await;
            }
            Want::Gone { view, key, uid } => views[*view].gone(key, uid).await,
        }
    }
}

impl std::fmt::Debug for Notes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Notes").field(&*self.wants()).finish()
    }
}
