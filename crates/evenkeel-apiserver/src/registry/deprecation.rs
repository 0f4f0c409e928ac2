//! Deprecated kinds: every response about them carries a Warning (MSC-20).

use super::Resource;
use crate::version::ServerVersion;

/// A built-in kind of the core group that is deprecated.
struct Deprecation {
    plural: &'static str,
    /// The minor release since which it is.
    since: u8,
    replacement: Option<&'static str>,
}

const DEPRECATED: [Deprecation; 2] = [
    Deprecation { plural: "componentstatuses", since: 19, replacement: None },
    Deprecation { plural: "endpoints", since: 33, replacement: Some("discovery.k8s.io/v1 EndpointSlice") },
];

/// Returns the warning about a kind that is deprecated in this release: the text of kube-apiserver, or that of the
/// definition.
pub(crate) fn deprecation_warning(resource: &Resource, release: ServerVersion) -> Option<String> {
    if let Some(custom) = &resource.custom {
        return custom.deprecation_warning.clone();
    }
    let known = DEPRECATED.iter().find(|known| known.plural == resource.plural && resource.group.is_empty())?;
    if release.minor() < known.since {
        return None;
    }
    let replacement = known.replacement.map(|kind| format!("; use {kind}")).unwrap_or_default();
    Some(format!("{} {} is deprecated in v1.{}+{replacement}", resource.version, resource.kind, known.since))
}
