//! [`NamespaceSetError`]: why a set of namespaces was not changed.

/// Why a [`NamespaceSet`](super::NamespaceSet) was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceSetError {
    /// The text is not the name of a namespace.
    #[error("{name:?} is not the name of a namespace: it needs 1 to 63 of a-z, 0-9 and -, and no - at its ends")]
    InvalidName {
        /// The text.
        name: String,
    },
    /// A label selector determines the set.
    #[error("the set follows the namespaces with labels {selector}; label or unlabel {name} instead")]
    FollowsLabels {
        /// The namespace that was to be added or removed.
        name: String,
        /// The label selector.
        selector: String,
    },
    /// The set is full. Each namespace is a watch for each kind.
    #[error("{name} was not added: the set has {limit} namespaces, which is its limit")]
    TooMany {
        /// The namespace that was to be added.
        name: String,
        /// The limit.
        limit: usize,
    },
}
