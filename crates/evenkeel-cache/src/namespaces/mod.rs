//! [`NamespaceSet`]: several namespaces for the informers of a factory, changed at run time.

mod error;
mod scope;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::watch;

pub use self::error::NamespaceSetError;
pub(crate) use self::scope::{NamespaceNames, Scope, ScopeChanges, plan};
use crate::informer::InformerShared;

/// The largest number of names in a set.
pub(crate) const MAX_NAMES: usize = 4096;

/// The namespaces of the informers of a factory. Cheap to clone; clones are the same set.
///
/// An informer of several namespaces has one store, one queue and one listener per handler, and one reflector for each namespace. So a
/// handler receives one call at a time, and the changes of each object in order, whatever the number of namespaces. Each namespace has
/// a resource version of its own.
///
/// The empty name stands for all namespaces that have no name of their own in the set: its reflector excludes the others by field
/// selector, and is restarted when the set changes. Cluster-scoped kinds are not affected by the set.
///
/// ```
/// # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_cache::InformerFactory;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let informers = InformerFactory::builder(&client).namespaces(["team-a", "team-b"]).build();
/// let pods = informers.lister::<Pod>();
/// let running = informers.start();
/// informers.wait_for_sync().await?;
/// if let Some(namespaces) = informers.namespaces() {
///     namespaces.add("team-c").await?; // its pods are in the store now
///     namespaces.remove("team-b").await?; // and those of team-b are not
/// }
/// # drop((pods, running));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct NamespaceSet {
    inner: Arc<SetInner>,
}

struct SetInner {
    wanted: watch::Sender<WantedNamespaces>,
    /// The informers of the set.
    members: Mutex<Vec<Weak<InformerShared>>>,
    /// The label selector that determines the set; `None` if the program does.
    selector: Option<String>,
}

/// The namespaces that a set has at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct WantedNamespaces {
    pub(crate) names: NamespaceNames,
    /// The number of changes so far.
    pub(crate) generation: u64,
    /// Whether the first names are known.
    pub(crate) is_complete: bool,
}

impl NamespaceSet {
    /// Returns a set of these names, which the program changes.
    pub(crate) fn new<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        let names = names.into_iter().collect();
        NamespaceSet::over(WantedNamespaces { names, generation: 0, is_complete: true }, None)
    }

    /// Returns a set that a label selector determines: its names are not known yet.
    #[cfg(feature = "client")]
    pub(crate) fn labelled(selector: String) -> Self {
        NamespaceSet::over(WantedNamespaces::default(), Some(selector))
    }

    fn over(wanted: WantedNamespaces, selector: Option<String>) -> Self {
        let inner = SetInner { wanted: watch::Sender::new(wanted), members: Mutex::default(), selector };
        NamespaceSet { inner: Arc::new(inner) }
    }

    /// Returns the names, sorted. The empty name stands for all other namespaces.
    pub fn list(&self) -> Vec<String> {
        self.inner.wanted.borrow().names.iter().map(ToString::to_string).collect()
    }

    /// Returns whether objects of a namespace are in the set: by its name, or because the set has the empty name.
    pub fn covers(&self, namespace: &str) -> bool {
        self.inner.wanted.borrow().names.covers(namespace)
    }

    /// Adds a namespace. Returns when all running informers of the set have listed it, or it counts as
    /// [degraded](crate::informer::OnForbidden::Degrade). Its objects are delivered as additions with `initial`; other namespaces are
    /// not listed again, except those that the empty name stands for.
    ///
    /// There is no time limit: a namespace that cannot be listed keeps this waiting, and the
    /// [status](crate::informer::InformerStatus::namespaces) has the reason. Dropping the future leaves the namespace in the set.
    ///
    /// # Errors
    /// If the name is invalid, the set has 4,096 names, or a label selector determines the set. The set is not changed then.
    pub async fn add(&self, namespace: impl AsRef<str>) -> Result<(), NamespaceSetError> {
        let name = self.valid(namespace.as_ref())?;
        let is_full = |names: &NamespaceNames| names.len() >= MAX_NAMES && !names.has(name);
        if is_full(&self.inner.wanted.borrow().names) {
            return Err(NamespaceSetError::TooMany { name: name.to_owned(), limit: MAX_NAMES });
        }
        let generation = self.change(|names| names.insert(name));
        for informer in self.members() {
            informer.scopes_applied(generation, &[name, ""]).await;
        }
        Ok(())
    }

    /// Removes a namespace: stops its reflectors, removes its objects from the stores, and delivers
    /// [`Deleted::OutOfScope`](crate::Deleted::OutOfScope) for each. Returns when the handlers of all running informers have processed
    /// that: no call of a handler about the namespace starts afterwards.
    ///
    /// If the set has the empty name, the objects of the namespace stay, as part of the rest.
    ///
    /// A handler call that does not return keeps this waiting. Streams are not waited for. Dropping the future does not keep the
    /// namespace in the set.
    ///
    /// # Errors
    /// If the name is invalid, or a label selector determines the set. The set is not changed then.
    pub async fn remove(&self, namespace: impl AsRef<str>) -> Result<(), NamespaceSetError> {
        let name = self.valid(namespace.as_ref())?;
        let generation = self.change(|names| names.remove(name));
        let members = self.members();
        for informer in &members {
            informer.scopes_applied(generation, &[""]).await;
        }
        for informer in &members {
            informer.handlers_called().await;
        }
        Ok(())
    }

    /// Replaces all names.
    #[cfg(feature = "client")]
    pub(crate) fn replace(&self, names: NamespaceNames) {
        self.inner.wanted.send_if_modified(|wanted| {
            let is_changed = wanted.names != names || !wanted.is_complete;
            if is_changed {
                *wanted = WantedNamespaces { names, generation: wanted.generation + 1, is_complete: true };
            }
            is_changed
        });
    }

    /// Changes the names. Returns the number of changes so far.
    fn change(&self, change: impl FnOnce(&mut NamespaceNames) -> bool) -> u64 {
        let mut generation = 0;
        self.inner.wanted.send_if_modified(|wanted| {
            let is_changed = change(&mut wanted.names);
            wanted.generation += u64::from(is_changed);
            generation = wanted.generation;
            is_changed
        });
        generation
    }

    fn valid<'a>(&self, name: &'a str) -> Result<&'a str, NamespaceSetError> {
        if let Some(selector) = &self.inner.selector {
            return Err(NamespaceSetError::FollowsLabels { name: name.to_owned(), selector: selector.clone() });
        }
        if is_valid(name) { Ok(name) } else { Err(NamespaceSetError::InvalidName { name: name.to_owned() }) }
    }

    pub(crate) fn watch(&self) -> watch::Receiver<WantedNamespaces> {
        self.inner.wanted.subscribe()
    }

    /// Adds an informer to the set.
    pub(crate) fn join(&self, informer: &Arc<InformerShared>) {
        let mut members = self.lock_members();
        members.retain(|member| member.strong_count() > 0);
        members.push(Arc::downgrade(informer));
    }

    fn members(&self) -> Vec<Arc<InformerShared>> {
        self.lock_members().iter().filter_map(Weak::upgrade).collect()
    }

    fn lock_members(&self) -> MutexGuard<'_, Vec<Weak<InformerShared>>> {
        self.inner.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether the text is empty or a DNS label.
fn is_valid(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    name.len() <= 63 && name.bytes().all(is_inner) && !name.starts_with('-') && !name.ends_with('-')
}

impl fmt::Debug for NamespaceSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamespaceSet")
            .field("names", &self.list())
            .field("selector", &self.inner.selector)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
