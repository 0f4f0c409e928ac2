//! [`InformerFactory::covers`]: whether an informer will show a written object.

use std::any::TypeId;
use std::sync::Arc;

use evenkeel_client::{PartialObjectMetadata, Unstructured};
use evenkeel_core::{FieldSelector, Header, LabelSelector, ObjectKey, ResourceInfo};

use super::InformerFactory;
use super::registry::{InformerScope, Key};

impl InformerFactory {
    /// Returns whether the informer of a kind will show an object that was written: whether the object is in a namespace of the
    /// informer, matches its selectors, and has a place in its range.
    ///
    /// `K` is the type of the informer: `Unstructured` for [`dynamic`](Self::dynamic), `PartialObjectMetadata` for
    /// [`metadata`](Self::metadata).
    ///
    /// A header contains the fields `metadata.name` and `metadata.namespace` only. Terms of a field selector about other fields count
    /// as matching. An informer with [query parameters](crate::factory::KindOptions::query) covers nothing, because only the
    /// server knows what they select.
    pub fn covers<K: 'static>(&self, info: &Arc<ResourceInfo>, key: &ObjectKey, object: &Header) -> bool {
        let kind = TypeId::of::<K>();
        let registered = if kind == TypeId::of::<Unstructured>() {
            Key::Dynamic(Arc::clone(info))
        } else if kind == TypeId::of::<PartialObjectMetadata>() {
            Key::Metadata(Arc::clone(info))
        } else {
            Key::Typed(kind)
        };
        let (scope, set) = self.inner.settings.scope(&registered, info.namespaced());
        let InformerScope { namespace, labels, fields, query, shards: _ } = scope;
        let shards = self.inner.settings.options(&registered).settings.shards;
        if !query.is_empty() {
            return false;
        }
        if !namespace.is_empty() && key.namespace().is_some_and(|own| own != namespace) {
            return false;
        }
        if let (Some(set), Some(own)) = (set, key.namespace())
            && !set.covers(own)
        {
            return false;
        }
        // An informer with an invalid selector never syncs, so there is nothing to decide.
        let labels = LabelSelector::parse(&labels).ok();
        let fields = FieldSelector::parse(&fields).ok();
        shards.is_none_or(|shards| shards.matches(info, object))
            && labels.is_none_or(|labels| labels.matches(|label| object.label(label)))
            && fields.is_none_or(|fields| may_match(&fields, key))
    }
}

/// Returns whether an object of this key can match. Only the fields of the key are known.
fn may_match(fields: &FieldSelector, key: &ObjectKey) -> bool {
    fields.terms().iter().all(|term| {
        let known = match term.field.as_str() {
            "metadata.name" => key.name(),
            "metadata.namespace" => key.namespace().unwrap_or_default(),
            _ => return true,
        };
        (known == term.value) == (term.operator == evenkeel_core::FieldOperator::Equals)
    })
}
