//! Guesses resource names from kinds.

/// Guesses the plural and the singular of a kind: in lower case, with common English endings
/// (`meta.UnsafeGuessKindToResource`). For kinds that discovery does not list.
///
/// ```
/// use evenkeel_client::discovery::guess_names;
///
/// assert_eq!(guess_names("NetworkPolicy"), ("networkpolicies".into(), "networkpolicy".into()));
/// ```
pub fn guess_names(kind: &str) -> (String, String) {
    let singular = kind.to_lowercase();
    let plural = if singular.is_empty() || singular.ends_with("endpoints") {
        singular.clone()
    } else if singular.ends_with('s') {
        format!("{singular}es")
    } else if let Some(stem) = singular.strip_suffix('y') {
        format!("{stem}ies")
    } else {
        format!("{singular}s")
    };
    (plural, singular)
}

#[cfg(test)]
mod tests;
