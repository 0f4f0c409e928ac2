//! [`InformerFactory`]: the informers of a program, one for each kind.

mod builder;
mod covers;
mod invalid_source;
mod kind_options;
mod labelled;
mod narrowed;
mod registry;
mod settings;
mod sync_error;

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;
use std::task::Poll;

use evenkeel_client::{Client, PartialObjectMetadata, Unstructured};
use evenkeel_core::StaticScope;
use evenkeel_core::{ResourceInfo, Untyped};
use kube_core::Resource;
use serde::de::DeserializeOwned;

pub use self::builder::InformerFactoryBuilder;
pub use self::kind_options::{KindOptions, Selection};
pub use self::narrowed::OtherNamespace;
use self::registry::{InformerScope, Key, Registry};
use self::settings::Settings;
pub use self::sync_error::SyncError;
use crate::informer::{InformerStatus, RunningInformers};
use crate::source::BoxFuture;
use crate::{HandlerOptions, Lister, NamespaceSet, SharedInformer, View};

/// The informers of a program: one for each kind, shared by all parts of the program. Clones are the same factory.
///
/// # Lifetimes
///
/// - [`start`](Self::start) returns a [`RunningInformers`] handle. Dropping it, or calling [`stop`](RunningInformers::stop) or
///   [`drain`](RunningInformers::drain) on it, stops what that call started.
/// - Nothing else does: dropping an informer, a lister, a factory or a registration stops nothing.
/// - A handler stays until [`Registration::remove`](crate::Registration::remove). A [`Subscription`](crate::Subscription) is
///   its own handle: dropping it removes its listener.
/// - An informer starts once. When it has stopped, its store keeps its contents.
/// - A second [`start`](Self::start) starts the informers that were requested since the first, and returns a handle of those.
/// - If the informer of a kind has stopped, the next request of that kind creates another one, which has to be started.
/// - Users that come and go [hold](SharedInformer::hold) their informers instead of starting all of them.
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
/// let running = informers.start();
/// informers.wait_for_sync().await?;
/// println!("{} deployments", deployments.list_all().len());
/// running.drain().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct InformerFactory {
    inner: Arc<FactoryInner>,
}

struct FactoryInner {
    client: Client,
    settings: Settings,
    registry: Arc<Registry>,
}

impl InformerFactory {
    /// Returns a builder for a factory of informers that list and watch with this client.
    pub fn builder(client: &Client) -> InformerFactoryBuilder {
        InformerFactoryBuilder::new(client)
    }

    /// Returns the informer of a kind, the same one every time. The next [`start`](Self::start) starts it.
    ///
    /// The builder of the factory sets its options: [`configure`](InformerFactoryBuilder::configure).
    pub fn of<K>(&self) -> SharedInformer<K>
    where
        K: Resource + 'static,
        K::DynamicType: Default,
        K::Scope: StaticScope,
    {
        self.informer(Key::Typed(TypeId::of::<K>()), || self.inner.client.resource::<K>()).cast()
    }

    /// Returns the informer of a kind that is only known at run time, the same one every time. It differs from that of a Rust
    /// type for the same kind. No request verifies that the server serves the kind; if it does not, the informer does not sync.
    pub fn dynamic(&self, info: &Arc<ResourceInfo>) -> SharedInformer<Unstructured> {
        self.informer(Key::Dynamic(Arc::clone(info)), || Arc::clone(info)).cast()
    }

    /// Returns the informer of a kind as a server serves it, with the names and the scope that discovery returned: they may differ
    /// from those of the Rust type. The same one as [`of`](Self::of) if they do not. Options of the kind apply.
    pub fn served<K>(&self, info: &Arc<ResourceInfo>) -> SharedInformer<K>
    where
        K: Resource + 'static,
        K::DynamicType: Default,
        K::Scope: StaticScope,
    {
        if **info == *self.inner.client.resource::<K>() {
            return self.of::<K>();
        }
        self.informer(Key::Served(TypeId::of::<K>(), Arc::clone(info)), || Arc::clone(info)).cast()
    }

    /// Returns the informer of all CustomResourceDefinitions, without their schemas, the same one every time. Selectors, namespaces
    /// and options of the factory do not apply to it. Programs that wait for a kind to be installed share it; most
    /// [hold](SharedInformer::hold) it.
    pub fn definitions(&self) -> SharedInformer<Unstructured> {
        let FactoryInner { client, settings, registry } = &*self.inner;
        let key = (Key::Definitions, InformerScope::default());
        registry.get(&key).unwrap_or_else(|| registry.add(key, settings.definitions(client))).cast()
    }

    /// Returns the informer of the metadata of a kind, the same one every time. Only metadata is sent and stored.
    pub fn metadata<K>(&self) -> SharedInformer<PartialObjectMetadata>
    where
        K: Resource + 'static,
        K::DynamicType: Default,
        K::Scope: StaticScope,
    {
        self.metadata_of(&self.inner.client.resource::<K>())
    }

    /// Returns the informer of the metadata of a kind that is only known at run time.
    pub fn metadata_of(&self, info: &Arc<ResourceInfo>) -> SharedInformer<PartialObjectMetadata> {
        self.informer(Key::Metadata(Arc::clone(info)), || Arc::clone(info)).cast()
    }

    /// Returns the lister of a kind. This requests its informer.
    pub fn lister<K>(&self) -> Lister<K>
    where
        K: Resource + 'static,
        K::DynamicType: Default,
        K::Scope: StaticScope,
    {
        self.of::<K>().lister()
    }

    /// Returns the [view](SharedInformer::view) of a kind that decodes its objects as `V`. This requests its informer.
    pub fn view<K, V>(&self) -> View<K, V>
    where
        K: Resource + 'static,
        K::DynamicType: Default,
        K::Scope: StaticScope,
        V: DeserializeOwned + Send + Sync + 'static,
    {
        self.of::<K>().view()
    }

    fn informer(&self, key: Key, info: impl FnOnce() -> Arc<ResourceInfo>) -> SharedInformer<Untyped> {
        let FactoryInner { client, settings, registry } = &*self.inner;
        let info = info();
        let (scope, _) = settings.scope(&key, info.namespaced());
        let key = (key, scope);
        registry.get(&key).unwrap_or_else(|| {
            let made = settings.informer(client, &key.0, &info);
            registry.add(key, made)
        })
    }

    /// Starts the informers that have not been started, in tasks of the current runtime, and returns at once. Dropping the
    /// returned handle stops them. Informers that are [held](SharedInformer::hold) are started by their holds.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(&self) -> RunningInformers {
        let FactoryInner { client, settings, registry } = &*self.inner;
        let labelled = settings.labelled.as_deref().map(|selector| {
            let key = (Key::LabelledNamespaces, InformerScope::default());
            let make = || settings.labelled_namespaces(client, selector);
            registry.get(&key).unwrap_or_else(|| registry.add(key, make()))
        });
        // Before it starts, so that one call follows each.
        let labelled = labelled.filter(|namespaces| !namespaces.is_started());
        let running = registry.start();
        if let (Some(namespaces), Some(set)) = (labelled, &settings.namespaces)
            // A new informer has not stopped.
            && let Ok(events) = namespaces.subscribe(HandlerOptions::new().name("namespaces"))
        {
            namespaces.spawn(labelled::follow(events, set.clone()));
        }
        running
    }

    /// Returns the namespaces of the informers, to change them at run time; `None` if the factory was built without
    /// [`namespaces`](InformerFactoryBuilder::namespaces).
    pub fn namespaces(&self) -> Option<&NamespaceSet> {
        self.inner.settings.namespaces.as_ref()
    }

    /// Waits until all started informers have synced: their stores hold the complete initial list. Informers that were
    /// requested and not started are not waited for.
    ///
    /// There is no time limit; put a timeout around it, and read [`statuses`](Self::statuses) for the reason.
    ///
    /// # Errors
    /// If one of them stops before. The error names those that have not synced, with the last error of each.
    pub async fn wait_for_sync(&self) -> Result<(), SyncError> {
        let mut informers = self.inner.registry.all();
        let is_any_started = informers.iter().any(SharedInformer::is_started);
        informers.retain(|informer| {
            if is_any_started && !informer.is_started() {
                tracing::warn!(informer = informer.name(), "informer requested after start; call start again");
            }
            informer.is_started()
        });
        let mut waiting: Vec<BoxFuture<'_, _>> = Vec::new();
        for informer in &informers {
            waiting.push(Box::pin(informer.synced()));
        }
        // An informer that has stopped never syncs, so the first error ends the wait.
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

    /// Returns the state of each informer, by name.
    pub fn statuses(&self) -> Vec<InformerStatus> {
        let mut statuses: Vec<_> = self.inner.registry.all().iter().map(SharedInformer::status).collect();
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

#[cfg(test)]
mod tests;
