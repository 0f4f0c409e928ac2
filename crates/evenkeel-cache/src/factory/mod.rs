//! [`InformerFactory`]: the informers of a program, one for each kind, however many parts of the program ask for it.

mod builder;
mod registry;
mod settings;
mod sync_error;
#[cfg(test)]
mod tests;

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;
use std::task::Poll;

use evenkeel_client::{Client, PartialObjectMetadata, Unstructured};
use evenkeel_core::StaticScope;
use evenkeel_core::{ResourceInfo, Untyped};
use kube_core::Resource;

pub use self::builder::InformerFactoryBuilder;
use self::registry::{Key, Registry};
pub use self::settings::KindSettings;
use self::settings::Settings;
pub use self::sync_error::SyncError;
use crate::informer::InformerStatus;
use crate::source::BoxFuture;
use crate::{Lister, SharedInformer};

/// The informers of a program: one for each kind, however many parts of the program ask for it. Cheap to clone; clones are
/// the same factory.
///
/// # How informers begin and end
///
/// - Before the factory is [started](Self::start) it keeps all informers that were asked for, and none of them runs.
/// - [`start`](Self::start) begins all of them. Those that are asked for later begin at once, without being told.
/// - From then on an informer runs for as long as it has users: handles, [listers](Lister), subscriptions and handlers. An
///   informer that nobody uses ends. If its kind is asked for again, there is another one, which has yet to sync.
/// - [`shutdown`](Self::shutdown) ends all of them, whoever uses them, and for good. Dropping the factory ends none.
///
/// ```
/// # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use evenkeel_cache::{HandlerFuncs, InformerFactory};
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let informers = InformerFactory::builder(&client).resync(Duration::from_secs(30)).build();
/// let deployments = informers.lister::<Deployment>();
/// let pods = informers.of::<Pod>();
/// pods.add_handler(HandlerFuncs::new().on_add(|pod, _| println!("{}", pod.key())))?;
/// informers.start();
/// informers.wait_for_sync().await?;
/// println!("{} deployments", deployments.list_all().len());
/// informers.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct InformerFactory {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    settings: Settings,
    registry: Registry,
}

impl InformerFactory {
    /// A factory of informers that list and watch with this client.
    pub fn builder(client: &Client) -> InformerFactoryBuilder {
        InformerFactoryBuilder::new(client)
    }

    /// The informer of a kind, the same one every time.
    ///
    /// If the factory has been started, the informer has begun when this returns. What it must know before it begins is said
    /// to the builder of the factory: [`configure`](InformerFactoryBuilder::configure).
    #[must_use = "an informer that nobody uses is not kept"]
    pub fn of<K>(&self) -> SharedInformer<K>
    where
        K: Resource + 'static,
        K::DynamicType: Default,
        K::Scope: StaticScope,
    {
        self.informer(Key::Typed(TypeId::of::<K>()), || self.inner.client.resource::<K>()).cast()
    }

    /// The informer of a kind that is only known now, the same one every time. It is another one than that of a Rust type
    /// for the same kind. The server is not asked whether it serves the kind; if it does not, the informer does not sync.
    #[must_use = "an informer that nobody uses is not kept"]
    pub fn dynamic(&self, info: &Arc<ResourceInfo>) -> SharedInformer<Unstructured> {
        self.informer(Key::Dynamic(Arc::clone(info)), || Arc::clone(info)).cast()
    }

    /// The informer of the metadata of a kind, the same one every time. Nothing but metadata is sent and kept.
    #[must_use = "an informer that nobody uses is not kept"]
    pub fn metadata<K>(&self) -> SharedInformer<PartialObjectMetadata>
    where
        K: Resource + 'static,
        K::DynamicType: Default,
        K::Scope: StaticScope,
    {
        self.metadata_of(&self.inner.client.resource::<K>())
    }

    /// As [`metadata`](Self::metadata), of a kind that is only known now.
    #[must_use = "an informer that nobody uses is not kept"]
    pub fn metadata_of(&self, info: &Arc<ResourceInfo>) -> SharedInformer<PartialObjectMetadata> {
        self.informer(Key::Metadata(Arc::clone(info)), || Arc::clone(info)).cast()
    }

    /// Reads of what the informer of a kind has. Asking for this is asking for the informer.
    #[must_use = "an informer that nobody uses is not kept"]
    pub fn lister<K>(&self) -> Lister<K>
    where
        K: Resource + 'static,
        K::DynamicType: Default,
        K::Scope: StaticScope,
    {
        self.of::<K>().lister()
    }

    fn informer(&self, key: Key, info: impl FnOnce() -> Arc<ResourceInfo>) -> SharedInformer<Untyped> {
        let Inner { client, settings, registry } = &*self.inner;
        registry.known(&key).unwrap_or_else(|| {
            let made = settings.informer(client, &key, &info());
            registry.admit(key, made)
        })
    }

    /// Begins all informers, in tasks of the runtime that this is called in, and returns at once. Informers that are asked
    /// for later begin by themselves. Doing this again does nothing; after a [shutdown](Self::shutdown) nothing begins.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(&self) {
        self.inner.registry.start(&tokio::runtime::Handle::current());
    }

    /// Waits until all informers that have begun, and that somebody uses, have synced: their stores have been filled. If the
    /// factory has not been started there is nothing to wait for.
    ///
    /// There is no limit of time; put one around it, and ask [`statuses`](Self::statuses) what keeps it.
    ///
    /// # Errors
    /// If one of them ends before. The error names those that have not synced, and why as far as it is known.
    pub async fn wait_for_sync(&self) -> Result<(), SyncError> {
        let mut informers = self.inner.registry.users();
        informers.retain(|informer| informer.is_started() || informer.is_stopped());
        let mut waiting: Vec<BoxFuture<'_, _>> = Vec::new();
        for informer in &informers {
            waiting.push(Box::pin(informer.synced()));
        }
        // One that has ended will never sync, so there is no use in waiting for the others.
        let outcome = std::future::poll_fn(|context| {
            let mut failed = None;
            waiting.retain_mut(|synced| match synced.as_mut().poll(context) {
                Poll::Pending => true,
                Poll::Ready(Ok(())) => false,
                Poll::Ready(Err(stopped)) => {
                    failed = Some(stopped);
                    false
                }
            });
            match failed {
                Some(stopped) => Poll::Ready(Err(stopped)),
                None if waiting.is_empty() => Poll::Ready(Ok(())),
                None => Poll::Pending,
            }
        });
        let outcome = outcome.await;
        outcome.map_err(|_| SyncError::new(informers.iter().map(SharedInformer::status)))
    }

    /// Ends all informers in an orderly way, whoever uses them: nothing more is heard from the server, handlers are told what
    /// waits for them, and when this returns no task of any informer of this factory is left. Afterwards no informer of this
    /// factory begins; what is asked for has ended already. Stores still have what they had.
    ///
    /// This may be done again, and by several at the same time; all of them wait. A handler that never comes to its end keeps
    /// them waiting; [`SharedInformer::stop`] cuts it short. If this is dropped, informers end nevertheless.
    pub async fn shutdown(&self) {
        for informer in self.inner.registry.shutdown() {
            informer.ended().await;
        }
    }

    /// How each informer that somebody uses, or that waits for the start, is doing, by name.
    pub fn statuses(&self) -> Vec<InformerStatus> {
        let mut statuses: Vec<_> = self.inner.registry.users().iter().map(SharedInformer::status).collect();
        statuses.sort_by(|a, b| a.name.cmp(&b.name));
        statuses
    }
}

impl fmt::Debug for InformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerFactory")
            .field("client", &self.inner.client)
            .field("registry", &self.inner.registry)
            .finish_non_exhaustive()
    }
}
