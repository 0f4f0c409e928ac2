//! Paths of hooks.

use evenkeel_core::ResourceInfo;

use crate::admission::HookKind;

/// The path of the conversions of all kinds.
pub(crate) const CONVERT_PATH: &str = "/convert";

/// Returns the path of a kind, as controller-runtime and kubebuilder derive it.
pub(crate) fn of_kind(hook: HookKind, kind: &ResourceInfo) -> String {
    let verb = match hook {
        HookKind::Mutating => "mutate",
        HookKind::Validating => "validate",
    };
    let group = kind.group().replace('.', "-");
    format!("/{verb}-{group}-{}-{}", kind.version(), kind.kind().to_lowercase())
}

/// Why a path cannot be that of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// It does not start with a slash.
    #[error("it does not start with /")]
    NoSlash,
    /// A segment is empty.
    #[error("segment {segment} is empty")]
    EmptySegment {
        /// The number of the segment, from 0.
        segment: usize,
    },
    /// A segment is no DNS subdomain.
    #[error(
        "segment {segment}, {text:?}, is no DNS subdomain: lower case letters, digits, - and ., at most 253, starting and ending with a letter or digit"
    )]
    NoSubdomain {
        /// The number of the segment, from 0.
        segment: usize,
        /// The segment.
        text: String,
    },
}

/// Checks a path by the rule of API servers for `clientConfig.service.path`.
pub(crate) fn check(path: &str) -> Result<(), PathError> {
    let segments = path.strip_prefix('/').ok_or(PathError::NoSlash)?;
    if segments.is_empty() {
        return Ok(());
    }
    for (segment, text) in segments.split('/').enumerate() {
        if text.is_empty() {
            return Err(PathError::EmptySegment { segment });
        }
        if !is_dns_subdomain(text) {
            return Err(PathError::NoSubdomain { segment, text: text.to_owned() });
        }
    }
    Ok(())
}

/// Returns whether a text is a DNS subdomain of RFC 1123, as names of most objects.
pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    let is_edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        is_edge(bytes.first()) && is_edge(bytes.last()) && bytes.iter().all(|byte| is_edge(Some(byte)) || *byte == b'-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use k8s_openapi::api::networking::v1::Ingress;

    use super::*;

    #[test]
    fn whs_004_paths_come_from_the_kind() {
        assert_eq!(of_kind(HookKind::Mutating, &ResourceInfo::of::<Pod>()), "/mutate--v1-pod");
        let ingress = ResourceInfo::of::<Ingress>();
        assert_eq!(of_kind(HookKind::Validating, &ingress), "/validate-networking-k8s-io-v1-ingress");
        assert_eq!(check(&of_kind(HookKind::Mutating, &ingress)), Ok(()));
        assert_eq!(check(&of_kind(HookKind::Mutating, &ResourceInfo::of::<Pod>())), Ok(()));
    }

    #[test]
    fn whs_005_a_path_that_no_configuration_may_have_names_its_segment() {
        assert_eq!(check("/"), Ok(()));
        assert_eq!(check("/a/b.c/d-e"), Ok(()));
        assert_eq!(check("a"), Err(PathError::NoSlash));
        assert_eq!(check("/a//b"), Err(PathError::EmptySegment { segment: 1 }));
        for text in ["Validate_Foo", "-a", "a-", "a..b", "ä", &"a".repeat(254)] {
            let error = check(&format!("/ok/{text}")).unwrap_err();
            assert_eq!(error, PathError::NoSubdomain { segment: 1, text: text.to_owned() });
        }
    }
}
