//! [`ShardKey`]: what clients compute the place of an object from.

use super::{ShardField, place};
use crate::header::Header;
use crate::resource::ResourceInfo;

/// The text whose hash is the place of an object for a client. API servers know two of them: [`ShardField`].
///
/// | key | text | filtered by |
/// |---|---|---|
/// | `Namespace` | `metadata.namespace`; empty for cluster-scoped objects | server and client |
/// | `Name` | `metadata.name` | client |
/// | `Uid` | `metadata.uid` | server and client |
/// | `OwnerUid` | the uid of the controlling owner; of the object itself if it has none | client |
/// | `Key` | `namespace/name`; the name alone for cluster-scoped objects | client |
///
/// # Guarantees
///
/// - Under `Namespace`, an object and the namespaced objects that it owns have one place. [`of_kind`](Self::of_kind) gives the Namespace
///   itself that place.
/// - Under `Uid` for a kind and `OwnerUid` for the kinds that it owns, an object and what it controls have one place.
///
/// # Not guaranteed
///
/// An object that is deleted and created again keeps its place only under keys [by name](Self::is_by_name).
/// Under `OwnerUid` an object changes its place when it is adopted or released: [`is_fixed`](Self::is_fixed).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShardKey {
    /// The namespace.
    Namespace,
    /// The name: for the kind Namespace, under a key by namespace.
    Name,
    /// The uid.
    Uid,
    /// The uid of the owner that is the controller.
    OwnerUid,
    /// Namespace and name.
    Key,
}

impl ShardKey {
    /// Returns the key for objects of a kind: [`Name`](Self::Name) instead of [`Namespace`](Self::Namespace) for the kind Namespace,
    /// otherwise the same.
    ///
    /// ```
    /// use evenkeel_core::ResourceInfo;
    /// use evenkeel_core::shard::ShardKey;
    ///
    /// let namespaces = ResourceInfo::new("", "v1", "Namespace", "namespaces", false);
    /// let pods = ResourceInfo::new("", "v1", "Pod", "pods", true);
    /// assert_eq!(ShardKey::Namespace.of_kind(&namespaces), ShardKey::Name);
    /// assert_eq!(ShardKey::Namespace.of_kind(&pods), ShardKey::Namespace);
    /// ```
    pub fn of_kind(self, resource: &ResourceInfo) -> ShardKey {
        let is_namespace = resource.kind() == "Namespace" && resource.group().is_empty();
        if self == ShardKey::Namespace && is_namespace { ShardKey::Name } else { self }
    }

    /// Returns the place of an object.
    pub fn place_of(self, object: &Header) -> u64 {
        match self {
            ShardKey::Namespace => ShardField::Namespace.place_of(object),
            ShardKey::Name => place(object.key().name()),
            ShardKey::Uid => ShardField::Uid.place_of(object),
            ShardKey::OwnerUid => place(object.controller().map_or(object.uid(), |owner| owner.uid)),
            ShardKey::Key => place(object.key().as_str()),
        }
    }

    /// Returns the field by which API servers filter like this key; `None` if only the client can.
    pub fn field(self) -> Option<ShardField> {
        match self {
            ShardKey::Namespace => Some(ShardField::Namespace),
            ShardKey::Uid => Some(ShardField::Uid),
            ShardKey::Name | ShardKey::OwnerUid | ShardKey::Key => None,
        }
    }

    /// Returns whether namespace and name determine the place. Otherwise an object that is deleted and created again has another one.
    pub fn is_by_name(self) -> bool {
        matches!(self, ShardKey::Namespace | ShardKey::Name | ShardKey::Key)
    }

    /// Returns whether an object keeps its place for as long as it exists.
    pub fn is_fixed(self) -> bool {
        self != ShardKey::OwnerUid
    }
}

impl From<ShardField> for ShardKey {
    fn from(field: ShardField) -> Self {
        match field {
            ShardField::Namespace => ShardKey::Namespace,
            ShardField::Uid => ShardKey::Uid,
        }
    }
}
