//! [`WatchedKind`]: a kind that a controller looks at.

use std::any::Any;
use std::sync::Arc;

use evenkeel_cache::source::BoxFuture;
use evenkeel_cache::store::StoreStopped;
use evenkeel_cache::{Lister, SharedInformer};
use evenkeel_core::{Header, LabelSelector, ObjectKey, ResourceInfo, ResourceVersion};
use serde_json::Value;
use tokio::time::Instant;

use super::deletion_waiters::DeletionWaiters;
use crate::health::informer_report;

/// A kind that a controller looks at, with the informer that it sees it through.
pub(super) struct WatchedKind {
    info: Arc<ResourceInfo>,
    informer: Box<dyn ErasedInformer>,
    pub(super) deletion_waiters: Arc<DeletionWaiters>,
    scope: WatchScope,
}

/// Which objects an informer is about, as far as the controller has said so.
#[derive(Clone, Debug, Default)]
pub(super) struct WatchScope {
    pub(super) namespace: Option<String>,
    pub(super) labels: Option<LabelSelector>,
}

/// An informer of whatever kind.
trait ErasedInformer: Send + Sync {
    fn at_least<'a>(&'a self, version: &'a ResourceVersion) -> BoxFuture<'a, Result<(), StoreStopped>>;
    fn uid(&self, key: &ObjectKey) -> Option<String>;
    fn stop(&self);
    fn stopped(&self) -> BoxFuture<'_, ()>;
    fn report(&self, now: Instant) -> (String, Value);
    fn as_any(&self) -> &dyn Any;
}

impl<T: 'static> ErasedInformer for SharedInformer<T> {
    fn at_least<'a>(&'a self, version: &'a ResourceVersion) -> BoxFuture<'a, Result<(), StoreStopped>> {
        let indexer = self.indexer();
        Box::pin(async move { indexer.at_least(version).await })
    }

    fn uid(&self, key: &ObjectKey) -> Option<String> {
        self.indexer().get(key).map(|object| object.uid().to_owned())
    }

    fn stop(&self) {
        SharedInformer::stop(self);
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(SharedInformer::ended(self))
    }

    fn report(&self, now: Instant) -> (String, Value) {
        (self.name().to_owned(), informer_report(self.resource(), &self.status(), now))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl WatchedKind {
    pub(super) fn new<T: 'static>(informer: SharedInformer<T>, scope: WatchScope) -> Self {
        let info = Arc::clone(informer.resource());
        WatchedKind { info, informer: Box::new(informer), deletion_waiters: Arc::default(), scope }
    }

    /// Reads, if this is the view of that type.
    pub(super) fn lister<T: 'static>(&self) -> Option<Lister<T>> {
        self.informer.as_any().downcast_ref::<SharedInformer<T>>().map(SharedInformer::lister)
    }

    pub(super) fn is_of<T: 'static>(&self) -> bool {
        self.informer.as_any().is::<SharedInformer<T>>()
    }

    /// Whether it is about this kind, in whatever version.
    pub(super) fn is_about(&self, info: &ResourceInfo) -> bool {
        self.info.plural() == info.plural() && self.info.group() == info.group()
    }

    /// Whether what was written will be seen here. What was seen and is not to be seen any more is told too.
    pub(super) fn will_show(&self, object: &Header) -> bool {
        let WatchScope { namespace, labels } = &self.scope;
        let is_elsewhere = |namespace: &str| object.key().namespace().is_some_and(|own| own != namespace);
        if namespace.as_deref().is_some_and(is_elsewhere) {
            return false;
        }
        let matches = labels.as_ref().is_none_or(|labels| labels.matches(|key| object.label(key)));
        matches || self.informer.uid(object.key()).is_some()
    }

    /// The uid of the object that is there now.
    pub(super) fn uid(&self, key: &ObjectKey) -> Option<String> {
        self.informer.uid(key)
    }

    pub(super) async fn at_least(&self, version: &ResourceVersion) -> Result<(), StoreStopped> {
        self.informer.at_least(version).await
    }

    pub(super) async fn deleted(&self, key: &ObjectKey, uid: &str) {
        self.deletion_waiters.deleted(key, uid, || self.informer.uid(key).as_deref() == Some(uid)).await;
    }

    pub(super) fn stop(&self) {
        self.informer.stop();
    }

    /// Waits until nothing more is to be seen here.
    pub(super) fn stopped(&self) -> BoxFuture<'_, ()> {
        self.informer.stopped()
    }

    /// The name of the informer, and what is to be said of it in diagnostics.
    pub(super) fn report(&self, now: Instant) -> (String, Value) {
        self.informer.report(now)
    }

    pub(super) fn kind(&self) -> &str {
        self.info.kind()
    }
}

impl std::fmt::Debug for WatchedKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchedKind").field("kind", &self.info.kind()).finish_non_exhaustive()
    }
}
