//! [`ListQuery`]: reads of a store by labels, fields and namespace, with a limit.

use std::sync::Arc;

use evenkeel_core::status::qualified;
use evenkeel_core::{FieldOperator, FieldSelector, FieldTerm, LabelSelector, Obj, ResourceInfo};

use super::{Lister, LookupError};
use crate::store::NAMESPACE_INDEX;

/// Which objects of a store are read: see [`Lister::select`]. The default: all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a query does nothing until it is passed to a lister"]
pub struct ListQuery {
    labels: LabelSelector,
    fields: FieldSelector,
    namespace: Option<String>,
    limit: Option<usize>,
}

/// Why a [`ListQuery`] cannot be answered from a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// The term compares by something else than equality.
    #[error(
        "cannot read {} where {term}: non-exact field matches are not supported by the cache",
        qualified(resource.group(), resource.plural())
    )]
    NotExact {
        /// The requested kind.
        resource: Arc<ResourceInfo>,
        /// The term.
        term: String,
    },
    /// The store has no index of the field.
    #[error(
        "cannot read {} by {field}: the store has no index of this name; add `Index::field({field:?})`",
        qualified(resource.group(), resource.plural())
    )]
    NoIndex {
        /// The requested kind.
        resource: Arc<ResourceInfo>,
        /// The field.
        field: String,
    },
    /// The namespace cannot be read.
    #[error(transparent)]
    Namespace(LookupError),
}

impl ListQuery {
    /// Returns a query of all objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects objects by label.
    pub fn labels(mut self, selector: LabelSelector) -> Self {
        self.labels = selector;
        self
    }

    /// Selects objects by field. Every term is an equality. Each field but `metadata.name` and `metadata.namespace` needs an
    /// index of its name, such as [`Index::field`](crate::Index::field) makes.
    pub fn fields(mut self, selector: FieldSelector) -> Self {
        self.fields = selector;
        self
    }

    /// Selects the objects of one namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sets how many objects are returned at most. There are no continue tokens: a store is not paged.
    pub fn limit(mut self, objects: usize) -> Self {
        self.limit = Some(objects);
        self
    }
}

impl<K> Lister<K> {
    /// Returns the objects that a query selects, in no particular order; sorted by key for an informer of
    /// [several namespaces](crate::NamespaceSet).
    ///
    /// ```
    /// use evenkeel_cache::lister::ListQuery;
    /// use evenkeel_cache::{Index, Lister, Obj, ResourceInfo, Store};
    /// use evenkeel_core::FieldSelector;
    /// use k8s_openapi::api::core::v1::Pod;
    /// # use std::sync::Arc;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let info = Arc::new(ResourceInfo::of::<Pod>());
    /// let pods = Store::<Pod>::new([Index::field("spec.nodeName")?]);
    /// let json = r#"{"metadata": {"namespace": "a", "name": "web"}, "spec": {"nodeName": "n1", "containers": []}}"#;
    /// pods.put(Obj::from_json(&info, json)?);
    /// let lister = Lister::over(&pods, &info);
    /// let here = ListQuery::new().fields(FieldSelector::parse("spec.nodeName=n1")?).limit(10);
    /// assert_eq!(lister.select(&here)?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If a term of the field selector is no equality or has no index, or if the namespace is not in the
    /// [set](crate::NamespaceSet) of the informer.
    pub fn select(&self, query: &ListQuery) -> Result<Vec<Obj<K>>, SelectError> {
        let terms = query.fields.terms();
        if let Some(term) = terms.iter().find(|term| term.operator != FieldOperator::Equals) {
            return Err(SelectError::NotExact { resource: Arc::clone(&self.info), term: term.to_string() });
        }
        let namespace = query.namespace.as_deref().or_else(|| query.fields.exact("metadata.namespace"));
        if let Some(error) = namespace.and_then(|namespace| self.out_of_scope(namespace)) {
            return Err(SelectError::Namespace(error));
        }
        let is_of_key = |term: &&FieldTerm| matches!(&*term.field, "metadata.name" | "metadata.namespace");
        let mut indexed = terms.iter().filter(|term| !is_of_key(term));
        let snapshot = self.indexer.snapshot();
        let no_index = |field: &str| SelectError::NoIndex { resource: Arc::clone(&self.info), field: field.to_owned() };
        let by_index = |name: &str, value: &str| snapshot.by_index(name, value).map_err(|_| no_index(name));
        let candidates: Box<dyn Iterator<Item = &Obj<K>>> = match (indexed.next(), namespace) {
            (Some(term), _) => Box::new(by_index(&term.field, &term.value)?),
            (None, Some(namespace)) => match by_index(NAMESPACE_INDEX, namespace) {
                Ok(objects) => Box::new(objects),
                Err(_) => Box::new(snapshot.iter()),
            },
            (None, None) => Box::new(snapshot.iter()),
        };
        // An index that is missing is an error whatever the objects are.
        for term in indexed.clone() {
            drop(by_index(&term.field, &term.value)?);
        }
        let of_key = |object: &Obj<K>| {
            let own = object.key().namespace().unwrap_or_default();
            terms.iter().filter(is_of_key).all(|term| match &*term.field {
                "metadata.name" => object.key().name() == term.value,
                _ => own == term.value,
            }) && namespace.is_none_or(|namespace| own == namespace)
        };
        let is_indexed = |object: &Obj<K>| {
            let has = |term: &FieldTerm| self.indexer.is_found_under(&term.field, &term.value, object);
            indexed.clone().all(|term| has(term).unwrap_or(false))
        };
        let is_labelled =
            |object: &Obj<K>| query.labels.is_empty() || query.labels.matches(|label| object.label(label));
        let found = candidates.filter(|object| of_key(object) && is_labelled(object) && is_indexed(object)).cloned();
        let limit = query.limit.unwrap_or(usize::MAX);
        if !self.has_several_namespaces() {
            return Ok(found.take(limit).collect());
        }
        let mut found = self.ordered(found.collect());
        found.truncate(limit);
        Ok(found)
    }
}
