//! [`InformerFactoryBuilder`]: how the informers of a factory are to be.

use std::any::TypeId;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_client::{Client, PartialObjectMetadata, Unstructured, Wire};
use evenkeel_core::{Obj, ResourceInfo};
use kube_core::Resource;

use super::registry::{Key, Registry};
use super::settings::{KindSettings, Settings};
use super::{InformerFactory, Inner};
use crate::Object;
use crate::source::BoxError;

/// Makes an [`InformerFactory`].
///
/// Of what is said twice the last counts, and what is said of one kind counts more than what is said of all. Unless said,
/// informers are of all namespaces and all objects, and never resync.
///
/// ```
/// # fn example(client: evenkeel_client::Client) {
/// use std::time::Duration;
/// use evenkeel_cache::{Index, InformerFactory};
/// use k8s_openapi::api::core::v1::{Pod, Secret};
///
/// let informers = InformerFactory::builder(&client)
///     .namespace("prod")
///     .resync(Duration::from_secs(600))
///     .configure::<Secret>(|secrets| secrets.labels("app=web").resync(Duration::ZERO))
///     .configure::<Pod>(|pods| {
///         pods.fields("status.phase=Running").informer(|informer| {
///             informer.index(Index::by_object("app", |pod| pod.label("app").map(String::from)))
///         })
///     })
///     .build();
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is made until `build` is called"]
pub struct InformerFactoryBuilder {
    client: Client,
    settings: Settings,
}

impl InformerFactoryBuilder {
    pub(super) fn new(client: &Client) -> Self {
        InformerFactoryBuilder { client: client.clone(), settings: Settings::default() }
    }

    /// A name to put in front of those of the informers in logs and metrics, for programs with several factories.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = Some(name.into());
        self
    }

    /// How often handlers that do not say otherwise are told of all objects again; zero, which is the default, for never.
    pub fn resync(mut self, period: Duration) -> Self {
        self.settings.all.resync = Some(period);
        self
    }

    /// The same for one kind.
    pub fn resync_for<K: Resource + 'static>(self, period: Duration) -> Self {
        self.configure::<K>(|kind| kind.resync(period))
    }

    /// Only objects in this namespace, of those kinds that live in namespaces; empty for all of them.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.settings.all.namespace = Some(namespace.into());
        self
    }

    /// Only objects whose labels match: a text such as `app=web`, or a [`LabelSelector`](evenkeel_core::LabelSelector).
    pub fn labels(mut self, selector: impl ToString) -> Self {
        self.settings.all.labels = Some(selector.to_string());
        self
    }

    /// Only objects whose fields match: a text such as `metadata.name=n1`, or a
    /// [`FieldSelector`](evenkeel_core::FieldSelector). Few fields are known of all kinds; see
    /// [`configure`](Self::configure) for those of one.
    pub fn fields(mut self, selector: impl ToString) -> Self {
        self.settings.all.fields = Some(selector.to_string());
        self
    }

    /// The form that objects of all kinds have on their way, whatever the client says, as far as the kind has it. Unless
    /// said, built-in kinds come as protobuf, and those that are only known at run time as JSON. See [`ApiSource::wire`].
    ///
    /// [`ApiSource::wire`]: crate::source::ApiSource::wire
    pub fn wire(mut self, wire: Wire) -> Self {
        self.settings.all.wire = Some(wire);
        self
    }

    /// Changes objects of all kinds before they are stored, such as by taking their `managedFields` away. See
    /// [`InformerBuilder::transform`](crate::informer::InformerBuilder::transform).
    pub fn transform_all(
        mut self,
        transform: impl Fn(Object) -> Result<Object, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.settings.all.transform = Some(Arc::new(transform));
        self
    }

    /// Changes objects of one kind before they are stored, instead of [`transform_all`](Self::transform_all).
    pub fn transform<K: Resource + 'static>(
        self,
        transform: impl Fn(Obj<K>) -> Result<Obj<K>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.configure::<K>(|kind| kind.transform(transform))
    }

    /// Says how the informer of a kind is to be.
    pub fn configure<K: Resource + 'static>(mut self, say: impl FnOnce(KindSettings<K>) -> KindSettings<K>) -> Self {
        self.settings.configure(Key::Typed(TypeId::of::<K>()), say);
        self
    }

    /// The same for a kind that is only known now, and for those who ask for it with [`InformerFactory::dynamic`].
    pub fn configure_dynamic(
        mut self,
        info: &Arc<ResourceInfo>,
        say: impl FnOnce(KindSettings<Unstructured>) -> KindSettings<Unstructured>,
    ) -> Self {
        self.settings.configure(Key::Dynamic(Arc::clone(info)), say);
        self
    }

    /// The same for the metadata of a kind: [`InformerFactory::metadata_of`].
    pub fn configure_metadata(
        mut self,
        info: &Arc<ResourceInfo>,
        say: impl FnOnce(KindSettings<PartialObjectMetadata>) -> KindSettings<PartialObjectMetadata>,
    ) -> Self {
        self.settings.configure(Key::Metadata(Arc::clone(info)), say);
        self
    }

    /// The factory. Nothing runs before it is [started](InformerFactory::start).
    pub fn build(self) -> InformerFactory {
        let Self { client, settings } = self;
        InformerFactory { inner: Arc::new(Inner { client, settings, registry: Registry::default() }) }
    }
}
