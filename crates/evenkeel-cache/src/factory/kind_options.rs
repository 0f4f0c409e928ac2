//! [`KindOptions`]: the options of one kind of a factory, with selectors.

use std::borrow::Cow;
use std::marker::PhantomData;

use evenkeel_client::{Query, Wire};

use crate::informer::{InformerOptions, InformerSettings, OnForbidden};

/// Options of one kind of a factory: [`InformerOptions`], and what the factory's source of that kind lists. The default: all
/// objects of all namespaces.
///
/// ```
/// use evenkeel_cache::factory::KindOptions;
///
/// fn of_one_app<K: 'static>(options: KindOptions<K>) -> KindOptions<K> {
///     options.namespace("prod").labels("app=web").page_size(200)
/// }
/// ```
pub type KindOptions<K> = InformerOptions<K, Selection>;

/// The objects that the source of a factory's informer lists, and their encoding: set by [`KindOptions`].
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub(super) namespace: Option<String>,
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
    pub(super) query: Option<Query>,
    pub(super) wire: Option<Wire>,
}

impl<K: 'static> InformerOptions<K, Selection> {
    /// Selects the objects of one namespace; empty for all. A kind with a namespace of its own is not part of the factory's
    /// [set](crate::NamespaceSet).
    ///
    /// For all kinds of a factory it does not affect cluster-scoped ones. In the options of one cluster-scoped kind it is a
    /// contradiction: the informer does not sync, and its status and errors about the sync say why.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.selection.namespace = Some(namespace.into());
        self
    }

    /// Selects objects by label: a text such as `app=web`, or a [`LabelSelector`](evenkeel_core::LabelSelector).
    pub fn labels(mut self, selector: impl ToString) -> Self {
        self.selection.labels = Some(selector.to_string());
        self
    }

    /// Sets what the informer does while one of the factory's [namespaces](crate::NamespaceSet) is forbidden. Default: it does not
    /// sync.
    pub fn on_forbidden(mut self, policy: OnForbidden) -> Self {
        self.settings.on_forbidden = Some(policy);
        self
    }

    /// Selects objects by field: a text such as `spec.nodeName=n1`, or a [`FieldSelector`](evenkeel_core::FieldSelector). The field
    /// `metadata.namespace=x` makes requests in that namespace, so that a Role is enough.
    pub fn fields(mut self, selector: impl ToString) -> Self {
        self.selection.fields = Some(selector.to_string());
        self
    }

    /// Adds an option of newer servers to lists and watches as a query parameter. An option that has
    /// a method here, or that the informer sets itself, is an error of every list. The options of a kind replace those of the
    /// factory.
    ///
    /// The factory cannot know which objects such an option selects: a controller does not wait for the informer to show its
    /// own writes of this kind.
    pub fn query(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        self.selection.query.get_or_insert_default().add(name, value.into());
        self
    }

    /// Sets the encoding of lists and watches: see [`Wire`].
    pub fn wire(mut self, wire: Wire) -> Self {
        self.selection.wire = Some(wire);
        self
    }

    /// Returns the same options for objects that are decoded as `L`.
    pub(super) fn cast<L>(self) -> KindOptions<L> {
        InformerOptions { settings: self.settings, selection: self.selection, kind: PhantomData }
    }

    /// Returns the options of the informer, and what its source lists.
    pub(super) fn split(self) -> (InformerOptions<K>, Selection) {
        (InformerOptions { settings: self.settings, selection: (), kind: PhantomData }, self.selection)
    }

    /// Returns these options, with unset ones taken from `defaults`.
    pub(super) fn or(self, defaults: &Self) -> Self {
        let (own, all) = (self.selection, &defaults.selection);
        InformerOptions {
            settings: self.settings.or(&defaults.settings),
            selection: Selection {
                namespace: own.namespace.or_else(|| all.namespace.clone()),
                labels: own.labels.or_else(|| all.labels.clone()),
                fields: own.fields.or_else(|| all.fields.clone()),
                query: own.query.or_else(|| all.query.clone()),
                wire: own.wire.or(all.wire),
            },
            kind: PhantomData,
        }
    }
}

impl InformerSettings {
    /// Returns these settings, with unset ones taken from `defaults`.
    fn or(self, defaults: &Self) -> Self {
        let mut indexes = defaults.indexes.clone();
        indexes.extend(self.indexes);
        InformerSettings {
            name: self.name.or_else(|| defaults.name.clone()),
            resync: self.resync.or(defaults.resync),
            queue: self.queue.or(defaults.queue),
            indexes,
            transform: self.transform.or_else(|| defaults.transform.clone()),
            on_transform_error: self.on_transform_error.or(defaults.on_transform_error),
            on_error: self.on_error.or_else(|| defaults.on_error.clone()),
            pack: self.pack.or(defaults.pack),
            watch_list: self.watch_list.or(defaults.watch_list),
            consistent_restart: self.consistent_restart.or(defaults.consistent_restart),
            page_size: self.page_size.or(defaults.page_size),
            backoff: self.backoff.or(defaults.backoff),
            max_list_objects: self.max_list_objects.or(defaults.max_list_objects),
            max_list_bytes: self.max_list_bytes.or(defaults.max_list_bytes),
            check_interval: self.check_interval.or(defaults.check_interval),
            on_forbidden: self.on_forbidden.or(defaults.on_forbidden),
            shards: self.shards.or_else(|| defaults.shards.clone()),
        }
    }
}
