//! [`UrlTemplate`]: URLs without names and values, for spans of low cardinality.

use std::fmt;

use super::query::Query;

/// A URL with placeholders for names, namespaces and values, so that requests of the same kind have the same text.
///
/// `/api/v1/namespaces/default/pods/web-0?limit=5` is shown as `/api/v1/namespaces/{namespace}/pods/{name}?limit={value}`.
/// A path outside of `/api` and `/apis` is shown as `/{prefix}`.
pub(crate) struct UrlTemplate<'a> {
    /// The base path of the server, without a trailing slash.
    pub(crate) base: &'a str,
    /// The whole path, with the base path.
    pub(crate) path: &'a str,
    pub(crate) query: &'a Query,
}

impl fmt::Display for UrlTemplate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.path.strip_prefix(self.base).unwrap_or(self.path);
        let segments = || inner.trim_matches('/').split('/');
        let root = segments().next().unwrap_or_default();
        // The number of segments before the resource.
        let before = match root {
            _ if segments().count() < 2 => {
                f.write_str(self.path)?;
                return self.values(f);
            }
            "api" => 2,
            "apis" => 3,
            _ => return f.write_str("/{prefix}"),
        };
        let mut rest = segments().skip(before);
        let (first, third) = (rest.next(), rest.nth(1));
        // Namespaces are objects too, with subresources.
        let namespaced =
            first == Some("namespaces") && third.is_some_and(|word| word != "finalize" && word != "status");
        f.write_str(self.base)?;
        for (place, segment) in segments().enumerate() {
            let word = match place.checked_sub(before) {
                Some(1) if namespaced => "{namespace}",
                Some(3) if namespaced => "{name}",
                Some(1) => "{name}",
                _ => segment,
            };
            write!(f, "/{word}")?;
        }
        self.values(f)
    }
}

impl UrlTemplate<'_> {
    fn values(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, name) in self.query.names().into_iter().enumerate() {
            write!(f, "{}{name}={{value}}", if place == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
