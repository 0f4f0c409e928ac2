//! [`InformerFactoryBuilder`]: configures the informers of a factory.

use std::any::TypeId;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_client::{Client, PartialObjectMetadata, Unstructured, Wire};
use evenkeel_core::{ResourceInfo, Untyped};
use kube_core::Resource;

use super::kind_options::KindOptions;
use super::registry::Key;
use super::settings::Settings;
use super::{FactoryInner, InformerFactory};
use crate::informer::OnForbidden;
use crate::source::BoxError;
use crate::{NamespaceSet, Object};

/// Builds an [`InformerFactory`].
///
/// The methods set options of all informers; [`configure`](Self::configure) sets those of one kind, which take precedence.
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
///         pods.fields("status.phase=Running")
///             .index(Index::by_object("app", |pod| pod.label("app").map(String::from)))
///     })
///     .build();
/// # }
/// ```
#[derive(Debug)]
#[must_use = "does nothing until `build` is called"]
pub struct InformerFactoryBuilder {
    client: Client,
    settings: Settings,
}

impl InformerFactoryBuilder {
    pub(super) fn new(client: &Client) -> Self {
        InformerFactoryBuilder { client: client.clone(), settings: Settings::default() }
    }

    fn all(mut self, change: impl FnOnce(KindOptions<Untyped>) -> KindOptions<Untyped>) -> Self {
        self.settings.all = change(self.settings.all);
        self
    }

    /// Sets a prefix of the informers' names in logs and metrics, for programs with several factories.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = Some(name.into());
        self
    }

    /// Sets the resync period of handlers that have none: see [`KindOptions::resync`].
    pub fn resync(self, period: Duration) -> Self {
        self.all(|options| options.resync(period))
    }

    /// Selects the objects of one namespace; empty for all: see [`KindOptions::namespace`]. It replaces
    /// [`namespaces`](Self::namespaces).
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        (self.settings.namespaces, self.settings.labelled) = (None, None);
        self.all(|options| options.namespace(namespace))
    }

    /// Selects the objects of several namespaces, which [`InformerFactory::namespaces`] changes at run time: see [`NamespaceSet`]. The
    /// empty name stands for all other namespaces.
    ///
    /// A kind that [`configure`](Self::configure) gives a namespace of its own is not part of the set, and neither are cluster-scoped
    /// kinds.
    pub fn namespaces<S: AsRef<str>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.with_set(NamespaceSet::new(names), None)
    }

    /// Selects the objects of all namespaces whose labels match: a text such as `team=x`, or a
    /// [`LabelSelector`](evenkeel_core::LabelSelector). An informer of Namespaces changes the set.
    ///
    /// A namespace whose labels do not match any more leaves the set a second later, unless they match again by then.
    pub fn namespaces_labelled(self, selector: impl ToString) -> Self {
        let selector = selector.to_string();
        self.with_set(NamespaceSet::labelled(selector.clone()), Some(selector))
    }

    fn with_set(mut self, set: NamespaceSet, labelled: Option<String>) -> Self {
        self.settings.all.selection.namespace = None;
        (self.settings.namespaces, self.settings.labelled) = (Some(set), labelled);
        self
    }

    /// Sets what informers do while one of [several namespaces](Self::namespaces) is forbidden. Default: they do not sync.
    pub fn on_forbidden(self, policy: OnForbidden) -> Self {
        self.all(|options| options.on_forbidden(policy))
    }

    /// Selects objects by label: see [`KindOptions::labels`].
    pub fn labels(self, selector: impl ToString) -> Self {
        self.all(|options| options.labels(selector))
    }

    /// Selects objects by field: see [`KindOptions::fields`]. Few fields exist in all kinds.
    pub fn fields(self, selector: impl ToString) -> Self {
        self.all(|options| options.fields(selector))
    }

    /// Sets the encoding of lists and watches, as far as a kind supports it. Default: protobuf for built-in kinds, JSON for
    /// custom ones and those only known at run time. See [`KindOptions::wire`].
    pub fn wire(self, wire: Wire) -> Self {
        self.all(|options| options.wire(wire))
    }

    /// Sets how often informers check their stores against the server: see [`KindOptions::check_consistency`].
    pub fn check_consistency(self, interval: Duration) -> Self {
        self.all(|options| options.check_consistency(interval))
    }

    /// Sets a function that changes objects of all kinds before they are stored, such as
    /// [`drop_managed_fields`](crate::transform::drop_managed_fields). See [`KindOptions::transform`].
    pub fn transform_all(self, transform: impl Fn(Object) -> Result<Object, BoxError> + Send + Sync + 'static) -> Self {
        self.all(|options| options.transform(transform))
    }

    /// Sets options of one kind.
    pub fn configure<K: Resource + 'static>(
        mut self,
        configure: impl FnOnce(KindOptions<K>) -> KindOptions<K>,
    ) -> Self {
        self.settings.configure(Key::Typed(TypeId::of::<K>()), configure);
        self
    }

    /// Sets options of a kind that is only known at run time: [`InformerFactory::dynamic`].
    pub fn configure_dynamic(
        mut self,
        info: &Arc<ResourceInfo>,
        configure: impl FnOnce(KindOptions<Unstructured>) -> KindOptions<Unstructured>,
    ) -> Self {
        self.settings.configure(Key::Dynamic(Arc::clone(info)), configure);
        self
    }

    /// Sets options of the metadata of a kind: [`InformerFactory::metadata_of`].
    pub fn configure_metadata(
        mut self,
        info: &Arc<ResourceInfo>,
        configure: impl FnOnce(KindOptions<PartialObjectMetadata>) -> KindOptions<PartialObjectMetadata>,
    ) -> Self {
        self.settings.configure(Key::Metadata(Arc::clone(info)), configure);
        self
    }

    /// Returns the factory. [`InformerFactory::start`] starts its informers.
    pub fn build(self) -> InformerFactory {
        let Self { client, settings } = self;
        InformerFactory { inner: Arc::new(FactoryInner { client, settings, registry: Arc::default() }) }
    }
}

impl From<InformerFactoryBuilder> for InformerFactory {
    fn from(builder: InformerFactoryBuilder) -> Self {
        builder.build()
    }
}
