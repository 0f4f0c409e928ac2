//! [`WatchedKind`]: a kind that a controller watches, with its informer.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_cache::informer::InformerStatus;
use evenkeel_cache::source::BoxFuture;
use evenkeel_cache::store::StoreStopped;
use evenkeel_cache::{InformerFactory, Lister, SharedInformer};
use evenkeel_client::{Client, ListParams};
use evenkeel_core::status::qualified;
use evenkeel_core::{Header, ObjectKey, ResourceInfo, ResourceVersion};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::deletion_waiters::DeletionWaiters;
use crate::health::informer_report;

/// The time between two attempts to read the newest version.
const NEWEST_RETRY: Duration = Duration::from_secs(1);

/// A kind that a controller watches, with its informer.
pub(super) struct WatchedKind {
    info: Arc<ResourceInfo>,
    informer: Box<dyn ErasedInformer>,
    pub(super) deletion_waiters: Arc<DeletionWaiters>,
    covers: Covers,
    /// Whether the last source of the kind was removed.
    unwatched: watch::Sender<bool>,
}

/// Returns whether the informer will show a written object, by its namespace and selectors.
type Covers = Box<dyn Fn(&ObjectKey, &Header) -> bool + Send + Sync>;

/// An informer without the type of its kind.
trait ErasedInformer: Send + Sync {
    fn at_least<'a>(
        &'a self,
        key: &'a ObjectKey,
        version: &'a ResourceVersion,
    ) -> BoxFuture<'a, Result<(), StoreStopped>>;
    fn shows<'a>(&'a self, version: &'a ResourceVersion) -> BoxFuture<'a, Result<(), StoreStopped>>;
    fn keys(&self) -> Vec<ObjectKey>;
    fn is_in_scope(&self, key: &ObjectKey) -> bool;
    fn uid(&self, key: &ObjectKey) -> Option<String>;
    fn complete_lists(&self) -> u64;
    fn stopped(&self) -> BoxFuture<'_, ()>;
    fn retire(&self, definition: &str);
    fn is_gone(&self) -> bool;
    fn report(&self, now: Instant) -> (String, Value);
    fn status(&self) -> InformerStatus;
    fn as_any(&self) -> &dyn Any;
}

impl<T: 'static> ErasedInformer for SharedInformer<T> {
    fn at_least<'a>(
        &'a self,
        key: &'a ObjectKey,
        version: &'a ResourceVersion,
    ) -> BoxFuture<'a, Result<(), StoreStopped>> {
        let indexer = self.indexer();
        Box::pin(async move { indexer.at_least_for(key, version).await })
    }

    fn shows<'a>(&'a self, version: &'a ResourceVersion) -> BoxFuture<'a, Result<(), StoreStopped>> {
        let indexer = self.indexer();
        Box::pin(async move { indexer.at_least(version).await })
    }

    fn keys(&self) -> Vec<ObjectKey> {
        self.indexer().keys()
    }

    fn is_in_scope(&self, key: &ObjectKey) -> bool {
        self.indexer().is_in_scope(key)
    }

    fn uid(&self, key: &ObjectKey) -> Option<String> {
        self.indexer().get(key).map(|object| object.uid().to_owned())
    }

    fn complete_lists(&self) -> u64 {
        SharedInformer::complete_lists(self)
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(SharedInformer::stopped(self))
    }

    fn retire(&self, definition: &str) {
        SharedInformer::retire(self, definition);
    }

    fn is_gone(&self) -> bool {
        self.gone().is_some()
    }

    fn report(&self, now: Instant) -> (String, Value) {
        (self.name().to_owned(), informer_report(self.resource(), &self.status(), now))
    }

    fn status(&self) -> InformerStatus {
        SharedInformer::status(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl WatchedKind {
    /// Describes the informer of a factory.
    pub(super) fn of_factory<T: 'static>(informer: SharedInformer<T>, informers: &InformerFactory) -> Self {
        let (informers, info) = (informers.clone(), Arc::clone(informer.resource()));
        let covers = move |key: &ObjectKey, object: &Header| informers.covers::<T>(&info, key, object);
        WatchedKind::new(informer, Box::new(covers))
    }

    /// Describes an informer whose selectors are not known. It counts as showing all objects of its kind: the bookmarks of its watch
    /// end the wait for a write that it does not show.
    pub(super) fn of_user<T: 'static>(informer: SharedInformer<T>) -> Self {
        WatchedKind::new(informer, Box::new(|_, _| true))
    }

    fn new<T: 'static>(informer: SharedInformer<T>, covers: Covers) -> Self {
        let info = Arc::clone(informer.resource());
        let unwatched = watch::Sender::new(false);
        WatchedKind { info, informer: Box::new(informer), deletion_waiters: Arc::default(), covers, unwatched }
    }

    /// Returns the lister, if the informer has this type.
    pub(super) fn lister<T: 'static>(&self) -> Option<Lister<T>> {
        self.informer.as_any().downcast_ref::<SharedInformer<T>>().map(SharedInformer::lister)
    }

    /// Returns whether this is the informer.
    pub(super) fn is<T: 'static>(&self, informer: &SharedInformer<T>) -> bool {
        let own = self.informer.as_any().downcast_ref::<SharedInformer<T>>();
        own.is_some_and(|own| own.downgrade().ptr_eq(&informer.downgrade()))
    }

    /// Returns the state of the informer.
    pub(super) fn status(&self) -> InformerStatus {
        self.informer.status()
    }

    /// Returns whether this is the resource, in any version.
    pub(super) fn is_about(&self, info: &ResourceInfo) -> bool {
        self.info.plural() == info.plural() && self.info.group() == info.group()
    }

    /// Returns whether the cache will show a written object. An object that it shows already counts: the cache will show that the
    /// object does not match any more.
    pub(super) fn will_show(&self, key: &ObjectKey, object: &Header) -> bool {
        (self.covers)(key, object) || self.informer.uid(key).is_some()
    }

    /// Returns the uid of the cached object.
    pub(super) fn uid(&self, key: &ObjectKey) -> Option<String> {
        self.informer.uid(key)
    }

    /// Returns the number of complete lists that the informer received.
    pub(super) fn complete_lists(&self) -> u64 {
        self.informer.complete_lists()
    }

    /// Waits until the cache shows a write of an object.
    pub(super) async fn at_least(&self, key: &ObjectKey, version: &ResourceVersion) -> Result<(), StoreStopped> {
        self.informer.at_least(key, version).await
    }

    /// Returns the name of the resource, such as `deployments.apps`.
    pub(super) fn resource(&self) -> String {
        qualified(self.info.group(), self.info.plural())
    }

    /// Waits until the cache shows everything up to a version.
    pub(super) async fn shows(&self, version: &ResourceVersion) {
        // A store that stopped does not change any more.
        let _ = self.informer.shows(version).await;
    }

    /// Waits until the cache shows everything that is written now. An empty namespace stands for all.
    pub(super) async fn shows_newest(&self, client: &Client, namespace: &str) {
        let mut api = client.dynamic(&self.info);
        if self.info.namespaced() && !namespace.is_empty() {
            api = api.namespace(namespace);
        }
        let api = api.metadata();
        let newest = loop {
            match api.list(&ListParams::default().limit(1)).await {
                Ok(newest) => break newest,
                Err(error) => {
                    tracing::warn!(kind = self.kind(), %error, "the newest version cannot be read; trying again")
                }
            }
            sleep(NEWEST_RETRY).await;
        };
        self.shows(newest.resource_version()).await;
    }

    /// Returns the keys of the cached objects.
    pub(super) fn keys(&self) -> Vec<ObjectKey> {
        self.informer.keys()
    }

    /// Returns whether the namespace of a key is in the set of the informer.
    pub(super) fn is_in_scope(&self, key: &ObjectKey) -> bool {
        self.informer.is_in_scope(key)
    }

    /// Waits until the cache does not show the object any more, or the controller does not watch the kind any more.
    pub(super) async fn deleted(&self, key: &ObjectKey, uid: &str) {
        let mut unwatched = self.unwatched.subscribe();
        tokio::select! {
            biased;
            () = self.deletion_waiters.deleted(key, uid, || self.informer.uid(key).as_deref() == Some(uid)) => {}
            // The sender is a field of `self`, so the wait does not fail.
            _ = unwatched.wait_for(|unwatched| *unwatched) => {}
        }
    }

    /// Notes that the last source of the kind was removed: no handler notifies the waiters any more.
    pub(super) fn set_unwatched(&self) {
        self.unwatched.send_replace(true);
    }

    /// Waits until the informer has stopped.
    pub(super) fn stopped(&self) -> BoxFuture<'_, ()> {
        self.informer.stopped()
    }

    /// Ends the informer: its kind is not served any more.
    pub(super) fn retire(&self, definition: &str) {
        self.informer.retire(definition);
    }

    /// Returns whether the informer has ended because its kind is not served any more.
    pub(super) fn is_gone(&self) -> bool {
        self.informer.is_gone()
    }

    /// Returns the name of the informer and its diagnostics.
    pub(super) fn report(&self, now: Instant) -> (String, Value) {
        self.informer.report(now)
    }

    pub(super) fn kind(&self) -> &str {
        self.info.kind()
    }
}

impl fmt::Debug for WatchedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedKind").field("kind", &self.info.kind()).finish_non_exhaustive()
    }
}
