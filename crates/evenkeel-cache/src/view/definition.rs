//! [`ViewDefinition`]: the function of a view, and its values, which are attached to the objects.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_core::{Obj, Untyped};
use serde::de::DeserializeOwned;

use super::error::ViewError;
use crate::Object;
use crate::informer::metrics::ViewMetrics;
use crate::source::BoxError;

type AttachedValue = Arc<dyn Any + Send + Sync>;

/// Ids are never reused: an object keeps its values for as long as it exists.
static LAST_ID: AtomicU64 = AtomicU64::new(0);

/// The function of a view, which is evaluated once for each object. Value or error are attached to the object.
pub(crate) struct ViewDefinition<V> {
    id: u64,
    name: Arc<str>,
    function: Box<ViewFunction<V>>,
    /// None without an informer.
    metrics: Option<ViewMetrics>,
}

type ViewFunction<V> = dyn Fn(&Object, &Arc<str>) -> Result<V, ViewError> + Send + Sync;

impl<V: Send + Sync + 'static> ViewDefinition<V> {
    fn new(name: &str, function: Box<ViewFunction<V>>, metrics: Option<ViewMetrics>) -> Self {
        let id = LAST_ID.fetch_add(1, Ordering::Relaxed);
        ViewDefinition { id, name: name.into(), function, metrics }
    }

    /// Returns a view that decodes objects as `V`.
    pub(super) fn decoding(metrics: Option<ViewMetrics>) -> Self
    where
        V: DeserializeOwned,
    {
        let decode = |object: &Object, view: &Arc<str>| {
            object.decode_as().map_err(|source| ViewError::Decode { view: Arc::clone(view), source })
        };
        Self::new(type_name::<V>(), Box::new(decode), metrics)
    }

    /// Returns a view by a function of the object.
    pub(super) fn by<K: 'static, E: Into<BoxError>>(
        name: &str,
        function: impl Fn(&Obj<K>) -> Result<V, E> + Send + Sync + 'static,
        metrics: Option<ViewMetrics>,
    ) -> Self {
        let call = move |object: &Object, view: &Arc<str>| {
            function(object.as_kind()).map_err(|error| ViewError::Function {
                view: Arc::clone(view),
                kind: object.kind().into(),
                key: object.key().clone(),
                source: error.into(),
            })
        };
        Self::new(name, Box::new(call), metrics)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the value that is stored with the object; `None` if it was not evaluated.
    #[inline]
    pub(super) fn stored(&self, object: &Object) -> Option<Result<Arc<V>, Arc<ViewError>>> {
        shared(object.attached(self.id)?)
    }

    /// Returns the value of an object, evaluated now if it was not before.
    pub(super) fn of<K>(&self, object: &Obj<K>) -> Result<Arc<V>, Arc<ViewError>> {
        let object = object.as_kind::<Untyped>();
        // An id is used for one type only, so what is attached is a value or an error.
        shared(self.attached(object)).unwrap_or_else(|| self.evaluate(object).map(Arc::new).map_err(Arc::new))
    }

    /// Borrows the value of an object, evaluated now if it was not before.
    #[inline]
    pub(super) fn borrowed<'o, K>(&self, object: &'o Obj<K>) -> Option<Result<&'o V, &'o ViewError>> {
        let attached = self.attached(object.as_kind());
        attached.downcast_ref().map(Ok).or_else(|| attached.downcast_ref().map(Err))
    }

    #[inline]
    fn attached<'o>(&self, object: &'o Object) -> &'o AttachedValue {
        object.attached(self.id).unwrap_or_else(|| self.attach(object))
    }

    #[cold]
    fn attach<'o>(&self, object: &'o Object) -> &'o AttachedValue {
        let value: AttachedValue = match self.evaluate(object) {
            Ok(value) => Arc::new(value),
            Err(error) => {
                if let Some(metrics) = &self.metrics {
                    metrics.failed();
                }
                tracing::warn!(view = &*self.name, key = %object.key(), %error, "object has no value in this view");
                Arc::new(error)
            }
        };
        object.get_or_attach(self.id, value)
    }

    fn evaluate(&self, object: &Object) -> Result<V, ViewError> {
        let call = AssertUnwindSafe(|| (self.function)(object, &self.name));
        catch_unwind(call).unwrap_or_else(|panic| {
            Err(ViewError::Panicked {
                view: Arc::clone(&self.name),
                kind: object.kind().into(),
                key: object.key().clone(),
                message: crate::panic_message(&*panic).into(),
            })
        })
    }
}

fn shared<V: Send + Sync + 'static>(attached: &AttachedValue) -> Option<Result<Arc<V>, Arc<ViewError>>> {
    match Arc::clone(attached).downcast() {
        Ok(value) => Some(Ok(value)),
        Err(other) => other.downcast().ok().map(Err),
    }
}

/// A view of any type, for the process loop.
pub(crate) trait PreparedView: Any + Send + Sync {
    /// Evaluates the view of an object, unless this was done before.
    fn prepare(&self, object: &Object);
}

impl<V: Send + Sync + 'static> PreparedView for ViewDefinition<V> {
    fn prepare(&self, object: &Object) {
        self.attached(object);
    }
}

/// Returns the name of a type without its module and parameters.
pub(super) fn type_name<V>() -> &'static str {
    let path = std::any::type_name::<V>();
    let path = path.split_once('<').map_or(path, |(path, _)| path);
    path.rsplit_once("::").map_or(path, |(_, name)| name)
}
