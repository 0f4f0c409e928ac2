//! How a kind is probably called in URLs.

/// Guesses the plural and the singular of a kind, as servers without discovery made it necessary: in lower case, with the
/// most common endings of English. Discovery knows better; this is for kinds that it does not list.
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
