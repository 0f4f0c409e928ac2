//! [`View`]: decoded values that are stored beside the objects, for reads at the speed of a pointer.

mod definition;
mod error;
mod event;
mod registry;
mod snapshot;

use std::fmt;
use std::sync::Arc;

use evenkeel_core::Obj;
use serde::de::DeserializeOwned;

pub(crate) use self::definition::PreparedView;
use self::definition::ViewDefinition;
pub use self::error::ViewError;
pub use self::event::ViewEvent;
use self::event::ViewHandler;
pub(crate) use self::registry::Views;
pub use self::snapshot::ViewSnapshot;
use crate::informer::metrics::ViewMetrics;
use crate::lister::ListerKey;
use crate::source::BoxError;
use crate::store::IndexError;
use crate::{Handler, Index, Indexer, SharedInformer};

/// Values of type `V`, one for each object of kind `K` in a store: the fields that a program reads often, decoded.
///
/// The value of an object is stored with it. A read returns a pointer to it: nothing is decoded, and no other lock is taken than that
/// of the store. A view costs the memory of its values, a list of pointers to them, and the decoding of each object that is stored.
/// Cheap to clone.
///
/// [`SharedInformer::view`] returns the view of a type with the fields to decode; [`SharedInformer::view_by`] that of a function.
///
/// # Guarantees
///
/// - A value belongs to the very object that the store holds, never to another version of it.
/// - The informer evaluates the value of an object before it stores the object, so that reads find it. Objects that were stored before
///   the view was requested are evaluated by a task of the informer in steps of 256 objects, or by the first read of an
///   object that the task has not reached.
/// - Each state of an object is evaluated once. Two threads that read an object before that may evaluate it twice; both return the same
///   value.
/// - An object that has no value (it does not fit `V`, or the function failed or panicked) keeps its error, which reads return. It is
///   logged with its key, counted in [`VIEW_FAILURES`](crate::metrics::VIEW_FAILURES), and does not affect other objects.
/// - A view stays for as long as its informer, as indexes do. Requesting it again returns the same view.
///
/// # Not guaranteed
///
/// - That a deleted object has a value without being decoded: the watch sends its last state, which was never stored. It is
///   evaluated on first use.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use evenkeel_cache::testing::FakeSource;
/// use evenkeel_cache::{InformerOptions, SharedInformer};
/// use k8s_openapi::api::core::v1::Pod;
///
/// #[derive(serde::Deserialize)]
/// struct PodView {
///     spec: SpecView,
/// }
///
/// #[derive(serde::Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct SpecView {
///     node_name: Option<String>,
/// }
///
/// # let source = FakeSource::of::<Pod>();
/// # source.add(serde_json::json!({"metadata": {"namespace": "default", "name": "web-0"}, "spec": {"nodeName": "node-1"}}))?;
/// let pods = SharedInformer::<Pod>::new(source.clone(), source.resource(), InformerOptions::new());
/// let view = pods.view::<PodView>();
/// pods.add_indexes([view.index("node", |pod| pod.spec.node_name.clone())])?;
/// let running = pods.start();
/// pods.synced().await?;
/// # let key = evenkeel_cache::ObjectKey::namespaced("default", "web-0");
/// let pod = view.get(&key)?.ok_or("no such pod")?; // an `Arc<PodView>`
/// assert_eq!(pod.spec.node_name.as_deref(), Some("node-1"));
/// for (pod, fields) in view.snapshot().iter() {
///     println!("{} runs on {:?}", pod.key(), fields.spec.node_name);
/// }
/// assert_eq!(view.by_index("node", "node-1")?.len(), 1);
/// # running.drain().await;
/// # Ok(())
/// # }
/// ```
pub struct View<K, V> {
    indexer: Indexer<K>,
    definition: Arc<ViewDefinition<V>>,
}

/// The number of objects that are evaluated before other tasks run, for a view that was requested after the start of its informer.
pub(crate) const BUILD_STEP: usize = 256;

impl<K: 'static> SharedInformer<K> {
    /// Returns the view that decodes objects as `V`: any type with the fields that a program needs, which need not be all fields of
    /// `K`. The same type returns the same view.
    ///
    /// Fields are decoded as from JSON, whatever the wire format: see the example of [`View`].
    pub fn view<V: DeserializeOwned + Send + Sync + 'static>(&self) -> View<K, V> {
        self.registered(None, ViewDefinition::<V>::decoding)
    }

    /// Returns the view by a function of an object's header or payload, for values that differ in shape from the object. The same name
    /// and type return the same view, with the function that was given first.
    ///
    /// The function is called without a lock. It must depend on the object alone. If it fails or panics, the object has no value.
    ///
    /// ```
    /// # fn example(pods: evenkeel_cache::SharedInformer<k8s_openapi::api::core::v1::Pod>) {
    /// use evenkeel_core::DecodeError;
    ///
    /// let nodes = pods.view_by("node", |pod| {
    ///     Ok::<_, DecodeError>(pod.path("spec.nodeName")?.map(|node| node.text().into_owned()))
    /// });
    /// # drop(nodes);
    /// # }
    /// ```
    pub fn view_by<V: Send + Sync + 'static, E: Into<BoxError>>(
        &self,
        name: &str,
        function: impl Fn(&Obj<K>) -> Result<V, E> + Send + Sync + 'static,
    ) -> View<K, V> {
        self.registered(Some(name), |metrics| ViewDefinition::by(name, function, metrics))
    }

    fn registered<V: Send + Sync + 'static>(
        &self,
        name: Option<&str>,
        define: impl FnOnce(Option<ViewMetrics>) -> ViewDefinition<V>,
    ) -> View<K, V> {
        let shown = name.unwrap_or(definition::type_name::<V>());
        let metrics = || Some(self.view_metrics(shown));
        let (definition, is_new) = self.views().get_or_register(name, || define(metrics()));
        if is_new {
            self.build_view(Arc::clone(&definition) as _);
        }
        View { indexer: self.indexer(), definition }
    }
}

impl<K, V: Send + Sync + 'static> View<K, V> {
    /// Returns a view of any store that decodes objects as `V`, for tests of code that takes a view. Objects are evaluated when they
    /// are read first.
    pub fn over(indexer: &Indexer<K>) -> Self
    where
        V: DeserializeOwned,
    {
        View { indexer: indexer.clone(), definition: Arc::new(ViewDefinition::decoding(None)) }
    }

    /// Returns the name of the view in logs and metrics: that of its type, or the given one.
    pub fn name(&self) -> &str {
        self.definition.name()
    }

    /// Returns the value of the object with this key, or with this name if the kind is cluster-scoped; `None` if it is not stored.
    ///
    /// # Errors
    /// If the object has no value in this view.
    pub fn get(&self, key: impl ListerKey<K>) -> Result<Option<Arc<V>>, Arc<ViewError>> {
        let look_up = |object: &crate::Object| self.definition.stored(object).ok_or_else(|| object.clone());
        match self.indexer.table().look_up(key.store_bytes(), look_up) {
            None => Ok(None),
            Some(Ok(value)) => value.map(Some),
            // Evaluated without the lock.
            Some(Err(object)) => self.definition.of(&object).map(Some),
        }
    }

    /// Returns the value of an object, such as that of a notification. An object that was never stored is evaluated now, once.
    ///
    /// # Errors
    /// If the object has no value in this view.
    pub fn of(&self, object: &Obj<K>) -> Result<Arc<V>, Arc<ViewError>> {
        self.definition.of(object)
    }

    /// Returns all values, in no particular order. Objects without a value are left out: see [`ViewSnapshot::errors`].
    pub fn list(&self) -> Vec<Arc<V>> {
        let objects = self.indexer.snapshot();
        let mut values = Vec::with_capacity(objects.len());
        values.extend(objects.iter().filter_map(|object| self.definition.of(object).ok()));
        values
    }

    /// Returns the values of the objects with a value in an index, in no particular order. Objects without a value in the view are
    /// left out.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<V>>, IndexError> {
        let objects = self.indexer.snapshot();
        let found = objects.by_index(name, value)?;
        Ok(found.filter_map(|object| self.definition.of(object).ok()).collect())
    }

    /// Returns the objects and their values at this moment, for several reads or for many objects, by reference.
    pub fn snapshot(&self) -> ViewSnapshot<K, V> {
        ViewSnapshot { objects: self.indexer.snapshot(), definition: Arc::clone(&self.definition) }
    }
}

impl<K: 'static, V: Send + Sync + 'static> View<K, V> {
    /// Returns an index by a function of the value, for [`SharedInformer::add_indexes`]. Objects without a value in the view have none
    /// in the index.
    pub fn index<I>(&self, name: &str, values: impl Fn(&V) -> I + Send + Sync + 'static) -> Index<K>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        // The index must not hold the store, which holds the index.
        let definition = Arc::clone(&self.definition);
        Index::by_object(name, move |object| {
            let value = definition.borrowed(object).and_then(Result::ok);
            value.map(&values).into_iter().flatten()
        })
    }

    /// Returns a handler that receives old and new value with each notification, for [`SharedInformer::add_handler`].
    ///
    /// ```
    /// # use evenkeel_cache::informer::Stopped;
    /// # use evenkeel_cache::{SharedInformer, ViewEvent};
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn example(pods: SharedInformer<Pod>) -> Result<(), Stopped> {
    /// let phases = pods.view_by("phase", |pod| {
    ///     pod.path("status.phase").map(|phase| phase.map(|phase| phase.text().into_owned()))
    /// });
    /// pods.add_handler(phases.handler(|event: ViewEvent<Pod, Option<String>>| {
    ///     if event.old != event.new {
    ///         println!("{}: {:?} -> {:?}", event.event.key(), event.old, event.new);
    ///     }
    /// }))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn handler<F: FnMut(ViewEvent<K, V>) + Send + 'static>(&self, handle: F) -> impl Handler<K> + use<K, V, F> {
        ViewHandler { definition: Arc::clone(&self.definition), handle }
    }
}

impl<K, V> Clone for View<K, V> {
    fn clone(&self) -> Self {
        View { indexer: self.indexer.clone(), definition: Arc::clone(&self.definition) }
    }
}

impl<K, V: Send + Sync + 'static> fmt::Debug for View<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("name", &self.name()).field("indexer", &self.indexer).finish()
    }
}

#[cfg(test)]
mod tests;
