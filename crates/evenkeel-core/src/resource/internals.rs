//! Methods of [`ResourceInfo`] for the other crates of evenkeel.

use super::ResourceInfo;

impl ResourceInfo {
    /// Returns the URL path of the collection in one namespace, or across all namespaces.
    ///
    /// A cluster-scoped kind has one collection, whatever the namespace is. The namespace is inserted unchecked: callers check names
    /// from user input first.
    pub fn url_path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api/" } else { "/apis/" };
        let namespace = namespace.filter(|namespace| self.namespaced && !namespace.is_empty());
        let mut path = String::with_capacity(
            root.len() + self.api_version.len() + self.plural.len() + namespace.map_or(0, str::len) + 13,
        );
        path.push_str(root);
        path.push_str(&self.api_version);
        if let Some(namespace) = namespace {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        path.push('/');
        path.push_str(&self.plural);
        path
    }
}
